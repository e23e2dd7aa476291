//===- BatchExtents.h - Sizes as functions of the batch ---------*- C++ -*-===//
//
// A `?` of a tensor type stands for `scale * B + base`, B the batch of the
// call. This analysis says which, for every value of a function, inside groups
// too.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_BATCHEXTENTS_H
#define FUSION_ANALYSIS_BATCHEXTENTS_H

#include "fusion/IR/BatchExtent.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/LogicalResult.h"

#include <optional>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// The product, or nullopt when it is not affine (both depend on B) or does
/// not fit 64 bits.
std::optional<Extent> multiply(Extent a, Extent b);

/// Extents of all values of a function. One pass over the ops in order: linear
/// in the number of ops, without recursion over the graph.
class BatchExtents {
public:
  /// Analyses the regions of `root` (a function, or anything that holds ops of
  /// this dialect). Block arguments of `root` itself have `?` = B. Fails with
  /// an error on an op whose `?` results it has no rule for.
  static llvm::FailureOr<BatchExtents> analyze(mlir::Operation *root);

  /// Size of dimension `dim` of `value`, a ranked tensor.
  Extent getExtent(mlir::Value value, int64_t dim) const;

  /// Sizes of all dimensions.
  llvm::SmallVector<Extent> getShape(mlir::Value value) const;

  /// Number of elements, or nullopt when it is not affine.
  std::optional<Extent> getNumElements(mlir::Value value) const;

  void print(llvm::raw_ostream &os, mlir::Value value) const;

private:
  mlir::LogicalResult visit(mlir::Value value);

  /// Only values with a dynamic dimension have an entry.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Extent, 4>> dynamicShapes;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_BATCHEXTENTS_H
