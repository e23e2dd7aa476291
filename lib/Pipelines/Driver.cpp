//===- Driver.cpp - One compilation from text to artifact -----------------===//
//
// See Driver.h. Outcomes become exit codes here and nowhere else.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Driver.h"

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Codegen/CudaProbe.h"
#include "fusion/Codegen/NativeCode.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/Messages.h"
#include "fusion/IR/Parameters.h"
#include "fusion/Pipelines/Plugins.h"
#include "fusion/Pipelines/Registration.h"
#include "fusion/Program/ModuleBuilder.h"

#include "ModuleData.h"
#include "ModuleFile.h"
#include "Process.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <mutex>

using namespace mlir;
using namespace fusion;

namespace {

/// One compilation in progress.
class Driver {
public:
  explicit Driver(const CommandLine &line)
      : line(line), options(line.compile), messages(result.messages) {}

  Compilation run(std::unique_ptr<llvm::MemoryBuffer> source);

private:
  void fail(rt::Code code, const Twine &message) {
    result.code = int(code);
    messages << "error: " << message << "\n";
  }
  void failDevice(llvm::Error problem, StringRef option);
  bool loadPlugins();
  bool findTarget();
  bool checkWeights(ModuleOp module);
  bool lower(ModuleOp module);
  /// `culprit` is that of runPhases.
  void reportInternal(StringRef culprit);
  void emit(ModuleOp module);

  const CommandLine &line;
  CompileOptions options;
  CpuTarget cpu;
  DeviceCodeOptions gpu;
  std::unique_ptr<KernelProbe> probe;
  /// "name sha256:..." of the device file, for the provenance.
  std::string device;
  Compilation result;
  llvm::raw_string_ostream messages;
};

} // namespace

bool Driver::loadPlugins() {
  // The table of passes is the process's; compilations may run side by side.
  static std::once_flag registered;
  // Ours come first: who takes one of their names is told.
  if (!options.runBefore.empty() || !line.plugins.empty())
    std::call_once(registered, registerPasses);
  for (const std::string &path : line.plugins) {
    if (llvm::Error error = loadPassPlugin(path, "--plugin")) {
      fail(rt::Code::Environment, llvm::toString(std::move(error)));
      return false;
    }
  }
  if (llvm::Error error = checkRunBefore(options)) {
    fail(rt::Code::Usage, llvm::toString(std::move(error)));
    return false;
  }
  return true;
}

/// A device can't be loaded: which option names it.
void Driver::failDevice(llvm::Error problem, StringRef option) {
  llvm::handleAllErrors(
      std::move(problem), [&](const llvm::StringError &error) {
        std::string text = error.getMessage();
        if (size_t at = text.find("--device"); at != std::string::npos)
          text.replace(at, StringRef("--device").size(), option.str());
        fail(error.convertToErrorCode() == std::errc::no_such_file_or_directory
                 ? rt::Code::Usage
                 : rt::Code::BadProgram,
             text);
      });
}

/// Resolves the processor, and reads the device's file and the cost model once:
/// what is wrong with them is told before the model is read.
bool Driver::findTarget() {
  if (!options.plan.empty() && !llvm::sys::fs::is_regular_file(options.plan)) {
    fail(rt::Code::Usage, "no file '" + options.plan +
                              "', --plan, give the path of a plan that "
                              "--emit-plan wrote");
    return false;
  }
  llvm::Expected<CpuTarget> resolved = resolveCpu(options.cpu);
  if (!resolved) {
    fail(rt::Code::Usage, llvm::toString(resolved.takeError()));
    return false;
  }
  cpu = std::move(*resolved);
  options.cpu = cpu.name;
  if (isCuda(options)) {
    gpu.architecture = StringRef(options.target).split(':').second.str();
    gpu.contract = options.fp == "fast";
    gpu.libdevice = findLibdevice();
    llvm::Expected<std::string> ptxas = findAssembler(options.ptxas);
    if (!ptxas) {
      fail(rt::Code::Environment, llvm::toString(ptxas.takeError()));
      return false;
    }
    gpu.ptxas = std::move(*ptxas);
    if (!gpu.ptxas.empty()) {
      llvm::Expected<std::string> version = getAssemblerVersion(gpu.ptxas);
      if (!version) {
        fail(rt::Code::Environment, llvm::toString(version.takeError()));
        return false;
      }
      gpu.ptxasVersion = std::move(*version);
    }
    probe = createCudaProbe(gpu, options.fp);
    options.probe = probe.get();
  }
  llvm::Expected<DeviceModel> loaded = DeviceModel::load(options.device);
  if (!loaded) {
    failDevice(loaded.takeError(), "--device");
    return false;
  }
  if (!options.simulatedDevice.empty())
    if (auto simulated = DeviceModel::load(options.simulatedDevice);
        !simulated) {
      failDevice(simulated.takeError(), "--simulate");
      return false;
    }
  if (isCuda(options) && !loaded->isGpu) {
    fail(rt::Code::Usage, "device '" + loaded->name + "' is a CPU, --device, " +
                              options.target +
                              " needs the file of a GPU, h200 for one");
    return false;
  }
  device = loaded->name + " sha256:" + loaded->hash;
  if (auto model = createCostModel(options.costModel, std::move(*loaded));
      !model) {
    fail(rt::Code::Usage, llvm::toString(model.takeError()));
    return false;
  }
  return true;
}

/// No file of parameters is written over.
bool Driver::checkWeights(ModuleOp module) {
  std::string folder = getParameterFolder(module, options.parameterFolder);
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!parameter.getFile())
      continue;
    SmallString<128> path(*parameter.getFile());
    llvm::sys::path::make_absolute(folder, path);
    std::string written = rt::findOverwritten({line.output, options.emitPlan},
                                              {path.str().str()});
    if (written.empty())
      continue;
    fail(rt::Code::Usage, "'" + written +
                              "' holds parameters of the model, and would be "
                              "overwritten, " +
                              (written == line.output ? "-o" : "--emit-plan") +
                              ", choose another");
    return false;
  }
  return true;
}

/// What a pass's description has if it is from a plugin (PassWatch.h).
static constexpr llvm::StringLiteral kOfPlugin = " of the plugin '";

/// Says at the top of the reproducer which plugins it needs.
static void annotateReproducer(StringRef path, ArrayRef<std::string> plugins) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer || plugins.empty())
    return;
  std::string text = "// Needs plugins: fusion-opt";
  for (const std::string &plugin : plugins)
    text += " --load-pass-plugin='" + plugin + "'";
  text += " --run-reproducer THIS-FILE\n";
  text += (*buffer)->getBuffer();
  (void)rt::writeFileAtomically(
      path.str(), reinterpret_cast<const uint8_t *>(text.data()), text.size());
}

void Driver::reportInternal(StringRef culprit) {
  bool hasReproducer = llvm::sys::fs::exists(options.reproducer);
  if (hasReproducer)
    annotateReproducer(options.reproducer, line.plugins);
  std::string file = hasReproducer ? options.reproducer : "the model";
  std::string plugins = describeLoadedPlugins();
  if (culprit.contains(kOfPlugin))
    return fail(rt::Code::Internal,
                culprit + ", --run-before, debug it with " + file);
  fail(rt::Code::Internal,
       "the compiler broke an invariant of its own" +
           (culprit.empty() ? "" : ": " + culprit) + ", see above" +
           (plugins.empty() ? "" : ", with " + plugins + " loaded") +
           ", report it with " + file);
}

/// Runs the phases, with the decisions logged if they are to be explained.
bool Driver::lower(ModuleOp module) {
  // The answer to --fusion-why is what was asked for, not a message.
  ScopedDiagnosticHandler answers(
      module.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Remark)
          return failure();
        result.explanation += diagnostic.str() + "\n";
        return success();
      });
  options.planDigest = true;
  DecisionLog log;
  GraphStats before, after;
  if (line.explain) {
    if (failed(collectDecisions(*module.getContext(), log))) {
      fail(rt::Code::Internal, "the decisions cannot be collected");
      return false;
    }
    before = after = computeGraphStats(module);
    options.afterPhase = [&](Phase phase, ModuleOp current) {
      if (phase == Phase::Fuse)
        after = computeGraphStats(current);
    };
  }
  std::string culprit;
  switch (runPhases(module, options, &culprit)) {
  case CompileStatus::Internal:
    reportInternal(culprit);
    return false;
  case CompileStatus::CheckFailed:
    if (!options.reproducer.empty())
      llvm::sys::fs::remove(options.reproducer);
    result.code = int(rt::Code::CheckFailed);
    return false;
  case CompileStatus::BadProgram:
    if (!options.reproducer.empty())
      llvm::sys::fs::remove(options.reproducer);
    result.code = int(rt::Code::BadProgram);
    if (StringRef(culprit).contains(kOfPlugin))
      messages << "note: " << culprit << ", see above\n";
    return false;
  case CompileStatus::NoResources:
    if (!options.reproducer.empty())
      llvm::sys::fs::remove(options.reproducer);
    result.code = int(rt::Code::Resources);
    return false;
  case CompileStatus::Ok:
    break;
  }
  if (line.explain) {
    llvm::raw_string_ostream stream(result.explanation);
    printExplain(computeExplain(before, after, log), stream);
  }
  return true;
}

void Driver::emit(ModuleOp module) {
  if (options.stopAfter != Phase::Program) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream, OpPrintingFlags().enableDebugInfo());
    result.artifact.assign(text.begin(), text.end());
    return;
  }
  ModuleBuildOptions build;
  build.target = options.target;
  build.cpu = cpu.name;
  build.cpuFeatures = cpu.features;
  build.gpu = gpu;
  build.parameterFolder = getParameterFolder(module, options.parameterFolder);
  build.userKernels.compiler = options.cCompiler;
  build.userKernels.timeoutSeconds = options.cCompilerTimeout;
  build.provenance = {{"compiler", "fusion " FUSION_VERSION},
                      {"flags", line.recorded},
                      {"device", device}};
  if (isCuda(options)) {
    build.provenance.push_back({"fp", options.fp});
    if (line.explain && gpu.ptxas.empty())
      result.explanation += "kernels are PTX only: no ptxas was to be used\n";
  }
  if (auto plan = module->getAttrOfType<StringAttr>(kPlanDigestAttr))
    build.provenance.push_back({"plan", plan.str()});
  if (auto rewrites = module->getAttrOfType<ArrayAttr>("fusion.rewrites"))
    for (auto rewrite : rewrites.getAsRange<StringAttr>())
      build.provenance.push_back({"rewrite", rewrite.str()});
  for (const std::string &plugin : line.plugins)
    build.provenance.push_back({"plugin", plugin});
  rt::Expected<rt::Module> executable = buildExecutableModule(module, build);
  if (!executable) {
    // Errors of the program were told with their place.
    if (executable.status().code() == rt::Code::Resources)
      fail(rt::Code::Resources, executable.status().message());
    result.code = int(executable.status().code());
    return;
  }
  if (!options.dumpDirectory.empty() && !executable->ptx.empty()) {
    SmallString<128> path(options.dumpDirectory);
    llvm::sys::path::append(path, "kernels.ptx");
    rt::Status written = rt::writeFileAtomically(
        path.str().str(), executable->ptx.data(), executable->ptx.size());
    if (!written.ok())
      return fail(written.code(), written.message());
  }
  rt::Expected<std::vector<uint8_t>> bytes = rt::writeModule(*executable);
  if (!bytes.ok())
    return fail(bytes.status().code(), bytes.status().message());
  result.artifact = std::move(*bytes);
}

/// Whether a file is of another kind, such as a model that was not imported:
/// bytes that no text has, and not bytecode either.
static bool isForeign(StringRef bytes) {
  return bytes.take_front(4096).contains('\0') && !bytes.starts_with("ML\xefR");
}

Compilation Driver::run(std::unique_ptr<llvm::MemoryBuffer> source) {
  if (!loadPlugins())
    return std::move(result);
  if (!findTarget())
    return std::move(result);

  if (isForeign(source->getBuffer())) {
    fail(rt::Code::BadProgram, "neither MLIR text nor bytecode, " +
                                   source->getBufferIdentifier() +
                                   ", import a model with fusion-import first");
    return std::move(result);
  }
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(source), llvm::SMLoc());
  MessageHandler diagnostics(sources, &context, messages);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module) {
    result.code = int(rt::Code::BadProgram);
    if (result.messages.empty())
      fail(rt::Code::BadProgram, "not a module in MLIR text or bytecode, the "
                                 "input, import a model first");
    return std::move(result);
  }
  if (checkWeights(*module) && lower(*module))
    emit(*module);
  return std::move(result);
}

Compilation fusion::compile(std::unique_ptr<llvm::MemoryBuffer> source,
                            const CommandLine &line) {
  return Driver(line).run(std::move(source));
}
