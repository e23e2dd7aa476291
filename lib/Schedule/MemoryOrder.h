//===- MemoryOrder.h - An order of commands with a lower peak ---*- C++ -*-===//
//
// Which groups stand elsewhere so that fewer bytes are alive at once. Fusion
// puts a launch where its last member stood: what it frees is alive until then,
// and what it makes may be alive long before it is read. Plain data, without
// IR. Private to lib/Schedule.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_MEMORYORDER_H
#define FUSION_LIB_SCHEDULE_MEMORYORDER_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace fusion {

/// A value of the arena.
struct OrderedValue {
  int64_t bytes = 0;
  unsigned producer = 0;
  llvm::SmallVector<unsigned, 2> readers; ///< steps
  /// Value whose bytes it takes over if its producer is the last to read that
  /// one; -1: none.
  int64_t over = -1;
};

struct OrderedStep {
  bool isMovable = false;
  /// Steps that stay in front of it, and behind it.
  llvm::SmallVector<unsigned, 2> before, behind;
};

/// Steps in their order so far, each behind its `before`; and all values that
/// they make and read.
struct OrderedSteps {
  llvm::SmallVector<OrderedStep, 0> steps;
  llvm::SmallVector<OrderedValue, 0> values;
};

struct MemoryOrder {
  llvm::SmallVector<unsigned, 0> order; ///< steps
  int64_t peakBefore = 0, peakAfter = 0;
  unsigned numMoved = 0; ///< steps that stand elsewhere
};

/// Moves steps around the point where most bytes are alive, as long as that
/// lowers the peak: readers of a value that is alive there to before it,
/// producers of a value that is read later to behind it, or the peak's own step
/// to before such a value is made. Deterministic; its work is bounded by a few
/// hundred walks of a small graph and a few dozen of one of 100,000 steps.
MemoryOrder planMemoryOrder(const OrderedSteps &steps);

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_MEMORYORDER_H
