//===- HorizontalPlan.h - Which groups share a launch -----------*- C++ -*-===//
//
// The decision of FuseHorizontal as data: the launches, and for groups that
// stay apart the rule that keeps them so. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_HORIZONTALPLAN_H
#define FUSION_LIB_FUSE_HORIZONTALPLAN_H

#include "HorizontalGraph.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

struct HorizontalLimits {
  int64_t maxMembers = 64;          ///< groups of one launch
  int64_t maxOperands = 512;        ///< tensors of one launch
  int64_t maxExtraBytes = 16 << 20; ///< that live longer for one launch
  /// Bytes of intermediates alive at once, all launches together; 0: no limit.
  int64_t memoryLimit = 0;
};

/// Members of one launch, ascending.
struct PlannedLaunch {
  llvm::SmallVector<unsigned> members;
  /// Predicted, for a launch of more than one.
  LaunchAlternatives times;
  int64_t extraBytes = 0; ///< that live longer, roughly

  double getSavedUs() const { return times.serialUs - times.fusedUs; }
};

/// Two groups that stay apart.
struct HorizontalRefusal {
  unsigned first, second;
  FusionRule rule;
  int64_t value = 0, limit = 0;
  /// Where cost decided.
  std::optional<LaunchAlternatives> times;
};

/// What a plan file asks for.
struct RequestedLaunches {
  /// Nodes of one launch, ascending; each node in one at most.
  llvm::SmallVector<llvm::SmallVector<unsigned>, 0> launches;
  /// By node: what it is part of is not to be changed.
  llvm::SmallVector<bool, 0> isFixed;
};

/// Predicted microseconds of a step whose launches would expose more
/// communication than the groups apart.
struct ExposureChange {
  double allUs = 0;     ///< exposed with all launches
  double exposedUs = 0; ///< with those that are left
  double apartUs = 0;   ///< without any
  double stepUs = 0;    ///< of the step with those that are left
  double allStepUs = 0; ///< with all of them
};

struct HorizontalPlan {
  /// Nodes and launches (with more than one member), in an order in which each
  /// comes after those that it reads; empty if nothing is to be done.
  llvm::SmallVector<PlannedLaunch, 0> launches;
  llvm::SmallVector<HorizontalRefusal, 0> refusals;
  /// Nodes that were taken out of launches (HiddenLaunches.h).
  llvm::SmallVector<unsigned> apart;
  std::optional<ExposureChange> exposure;
  /// Whether the launches could be ordered; false is a defect of planning.
  bool isAcyclic = true;

  bool hasLaunches() const;
  void print(llvm::raw_ostream &os, const HorizontalGraph &graph) const;
};

/// Decides. A pure function of its arguments: equal graphs give equal plans.
/// With `requested`, which must be acyclic, decides only about what that leaves
/// open.
HorizontalPlan planHorizontal(const HorizontalGraph &graph,
                              const HorizontalLimits &limits,
                              const CostModel &model,
                              const RequestedLaunches *requested = nullptr);

/// Whether launches of `requested` and all other nodes can be ordered.
bool isAcyclic(const HorizontalGraph &graph,
               const RequestedLaunches &requested);

/// Rewrites `block`, from which `graph` was made, into the launches of `plan`.
void formHorizontal(mlir::Block &block, const HorizontalGraph &graph,
                    const HorizontalPlan &plan);

} // namespace fusion

#endif // FUSION_LIB_FUSE_HORIZONTALPLAN_H
