//===- Compile.cpp - The phases by name -----------------------------------===//
//
// See Compile.h. Phases never call each other: only this file knows their
// order.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Compile.h"

#include "fusion/Codegen/Passes.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Schedule/Passes.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fusion;

static constexpr Phase kPhases[] = {Phase::Simplify, Phase::Fuse,
                                    Phase::Codegen, Phase::Schedule,
                                    Phase::Program};

StringRef fusion::stringifyPhase(Phase phase) {
  switch (phase) {
  case Phase::Simplify:
    return "simplify";
  case Phase::Fuse:
    return "fuse";
  case Phase::Codegen:
    return "codegen";
  case Phase::Schedule:
    return "schedule";
  case Phase::Program:
    return "program";
  }
  return "";
}

std::optional<Phase> fusion::symbolizePhase(StringRef name) {
  for (Phase phase : kPhases)
    if (stringifyPhase(phase) == name)
      return phase;
  return std::nullopt;
}

/// With --verify-fusion, what a pass replaces is evaluated right behind it.
static RewriteChecks getRewriteChecks(const CompileOptions &options) {
  if (!options.verifyFusion)
    return {};
  VerifyRewritesOptions verify;
  verify.parameterFolder = options.parameterFolder;
  return {
      [](OpPassManager &manager) { manager.addPass(createTrackRewrites()); },
      [verify](OpPassManager &manager) {
        manager.addPass(createVerifyRewrites(verify));
      }};
}

void fusion::buildPhase(OpPassManager &manager, Phase phase,
                        const CompileOptions &options) {
  switch (phase) {
  case Phase::Simplify: {
    SimplifyOptions simplify;
    simplify.exactRewritesOnly = options.exactRewritesOnly;
    simplify.parameterFolder = options.parameterFolder;
    buildSimplifyPipeline(manager, simplify, getRewriteChecks(options));
    break;
  }
  case Phase::Fuse: {
    FuseOptions fuse;
    fuse.maxOps = options.maxOps;
    fuse.device = options.device;
    fuse.costModel = options.costModel;
    fuse.memoryLimit = std::min<uint64_t>(options.memoryLimit, INT64_MAX);
    fuse.parameterFolder = options.parameterFolder;
    std::vector<std::string> noFuse;
    if (!options.fuseVertical)
      noFuse.push_back("vertical");
    if (!options.fuseHorizontal)
      noFuse.push_back("horizontal");
    if (!options.fuseProjections)
      noFuse.push_back("projections");
    fuse.noFuse = ArrayRef<std::string>(noFuse);
    fuse.plan = options.plan;
    fuse.planStrict = options.planStrict;
    fuse.emitPlan = options.emitPlan;
    fuse.planDigest = options.planDigest;
    fuse.why = options.why;
    fuse.keepOriginal = options.verifyFusion;
    buildFusePipeline(manager, fuse, /*probe=*/nullptr,
                      getRewriteChecks(options));
    break;
  }
  case Phase::Codegen: {
    CodegenOptions codegen;
    codegen.cpu = options.cpu;
    buildCodegenPipeline(manager, codegen);
    break;
  }
  case Phase::Schedule: {
    ScheduleOptions schedule;
    schedule.memoryLimit = options.memoryLimit;
    buildSchedulePipeline(manager, schedule);
    break;
  }
  case Phase::Program:
    break;
  }
}

namespace {

/// Options of the pipelines on fusion-opt's command line.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu"),
                             llvm::cl::init("cpu")};
  Option<std::string> cpu{*this, "cpu",
                          llvm::cl::desc("processor name, or native"),
                          llvm::cl::init("native")};
  Option<std::string> device{
      *this, "device", llvm::cl::desc("device name, or path of a device file"),
      llvm::cl::init("cpu")};
  Option<std::string> costModel{*this, "cost-model",
                                llvm::cl::desc("what predicts times"),
                                llvm::cl::init("roofline")};
  Option<bool> exactRewritesOnly{
      *this, "exact-rewrites-only",
      llvm::cl::desc("no rewrite that changes values"), llvm::cl::init(false)};
  Option<unsigned> maxOps{
      *this, "max-ops",
      llvm::cl::desc("consecutive ops of a group's longest path"),
      llvm::cl::init(8)};
  Option<bool> vertical{*this, "vertical", llvm::cl::desc("fuse vertically"),
                        llvm::cl::init(true)};
  Option<bool> horizontal{*this, "horizontal",
                          llvm::cl::desc("fuse horizontally"),
                          llvm::cl::init(true)};
  Option<bool> projections{*this, "projections",
                           llvm::cl::desc("merge projections of one value"),
                           llvm::cl::init(true)};

  CompileOptions toCompileOptions() const {
    CompileOptions options;
    options.target = target;
    options.cpu = cpu;
    options.device = device;
    options.costModel = costModel;
    options.exactRewritesOnly = exactRewritesOnly;
    options.maxOps = maxOps;
    options.fuseVertical = vertical;
    options.fuseHorizontal = horizontal;
    options.fuseProjections = projections;
    return options;
  }
};

} // namespace

void fusion::registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "fusion-pipeline", "all phases down to the program",
      [](OpPassManager &manager, const PipelineOptions &options) {
        for (Phase phase : kPhases)
          buildPhase(manager, phase, options.toCompileOptions());
      });
}

/// Writes the module's text to `<directory>/<n>-<phase>.mlir`.
std::string fusion::getDumpPath(StringRef directory, Phase phase) {
  SmallString<128> path(directory);
  llvm::sys::path::append(path, Twine(int(phase) + 1) + "-" +
                                    stringifyPhase(phase) + ".mlir");
  return path.str().str();
}

static LogicalResult dump(ModuleOp module, StringRef directory, Phase phase) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return module.emitError("cannot create '")
           << directory << "': " << error.message();
  std::string path = getDumpPath(directory, phase);
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return module.emitError("cannot write '")
           << path << "': " << error.message();
  module.print(stream, OpPrintingFlags().useLocalScope());
  return success();
}

llvm::Error fusion::checkRunBefore(const CompileOptions &options) {
  for (const auto &[phase, pipeline] : options.runBefore) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    OpPassManager manager(ModuleOp::getOperationName());
    if (failed(parsePassPipeline(pipeline, manager, stream))) {
      // One line of the parser's report says what; the rest draws where.
      StringRef what = StringRef(message).split('\n').first;
      what = what.substr(what.find("error: ") + strlen("error: "));
      return llvm::createStringError(
          "bad pipeline '" + pipeline + "', --run-before, " + what +
          "; see fusion-opt --help for names, load plugins with --plugin");
    }
  }
  return llvm::Error::success();
}

CompileStatus fusion::runPhases(ModuleOp module,
                                const CompileOptions &options) {
  bool internal = false, overLimit = false, reported = false, isWrong = false;
  ScopedDiagnosticHandler handler(
      module.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
          // The pass manager's own summary names no cause; the driver says
          // where the reproducer is when there is one to keep.
          if (StringRef(diagnostic.str())
                  .starts_with("Failures have been detected while processing"))
            return success();
          reported = true;
          // The pass manager's own words for a crash that it survived.
          internal |=
              getErrorKind(diagnostic) == ErrorKind::Internal ||
              StringRef(diagnostic.str()).starts_with("A signal was caught");
          overLimit |= getErrorKind(diagnostic) == ErrorKind::Resources;
          isWrong |= getErrorKind(diagnostic) == ErrorKind::Check;
        }
        return failure(); // let the tool's handler print it
      });
  for (Phase phase : kPhases) {
    PassManager manager(module.getContext());
    if (!options.reproducer.empty())
      manager.enableCrashReproducerGeneration(options.reproducer);
    auto addUserPasses = [&](Phase wanted) {
      return llvm::all_of(options.runBefore, [&](const auto &entry) {
        return entry.first != wanted ||
               succeeded(parsePassPipeline(entry.second, manager));
      });
    };
    // Passes on finished groups run with the fuse phase if those are checked.
    bool areEarly = phase == Phase::Codegen && options.verifyFusion;
    if (!areEarly && !addUserPasses(phase))
      return CompileStatus::Internal; // checkRunBefore was not asked
    buildPhase(manager, phase, options);
    if (phase == Phase::Fuse && options.verifyFusion) {
      if (!addUserPasses(Phase::Codegen))
        return CompileStatus::Internal;
      VerifyFusionOptions verify;
      verify.parameterFolder = options.parameterFolder;
      manager.addPass(createVerifyFusion(verify));
    }
    if (manager.size() != 0 && failed(manager.run(module)))
      // A pass that fails owes an error.
      return internal || !reported ? CompileStatus::Internal
             : isWrong             ? CompileStatus::CheckFailed
             : overLimit           ? CompileStatus::NoResources
                                   : CompileStatus::BadProgram;
    if (options.afterPhase)
      options.afterPhase(phase, module);
    if (!options.dumpDirectory.empty() &&
        failed(dump(module, options.dumpDirectory, phase)))
      return CompileStatus::NoResources;
    if (phase == options.stopAfter)
      break;
  }
  return CompileStatus::Ok;
}
