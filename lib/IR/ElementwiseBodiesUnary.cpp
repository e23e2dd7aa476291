//===- ElementwiseBodiesUnary.cpp - Bodies of the unary ops ---------------===//
//
// The arithmetic of each op of UnaryOps.td on scalars or vectors.
// Transcendentals become math ops; how they are computed is the target's
// choice.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseBodies.h"

#include "fusion/IR/FusionDialect.h"

#include <limits>

using namespace mlir;
using namespace fusion;
using fusion::detail::BodyBuilder;

Value NegOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  if (BodyBuilder::isFloat(x))
    return b.op<arith::NegFOp>(x);
  return b.op<arith::SubIOp>(b.integer(x, 0), x);
}

Value AbsOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  if (BodyBuilder::isFloat(x))
    return b.op<math::AbsFOp>(x);
  // The least integer has no positive twin: it wraps to itself.
  Value zero = b.integer(x, 0);
  Value negated = b.op<arith::SubIOp>(zero, x);
  return b.select(b.compare(arith::CmpIPredicate::slt, x, zero), negated, x);
}

Value SignOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  Value zero = b.zero(x);
  if (BodyBuilder::isFloat(x)) {
    // Neither above nor below zero: a zero (keeps its sign) or NaN.
    Value below = b.compare(arith::CmpFPredicate::OLT, x, zero);
    Value above = b.compare(arith::CmpFPredicate::OGT, x, zero);
    return b.select(above, b.number(x, 1.0),
                    b.select(below, b.number(x, -1.0), x));
  }
  Value below = b.compare(arith::CmpIPredicate::slt, x, zero);
  Value above = b.compare(arith::CmpIPredicate::sgt, x, zero);
  return b.select(above, b.integer(x, 1),
                  b.select(below, b.integer(x, -1), zero));
}

Value RsqrtOp::buildBody(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value root = b.op<math::SqrtOp>(operands[0]);
  return b.op<arith::DivFOp>(b.number(root, 1.0), root);
}

Value ReciprocalOp::buildBody(OpBuilder &builder, Location loc,
                              ValueRange operands) {
  BodyBuilder b(builder, loc);
  return b.op<arith::DivFOp>(b.number(operands[0], 1.0), operands[0]);
}

Value NotOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  return b.op<arith::XOrIOp>(operands[0], b.integer(operands[0], -1));
}

Value IsNanOp::buildBody(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  BodyBuilder b(builder, loc);
  return b.compare(arith::CmpFPredicate::UNO, operands[0], operands[0]);
}

Value IsInfOp::buildBody(OpBuilder &builder, Location loc,
                         ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value magnitude = b.op<math::AbsFOp>(operands[0]);
  Value infinity = b.number(magnitude, std::numeric_limits<double>::infinity());
  return b.compare(arith::CmpFPredicate::OEQ, magnitude, infinity);
}

/// Ops that are one math op.
#define FUSION_MATH_BODY(OP, MATH)                                             \
  Value OP::buildBody(OpBuilder &builder, Location loc, ValueRange operands) { \
    return MATH::create(builder, loc, operands[0]).getResult();                \
  }
FUSION_MATH_BODY(CeilOp, math::CeilOp)
FUSION_MATH_BODY(FloorOp, math::FloorOp)
FUSION_MATH_BODY(RoundOp, math::RoundEvenOp)
FUSION_MATH_BODY(SqrtOp, math::SqrtOp)
FUSION_MATH_BODY(ExpOp, math::ExpOp)
FUSION_MATH_BODY(Exp2Op, math::Exp2Op)
FUSION_MATH_BODY(Expm1Op, math::ExpM1Op)
FUSION_MATH_BODY(LogOp, math::LogOp)
FUSION_MATH_BODY(Log2Op, math::Log2Op)
FUSION_MATH_BODY(Log1pOp, math::Log1pOp)
FUSION_MATH_BODY(SinOp, math::SinOp)
FUSION_MATH_BODY(CosOp, math::CosOp)
FUSION_MATH_BODY(TanOp, math::TanOp)
FUSION_MATH_BODY(AsinOp, math::AsinOp)
FUSION_MATH_BODY(AcosOp, math::AcosOp)
FUSION_MATH_BODY(AtanOp, math::AtanOp)
FUSION_MATH_BODY(SinhOp, math::SinhOp)
FUSION_MATH_BODY(CoshOp, math::CoshOp)
FUSION_MATH_BODY(AsinhOp, math::AsinhOp)
FUSION_MATH_BODY(AcoshOp, math::AcoshOp)
FUSION_MATH_BODY(AtanhOp, math::AtanhOp)
FUSION_MATH_BODY(TanhOp, math::TanhOp)
FUSION_MATH_BODY(ErfOp, math::ErfOp)
#undef FUSION_MATH_BODY
