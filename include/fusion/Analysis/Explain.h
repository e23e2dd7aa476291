//===- Explain.h - What the compiler decided, for people --------*- C++ -*-===//
//
// Collects the remarks of passes while they run, those of plugins too, and
// builds from them and from the graph before and behind fusion what `--explain`
// prints: the groups, launches and bytes saved, and each refusal with its
// reason. The texts of the rules are in FusionRules.h.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_EXPLAIN_H
#define FUSION_ANALYSIS_EXPLAIN_H

#include "fusion/Analysis/FusionRules.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <mutex>
#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// What a graph costs to run, counted in the IR.
struct GraphStats {
  /// Kernels and calls: one for each group and each compute op outside groups,
  /// except those that a reader repeats for nothing (broadcast, iota, a cast).
  int64_t launches = 0;
  /// Bytes of values that one launch writes and another reads, at the largest
  /// batch.
  int64_t intermediateBytes = 0;
  /// Number of groups by kind.
  llvm::MapVector<llvm::StringRef, int64_t> groups;
};

/// Counts over the functions of `module` at the graph level.
GraphStats computeGraphStats(mlir::ModuleOp module);

/// Remarks with one id, outcome and reason; where a rule has many reasons (they
/// hold names and sizes), the last entry counts the rest and has no reason.
struct DecisionCount {
  std::string rule;
  std::string reason;
  bool accepted = false;
  int64_t count = 0;
  /// Sum of the `bytes` that the remarks name.
  int64_t bytes = 0;
  /// Sums of the microseconds that they name: predicted for the kernels apart,
  /// and fused. Both 0 where the cost model was not asked.
  double separateUs = 0, fusedUs = 0;
  /// Producer, consumer and place of the first one.
  std::string example;
};

/// Counts of decisions as they were made. Thread safe.
class DecisionLog {
public:
  /// Counts `decision` with those of its rule and outcome; its example is kept
  /// if it is the first.
  void add(DecisionCount decision);
  /// A rewrite that a pass looked for, and what it is.
  void declare(llvm::StringRef rule, llvm::StringRef text);
  /// Those declared that no remark says were applied, in the order of their
  /// declaration.
  llvm::SmallVector<DecisionCount> getUnmatched() const;
  /// In the order of each rule's first remark.
  llvm::SmallVector<DecisionCount> getCounts() const;

private:
  mutable std::mutex mutex;
  llvm::SmallVector<DecisionCount, 0> counts;
  /// Rule, outcome and reason -> index in `counts`.
  llvm::StringMap<size_t> index;
  /// Rule and outcome -> how many reasons have an entry.
  llvm::StringMap<size_t> reasons;
  /// Rules and their texts, each rule once.
  llvm::SmallVector<std::pair<std::string, std::string>> declared;
};

/// Says that a pass on `op` looks for the rewrite `rule`, described by `text`,
/// so that `--explain` can tell if it matched nothing. A remark of kind
/// analysis and category "declared"; the rewrite itself is remarked as `passed`
/// under the same name. Free where nobody listens.
void declareRewrite(mlir::Operation *op, llvm::StringRef rule,
                    llvm::StringRef text);

/// Makes the remarks of all passes that run in `context` from now on go to
/// `log`, which must outlive the passes; those of another category than
/// "fusion" as rules named "category:name". Replaces the context's remark
/// engine.
llvm::LogicalResult collectDecisions(mlir::MLIRContext &context,
                                     DecisionLog &log);

struct ExplainReport {
  GraphStats before, after;
  /// Pairs fused and refused by fusion, most frequent first.
  llvm::SmallVector<DecisionCount> fused, refused;
  /// Everything else that passes reported.
  llvm::SmallVector<DecisionCount> rewritten, notRewritten;
  /// Rewrites that were looked for and found nowhere.
  llvm::SmallVector<DecisionCount> unmatched;
};

/// `before` is counted ahead of the fuse phase, `after` behind it.
ExplainReport computeExplain(GraphStats before, GraphStats after,
                             const DecisionLog &log);

/// A table of at most 77 columns.
void printExplain(const ExplainReport &report, llvm::raw_ostream &os);

} // namespace fusion

#endif // FUSION_ANALYSIS_EXPLAIN_H
