//===- Scalars.h - Arithmetic on one element --------------------*- C++ -*-===//
//
// The few scalar functions that several families of ops share. Integers wrap
// modulo 2^64 here; the tensor's setters wrap them to their width.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_SCALARS_H
#define FUSION_LIB_REFERENCE_SCALARS_H

#include "fusion/Reference/Tensor.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fusion::reference {

/// IEEE 754-2019 maximum: NaN if either is NaN, +0 above -0.
inline double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

/// IEEE 754-2019 minimum: NaN if either is NaN, -0 below +0.
inline double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

inline int64_t maximum(int64_t a, int64_t b) { return std::max(a, b); }
inline int64_t minimum(int64_t a, int64_t b) { return std::min(a, b); }

inline int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}
inline int64_t wrapSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) -
                              static_cast<uint64_t>(b));
}
inline int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

/// A number that is written on an op whose tensors are of `kind`, rounded to
/// the type that the op computes in: it is a constant of that type, which 1e39
/// or 1e-46 leaves.
inline double roundNumber(const llvm::APFloat &number, ElementKind kind) {
  double value = number.convertToDouble();
  return kind == ElementKind::F64 ? value : static_cast<float>(value);
}

/// 1 / (1 + exp(-x)).
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// ln(1 + exp(x)) without overflow.
inline double softplus(double x) {
  return maximum(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_SCALARS_H
