//===- MathPrecision.h - How good a math op must be -------------*- C++ -*-===//
//
// What an elementwise body says to code generation about an op of the math
// dialect that computes in f64 only to be rounded to f32.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_MATHPRECISION_H
#define FUSION_IR_MATHPRECISION_H

#include "llvm/ADT/StringRef.h"

namespace fusion {

/// A unit attribute of a math op of f64: its operand comes from f32, what is
/// made of its result is rounded to f32, and a relative error of 2^-30 is good
/// enough. The range stays that of f64: a small result may meet a large factor.
inline constexpr llvm::StringLiteral kRoundedToF32Attr =
    "fusion.rounded_to_f32";

} // namespace fusion

#endif // FUSION_IR_MATHPRECISION_H
