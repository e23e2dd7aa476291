//===- DeviceCode.cpp - Kernels as code of a GPU --------------------------===//
//
// See DeviceCode.h. PTX is made in process; the assembler is NVIDIA's program.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/DeviceCode.h"

#include "Assembler.h"

#include "../Optimizer.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/IPO/Internalize.h"

#include <mutex>

using namespace llvm;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static constexpr char kTriple[] = "nvptx64-nvidia-cuda";

static constexpr int64_t kFewParameterBytes = 4096;

static constexpr StringLiteral kArchitectures[] = {"sm_80", "sm_90", "sm_100"};

ArrayRef<StringLiteral> fusion::getArchitectures() { return kArchitectures; }

/// The oldest version of PTX that has the architecture and all that is used:
/// one that takes more than 4 KB of parameters (from sm_70 on) came with 8.1.
static StringRef getPtxFeature(StringRef architecture, mlir::ModuleOp kernels) {
  if (architecture == "sm_100")
    return "+ptx86";
  bool hasMany = false;
  for (auto kernel : kernels.getOps<mlir::LLVM::LLVMFuncOp>())
    if (auto operands =
            kernel->getAttrOfType<mlir::IntegerAttr>("fusion.operands"))
      hasMany |= 8 * (operands.getInt() + 1) > kFewParameterBytes;
  return hasMany ? "+ptx81" : "+ptx80";
}

static Expected<std::unique_ptr<TargetMachine>>
createMachine(const fusion::DeviceCodeOptions &options, StringRef feature) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  Triple triple(kTriple);
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError("no code generator for PTX: " + error);
  TargetOptions machineOptions;
  machineOptions.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, options.architecture, feature, machineOptions, std::nullopt,
      std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return createStringError("no code generator for PTX");
  return machine;
}

/// Lets products and sums of the kernels be contracted: by flags, as a function
/// of libdevice computes its tails by products and sums that must stay apart.
static void allowContraction(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (isa<FPMathOperator>(instruction))
        instruction.setHasAllowContract(true);
}

/// Entries of at most this many blocks make way for the next kernel from their
/// start on. The blocks of more would compete with it.
static constexpr int64_t kMostBlocksEarly = 1024;

/// The entries of few blocks at any batch.
static StringSet<> findSmallEntries(mlir::ModuleOp kernels) {
  StringSet<> small;
  for (auto kernel : kernels.getOps<mlir::LLVM::LLVMFuncOp>()) {
    auto units = kernel->getAttrOfType<fusion::ExtentAttr>("fusion.units");
    auto grain = kernel->getAttrOfType<mlir::IntegerAttr>("fusion.grain");
    if (units && grain && units.getScale() == 0 &&
        divideCeil(uint64_t(units.getBase()), uint64_t(grain.getInt())) <=
            uint64_t(kMostBlocksEarly))
      small.insert(kernel.getSymName());
  }
  return small;
}

/// From sm_90 on a launch may begin while the kernel before it ends: an entry
/// waits for those before it, for good, ahead of any access. One of `small`
/// lets the next come as soon as all of its own blocks have; of others each
/// block does where it ends. By text, as the intrinsics are no barrier for
/// memory to the optimizer.
static bool makeEntriesWait(Module &module, StringRef architecture,
                            const StringSet<> &small) {
  if (architecture == "sm_80")
    return false;
  auto *type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
  for (Function &function : module)
    if (!function.isDeclaration() &&
        function.getCallingConv() == CallingConv::PTX_Kernel) {
      std::string text = "griddepcontrol.wait;";
      if (small.contains(function.getName()))
        text = "griddepcontrol.launch_dependents;\n\t" + text;
      InlineAsm *wait =
          InlineAsm::get(type, text, "~{memory}", /*hasSideEffects=*/true);
      BasicBlock &entry = function.getEntryBlock();
      IRBuilder<>(&entry, entry.getFirstInsertionPt()).CreateCall(wait);
    }
  return true;
}

/// Links what the kernels call of libdevice.
static Error linkLibdevice(Module &module, StringRef path, bool &isUsed) {
  std::string missing;
  for (Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with("__nv_"))
      missing = function.getName().str();
  isUsed = !missing.empty();
  if (!isUsed)
    return Error::success();
  if (path.empty())
    return createStringError(
        std::make_error_code(std::errc::no_such_file_or_directory),
        "a kernel calls %s, and there is no libdevice.10.bc; install the CUDA "
        "toolkit or `pip install nvidia-nvvm`, or set CUDA_HOME",
        missing.c_str());
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(buffer.getError(), "cannot read '%s': %s",
                             path.str().c_str(),
                             buffer.getError().message().c_str());
  Expected<std::unique_ptr<Module>> library =
      parseBitcodeFile((*buffer)->getMemBufferRef(), module.getContext());
  if (!library)
    return library.takeError();
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (Linker::linkModules(
          module, std::move(*library), Linker::LinkOnlyNeeded,
          [](Module &linked, const StringSet<> &added) {
            internalizeModule(linked, [&](const GlobalValue &value) {
              return !value.hasName() || !added.contains(value.getName());
            });
          }))
    return createStringError("libdevice can't be linked: " + path);
  for (Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with("__nv_"))
      return createStringError("libdevice has no " + function.getName());
  return Error::success();
}

static void optimize(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.SLPVectorization = false;
  tuning.LoopVectorization = false;
  fusion::codegen::optimizeModule(module, machine, tuning);
}

Expected<fusion::DeviceCode>
fusion::compileDeviceCode(mlir::ModuleOp kernels,
                          const DeviceCodeOptions &options) {
  mlir::MLIRContext *context = kernels.getContext();
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  LLVMContext llvmContext;
  std::unique_ptr<Module> module =
      mlir::translateModuleToLLVMIR(kernels, llvmContext, "kernels");
  if (!module)
    return createStringError(
        "internal error: the kernels cannot be translated to LLVM IR");
  Expected<std::unique_ptr<TargetMachine>> machine =
      createMachine(options, getPtxFeature(options.architecture, kernels));
  if (!machine)
    return machine.takeError();
  module->setTargetTriple(Triple(kTriple));
  module->setDataLayout((*machine)->createDataLayout());
  std::string broken;
  raw_string_ostream report(broken);
  if (verifyModule(*module, &report))
    return createStringError("internal error: invalid LLVM IR: " + broken);
  if (options.contract)
    allowContraction(*module);
  DeviceCode code;
  code.waits =
      makeEntriesWait(*module, options.architecture, findSmallEntries(kernels));
  if (Error error =
          linkLibdevice(*module, options.libdevice, code.usesLibdevice))
    return std::move(error);
  // Denormals stay what they are.
  module->addModuleFlag(Module::Override, "nvvm-reflect-ftz", 0u);
  optimize(*module, **machine);

  {
    SmallString<0> text;
    raw_svector_ostream stream(text);
    legacy::PassManager passes;
    if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                        CodeGenFileType::AssemblyFile))
      return createStringError("the code generator cannot write PTX");
    passes.run(*module);
    code.ptx = text.str().str();
  }
  if (!options.ptxas.empty())
    if (Error error = assemble(options, code))
      return std::move(error);
  return code;
}
