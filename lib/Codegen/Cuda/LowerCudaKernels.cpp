//===- LowerCudaKernels.cpp - Kernels to NVVM in the LLVM dialect ---------===//
//
// See LowerCudaKernels.h. Everything that an entry calls is inlined where code
// is made, so that its struct of addresses stays in the memory of parameters.
//
//===----------------------------------------------------------------------===//
#include "LowerCudaKernels.h"

#include "../UserKernel.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kAttributes[] = {
    "fusion.units", "fusion.grain", "fusion.threads", "fusion.operands",
    "fusion.description"};

static constexpr int64_t kMostThreads = 1024;

/// Whether a launch can be what emission says of the kernel.
static LogicalResult checkKernel(func::FuncOp function) {
  auto operands = function->getAttrOfType<IntegerAttr>("fusion.operands");
  auto threads = function->getAttrOfType<IntegerAttr>("fusion.threads");
  if (!operands || !threads)
    return function.emitError("the kernel lacks 'fusion.operands' or "
                              "'fusion.threads'; emit it for target=cuda");
  int64_t size = threads.getInt();
  if (size < 32 || size > kMostThreads || size % 32 != 0)
    return function.emitError("the kernel has ")
           << size << " threads a block; give it a multiple of 32, at most "
           << kMostThreads;
  if (operands.getInt() < 0 || operands.getInt() > codegen::kMostOperands)
    return function.emitError("the kernel has ")
           << operands.getInt() << " operands, and a launch takes "
           << codegen::kMostOperands << "; split the group";
  Builder b(function.getContext());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  if (function.getFunctionType() !=
      b.getFunctionType({pointer, b.getI64Type(), b.getI64Type()}, {}))
    return function.emitError(
        "a kernel takes (!llvm.ptr, i64, i64) and returns nothing");
  return success();
}

/// What is left of other dialects has no code.
static LogicalResult checkLowered(ModuleOp kernels) {
  Operation *left = nullptr;
  kernels.walk([&](Operation *op) {
    if (op == kernels.getOperation() ||
        isa_and_nonnull<LLVM::LLVMDialect, NVVM::NVVMDialect>(op->getDialect()))
      return;
    // A cast of types stands before the op that is the cause.
    if (!left || isa<UnrealizedConversionCastOp>(left))
      left = op;
  });
  if (left)
    return left->emitError("'") << left->getName() << "' has no code on a GPU";
  return success();
}

/// Gives each function the name that its body has, and its callers that name:
/// in one walk, as there may be thousands of them.
static LogicalResult renameBodies(ModuleOp kernels,
                                  ArrayRef<func::FuncOp> functions) {
  SymbolTable symbols(kernels);
  llvm::DenseMap<StringAttr, StringAttr> renamed;
  for (func::FuncOp function : functions) {
    auto name =
        StringAttr::get(kernels.getContext(), function.getSymName() + ".body");
    if (symbols.lookup(name))
      return function.emitError("'")
             << name.getValue() << "' exists; use another name";
    renamed[function.getSymNameAttr()] = name;
  }
  for (func::FuncOp function : functions)
    function.setSymNameAttr(renamed[function.getSymNameAttr()]);
  kernels.walk([&](func::CallOp call) {
    if (StringAttr name =
            renamed.lookup(call.getCalleeAttr().getLeafReference()))
      call.setCallee(name.getValue());
  });
  return success();
}

/// The entry of `body`, whose name and description it takes over.
static void makeEntry(func::FuncOp body, StringRef name) {
  OpBuilder b(body);
  MLIRContext *context = b.getContext();
  Location loc = body.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto operands = body->getAttrOfType<IntegerAttr>("fusion.operands");
  auto threads = body->getAttrOfType<IntegerAttr>("fusion.threads");
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, b.getI64Type()});
  auto entry = LLVM::LLVMFuncOp::create(b, loc, name, type);
  for (StringRef attribute : kAttributes)
    if (Attribute value = body->getAttr(attribute)) {
      entry->setAttr(attribute, value);
      body->removeAttr(attribute);
    }
  entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  if (Attribute blocks = body->removeAttr(codegen::kResidentBlocksAttr))
    entry->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), blocks);
  entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                 b.getDenseI32ArrayAttr({int32_t(threads.getInt()), 1, 1}));
  entry.setArgAttr(0, LLVM::LLVMDialect::getByValAttrName(),
                   TypeAttr::get(LLVM::LLVMArrayType::get(
                       pointer, std::max<int64_t>(operands.getInt(), 1))));
  entry.setArgAttr(0, LLVM::LLVMDialect::getAlignAttrName(),
                   b.getI64IntegerAttr(8));
  entry.setArgAttr(0, NVVM::NVVMDialect::getGridConstantAttrName(),
                   b.getUnitAttr());
  // Sizes below 2^32 make divisions of 32 bits.
  if (auto most = body->getParentOp()->getAttrOfType<IntegerAttr>(
          codegen::kMaxBatchAttr))
    entry.setArgAttr(1, LLVM::LLVMDialect::getRangeAttrName(),
                     b.getAttr<LLVM::ConstantRangeAttr>(
                         APInt(64, 1), APInt(64, most.getInt()) + 1));
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  Value number = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  number = arith::ExtUIOp::create(b, loc, b.getI64Type(), number);
  func::CallOp::create(
      b, loc, body,
      ValueRange{block->getArgument(0), block->getArgument(1), number});
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

LogicalResult
codegen::lowerCudaKernels(ModuleOp kernels,
                          llvm::function_ref<bool(StringRef)> isLaunched) {
  MLIRContext *context = kernels.getContext();
  SmallVector<func::FuncOp> functions;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (std::optional<UserKernel> user = UserKernel::get(function))
      return function.emitError("the kernel '")
             << user->entry.getValue()
             << "' is in C, which a GPU does not run; compile the model for "
                "target cpu";
  for (auto function : kernels.getOps<func::FuncOp>())
    if (function->hasAttr("fusion.units")) {
      if (failed(checkKernel(function)))
        return failure();
      functions.push_back(function);
    }
  SmallVector<std::string> names;
  for (func::FuncOp function : functions)
    names.push_back(function.getSymName().str());
  if (failed(renameBodies(kernels, functions)))
    return failure();
  for (auto [function, name] : llvm::zip(functions, names)) {
    function.setPrivate();
    if (isLaunched(name))
      makeEntry(function, name);
  }

  if (failed(callLibdevice(kernels)))
    return failure();
  RewritePatternSet controlFlow(context);
  populateSCFToControlFlowConversionPatterns(controlFlow);
  ConversionTarget flat(*context);
  flat.addIllegalDialect<scf::SCFDialect>();
  flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  if (failed(applyPartialConversion(kernels, flat, std::move(controlFlow))))
    return failure();

  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addLegalOp<ModuleOp>();
  if (failed(applyPartialConversion(kernels, target, std::move(patterns))))
    return failure();
  if (failed(checkLowered(kernels)))
    return failure();
  Builder b(context);
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    function.setNoUnwind(true);
    if (function.isDeclaration() || !function.getSymName().ends_with(".body"))
      continue;
    function.setLinkage(LLVM::Linkage::Internal);
    function.setPassthroughAttr(
        b.getArrayAttr({b.getStringAttr("alwaysinline")}));
  }
  return success();
}
