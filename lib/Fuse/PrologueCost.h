//===- PrologueCost.h - What a refused prologue would take ------*- C++ -*-===//
//
// A contraction that reads its operands whole can't take in what computes them.
// The refusal tells what that would have cost. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PROLOGUECOST_H
#define FUSION_LIB_FUSE_PROLOGUECOST_H

#include "VerticalPlan.h"

namespace fusion {

/// Fills in the microseconds of a pair that was refused because its consumer, a
/// contraction, reads the producer's value whole: apart, and as one kernel that
/// computes the value where it is read. The verdict gets how many times each
/// element would be computed, against 1. Other pairs stay as they are.
void predictPrologue(const FuseGraph &graph, const FusionLegality &legality,
                     const CostModel &model, const KernelWork &producer,
                     const KernelWork &consumer, FusePair &pair);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PROLOGUECOST_H
