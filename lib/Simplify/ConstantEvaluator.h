//===- ConstantEvaluator.h - Values of ops on known operands ----*- C++ -*-===//
//
// The semantics of the dialect on constants. Exactly rounded ops give the bits
// that generated code gives; transcendental ones and sums of floats are
// computed in f64 and rounded once. Element counts are bounded by the caller.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SIMPLIFY_CONSTANTEVALUATOR_H
#define FUSION_LIB_SIMPLIFY_CONSTANTEVALUATOR_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/TensorData.h"

#include <optional>

namespace fusion {

/// What evaluating an op would mean.
struct EvaluationPlan {
  /// The result has the bits that every target computes.
  bool isExact = true;
  /// Steps that it takes, in elements read or multiplied.
  int64_t work = 0;
  /// The result is known to be a splat.
  bool resultIsSplat = false;
};

/// Plans the evaluation of `op` on `operands`, or nullopt if the op is none
/// that can be evaluated, its result has a `?`, or a size overflows.
std::optional<EvaluationPlan>
planEvaluation(mlir::Operation *op, llvm::ArrayRef<TensorData> operands);

/// Evaluates what planEvaluation accepted.
TensorData evaluate(mlir::Operation *op, llvm::ArrayRef<TensorData> operands);

namespace detail {

/// Whether an elementwise op can be evaluated; sets `isExact`.
bool isEvaluableElementwise(mlir::Operation *op, bool &isExact);
/// Evaluates an elementwise op; `isSplat` computes one element.
TensorData evaluateElementwise(mlir::Operation *op,
                               llvm::ArrayRef<TensorData> operands,
                               bool isSplat);
/// Evaluates an op that moves elements (or makes an iota).
TensorData evaluateMove(mlir::Operation *op,
                        llvm::ArrayRef<TensorData> operands);
/// Evaluates a reduce or a matmul.
TensorData evaluateContraction(mlir::Operation *op,
                               llvm::ArrayRef<TensorData> operands);

} // namespace detail
} // namespace fusion

#endif // FUSION_LIB_SIMPLIFY_CONSTANTEVALUATOR_H
