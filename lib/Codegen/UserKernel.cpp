//===- UserKernel.cpp - The emitter of user's kernels ---------------------===//
//
// A kernel of the runtime's ABI that calls the user's function, declared here
// with all that compiling it needs: its source, its name and its prototype. The
// function itself is compiled where native code is made (Cpu/UserKernels.cpp).
//
//===----------------------------------------------------------------------===//
#include "UserKernel.h"
#include "Emitters.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

//===----------------------------------------------------------------------===//
// The declaration
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kAttribute = "fusion.user_kernel";

std::optional<UserKernel> UserKernel::get(LLVM::LLVMFuncOp function) {
  auto stored = function->getAttrOfType<DictionaryAttr>(kAttribute);
  if (!stored)
    return std::nullopt;
  UserKernel kernel{
      stored.getAs<StringAttr>("entry"), stored.getAs<StringAttr>("source"),
      stored.getAs<StringAttr>("prototype"), stored.contains("pure")};
  if (!kernel.entry || !kernel.source || !kernel.prototype)
    return std::nullopt;
  return kernel;
}

void UserKernel::attach(LLVM::LLVMFuncOp function) const {
  Builder b(function.getContext());
  NamedAttrList list;
  list.set("entry", entry);
  list.set("source", source);
  list.set("prototype", prototype);
  if (isPure)
    list.set("pure", b.getUnitAttr());
  function->setAttr(kAttribute, list.getDictionary(function.getContext()));
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// The C type of an element, or "".
static StringRef getCType(Type element) {
  if (element.isF64())
    return "double";
  if (element.isF32())
    return "float";
  if (element.isF16())
    return "fusion_f16";
  if (element.isBF16())
    return "fusion_bf16";
  if (!element.isIntOrIndex())
    return "";
  switch (element.getIntOrFloatBitWidth()) {
  case 1:
    return "fusion_bool";
  case 8:
    return "int8_t";
  case 32:
    return "int32_t";
  case 64:
    return "int64_t";
  default:
    return "";
  }
}

static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

bool codegen::canEmitUserKernel(KernelCallOp call, std::string &reason) {
  std::string name = "the kernel '" + call.getEntry().str() + "' ";
  if (call.getLanguage() != "c") {
    reason = name + "is written in " + call.getLanguage().str() +
             "; kernels of a model are compiled from C, for target cpu";
    return false;
  }
  if (!isIdentifier(call.getEntry())) {
    reason = name + "can't be a function of C: name it with letters, digits "
                    "and '_'";
    return false;
  }
  if (call.getSource().contains('\0')) {
    reason = name + "has a source with a zero byte: pass text";
    return false;
  }
  for (ValueRange values :
       {ValueRange(call.getInputs()), ValueRange(call.getOutputs())})
    for (Value value : values)
      if (Type element = getElementTypeOrSelf(value);
          getCType(element).empty()) {
        llvm::raw_string_ostream(reason)
            << name << "has a tensor of " << element << ", for which C has no "
            << "type";
        return false;
      }
  Block *body = call->getBlock();
  auto yield = cast<YieldOp>(body->getTerminator());
  if (!llvm::hasSingleElement(body->without_terminator()) ||
      !llvm::equal(yield.getValues(), call.getOutputs()) ||
      llvm::any_of(call.getInputs(),
                   [](Value v) { return !isa<BlockArgument>(v); })) {
    reason = name + "must be alone in its group, read the group's inputs and "
                    "give all of its outputs, in order";
    return false;
  }
  return true;
}

/// `void entry(const float *, float *, int64_t)`.
static std::string getPrototype(KernelCallOp call) {
  std::string text = "void " + call.getEntry().str() + "(";
  for (Value value : call.getInputs())
    text += "const " + getCType(getElementTypeOrSelf(value)).str() + " *, ";
  for (Value value : call.getOutputs())
    text += getCType(getElementTypeOrSelf(value)).str() + " *, ";
  return text + "int64_t)";
}

/// The declaration of the user's function, made at the first call; null where
/// an earlier call gave it other types.
static LLVM::LLVMFuncOp declare(ModuleOp kernels, KernelCallOp call,
                                std::string &reason) {
  OpBuilder b = OpBuilder::atBlockEnd(kernels.getBody());
  StringAttr prototype = b.getStringAttr(getPrototype(call));
  std::string symbol;
  for (unsigned copy = 0;; ++copy) {
    symbol = "user_" + call.getEntry().str() + "_" +
             llvm::utohexstr(llvm::xxh3_64bits(call.getSource()),
                             /*LowerCase=*/true) +
             (copy ? "_" + std::to_string(copy) : "");
    auto known = kernels.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
    if (!known)
      break;
    std::optional<UserKernel> kernel = UserKernel::get(known);
    if (!kernel || kernel->entry != call.getEntryAttr() ||
        kernel->source != call.getSourceAttr())
      continue; // another source of that hash
    if (kernel->prototype != prototype) {
      reason = "the kernel '" + call.getEntry().str() + "' is called as '" +
               prototype.str() + "' here and as '" + kernel->prototype.str() +
               "' elsewhere: write a function for each";
      return nullptr;
    }
    kernel->isPure |= !call.getSideEffects();
    kernel->attach(known);
    return known;
  }
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Type> types(call.getNumOperands() + call.getNumResults(),
                          pointer);
  types.push_back(b.getI64Type());
  auto function = LLVM::LLVMFuncOp::create(
      b, call.getLoc(), symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  UserKernel{call.getEntryAttr(), call.getSourceAttr(), prototype,
             !call.getSideEffects()}
      .attach(function);
  return function;
}

std::optional<KernelShape> codegen::emitUserKernel(KernelTask &task,
                                                   KernelCallOp call,
                                                   std::string &reason) {
  KernelBuilder &k = task.k;
  LLVM::LLVMFuncOp function =
      declare(k.function->getParentOfType<ModuleOp>(), call, reason);
  if (!function)
    return std::nullopt;
  SmallVector<Value> arguments;
  for (Value input : call.getInputs())
    arguments.push_back(k.pointer(cast<BlockArgument>(input).getArgNumber()));
  for (auto [value, operand] : task.stores)
    arguments.push_back(k.pointer(operand));
  arguments.push_back(k.getBatch());
  LLVM::CallOp::create(k.b, k.loc, function, arguments);
  return KernelShape{Extent{0, 1}, 1};
}
