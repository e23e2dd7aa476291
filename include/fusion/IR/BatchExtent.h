//===- BatchExtent.h - Sizes that depend on the batch -----------*- C++ -*-===//
//
// A `?` dimension is affine in the batch B of a call. This header finds the
// affine form of one dimension by walking up the producers of a value.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_BATCHEXTENT_H
#define FUSION_IR_BATCHEXTENT_H

#include "mlir/IR/Value.h"
#include <cstdint>
#include <optional>

namespace fusion {

/// The size `scale * B + base`, in elements.
struct BatchExtent {
  int64_t scale = 0;
  int64_t base = 0;

  bool operator==(const BatchExtent &other) const {
    return scale == other.scale && base == other.base;
  }
};

/// The size of dimension `dim` of `value`, or nullopt if the producers do not
/// tell (an unknown op, an overflow, a shape that no batch can give). The cost
/// grows with the distance to the nearest op that fixes the size: passes over
/// whole graphs keep their own table.
std::optional<BatchExtent> getBatchExtent(mlir::Value value, unsigned dim);

} // namespace fusion

#endif // FUSION_IR_BATCHEXTENT_H
