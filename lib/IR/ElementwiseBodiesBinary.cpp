//===- ElementwiseBodiesBinary.cpp - Bodies of the binary ops -------------===//
//
// The arithmetic of each op of BinaryOps.td on scalars or vectors. What the
// machine leaves undefined (division by zero, shifts out of range) is defined
// here by choosing operands that are safe and results that the op promises.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseBodies.h"

#include "fusion/IR/FusionDialect.h"

using namespace mlir;
using namespace fusion;
using fusion::detail::BodyBuilder;

/// A float op for floats, an integer op for integers.
template <typename FloatOp, typename IntOp>
static Value buildByType(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  BodyBuilder b(builder, loc);
  if (BodyBuilder::isFloat(operands[0]))
    return b.op<FloatOp>(operands[0], operands[1]);
  return b.op<IntOp>(operands[0], operands[1]);
}

Value AddOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return buildByType<arith::AddFOp, arith::AddIOp>(builder, loc, operands);
}

Value SubOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return buildByType<arith::SubFOp, arith::SubIOp>(builder, loc, operands);
}

Value MulOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return buildByType<arith::MulFOp, arith::MulIOp>(builder, loc, operands);
}

Value MaxOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return buildByType<arith::MaximumFOp, arith::MaxSIOp>(builder, loc, operands);
}

Value MinOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return buildByType<arith::MinimumFOp, arith::MinSIOp>(builder, loc, operands);
}

Value DivOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value lhs = operands[0], rhs = operands[1];
  if (BodyBuilder::isFloat(lhs))
    return b.op<arith::DivFOp>(lhs, rhs);
  // -1 is a divisor of its own: the least integer / -1 traps on x86.
  Value zero = b.integer(rhs, 0), minusOne = b.integer(rhs, -1);
  Value byZero = b.compare(arith::CmpIPredicate::eq, rhs, zero);
  Value byMinusOne = b.compare(arith::CmpIPredicate::eq, rhs, minusOne);
  Value special = b.op<arith::OrIOp>(byZero, byMinusOne);
  Value quotient =
      b.op<arith::DivSIOp>(lhs, b.select(special, b.integer(rhs, 1), rhs));
  Value negated = b.op<arith::SubIOp>(zero, lhs);
  return b.select(byZero, minusOne, b.select(byMinusOne, negated, quotient));
}

Value RemOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value lhs = operands[0], rhs = operands[1];
  if (BodyBuilder::isFloat(lhs))
    return b.op<arith::RemFOp>(lhs, rhs);
  Value byZero = b.compare(arith::CmpIPredicate::eq, rhs, b.integer(rhs, 0));
  Value byMinusOne =
      b.compare(arith::CmpIPredicate::eq, rhs, b.integer(rhs, -1));
  Value special = b.op<arith::OrIOp>(byZero, byMinusOne);
  Value remainder =
      b.op<arith::RemSIOp>(lhs, b.select(special, b.integer(rhs, 1), rhs));
  return b.select(byZero, lhs, remainder);
}

Value PowOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return math::PowFOp::create(builder, loc, operands[0], operands[1])
      .getResult();
}

Value Atan2Op::buildBody(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  return math::Atan2Op::create(builder, loc, operands[0], operands[1])
      .getResult();
}

Value AndOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return arith::AndIOp::create(builder, loc, operands[0], operands[1])
      .getResult();
}

Value OrOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return arith::OrIOp::create(builder, loc, operands[0], operands[1])
      .getResult();
}

Value XorOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  return arith::XOrIOp::create(builder, loc, operands[0], operands[1])
      .getResult();
}

/// A shift whose amount outside [0, width) gives 0.
template <typename ShiftOp>
static Value buildShift(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value value = operands[0], amount = operands[1];
  unsigned width =
      getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  // Unsigned: a negative amount is a large one.
  Value inside =
      b.compare(arith::CmpIPredicate::ult, amount, b.integer(amount, width));
  Value zero = b.integer(amount, 0);
  Value shifted = b.op<ShiftOp>(value, b.select(inside, amount, zero));
  return b.select(inside, shifted, zero);
}

Value ShiftLeftOp::buildBody(OpBuilder &builder, Location loc,
                             ValueRange operands) {
  return buildShift<arith::ShLIOp>(builder, loc, operands);
}

Value ShiftRightOp::buildBody(OpBuilder &builder, Location loc,
                              ValueRange operands) {
  return buildShift<arith::ShRUIOp>(builder, loc, operands);
}
