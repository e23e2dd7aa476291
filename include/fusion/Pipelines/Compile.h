//===- Compile.h - The phases by name, and the whole compiler ---*- C++ -*-===//
//
// The one builder that the tools, the C API and the tests call: phases in
// order, each with its options, and the driver that runs them and writes the
// executable module.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_COMPILE_H
#define FUSION_PIPELINES_COMPILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fusion {

class KernelProbe;

/// The phases, in the order in which they run.
enum class Phase { Simplify, Partition, Fuse, Codegen, Schedule, Program };

/// `simplify`, `fuse`, ...; the names of --stop-after and of the pipelines.
llvm::StringRef stringifyPhase(Phase phase);
std::optional<Phase> symbolizePhase(llvm::StringRef name);

/// The file in `directory` that the IR behind `phase` is dumped to.
std::string getDumpPath(llvm::StringRef directory, Phase phase);

/// Everything that can change groups or bits. Recorded in the module.
struct CompileOptions {
  std::string target = "cpu"; ///< or "cuda:sm_90"
  std::string fp;         ///< "strict" or "fast"; empty: the target's default
  bool allowTf32 = false; ///< in contractions of f32; needs "fast"
  std::string ptxas;      ///< the assembler's path, or "off"; empty: looked for
  std::string cpu =
      "native"; ///< resolved to a name before anything depends on it
  /// A name, or the path of a device file; empty: the target's.
  std::string device;
  std::string costModel = "roofline"; ///< or one of a plugin
  bool exactRewritesOnly = false;
  std::string mesh;        ///< `dp=2,tp=1`; empty: the model's own
  bool shardState = false; ///< parameters and optimizer state over dp
  std::string
      parameterFolder; ///< of the parameters' files; empty: the module's own
  unsigned maxOps = 8; ///< consecutive ops of a group's longest path
  bool fuseVertical = true;
  bool fuseHorizontal = true;
  bool fuseProjections = true;
  bool fuseGradients = true;
  bool fuseBuckets = true;
  bool fuseClip = true;
  bool shareClip = true; ///< ranks square parts of gradients
  bool chunkGathers = true;
  /// Bytes that buckets of gradients start with and grow to, 0: the default.
  uint64_t firstBucketBytes = 0, bucketBytes = 0;
  /// Bytes that buckets of gathers grow to at least.
  uint64_t gatherBytes = 0;
  /// What carries collectives between GPUs: "auto", "nccl" or "peer".
  std::string transport = "auto";
  uint64_t memoryLimit = 0; ///< bytes of intermediates, 0: none
  /// What it takes with nothing decided for a limit; runPhases finds it out.
  std::optional<uint64_t> unlimitedBytes;
  bool overlap = true;         ///< communication beside computation
  uint64_t prefetchBudget = 0; ///< bytes of gathered values, 0: by prediction
  /// Prints the timeline of a step on so many of that device, if not empty.
  std::string simulatedDevice;
  uint64_t simulatedRanks = 0;
  std::string plan;        ///< plan file to follow, if not empty
  bool planStrict = false; ///< what the plan asks for and can't have: an error
  std::string emitPlan;    ///< plan file to write, if not empty
  bool planDigest = false; ///< put the hash of the plan on the module
  std::string why;         ///< pair of ops to explain, `@a,@b`, if not empty
  bool verifyFusion = false;      ///< evaluate each group before and after
  std::string cCompiler;          ///< for C kernels: see UserKernelOptions
  unsigned cCompilerTimeout = 60; ///< seconds for one source
  /// Compiles groups to see what they need; null: estimates decide.
  KernelProbe *probe = nullptr;
  Phase startAt = Phase::Simplify; ///< those before it have run
  Phase stopAfter = Phase::Program;
  /// Pass pipelines on a module, as text, each run before a phase; in order.
  std::vector<std::pair<Phase, std::string>> runBefore;
  std::string dumpDirectory; ///< IR after each phase, if not empty
  std::string reproducer; ///< where to write a failing pipeline, if not empty
  /// Called after each phase that ran, if set.
  std::function<void(Phase, mlir::ModuleOp)> afterPhase;
};

/// Whether the kernels are for a GPU.
inline bool isCuda(const CompileOptions &options) {
  return llvm::StringRef(options.target).starts_with("cuda");
}
/// The limit that decisions heed: none where the module fits without.
inline uint64_t getDecisionLimit(const CompileOptions &options) {
  bool fits =
      options.unlimitedBytes && *options.unlimitedBytes <= options.memoryLimit;
  return fits ? 0 : options.memoryLimit;
}
/// Fills in what the target decides: `fp` and `device`.
void setTargetDefaults(CompileOptions &options);

/// Checks that each pipeline of `runBefore` parses and its passes exist. The
/// error reads "what, where, what to do".
llvm::Error checkRunBefore(const CompileOptions &options);

/// Appends the passes of `phase` to `manager`; `Program` has none.
void buildPhase(mlir::OpPassManager &manager, Phase phase,
                const CompileOptions &options);

/// Registers `--fusion-pipeline`; each phase registers its own pipeline.
void registerPipelines();

/// How a compilation ended.
enum class CompileStatus { Ok, CheckFailed, BadProgram, NoResources, Internal };

/// Runs the phases up to `stopAfter` in place. Errors go to the context's
/// diagnostics; their kinds (ErrorKind.h) decide. `NoResources` too if the IR
/// cannot be dumped. `culprit`, if given, is the pass that failed and how, as
/// in "the pass 'x' of the plugin 'a.so' failed without saying why", or empty.
CompileStatus runPhases(mlir::ModuleOp module, const CompileOptions &options,
                        std::string *culprit = nullptr);

} // namespace fusion

#endif // FUSION_PIPELINES_COMPILE_H
