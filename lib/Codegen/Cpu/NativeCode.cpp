//===- NativeCode.cpp - Kernels as machine code ---------------------------===//
//
// See NativeCode.h. LLVM knows no library function here: what a kernel may call
// is its own import table, so no optimization may invent a call.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/NativeCode.h"

#include "AssembleObject.h"
#include "LinkSharedObject.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace llvm;

static constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

/// Instruction sets that make a difference to kernels; what else a processor
/// has is of no use to them and would only make a module less portable.
static constexpr StringLiteral kUsefulFeatures[] = {
    "avx",      "avx2",   "avx512bw", "avx512cd", "avx512dq", "avx512f",
    "avx512vl", "bmi",    "bmi2",     "f16c",     "fma",      "lzcnt",
    "movbe",    "popcnt", "sse3",     "sse4.1",   "sse4.2",   "ssse3"};

Expected<fusion::CpuTarget> fusion::resolveCpu(StringRef name) {
  bool native = name == "native";
  CpuTarget target;
  target.name = native ? sys::getHostCPUName().str() : name.str();
  SmallVector<StringRef> known;
  X86::fillValidCPUArchList(known, /*Only64Bit=*/true);
  if (!is_contained(known, target.name)) {
    if (!native)
      return createStringError(
          "unknown processor '" + name +
          "', --cpu, write native or a name that LLVM knows, such as "
          "x86-64-v3 or sapphirerapids");
    target.name = "x86-64";
  }
  SmallVector<StringRef> implied;
  X86::getFeaturesForCPU(target.name, implied);
  StringMap<bool, MallocAllocator> host;
  if (native)
    host = sys::getHostCPUFeatures();
  for (StringRef feature : kUsefulFeatures)
    if (is_contained(implied, feature) && (!native || host.lookup(feature)))
      target.features.push_back(feature.str());
  return target;
}

static Expected<std::unique_ptr<TargetMachine>>
createMachine(StringRef cpu, ArrayRef<std::string> features) {
  std::string error;
  Triple triple(kTriple);
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError("no code generator for x86-64: " + error);
  std::string list;
  for (const std::string &feature : features)
    list += (list.empty() ? "+" : ",+") + feature;
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  // Exactly the listed instruction sets; the processor's name only tunes.
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", list, options, Reloc::PIC_,
                                  std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return createStringError("no code generator for x86-64");
  return machine;
}

/// Optimizes for the machine, without knowledge of any library function.
static void optimize(Module &module, TargetMachine &machine,
                     const TargetLibraryInfoImpl &noLibrary) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  PassBuilder builder(&machine, tuning);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  functions.registerPass([&] { return TargetLibraryAnalysis(noLibrary); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
}

static Expected<SmallVector<char, 0>>
emitObject(Module &module, TargetMachine &machine,
           const TargetLibraryInfoImpl &noLibrary) {
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  passes.add(new TargetLibraryInfoWrapperPass(noLibrary));
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  CodeGenFileType::ObjectFile))
    return createStringError("the code generator cannot write objects");
  passes.run(module);
  return object;
}

Expected<std::vector<uint8_t>>
fusion::compileNativeCode(mlir::ModuleOp kernels, StringRef cpu,
                          ArrayRef<std::string> features,
                          ArrayRef<SmallVector<char, 0>> userObjects) {
  codegen::initializeX86();
  Expected<std::unique_ptr<TargetMachine>> machine =
      createMachine(cpu, features);
  if (!machine)
    return machine.takeError();

  mlir::MLIRContext *context = kernels.getContext();
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  LLVMContext llvmContext;
  std::unique_ptr<Module> module =
      mlir::translateModuleToLLVMIR(kernels, llvmContext, "kernels");
  if (!module)
    return createStringError(
        "internal error: the kernels cannot be translated to LLVM IR");
  module->setTargetTriple(Triple(kTriple));
  module->setDataLayout((*machine)->createDataLayout());
  for (Function &function : *module) {
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr("no-builtins");
    function.addFnAttr("tune-cpu", cpu);
  }
  std::string broken;
  raw_string_ostream report(broken);
  if (verifyModule(*module, &report))
    return createStringError("internal error: invalid LLVM IR: " + broken);

  TargetLibraryInfoImpl noLibrary{Triple(kTriple)};
  noLibrary.disableAllFunctions();
  optimize(*module, **machine, noLibrary);
  Expected<SmallVector<char, 0>> object =
      emitObject(*module, **machine, noLibrary);
  if (!object)
    return object.takeError();
  std::vector<ArrayRef<char>> objects{*object};
  for (const SmallVector<char, 0> &each : userObjects)
    objects.push_back(each);
  return linkSharedObject(objects);
}
