//===- Compare.h - Are two tensors equal, and how nearly --------*- C++ -*-===//
//
// Comparison of a result with the evaluator's. All elements are looked at;
// shape and type must agree; NaNs must stand at the same positions and
// infinities have the same sign. What remains is judged by a criterion: equal
// bits, a distance in units in the last place, a relative and absolute
// tolerance, or a bound for each element that cannot be exceeded by a correct
// implementation.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_COMPARE_H
#define FUSION_REFERENCE_COMPARE_H

#include "fusion/Reference/Tensor.h"

#include "mlir/IR/Operation.h"

#include <string>
#include <vector>

namespace fusion::reference {

/// How near is near enough.
struct Criterion {
  enum class Mode { Bits, Ulps, Relative, Bound };
  Mode mode = Mode::Bits;
  double ulps = 0;           ///< Ulps: largest distance
  double rtol = 0, atol = 0; ///< Relative: |got - want| <= atol + rtol * |want|
  std::vector<double> bounds; ///< Bound: largest |got - want| of each element

  /// Every bit, the sign of zero included; any NaN equals any NaN.
  static Criterion makeBits() { return {}; }
  static Criterion makeUlps(double ulps);
  static Criterion makeRelative(double rtol, double atol);
  static Criterion makeBound(std::vector<double> bounds);
};

struct Comparison {
  bool passed = false;
  int64_t mismatches = 0; ///< elements outside the criterion
  int64_t firstIndex = -1;
  double maxAbsolute = 0, maxRelative = 0, maxUlps = 0; ///< over finite pairs
  std::string message; ///< one paragraph for people; empty when passed
};

Comparison compare(const Tensor &got, const Tensor &want,
                   const Criterion &criterion);

/// Units in the last place of `kind` between two values of it; infinite if one
/// is NaN and the other is not. The two zeros are 0 apart.
double ulpDistance(double a, double b, ElementKind kind);

/// Unit roundoff of a float type: 2^-precision.
double getUnitRoundoff(ElementKind kind);

/// Hard bound of a sum of `terms` products in an accumulator of kind
/// `accumulator`, rounded to the kind of `want`:
/// `(terms + 4) * u_acc * magnitudes[i] + u_out * |want[i]|`, plus half the
/// least subnormal. `magnitudes` are the sums of the products' absolute values.
Criterion makeContractionBound(int64_t terms, ElementKind accumulator,
                               const Tensor &magnitudes, const Tensor &want);

/// Families of ops by how well a correct implementation must agree.
enum class AccuracyClass {
  Exact,          ///< moves, compares, selects, casts: every bit
  Rounded,        ///< + - * / sqrt: correctly rounded, every bit
  Transcendental, ///< exp, log, activations: ULPs
  Contraction,    ///< sums of products: the hard bound
  Composite       ///< norms, softmax, attention: relative and absolute
};

/// Class of an op of the dialect. Fails with `Program` for an op that computes
/// nothing.
llvm::Expected<AccuracyClass> getAccuracyClass(mlir::Operation *op);

/// The tolerance of one op on its own, given the inputs and the result of the
/// evaluator: what docs/tolerances.md tabulates. Ops on integers compare bits.
llvm::Expected<Criterion> getCriterion(mlir::Operation *op,
                                       llvm::ArrayRef<Tensor> inputs,
                                       const Tensor &want);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_COMPARE_H
