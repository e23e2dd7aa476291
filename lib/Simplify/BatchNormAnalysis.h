//===- BatchNormAnalysis.h - Which BatchNorms can be folded -----*- C++ -*-===//
//
// For one BatchNorm: the op it can be folded into with the folded weights and
// bias, or the reason why it can't. Looks only; FoldBatchNorm.cpp rewrites.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SIMPLIFY_BATCHNORMANALYSIS_H
#define FUSION_LIB_SIMPLIFY_BATCHNORMANALYSIS_H

#include "fusion/IR/Parameters.h"

#include <string>

namespace fusion {

/// A BatchNorm with what becomes of it.
struct BatchNormFold {
  BatchNormOp norm;
  /// The conv, conv_transpose or matmul, or null.
  mlir::Operation *producer = nullptr;
  /// Adds of a constant bias between the producer and the norm, and values of
  /// the path in order: producer's result first.
  llvm::SmallVector<AddOp, 1> adds;
  /// Weights times scale, rounded once to the producer's element type.
  TensorData weights;
  /// One element for each channel, same element type.
  TensorData bias;
  /// For a matmul whose result has a `?`: that it is `batchScale * B`.
  int64_t batchScale = 1;
  /// The producer stays for its other users and is repeated.
  bool clone = false;
  int64_t flopsPerElement = 0;
  /// Why not; empty if the fold is legal.
  std::string refusal;

  explicit operator bool() const { return refusal.empty(); }
  void print(llvm::raw_ostream &os) const;
};

/// Decides about one BatchNorm. Reads constants through `reader`; a producer
/// with other users is repeated if that costs at most `cloneFlopsPerElement`.
BatchNormFold analyzeBatchNorm(BatchNormOp norm, ConstantReader &reader,
                               int64_t cloneFlopsPerElement);

} // namespace fusion

#endif // FUSION_LIB_SIMPLIFY_BATCHNORMANALYSIS_H
