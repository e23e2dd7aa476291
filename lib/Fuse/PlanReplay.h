//===- PlanReplay.h - From the lines of a plan to groups --------*- C++ -*-===//
//
// Finds the ops that a plan names in the graph at hand and checks each group as
// if the planner had proposed it. What doesn't fit is reported, and left to the
// planner. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PLANREPLAY_H
#define FUSION_LIB_FUSE_PLANREPLAY_H

#include "PlanFile.h"
#include "VerticalPlan.h"
#include "fusion/Fuse/FusionDecisions.h"

namespace fusion {

/// The groups of a plan that can be had, as a partition of the graph's nodes.
struct ReplayedPlan {
  RequestedGroups groups;
  /// By group of the partition: the plan's line, or null.
  llvm::SmallVector<const PlanLine *, 0> lines;
};

/// Whether `op` is a group that fusion-fuse-gradients formed: an op of the
/// table to vertical fusion, and a group of the plan.
bool isGradientGroup(mlir::Operation *op);

/// Matches `decisions.plan` with the graph, whose ops are `decisions.ops`. Each
/// group must be one that an emitter handles (`legality`, which has no limits:
/// how large a group gets is what a plan is for), with the kind that the line
/// says, if any, and without cycles. All that doesn't hold is reported.
ReplayedPlan replayPlan(FusionDecisions &decisions, const FuseGraph &graph,
                        const FusionLegality &legality);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PLANREPLAY_H
