//===- BatchExtent.h - Sizes that depend on the batch -----------*- C++ -*-===//
//
// A `?` dimension is affine in the batch B of a call. This header holds the
// rules: what each op says about the sizes of its results. They answer for one
// dimension by walking up the producers, or one op at a time for a pass over a
// whole function (Analysis/BatchExtents.h).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_BATCHEXTENT_H
#define FUSION_IR_BATCHEXTENT_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <optional>

namespace fusion {

/// A number of elements that is affine in the batch B: `scale * B + base`.
struct Extent {
  int64_t scale = 0;
  int64_t base = 0;

  bool isStatic() const { return scale == 0; }
  bool isZero() const { return scale == 0 && base == 0; }
  int64_t at(int64_t batch) const { return scale * batch + base; }

  friend bool operator==(Extent a, Extent b) {
    return a.scale == b.scale && a.base == b.base;
  }
  friend bool operator!=(Extent a, Extent b) { return !(a == b); }
  friend Extent operator+(Extent a, Extent b) {
    return {a.scale + b.scale, a.base + b.base};
  }
};

/// The size of dimension `dim` of `value`, or nullopt if the producers do not
/// tell (an unknown op, an overflow, a shape that no batch can give). The cost
/// grows with the distance to the nearest op that fixes the size: passes over
/// whole graphs keep their own table.
std::optional<Extent> getBatchExtent(mlir::Value value, unsigned dim);

/// The same from the one op (or region) that gives `value`. `known` answers for
/// the sizes that its rule reads: a dimension of a value before it.
std::optional<Extent> getBatchExtent(
    mlir::Value value, unsigned dim,
    llvm::function_ref<std::optional<Extent>(mlir::Value, unsigned)> known);

} // namespace fusion

#endif // FUSION_IR_BATCHEXTENT_H
