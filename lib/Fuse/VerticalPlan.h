//===- VerticalPlan.h - Which producers join their consumers ----*- C++ -*-===//
//
// The decision of FuseVertical as data: the groups, and for each pair of a
// producer and its consumer why they are together or not. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_VERTICALPLAN_H
#define FUSION_LIB_FUSE_VERTICALPLAN_H

#include "FuseGraph.h"
#include "fusion/Analysis/CostModel.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// A producer and one of its consumers (nodes), and what became of them.
struct FusePair {
  unsigned producer, consumer;
  GroupVerdict verdict;
  /// Bytes of memory traffic that fusing the pair saves, or would save.
  int64_t bytes = 0;
  /// Where a plan file keeps the two apart: the rule that the planner would
  /// have gone by, and the numbers are that rule's.
  std::optional<FusionRule> own;
  /// Predicted microseconds of the kernels that the decision was about, apart
  /// and fused; both 0 where the cost model was not asked.
  double separateUs = 0, fusedUs = 0;
};

/// A set of nodes that becomes one group.
struct PlannedGroup {
  /// Ascending.
  llvm::SmallVector<unsigned> members;
  GroupKind kind;
  /// Index among the groups that were asked for, if it is one of them.
  std::optional<unsigned> request;
  /// Of the members, those that another group has, and writes where that is
  /// necessary.
  llvm::SmallVector<unsigned> repeated;
};

struct VerticalPlan {
  /// In an order in which each group comes after those it reads. Nodes outside
  /// groups (effects, existing groups, views) stand alone in it too.
  llvm::SmallVector<PlannedGroup, 0> groups;
  /// By consumer, later producers first.
  llvm::SmallVector<FusePair, 0> pairs;

  void print(llvm::raw_ostream &os, const FuseGraph &graph) const;
};

/// Groups that a plan file asks for, in a partition of all nodes.
struct RequestedGroups {
  struct Group {
    /// Ascending, not empty.
    llvm::SmallVector<unsigned, 1> members;
    /// Members of groups before it that it computes again.
    llvm::SmallVector<unsigned, 0> repeated;
    /// What the group is; without it, it may grow.
    std::optional<GroupVerdict> fixed;
  };
  /// Each node is a member of one; each group comes after those it reads.
  llvm::SmallVector<Group, 0> partition;
};

/// Decides. A pure function of its arguments: equal graphs give equal plans.
/// Intermediates should not exceed `memoryLimit` bytes; 0: the device's memory.
/// With `requested`, decides only about what that leaves open.
VerticalPlan planVertical(const FuseGraph &graph,
                          const FusionLegality &legality,
                          const CostModel &model, int64_t memoryLimit,
                          const RequestedGroups *requested = nullptr);

/// The last step of planVertical: computes cheap values again in the groups
/// that read them, where that pays, and says so in `plan.pairs`. Groups that
/// were asked for stay as they are.
void recomputeCheap(const FuseGraph &graph, const FusionLegality &legality,
                    const CostModel &model, const RequestedGroups *requested,
                    VerticalPlan &plan);

/// The plan that fuses nothing: every op in a group of its own.
VerticalPlan planSeparate(const FuseGraph &graph,
                          const FusionLegality &legality);

/// What a planned group has become.
struct FormedGroup {
  /// Index into the plan's groups.
  unsigned planned;
  /// A group; or the copy of an op that stays outside.
  mlir::Operation *op;
  /// The graph's ops that it computes, views included, and those whose results
  /// it gives. All erased, unless outside.
  llvm::SmallVector<mlir::Operation *> body, outputs;
};

/// Rewrites `block`, from which `graph` was made, into the groups of `plan`.
/// The groups that were formed are told to `onFormed` while the old ops exist.
void formGroups(mlir::Block &block, const FuseGraph &graph,
                const VerticalPlan &plan,
                llvm::function_ref<void(const FormedGroup &)> onFormed);

} // namespace fusion

#endif // FUSION_LIB_FUSE_VERTICALPLAN_H
