//===- FusionDecisions.h - What the fuse phase decided ----------*- C++ -*-===//
//
// One record a function, from before the first decision to behind the last: the
// ops as they were, the groups that they went into, and for pairs that stay
// apart the rule that keeps them so. Plan files, `--fusion-why` and
// `--verify-fusion` read it; the passes that decide write it, if it exists
// (fusion-track-decisions makes it). It also carries the plan that the user
// handed in, for those passes to follow.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_FUSE_FUSIONDECISIONS_H
#define FUSION_FUSE_FUSIONDECISIONS_H

#include "fusion/Fuse/OpTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/AnalysisManager.h"

#include <memory>
#include <optional>

namespace fusion {

struct FunctionPlan;
struct PlanFile;

/// A group that FuseVertical formed. Ops are indices into the table.
struct DecidedGroup {
  GroupKind kind;
  /// Why its ops are together; of a single op, why it stayed alone, if a rule
  /// refused it company.
  std::optional<FusionRule> rule;
  /// In program order; views inside the group are not listed.
  llvm::SmallVector<unsigned> members;
  /// The ops whose results are the results of the group, in order; kNoOp for
  /// a view.
  llvm::SmallVector<unsigned> outputs;
  static constexpr unsigned kNoOp = ~0u;
  /// Bytes of traffic that its pairs save.
  int64_t savedBytes = 0;
  /// Predicted microseconds of its kernel, and of a kernel for each of its ops.
  std::optional<double> predictedUs, unfusedUs;
  /// Line of the plan that asked for it, 0 if none did.
  unsigned planLine = 0;
};

/// A group that was cut between a producer and its consumer.
struct DecidedCut {
  /// The first op behind the cut; kNoOp for a view.
  unsigned at;
  /// Values that are written before the cut and read behind it: of all cuts
  /// that leave both sides within the limits, the fewest.
  int64_t live;
  /// 32-bit registers of a thread, and of a unit, of the kernels on both sides.
  int64_t firstThread, secondThread, firstUnit, secondUnit;
};

/// A producer and its consumer.
struct DecidedPair {
  unsigned producer, consumer;
  FusionRule rule;
  /// The number that the rule looked at, and its limit; both 0 if it has none.
  int64_t value = 0, limit = 0;
  /// The op that the rule refuses, if one stands out.
  std::optional<unsigned> at;
  /// Bytes of traffic at stake.
  int64_t bytes = 0;
  /// Predicted microseconds of the kernels apart and fused; both 0 where the
  /// cost model was not asked.
  double separateUs = 0, fusedUs = 0;
  /// Where `rule` is a limit of the device, and they were together before.
  std::optional<DecidedCut> cut;
  /// Where `rule` is PlanFile: the rule that the planner would have gone by;
  /// the numbers are that rule's.
  std::optional<FusionRule> own;
};

/// Groups that horizontal fusion put into one launch, or two that it left
/// apart. Groups are indices into the record's groups.
struct DecidedLaunch {
  llvm::SmallVector<unsigned> groups;
  FusionRule rule;
  int64_t value = 0, limit = 0;
  std::optional<double> savedUs;
  /// Predicted microseconds of the launch, and of a launch for each group.
  std::optional<double> predictedUs, unfusedUs;
};

class FusionDecisions {
public:
  //===--------------------------------------------------------------------===//
  // The plan that is asked for
  //===--------------------------------------------------------------------===//

  /// What of a plan file is about this function; null if there is none.
  const FunctionPlan *plan = nullptr;
  /// Keeps `plan` alive.
  std::shared_ptr<const PlanFile> planFile;
  /// A line that can't be honoured is an error, not a warning.
  bool isStrict = false;
  /// Keep a copy of the function as it was.
  bool keepOriginal = false;

  /// Launches that the plan asks for, by groups of the record. Groups that are
  /// in none of them, but have a `planLine`, are to stay alone.
  llvm::SmallVector<llvm::SmallVector<unsigned>> requestedLaunches;

  /// Says what is wrong with a line of the plan: a warning, or in strict mode
  /// an error, in which case `hasFailed` is true from then on.
  void report(mlir::MLIRContext *context, unsigned line,
              const llvm::Twine &message);
  bool hasFailed = false;

  //===--------------------------------------------------------------------===//
  // What passes record
  //===--------------------------------------------------------------------===//

  /// Whether vertical and horizontal fusion ran on a graph with work to do.
  bool hasGroups = false, hasLaunches = false;
  OpTable ops;
  llvm::SmallVector<DecidedGroup, 0> groups;
  llvm::SmallVector<DecidedPair, 0> pairs;
  /// Who reads each op, views aside: indices of ops, each once. A view is
  /// looked through.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 0> readers;
  llvm::SmallVector<DecidedLaunch, 0> launches, apart;
  /// A copy of the function before the first decision, in no module.
  mlir::OwningOpRef<mlir::func::FuncOp> original;

  /// Makes `op` known as the group `group`, until the layout is recorded.
  void bindGroup(mlir::Operation *op, unsigned group) { bound[op] = group; }
  /// Makes `op` known as the op `index` of the table, outside groups.
  void bindOutside(mlir::Operation *op, unsigned index) {
    boundOutside[op] = index;
  }
  /// The group that an op of the IR is, if it is bound.
  std::optional<unsigned> findGroup(mlir::Operation *op) const;

  /// What stands in the function's body, in order: a group, a launch of groups
  /// or an op outside.
  struct Entry {
    llvm::SmallVector<unsigned, 1> groups;
    bool isLaunch = false;
    std::optional<unsigned> outside;
  };
  llvm::SmallVector<Entry, 0> layout;
  /// Called by each pass that decides, when it has rewritten `block`.
  void recordLayout(mlir::Block &block);

  /// Forgets that `op` is a group: it is about to be replaced. The group keeps
  /// its index, without members.
  void dropGroup(mlir::Operation *op);
  /// The members of a group in the order in which its body has them, without
  /// constants and views.
  llvm::SmallVector<unsigned> getBodyOrder(unsigned group) const;

  /// The plan that this record amounts to.
  FunctionPlan makePlan(llvm::StringRef function) const;

private:
  llvm::DenseMap<mlir::Operation *, unsigned> bound, boundOutside;
};

/// The records of a module's functions: an analysis of the module that stays
/// valid, as it describes the functions as they were. Passes on functions find
/// it with `getCachedParentAnalysis`.
class FusionRecord {
public:
  explicit FusionRecord(mlir::Operation *) {}

  bool isInvalidated(const mlir::AnalysisManager::PreservedAnalyses &) {
    return false;
  }

  /// Starts the record of a function anew.
  FusionDecisions &start(mlir::Operation *function) {
    return *(functions[function] = std::make_unique<FusionDecisions>());
  }
  /// The record of a function, or null.
  FusionDecisions *find(mlir::Operation *function) const {
    auto it = functions.find(function);
    return it == functions.end() ? nullptr : it->second.get();
  }

private:
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<FusionDecisions>> functions;
};

/// Why the two ops `first` and `second` of the table are together or not: a
/// few lines for people, without a newline at the end.
std::string explainPair(const FusionDecisions &decisions, unsigned first,
                        unsigned second);

} // namespace fusion

#endif // FUSION_FUSE_FUSIONDECISIONS_H
