//===- SplitPlan.h - Where a group that is too large is cut -----*- C++ -*-===//
//
// The decision of fusion-split-groups as data: the parts of one group, and for
// each cut the limit that asked for it. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_SPLITPLAN_H
#define FUSION_LIB_FUSE_SPLITPLAN_H

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/KernelResources.h"

namespace fusion {

/// Ops of the old body that become one group. Cheap ops may be in several.
struct SplitPart {
  llvm::SmallVector<mlir::Operation *> ops;
  /// Those of them whose values are read outside the part.
  llvm::SmallVector<mlir::Operation *, 2> outputs;
  GroupKind kind;
};

/// One cut: what was too large, and what came of it.
struct SplitCut {
  GroupVerdict limit;
  /// The first op behind the cut.
  mlir::Operation *at;
  /// Values that are written before the cut and read behind it.
  int64_t live;
  KernelResources first, second;
  /// Predicted microseconds of the kernel before, and of both behind.
  double fusedUs, separateUs;
};

struct SplitPlan {
  /// In order; empty if the group stays whole.
  llvm::SmallVector<SplitPart, 2> parts;
  llvm::SmallVector<SplitCut, 1> cuts;
  /// Limits that no cut could meet.
  llvm::SmallVector<GroupVerdict, 1> unmet;
};

/// Decides for one finished group that is not horizontal. `legality` must not
/// limit the size of groups.
SplitPlan planSplit(GroupOp group, const FusionLegality &legality,
                    const CostModel &model, KernelProbe *probe);

} // namespace fusion

#endif // FUSION_LIB_FUSE_SPLITPLAN_H
