//===- LayoutTransfer.h - Ops under channels-last operands ------*- C++ -*-===//
//
// For a tensor [N, C, spatial...] the channels-last version is
// [N, spatial..., C]. This says, op by op, how the same computation is written
// on channels-last operands, and whether the result is channels-last too.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SIMPLIFY_LAYOUTTRANSFER_H
#define FUSION_LIB_SIMPLIFY_LAYOUTTRANSFER_H

#include "fusion/IR/FusionDialect.h"

#include <functional>
#include <optional>

namespace fusion {

/// Least rank of a tensor that has a channels-last version of its own.
inline constexpr int64_t kMinLayoutRank = 3;

/// Position in the channels-last version of dimension `dim` of a tensor.
inline int64_t getLastDim(int64_t dim, int64_t rank) {
  return dim == 0 ? 0 : dim == 1 ? rank - 1 : dim - 1;
}

/// Permutation of a transpose from the model's order to channels-last.
llvm::SmallVector<int64_t> getToLast(int64_t rank);
/// Permutation of a transpose from channels-last to the model's order.
llvm::SmallVector<int64_t> getToFirst(int64_t rank);

/// `type` with its dimensions permuted: dimension i is `permutation[i]` of it.
mlir::RankedTensorType permute(mlir::RankedTensorType type,
                               llvm::ArrayRef<int64_t> permutation);

/// Whether a transpose leaves the order of the elements as it is, since only
/// dimensions of size 1 move.
bool movesOnlyUnitDims(mlir::RankedTensorType type,
                       llvm::ArrayRef<int64_t> permutation);

/// How an op is written on channels-last operands.
struct LayoutTransfer {
  /// Operands that are read channels-last; the others stay.
  llvm::SmallVector<unsigned, 4> operands;
  /// Whether the new result is the channels-last version of the old; else it
  /// is the same tensor.
  bool resultIsLast = true;
  /// Whether the order of a sum of floats changes.
  bool reordersSum = false;
  /// Builds the op on the channels-last versions of `operands`, in that order.
  std::function<mlir::Operation *(mlir::OpBuilder &, mlir::ValueRange)> build;
};

/// The transfer of an op, or nullopt if it needs the model's order.
std::optional<LayoutTransfer> getLayoutTransfer(mlir::Operation *op);

/// Whether `op` is a convolution or pool of layout nchw, the ops that a graph
/// is turned for.
bool isChannelsFirst(mlir::Operation *op);

/// `dims` of a broadcast that makes the channels-last version of the result
/// from the operand (`operandIsLast`: from its channels-last version), or
/// nullopt if the operand would have to be transposed.
std::optional<llvm::SmallVector<int64_t>>
getLastBroadcastDims(BroadcastOp op, bool operandIsLast);

} // namespace fusion

#endif // FUSION_LIB_SIMPLIFY_LAYOUTTRANSFER_H
