//===- Compile.cpp - The phases by name -----------------------------------===//
//
// See Compile.h. Phases never call each other: only this file knows their
// order.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Compile.h"

#include "BucketSearch.h"
#include "LimitTrial.h"
#include "PassCheck.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/Target.h"
#include "fusion/Partition/Passes.h"
#include "fusion/Pipelines/PassWatch.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Pipelines/Plugins.h"
#include "fusion/Schedule/Passes.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fusion;

static constexpr Phase kPhases[] = {Phase::Simplify, Phase::Partition,
                                    Phase::Fuse,     Phase::Codegen,
                                    Phase::Schedule, Phase::Program};

StringRef fusion::stringifyPhase(Phase phase) {
  switch (phase) {
  case Phase::Simplify:
    return "simplify";
  case Phase::Partition:
    return "partition";
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

void fusion::setTargetDefaults(CompileOptions &options) {
  if (options.fp.empty())
    options.fp = isCuda(options) ? "fast" : "strict";
  if (options.device.empty())
    options.device = isCuda(options) ? "h200" : "cpu";
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
  case Phase::Partition: {
    PartitionOptions partition;
    partition.mesh = options.mesh;
    partition.shardState = options.shardState;
    buildPartitionPipeline(manager, partition);
    // What the model itself says of communication, before anything moves it.
    manager.addPass(createVerifyGraph());
    break;
  }
  case Phase::Fuse: {
    FuseOptions fuse;
    fuse.maxOps = options.maxOps;
    fuse.device = options.device;
    fuse.costModel = options.costModel;
    fuse.memoryLimit = std::min<uint64_t>(getDecisionLimit(options), INT64_MAX);
    fuse.parameterFolder = options.parameterFolder;
    if (options.firstBucketBytes)
      fuse.firstBucketBytes =
          std::min<uint64_t>(options.firstBucketBytes, INT64_MAX);
    fuse.bucketBytes = std::min<uint64_t>(options.bucketBytes, INT64_MAX);
    fuse.gatherBytes = std::min<uint64_t>(options.gatherBytes, INT64_MAX);
    fuse.transport = options.transport;
    std::vector<std::string> noFuse;
    if (!options.fuseVertical)
      noFuse.push_back("vertical");
    if (!options.fuseHorizontal)
      noFuse.push_back("horizontal");
    if (!options.fuseBuckets)
      noFuse.push_back("buckets");
    if (!options.fuseClip)
      noFuse.push_back("clip");
    if (!options.shareClip)
      noFuse.push_back("clip-shares");
    if (!options.chunkGathers)
      noFuse.push_back("chunks");
    if (!options.fuseProjections)
      noFuse.push_back("projections");
    if (!options.fuseGradients)
      noFuse.push_back("gradients");
    fuse.noFuse = ArrayRef<std::string>(noFuse);
    fuse.plan = options.plan;
    fuse.planStrict = options.planStrict;
    fuse.emitPlan = options.emitPlan;
    fuse.planDigest = options.planDigest;
    fuse.why = options.why;
    fuse.keepOriginal = options.verifyFusion;
    buildFusePipeline(manager, fuse, options.probe, getRewriteChecks(options));
    break;
  }
  case Phase::Codegen: {
    CodegenOptions codegen;
    codegen.cpu = options.cpu;
    codegen.target = isCuda(options) ? "cuda" : "cpu";
    codegen.fp = options.fp;
    codegen.parameterFolder = options.parameterFolder;
    buildCodegenPipeline(manager, codegen);
    break;
  }
  case Phase::Schedule: {
    ScheduleOptions schedule;
    schedule.memoryLimit = options.memoryLimit;
    schedule.decisionLimit = getDecisionLimit(options);
    schedule.enoughBytes = options.unlimitedBytes.value_or(0);
    schedule.device = options.device;
    schedule.costModel = options.costModel;
    schedule.overlap = options.overlap;
    schedule.prefetchBudget = options.prefetchBudget;
    schedule.simulatedDevice = options.simulatedDevice;
    schedule.simulatedRanks = options.simulatedRanks;
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
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("cpu, or cuda:sm_90"),
                             llvm::cl::init("cpu")};
  Option<std::string> fp{
      *this, "fp", llvm::cl::desc("strict or fast (default: the target's)"),
      llvm::cl::init("")};
  Option<std::string> cpu{*this, "cpu",
                          llvm::cl::desc("processor name, or native"),
                          llvm::cl::init("native")};
  Option<std::string> device{
      *this, "device",
      llvm::cl::desc(
          "device name, or path of a device file (default: the target's)"),
      llvm::cl::init("")};
  Option<std::string> costModel{*this, "cost-model",
                                llvm::cl::desc("what predicts times"),
                                llvm::cl::init("roofline")};
  Option<bool> exactRewritesOnly{
      *this, "exact-rewrites-only",
      llvm::cl::desc("no rewrite that changes values"), llvm::cl::init(false)};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("axes and sizes, dp=2,tp=1"),
                           llvm::cl::init("")};
  Option<bool> shardState{
      *this, "shard-state",
      llvm::cl::desc("cut parameters and optimizer state over dp"),
      llvm::cl::init(false)};
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
    options.fp = fp;
    options.cpu = cpu;
    options.device = device;
    options.costModel = costModel;
    options.exactRewritesOnly = exactRewritesOnly;
    options.mesh = mesh;
    options.shardState = shardState;
    options.maxOps = maxOps;
    options.fuseVertical = vertical;
    options.fuseHorizontal = horizontal;
    options.fuseProjections = projections;
    setTargetDefaults(options);
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

/// The names in the text of a pipeline: passes, ops, options, values.
static SmallVector<StringRef> getWords(StringRef pipeline) {
  SmallVector<StringRef> words;
  llvm::SplitString(pipeline, words, "(){},= \t\n");
  return words;
}

/// The name on the command line of the pass class `name` that `pipeline` runs.
static StringRef findPassOfClass(StringRef pipeline, StringRef name) {
  for (StringRef word : getWords(pipeline)) {
    const PassInfo *info = PassInfo::lookup(word);
    OpPassManager manager; // on any op, so that the pass is not nested
    auto ignore = [](const Twine &) { return failure(); };
    if (info && succeeded(info->addToPipeline(manager, "", ignore)) &&
        manager.size() == 1 && manager.begin()->getName() == name)
      return word;
  }
  return pipeline;
}

/// What is wrong with a pipeline that doesn't parse, and what to do about it,
/// from the parser's words.
static std::string describePipelineError(StringRef message, StringRef pipeline,
                                         Phase phase) {
  // One line says what; the rest draws where.
  StringRef what = message.split('\n').first;
  if (size_t at = what.find("error: "); at != StringRef::npos)
    what = what.substr(at + strlen("error: "));
  // "Can't add pass 'X' restricted to 'func.func' on a PassManager intended to
  // run on 'builtin.module', did you intend to nest?"
  StringRef name = what.split("dd pass '").second.split('\'').first;
  StringRef op = what.split("restricted to '").second.split('\'').first;
  if (!name.empty() && !op.empty()) {
    StringRef pass = findPassOfClass(pipeline, name);
    return ("'" + pass + "' runs on a " + op + ", not on a module; write " +
            stringifyPhase(phase) + ":" + op + "(" + pass + ")")
        .str();
  }
  std::string plugins = describeLoadedPlugins();
  return (what + "; see fusion-opt --help for names" +
          (plugins.empty() ? ", load plugins with --plugin"
                           : "; loaded with --plugin: " + plugins))
      .str();
}

llvm::Error fusion::checkRunBefore(const CompileOptions &options) {
  for (const auto &[phase, pipeline] : options.runBefore) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    OpPassManager manager(ModuleOp::getOperationName());
    if (failed(parsePassPipeline(pipeline, manager, stream))) {
      return llvm::createStringError(
          "bad pipeline '" + pipeline + "', --run-before, " +
          describePipelineError(message, pipeline, phase));
    }
  }
  return llvm::Error::success();
}

namespace {

/// One run of the phases.
class PhaseRunner {
public:
  PhaseRunner(ModuleOp module, const CompileOptions &options)
      : module(module), options(options) {}

  CompileStatus run();

  /// The pass that ended an internal error, and how; empty if unknown.
  std::string culprit;

private:
  LogicalResult listen(Diagnostic &diagnostic);
  LogicalResult addUserPasses(PassManager &manager, Phase phase) const;
  bool hasUserPasses(Phase phase) const {
    return llvm::any_of(options.runBefore, [&](const auto &entry) {
      return entry.first == phase;
    });
  }
  /// The names of a phase's user passes.
  llvm::StringSet<> getUserNames(Phase phase) const;
  CompileStatus runManager(PassManager &manager);
  CompileStatus runUserPasses(Phase phase);
  CompileStatus runPhase(Phase phase);

  ModuleOp module;
  CompileOptions options;
  PassWatch watch;
  bool internal = false, overLimit = false, reported = false, isWrong = false;
};

} // namespace

LogicalResult PhaseRunner::listen(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return failure();
  std::string text = diagnostic.str();
  // The pass manager's own summary names no cause; the driver says where the
  // reproducer is when there is one to keep.
  if (StringRef(text).starts_with("Failures have been detected while "
                                  "processing"))
    return success();
  reported = true;
  // The pass manager's own words for a crash that it survived.
  internal |= StringRef(text).starts_with("A signal was caught") ||
              getErrorKind(diagnostic) == ErrorKind::Internal;
  overLimit |= getErrorKind(diagnostic) == ErrorKind::Resources;
  isWrong |= getErrorKind(diagnostic) == ErrorKind::Check;
  return failure(); // let the tool's handler print it
}

LogicalResult PhaseRunner::addUserPasses(PassManager &manager,
                                         Phase phase) const {
  return success(llvm::all_of(options.runBefore, [&](const auto &entry) {
    return entry.first != phase ||
           succeeded(parsePassPipeline(entry.second, manager));
  }));
}

llvm::StringSet<> PhaseRunner::getUserNames(Phase phase) const {
  llvm::StringSet<> names;
  for (const auto &[wanted, pipeline] : options.runBefore) {
    if (wanted != phase)
      continue;
    // As it is printed, the pipelines in it that have a name are spelt out.
    OpPassManager manager(ModuleOp::getOperationName());
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (succeeded(parsePassPipeline(pipeline, manager)))
      manager.printAsTextualPipeline(stream);
    SmallVector<StringRef> words = getWords(text);
    names.insert(words.begin(), words.end());
  }
  return names;
}

CompileStatus PhaseRunner::runManager(PassManager &manager) {
  if (manager.size() == 0)
    return CompileStatus::Ok;
  if (!options.reproducer.empty())
    manager.enableCrashReproducerGeneration(options.reproducer);
  watch.watch(manager);
  if (succeeded(manager.run(module)))
    return isWrong ? CompileStatus::CheckFailed : CompileStatus::Ok;
  // A pass that never ended was left by a crash that the manager survived.
  if (!watch.getRunning().empty()) {
    internal = true;
    culprit = watch.getRunning() + " crashed";
  } else if (!watch.getFailed().empty()) {
    culprit = watch.getFailed() +
              (reported ? " failed" : " failed without saying why");
  }
  // A pass that fails owes an error.
  return internal || !reported ? CompileStatus::Internal
         : isWrong             ? CompileStatus::CheckFailed
         : overLimit           ? CompileStatus::NoResources
                               : CompileStatus::BadProgram;
}

/// In a manager of their own, so that they can be checked, and a reproducer
/// holds them alone.
CompileStatus PhaseRunner::runUserPasses(Phase phase) {
  PassManager manager(module.getContext());
  if (failed(addUserPasses(manager, phase)))
    return CompileStatus::Internal; // checkRunBefore was not asked
  if (options.verifyFusion && phase <= Phase::Codegen)
    manager.addInstrumentation(createPassCheck(options.parameterFolder));
  return runManager(manager);
}

CompileStatus PhaseRunner::runPhase(Phase phase) {
  PassManager manager(module.getContext());
  CompileOptions sized = options;
  if (phase == Phase::Fuse) {
    BucketSizes sizes = searchBucketSizes(module, options);
    sized.bucketBytes = sizes.bytes;
    sized.firstBucketBytes = sizes.firstBytes;
    sized.shareClip = sizes.shareClip;
    sized.gatherBytes = sizes.gatherBytes;
  }
  buildPhase(manager, phase, sized);
  if (phase == Phase::Fuse && options.verifyFusion) {
    // Passes on finished groups run here, as the record of what was fused lasts
    // no longer.
    if (failed(addUserPasses(manager, Phase::Codegen)))
      return CompileStatus::Internal;
    if (hasUserPasses(Phase::Codegen))
      manager.addInstrumentation(createPassCheck(options.parameterFolder,
                                                 getUserNames(Phase::Codegen)));
    VerifyFusionOptions verify;
    verify.parameterFolder = options.parameterFolder;
    manager.addPass(createVerifyFusion(verify));
  }
  return runManager(manager);
}

CompileStatus PhaseRunner::run() {
  ScopedDiagnosticHandler handler(
      module.getContext(),
      [&](Diagnostic &diagnostic) { return listen(diagnostic); });
  if (isCuda(options)) {
    Builder builder(module.getContext());
    module->setAttr(kTargetAttr, builder.getStringAttr("cuda"));
    module->setAttr(kFpAttr, builder.getStringAttr(options.fp));
    if (options.allowTf32)
      module->setAttr(kTf32Attr, builder.getUnitAttr());
  }
  for (Phase phase : kPhases) {
    if (phase < options.startAt)
      continue;
    if (phase == Phase::Fuse && options.memoryLimit != 0)
      options.unlimitedBytes = findUnlimitedBytes(module, options);
    CompileStatus status = CompileStatus::Ok;
    if (hasUserPasses(phase) &&
        !(phase == Phase::Codegen && options.verifyFusion))
      status = runUserPasses(phase);
    if (status == CompileStatus::Ok)
      status = runPhase(phase);
    if (status != CompileStatus::Ok)
      return status;
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

CompileStatus fusion::runPhases(ModuleOp module, const CompileOptions &options,
                                std::string *culprit) {
  MLIRContext *context = module.getContext();
  // A check compares the whole module: nothing may change beside it.
  bool threaded = context->isMultithreadingEnabled();
  bool isChecked = options.verifyFusion && !options.runBefore.empty();
  if (isChecked)
    context->disableMultithreading();
  PhaseRunner runner(module, options);
  CompileStatus status = runner.run();
  if (isChecked && threaded)
    context->enableMultithreading();
  if (culprit)
    *culprit = std::move(runner.culprit);
  return status;
}
