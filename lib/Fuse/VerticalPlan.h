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
  /// Predicted microseconds of the kernels that the decision was about, apart
  /// and fused; both 0 where the cost model was not asked.
  double separateUs = 0, fusedUs = 0;
};

/// A set of nodes that becomes one group.
struct PlannedGroup {
  /// Ascending.
  llvm::SmallVector<unsigned> members;
  GroupKind kind;
};

struct VerticalPlan {
  /// In an order in which each group comes after those it reads. Nodes outside
  /// groups (effects, existing groups, views) stand alone in it too.
  llvm::SmallVector<PlannedGroup, 0> groups;
  /// By consumer, later producers first.
  llvm::SmallVector<FusePair, 0> pairs;

  void print(llvm::raw_ostream &os, const FuseGraph &graph) const;
};

/// Decides. A pure function of its arguments: equal graphs give equal plans.
/// Intermediates should not exceed `memoryLimit` bytes; 0: the device's memory.
VerticalPlan planVertical(const FuseGraph &graph,
                          const FusionLegality &legality,
                          const CostModel &model, int64_t memoryLimit);

/// The last step of planVertical: computes cheap values again in the groups
/// that read them, where that pays, and says so in `plan.pairs`.
void recomputeCheap(const FuseGraph &graph, const FusionLegality &legality,
                    const CostModel &model, VerticalPlan &plan);

/// The plan that fuses nothing: every op in a group of its own.
VerticalPlan planSeparate(const FuseGraph &graph,
                          const FusionLegality &legality);

/// Rewrites `block`, from which `graph` was made, into the groups of `plan`.
void formGroups(mlir::Block &block, const FuseGraph &graph,
                const VerticalPlan &plan);

} // namespace fusion

#endif // FUSION_LIB_FUSE_VERTICALPLAN_H
