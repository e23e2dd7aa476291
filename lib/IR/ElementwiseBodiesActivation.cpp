//===- ElementwiseBodiesActivation.cpp - Bodies of the activations --------===//
//
// The arithmetic of each op of ActivationOps.td. An activation made of several
// roundings around a transcendental computes f32 elements in f64 and rounds
// once, so that its error stays within the bound of a single function; f16 and
// bf16 elements have enough room in f32. For a GPU in fast arithmetic, where
// f64 is dear, f32 elements stay in f32 too, within the tolerance of formulas.
// The piecewise linear ones stay in the compute type: every target does the
// same two operations.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseBodies.h"

#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/MathPrecision.h"
#include "fusion/IR/Target.h"

using namespace mlir;
using namespace fusion;
using fusion::detail::BodyBuilder;

/// Whether a formula may keep to f32, and to the instructions of a GPU.
static bool isFastOnGpu(Operation *op) { return isForCuda(op) && isFast(op); }

/// Whether the op's formula is computed in f64 and rounded.
static bool isComputedWide(Operation *op) {
  return getElementTypeOrSelf(op->getOperand(0).getType()).isF32() &&
         !isFastOnGpu(op);
}

/// Runs `body` on x in f64 if the op is computed wide, else on x itself. The
/// functions in it need no more than f32 then.
template <typename Body>
static Value computeWide(Operation *op, BodyBuilder &b, Value x, Body body) {
  if (!isComputedWide(op))
    return body(x);
  Value wide = b.op<arith::ExtFOp>(b.like(x, b.builder.getF64Type()), x);
  Value result = b.op<arith::TruncFOp>(x.getType(), body(wide));
  for (Operation *step = wide.getDefiningOp(); step != result.getDefiningOp();
       step = step->getNextNode())
    if (isa<math::MathDialect>(step->getDialect()))
      step->setAttr(kRoundedToF32Attr, b.builder.getUnitAttr());
  return result;
}

/// 1 / (1 + e) or e / (1 + e) with e = exp(-|x|) <= 1: exact in both tails.
static Value sigmoid(BodyBuilder &b, Value x) {
  Value one = b.number(x, 1.0);
  Value negated = b.op<arith::NegFOp>(b.op<math::AbsFOp>(x));
  Value e = b.op<math::ExpOp>(negated);
  Value isNegative = b.compare(arith::CmpFPredicate::OLT, x, b.number(x, 0.0));
  Value numerator = b.select(isNegative, e, one);
  return b.op<arith::DivFOp>(numerator, b.op<arith::AddFOp>(one, e));
}

/// maximum(x, 0) + log1p(exp(-|x|)): exact in both tails, no overflow.
static Value softplus(BodyBuilder &b, Value x) {
  Value negated = b.op<arith::NegFOp>(b.op<math::AbsFOp>(x));
  Value tail = b.op<math::Log1pOp>(b.op<math::ExpOp>(negated));
  return b.op<arith::AddFOp>(b.op<arith::MaximumFOp>(x, b.number(x, 0.0)),
                             tail);
}

/// minimum(maximum(x, 0), 1): NaN stays NaN.
static Value clampToUnit(BodyBuilder &b, Value x) {
  Value low = b.op<arith::MaximumFOp>(x, b.number(x, 0.0));
  return b.op<arith::MinimumFOp>(low, b.number(x, 1.0));
}

Value ReluOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  if (BodyBuilder::isFloat(x))
    return b.op<arith::MaximumFOp>(x, b.number(x, 0.0));
  return b.op<arith::MaxSIOp>(x, b.integer(x, 0));
}

Value SigmoidOp::buildBody(OpBuilder &builder, Location loc,
                           ValueRange operands) {
  BodyBuilder b(builder, loc);
  return computeWide(*this, b, operands[0],
                     [&](Value x) { return sigmoid(b, x); });
}

Value SiluOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  return computeWide(*this, b, operands[0], [&](Value x) {
    return b.op<arith::MulFOp>(x, sigmoid(b, x));
  });
}

Value SoftplusOp::buildBody(OpBuilder &builder, Location loc,
                            ValueRange operands) {
  BodyBuilder b(builder, loc);
  return computeWide(*this, b, operands[0],
                     [&](Value x) { return softplus(b, x); });
}

Value MishOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  return computeWide(*this, b, operands[0], [&](Value x) {
    return b.op<arith::MulFOp>(x, b.op<math::TanhOp>(softplus(b, x)));
  });
}

Value HardSwishOp::buildBody(OpBuilder &builder, Location loc,
                             ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  Value line = b.op<arith::AddFOp>(b.op<arith::DivFOp>(x, b.number(x, 6.0)),
                                   b.number(x, 0.5));
  return b.op<arith::MulFOp>(x, clampToUnit(b, line));
}

Value HardSigmoidOp::buildBody(OpBuilder &builder, Location loc,
                               ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  Value scaled =
      b.op<arith::MulFOp>(b.number(x, getAlpha().convertToDouble()), x);
  Value line =
      b.op<arith::AddFOp>(scaled, b.number(x, getBeta().convertToDouble()));
  return clampToUnit(b, line);
}

Value LeakyReluOp::buildBody(OpBuilder &builder, Location loc,
                             ValueRange operands) {
  BodyBuilder b(builder, loc);
  Value x = operands[0];
  Value scaled =
      b.op<arith::MulFOp>(b.number(x, getAlpha().convertToDouble()), x);
  Value positive = b.compare(arith::CmpFPredicate::OGE, x, b.number(x, 0.0));
  return b.select(positive, x, scaled);
}

Value EluOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  double alpha = getAlpha().convertToDouble();
  // Rounded to the compute type before it is widened again.
  if (getElementTypeOrSelf(getInput().getType()).isF32())
    alpha = static_cast<float>(alpha);
  return computeWide(*this, b, operands[0], [&](Value x) {
    Value curve =
        b.op<arith::MulFOp>(b.number(x, alpha), b.op<math::ExpM1Op>(x));
    Value positive = b.compare(arith::CmpFPredicate::OGT, x, b.number(x, 0.0));
    return b.select(positive, x, curve);
  });
}

Value GeluOp::buildBody(OpBuilder &builder, Location loc, ValueRange operands) {
  BodyBuilder b(builder, loc);
  bool isWide = isComputedWide(*this);
  return computeWide(*this, b, operands[0], [&](Value x) {
    Value inner;
    if (getKind() == GeluKind::Erf && isWide) {
      // 1 + erf(z) = erfc(-z), which has no cancellation in the left tail.
      Value tail = b.op<math::ErfcOp>(
          b.op<arith::MulFOp>(x, b.number(x, -0.70710678118654752440)));
      Value half = b.op<arith::MulFOp>(x, b.number(x, 0.5));
      return b.op<arith::MulFOp>(half, tail);
    }
    if (getKind() == GeluKind::Erf) {
      // sqrt(1/2)
      inner = b.op<math::ErfOp>(
          b.op<arith::MulFOp>(x, b.number(x, 0.70710678118654752440)));
    } else {
      Value square = b.op<arith::MulFOp>(x, x);
      Value cubic = b.op<arith::MulFOp>(b.number(x, 0.044715),
                                        b.op<arith::MulFOp>(square, x));
      // sqrt(2/pi)
      Value argument = b.op<arith::MulFOp>(b.number(x, 0.79788456080286535588),
                                           b.op<arith::AddFOp>(x, cubic));
      // (1 + tanh(z)) / 2 is the sigmoid of 2 z, which is cheaper.
      if (isFastOnGpu(*this))
        return b.op<arith::MulFOp>(
            x, sigmoid(b, b.op<arith::AddFOp>(argument, argument)));
      inner = b.op<math::TanhOp>(argument);
    }
    Value sum = b.op<arith::AddFOp>(b.number(x, 1.0), inner);
    Value product = b.op<arith::MulFOp>(x, sum);
    return b.op<arith::MulFOp>(product, b.number(x, 0.5));
  });
}
