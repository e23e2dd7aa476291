//===- NativeCode.cpp - Kernels as machine code ---------------------------===//
//
// See NativeCode.h. LLVM knows no library function here: what a kernel may call
// is its own import table, so no optimization may invent a call.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/NativeCode.h"

#include "AssembleObject.h"
#include "LinkSharedObject.h"
#include "SplitKernels.h"

#include "../Optimizer.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Threading.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include "llvm/Transforms/Utils/Cloning.h"

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
  fusion::codegen::optimizeModule(module, machine, tuning,
                                  [&](FunctionAnalysisManager &functions) {
                                    functions.registerPass([&] {
                                      return TargetLibraryAnalysis(noLibrary);
                                    });
                                  });
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

using Object = SmallVector<char, 0>;

/// Optimizes and compiles one part.
static Expected<Object> compilePart(Module &module, StringRef cpu,
                                    ArrayRef<std::string> features) {
  Expected<std::unique_ptr<TargetMachine>> machine =
      createMachine(cpu, features);
  if (!machine)
    return machine.takeError();
  module.setDataLayout((*machine)->createDataLayout());
  TargetLibraryInfoImpl noLibrary{Triple(kTriple)};
  noLibrary.disableAllFunctions();
  optimize(module, **machine, noLibrary);
  return emitObject(module, **machine, noLibrary);
}

/// Compiles the parts of `module` side by side, each in a context of its own.
/// The parts, and so the bytes, depend on the module alone.
static Expected<std::vector<Object>>
compileParts(Module &module, ArrayRef<fusion::KernelPart> parts, StringRef cpu,
             ArrayRef<std::string> features) {
  std::vector<Object> bitcodes(parts.size()), objects(parts.size());
  std::vector<std::string> failures(parts.size());
  DefaultThreadPool pool(hardware_concurrency(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    {
      ValueToValueMapTy map;
      std::unique_ptr<Module> part =
          CloneModule(module, map, [&](const GlobalValue *value) {
            return parts[i].contains(value);
          });
      raw_svector_ostream stream(bitcodes[i]);
      WriteBitcodeToFile(*part, stream);
    }
    pool.async([&, i] {
      LLVMContext context;
      StringRef bytes(bitcodes[i].data(), bitcodes[i].size());
      Expected<std::unique_ptr<Module>> part =
          parseBitcodeFile(MemoryBufferRef(bytes, "kernels"), context);
      Expected<Object> object = part ? compilePart(**part, cpu, features)
                                     : Expected<Object>(part.takeError());
      if (object)
        objects[i] = std::move(*object);
      else
        failures[i] = toString(object.takeError());
    });
  }
  pool.wait();
  for (const std::string &failure : failures)
    if (!failure.empty())
      return createStringError(failure);
  return objects;
}

Expected<std::vector<uint8_t>>
fusion::compileNativeCode(mlir::ModuleOp kernels, StringRef cpu,
                          ArrayRef<std::string> features,
                          ArrayRef<Object> userObjects) {
  codegen::initializeX86();
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
  for (Function &function : *module) {
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr("no-builtins");
    function.addFnAttr("tune-cpu", cpu);
  }
  std::string broken;
  raw_string_ostream report(broken);
  if (verifyModule(*module, &report))
    return createStringError("internal error: invalid LLVM IR: " + broken);

  std::vector<fusion::KernelPart> parts = fusion::splitKernels(*module);
  std::vector<Object> own;
  if (parts.size() <= 1) {
    Expected<Object> object = compilePart(*module, cpu, features);
    if (!object)
      return object.takeError();
    own.push_back(std::move(*object));
  } else {
    Expected<std::vector<Object>> objects =
        compileParts(*module, parts, cpu, features);
    if (!objects)
      return objects.takeError();
    own = std::move(*objects);
  }
  std::vector<ArrayRef<char>> objects(own.begin(), own.end());
  objects.insert(objects.end(), userObjects.begin(), userObjects.end());
  return linkSharedObject(objects, /*hasUserObjects=*/!userObjects.empty());
}
