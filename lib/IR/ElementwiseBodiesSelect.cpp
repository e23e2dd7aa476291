//===- ElementwiseBodiesSelect.cpp - Compare, select, clamp, cast ---------===//
//
// The arithmetic of the elementwise ops of SelectOps.td. A cast to f16 or bf16
// hands an f32 to its caller, which rounds it: to round only once, a wider
// source is brought to f32 by rounding to odd, which keeps the last bit sticky
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
//
//===----------------------------------------------------------------------===//
#include "ElementwiseBodies.h"

#include "fusion/IR/FusionDialect.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using fusion::detail::BodyBuilder;

Value CompareOp::buildBody(OpBuilder &builder, Location loc,
                           ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value lhs = operands[0], rhs = operands[1];
  if (BodyBuilder::isFloat(lhs)) {
    static constexpr arith::CmpFPredicate predicates[] = {
        arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE,
        arith::CmpFPredicate::OLT, arith::CmpFPredicate::OLE,
        arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return b.compare(predicates[static_cast<unsigned>(getKind())], lhs, rhs);
  }
  // As a signed number an i1's true is -1; unsigned it is above false.
  static constexpr arith::CmpIPredicate signedPredicates[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
      arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
      arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  static constexpr arith::CmpIPredicate boolPredicates[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
      arith::CmpIPredicate::ult, arith::CmpIPredicate::ule,
      arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  bool isBool = getElementTypeOrSelf(lhs.getType()).isInteger(1);
  const auto &predicates = isBool ? boolPredicates : signedPredicates;
  return b.compare(predicates[static_cast<unsigned>(getKind())], lhs, rhs);
}

Value SelectOp::buildBody(OpBuilder &builder, Location loc,
                          ValueRange operands) {
  BodyBuilder b(builder, loc);
  return b.select(operands[0], operands[1], operands[2]);
}

Value ClampOp::buildBody(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  BodyBuilder b(builder, loc);
  if (BodyBuilder::isFloat(operands[0])) {
    Value raised = b.op<arith::MaximumFOp>(operands[0], operands[1]);
    return b.op<arith::MinimumFOp>(raised, operands[2]);
  }
  Value raised = b.op<arith::MaxSIOp>(operands[0], operands[1]);
  return b.op<arith::MinSIOp>(raised, operands[2]);
}

/// f64 to f32, toward zero with the last bit set when inexact.
static Value roundToOdd(BodyBuilder &b, Value x) {
  Type f32 = b.like(x, b.builder.getF32Type());
  Type i32 = b.like(x, b.builder.getI32Type());
  Value nearest = b.op<arith::TruncFOp>(f32, x);
  Value back = b.op<arith::ExtFOp>(x.getType(), nearest);
  Value bits = b.op<arith::BitcastOp>(i32, nearest);
  Value one = b.integer(bits, 1);
  // Sign and magnitude: one less is one step toward zero.
  Value tooFar = b.compare(arith::CmpFPredicate::OGT, b.op<math::AbsFOp>(back),
                           b.op<math::AbsFOp>(x));
  Value truncated = b.select(tooFar, b.op<arith::SubIOp>(bits, one), bits);
  // Ordered: a NaN compares equal to nothing and must keep its bits.
  Value inexact = b.compare(arith::CmpFPredicate::ONE, back, x);
  Value odd = b.select(inexact, b.op<arith::OrIOp>(truncated, one), truncated);
  return b.op<arith::BitcastOp>(f32, odd);
}

/// i64 to an integer that f64 holds exactly and that rounds to 11 bits or fewer
/// as the original does: beyond 2^52 the low 12 bits become one sticky bit.
static Value makeSticky(BodyBuilder &b, Value x) {
  Value lowMask = b.integer(x, 0xfff);
  Value low = b.op<arith::AndIOp>(x, lowMask);
  Value high = b.op<arith::AndIOp>(x, b.integer(x, ~int64_t(0xfff)));
  Value isSticky = b.compare(arith::CmpIPredicate::ne, low, b.integer(x, 0));
  Value sticky = b.select(isSticky, b.integer(x, 0x800), b.integer(x, 0));
  Value reduced = b.op<arith::OrIOp>(high, sticky);
  Value shifted = b.op<arith::AddIOp>(x, b.integer(x, int64_t(1) << 52));
  Value isSmall = b.compare(arith::CmpIPredicate::ult, shifted,
                            b.integer(x, int64_t(1) << 53));
  return b.select(isSmall, x, reduced);
}

/// Truncates toward zero, saturates, NaN to 0.
static Value floatToInt(BodyBuilder &b, Value x, Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  Value result = b.op<arith::FPToSIOp>(b.like(x, element), x);
  double limit = std::ldexp(1.0, static_cast<int>(width) - 1);
  Value above = b.compare(arith::CmpFPredicate::OGE, x, b.number(x, limit));
  Value below = b.compare(arith::CmpFPredicate::OLT, x, b.number(x, -limit));
  Value isNan = b.compare(arith::CmpFPredicate::UNO, x, x);
  int64_t least = static_cast<int64_t>(~uint64_t(0) << (width - 1));
  // Out of range the conversion is poison, which a select does not pass on.
  result = b.select(above, b.integer(result, ~least), result);
  result = b.select(below, b.integer(result, least), result);
  return b.select(isNan, b.integer(result, 0), result);
}

static Value floatToFloat(BodyBuilder &b, Value x, Type element) {
  bool isWide = getElementTypeOrSelf(x.getType()).isF64();
  if (element.isF64())
    return isWide ? x
                  : b.op<arith::ExtFOp>(b.like(x, b.builder.getF64Type()), x);
  if (!isWide)
    return x;
  if (element.isF32())
    return b.op<arith::TruncFOp>(b.like(x, element), x);
  return roundToOdd(b, x);
}

static Value intToFloat(BodyBuilder &b, Value x, Type element) {
  unsigned width = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  Type f32 = b.like(x, b.builder.getF32Type());
  Type f64 = b.like(x, b.builder.getF64Type());
  if (element.isF64() || element.isF32())
    return b.op<arith::SIToFPOp>(b.like(x, element), x);
  if (width <= 16)
    return b.op<arith::SIToFPOp>(f32, x);
  if (width == 64)
    x = makeSticky(b, x);
  return roundToOdd(b, b.op<arith::SIToFPOp>(f64, x));
}

Value CastOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  Type from = getElementTypeOrSelf(getInput().getType());
  Type to = getElementTypeOrSelf(getResult().getType());
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return floatToFloat(b, x, to);
  if (from == to)
    return x;
  if (to.isInteger(1)) {
    if (isa<FloatType>(from))
      return b.compare(arith::CmpFPredicate::UNE, x, b.zero(x));
    return b.compare(arith::CmpIPredicate::ne, x, b.zero(x));
  }
  if (from.isInteger(1)) {
    if (isa<FloatType>(to))
      return b.op<arith::UIToFPOp>(b.like(x, fusion::getComputeType(to)), x);
    return b.op<arith::ExtUIOp>(b.like(x, to), x);
  }
  if (isa<FloatType>(from))
    return floatToInt(b, x, to);
  if (isa<FloatType>(to))
    return intToFloat(b, x, to);
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return b.op<arith::TruncIOp>(b.like(x, to), x);
  return b.op<arith::ExtSIOp>(b.like(x, to), x);
}
