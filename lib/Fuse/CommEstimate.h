//===- CommEstimate.h - What a collective takes -----------------*- C++ -*-===//
//
// The question that the fuse phase has about communication, asked of the cost
// model: what takes one collective of the graph, by its bytes; and how passes
// tell what they send in its place. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_COMMESTIMATE_H
#define FUSION_LIB_FUSE_COMMESTIMATE_H

#include "fusion/Analysis/CommModel.h"
#include "fusion/Analysis/FusionRules.h"

namespace fusion {

/// Collectives of one kind among one group of ranks.
class CollectiveCost {
public:
  /// Of `collective`, an all_reduce or reduce_scatter. Where its mesh is not
  /// found there is one rank. `model` must outlive this.
  CollectiveCost(mlir::Operation *collective, const CommModel &model);

  /// Microseconds for operands of so many bytes.
  double getUs(int64_t bytes) const {
    return model->predict(op, static_cast<double>(bytes), group).us;
  }

  /// Of large ones: what does not depend on the bytes, and the rest a byte.
  double latencyUs = 0, usPerByte = 0;
  /// Between one and the next behind it, at most; 0: as `latencyUs`.
  double queuedUs = 0;

private:
  const CommModel *model;
  CommOp op;
  CommGroup group;
};

/// Tells that `accepts` was done to `op` of `function`, or `refusal` if there
/// is one; with the microseconds of the new way and of sending the whole tensor
/// if both were predicted.
void tellSentInPlace(mlir::Operation *op, llvm::StringRef function,
                     FusionRule accepts, std::optional<FusionRule> refusal,
                     double us, double wholeUs);

} // namespace fusion

#endif // FUSION_LIB_FUSE_COMMESTIMATE_H
