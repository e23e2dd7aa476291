//===- PrefetchPlan.h - Gathers and the bytes they take ---------*- C++ -*-===//
//
// Private to lib/Schedule: what PrefetchAllGather and RepeatGathers share.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_PREFETCHPLAN_H
#define FUSION_LIB_SCHEDULE_PREFETCHPLAN_H

#include "CommandOrder.h"
#include "fusion/Analysis/OverlapPlan.h"

#include "mlir/IR/IRMapping.h"

namespace fusion {

/// One gather, and where it may start. Positions are nodes of an OverlapGraph.
struct Gather {
  unsigned node = 0;
  llvm::SmallVector<int64_t, 2> sizes; ///< of its results, bytes
  int64_t bytes = 0;                   ///< of all, each rounded up
  unsigned ready = 0;                  ///< the first it may start before
  unsigned turn = 0;                   ///< the same, behind who is read before
  unsigned first = 0, last = 0;        ///< readers
  unsigned issue = 0;                  ///< the answer
};

/// Gathers once more, in front of later readers, so that no more than `budget`
/// bytes are kept for them: fewer where what one op reads allows it. Returns
/// how many gathers were added; the graph is of before.
unsigned repeatGathers(const OverlapGraph &graph,
                       llvm::ArrayRef<Gather> gathers, int64_t budget);

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_PREFETCHPLAN_H
