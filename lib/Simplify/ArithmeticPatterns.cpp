//===- ArithmeticPatterns.cpp - Exact rewrites of arithmetic --------------===//
//
// Every rewrite gives the same bits for every input, NaN payloads aside:
// infinities, NaNs and signed zeros included. What does not (x + 0.0 for -0,
// x * 0, log2 of exp2) is not here.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The one element that every element of `value` equals, also behind
/// broadcasts and reshapes; null if there is none.
static Attribute getSplat(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      return splat && splat.getNumElements() > 0
                 ? splat.getSplatValue<Attribute>()
                 : Attribute();
    }
    if (!isa<BroadcastOp, ReshapeOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return {};
}

static bool isFloatSplat(Value value,
                         llvm::function_ref<bool(const APFloat &)> test) {
  auto element = dyn_cast_or_null<FloatAttr>(getSplat(value));
  return element && test(element.getValue());
}

static bool isIntSplat(Value value,
                       llvm::function_ref<bool(const APInt &)> test) {
  auto element = dyn_cast_or_null<IntegerAttr>(getSplat(value));
  return element && test(element.getValue());
}

static bool isOne(Value value) {
  return isFloatSplat(value,
                      [](const APFloat &f) { return f.isExactlyValue(1.0); }) ||
         isIntSplat(value, [](const APInt &i) { return i.isOne(); });
}
static bool isIntZero(Value value) {
  return isIntSplat(value, [](const APInt &i) { return i.isZero(); });
}
static bool isIntAllOnes(Value value) {
  return isIntSplat(value, [](const APInt &i) { return i.isAllOnes(); });
}
static bool isPlusZero(Value value) {
  return isFloatSplat(value, [](const APFloat &f) { return f.isPosZero(); });
}
static bool isMinusZero(Value value) {
  return isFloatSplat(value, [](const APFloat &f) { return f.isNegZero(); });
}
/// No number of the type is larger (smaller): a bound that never acts.
static bool isTop(Value value) {
  return isFloatSplat(value,
                      [](const APFloat &f) {
                        return f.isInfinity() && !f.isNegative();
                      }) ||
         isIntSplat(value, [](const APInt &i) { return i.isMaxSignedValue(); });
}
static bool isBottom(Value value) {
  return isFloatSplat(value,
                      [](const APFloat &f) {
                        return f.isInfinity() && f.isNegative();
                      }) ||
         isIntSplat(value, [](const APInt &i) { return i.isMinSignedValue(); });
}

/// Whether a splat `a` is at most a splat `b`; false if either is no number.
static bool isAtMost(Value a, Value b) {
  Attribute x = getSplat(a), y = getSplat(b);
  if (auto f = dyn_cast_or_null<FloatAttr>(x)) {
    auto g = dyn_cast_or_null<FloatAttr>(y);
    if (!g)
      return false;
    APFloat::cmpResult order = f.getValue().compare(g.getValue());
    return order == APFloat::cmpLessThan || order == APFloat::cmpEqual;
  }
  auto i = dyn_cast_or_null<IntegerAttr>(x);
  auto j = dyn_cast_or_null<IntegerAttr>(y);
  return i && j && i.getValue().sle(j.getValue());
}

namespace {

//===----------------------------------------------------------------------===//
// Identities
//===----------------------------------------------------------------------===//

/// An op of two operands that gives one of them back.
template <typename OpT> struct DropIdentity : OpRewritePattern<OpT> {
  using Test = bool (*)(Value);
  DropIdentity(MLIRContext *context, Test isNeutral, bool onBothSides)
      : OpRewritePattern<OpT>(context), isNeutral(isNeutral),
        onBothSides(onBothSides) {}

  LogicalResult matchAndRewrite(OpT op,
                                PatternRewriter &rewriter) const override {
    if (isNeutral(op.getRhs())) {
      rewriter.replaceOp(op, op.getLhs());
      return success();
    }
    if (!onBothSides || !isNeutral(op.getLhs()))
      return failure();
    rewriter.replaceOp(op, op.getRhs());
    return success();
  }
  Test isNeutral;
  bool onBothSides;
};

/// f(f(x)) = x, for negation and complement.
template <typename OpT> struct DropInvolution : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().template getDefiningOp<OpT>();
    if (!inner)
      return failure();
    rewriter.replaceOp(op, inner.getInput());
    return success();
  }
};

/// f(f(x)) = f(x), for ops that change nothing of what they made.
template <typename OpT> struct DropRepeated : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op,
                                PatternRewriter &rewriter) const override {
    if (!op.getInput().template getDefiningOp<OpT>())
      return failure();
    rewriter.replaceOp(op, op.getInput());
    return success();
  }
};

/// max, min, and, or of a value with itself.
template <typename OpT> struct DropSelf : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op,
                                PatternRewriter &rewriter) const override {
    if (op.getLhs() != op.getRhs())
      return failure();
    rewriter.replaceOp(op, op.getLhs());
    return success();
  }
};

struct SimplifySelect : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getOnTrue() == op.getOnFalse()) {
      rewriter.replaceOp(op, op.getOnTrue());
      return success();
    }
    auto condition = dyn_cast_or_null<IntegerAttr>(getSplat(op.getCondition()));
    if (!condition)
      return failure();
    rewriter.replaceOp(op, condition.getValue().isZero() ? op.getOnFalse()
                                                         : op.getOnTrue());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// x / c = x * (1 / c) when c is a power of two and 1 / c a normal number: both
/// round the same real number once.
struct DivideByPowerOfTwo : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    auto divisor = op.getRhs().getDefiningOp<ConstantOp>();
    Value source = op.getRhs();
    // A splat behind a broadcast with a batch: rebuild the broadcast.
    auto broadcast = source.getDefiningOp<BroadcastOp>();
    if (broadcast)
      divisor = broadcast.getInput().getDefiningOp<ConstantOp>();
    if (!divisor)
      return failure();
    auto elements = dyn_cast<DenseElementsAttr>(divisor.getValue());
    if (!elements || !isa<FloatType>(elements.getElementType()) ||
        elements.getNumElements() == 0)
      return failure();
    SmallVector<APFloat> inverses;
    auto invert = [&](const APFloat &value) {
      APFloat inverse = value;
      if (!value.getExactInverse(&inverse))
        return failure();
      inverses.push_back(inverse);
      return success();
    };
    if (elements.isSplat()) {
      if (failed(invert(elements.getSplatValue<APFloat>())))
        return failure();
    } else {
      for (const APFloat &value : elements.getValues<APFloat>())
        if (failed(invert(value)))
          return failure();
    }
    Value inverse = ConstantOp::create(
        rewriter, op.getLoc(), divisor.getType(),
        DenseElementsAttr::get(cast<ShapedType>(divisor.getType()), inverses));
    if (broadcast)
      inverse = BroadcastOp::create(rewriter, op.getLoc(), broadcast.getType(),
                                    inverse, broadcast.getDimsAttr(),
                                    broadcast.getBatchScaleAttr());
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), op.getLhs(), inverse);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// max(x, +0) is relu(x), by the definition of relu.
struct MaxZeroToRelu : OpRewritePattern<MaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MaxOp op,
                                PatternRewriter &rewriter) const override {
    auto isZero = [](Value v) { return isPlusZero(v) || isIntZero(v); };
    Value input = isZero(op.getRhs())   ? op.getLhs()
                  : isZero(op.getLhs()) ? op.getRhs()
                                        : Value();
    if (!input)
      return failure();
    rewriter.replaceOpWithNewOp<ReluOp>(op, op.getType(), input);
    return success();
  }
};

/// A clamp with a bound that never acts.
struct DropClampBound : OpRewritePattern<ClampOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ClampOp op,
                                PatternRewriter &rewriter) const override {
    bool noLow = isBottom(op.getLow()), noHigh = isTop(op.getHigh());
    if (noLow && noHigh)
      rewriter.replaceOp(op, op.getInput());
    else if (noLow)
      rewriter.replaceOpWithNewOp<MinOp>(op, op.getType(), op.getInput(),
                                         op.getHigh());
    else if (noHigh)
      rewriter.replaceOpWithNewOp<MaxOp>(op, op.getType(), op.getInput(),
                                         op.getLow());
    else
      return failure();
    return success();
  }
};

/// clamp(relu(x), +0, h) = clamp(x, +0, h), and one clamp inside another whose
/// range lies within.
struct MergeClamps : OpRewritePattern<ClampOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ClampOp op,
                                PatternRewriter &rewriter) const override {
    bool fromZero = isPlusZero(op.getLow()) || isIntZero(op.getLow());
    if (auto relu = op.getInput().getDefiningOp<ReluOp>(); relu && fromZero) {
      rewriter.modifyOpInPlace(
          op, [&] { op.getInputMutable().assign(relu.getInput()); });
      return success();
    }
    auto inner = op.getInput().getDefiningOp<ClampOp>();
    if (!inner)
      return failure();
    // Signed zeros at a bound make equal ranges differ: only strict nesting, or
    // the very same bounds.
    bool isSame = inner.getLow() == op.getLow() &&
                  inner.getHigh() == op.getHigh() &&
                  isAtMost(op.getLow(), op.getHigh());
    bool isInside = isAtMost(op.getLow(), inner.getLow()) &&
                    !isAtMost(inner.getLow(), op.getLow()) &&
                    isAtMost(inner.getLow(), inner.getHigh()) &&
                    isAtMost(inner.getHigh(), op.getHigh()) &&
                    !isAtMost(op.getHigh(), inner.getHigh());
    if (!isSame && !isInside)
      return failure();
    rewriter.replaceOp(op, inner.getResult());
    return success();
  }
};

/// relu(clamp(x, l, h)) = clamp(x, l, h) for 0 < l <= h or l = +0 <= h.
struct DropReluOfClamp : OpRewritePattern<ReluOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReluOp op,
                                PatternRewriter &rewriter) const override {
    auto clamp = op.getInput().getDefiningOp<ClampOp>();
    if (!clamp)
      return failure();
    auto isPositive = [](Value value) {
      return isFloatSplat(value,
                          [](const APFloat &f) {
                            return !f.isNaN() && !f.isNegative();
                          }) ||
             isIntSplat(value,
                        [](const APInt &i) { return i.isNonNegative(); });
    };
    if (!isPositive(clamp.getLow()) || !isPositive(clamp.getHigh()))
      return failure();
    rewriter.replaceOp(op, clamp.getResult());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Whether each value of `from` is one of `to`, so that a cast loses nothing.
static bool isLossless(Type from, Type to) {
  if (from == to)
    return true;
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  if (fromFloat && toFloat) {
    const llvm::fltSemantics &a = fromFloat.getFloatSemantics();
    const llvm::fltSemantics &b = toFloat.getFloatSemantics();
    return APFloat::semanticsPrecision(a) <= APFloat::semanticsPrecision(b) &&
           APFloat::semanticsMaxExponent(a) <=
               APFloat::semanticsMaxExponent(b) &&
           APFloat::semanticsMinExponent(a) >= APFloat::semanticsMinExponent(b);
  }
  auto fromInt = dyn_cast<IntegerType>(from), toInt = dyn_cast<IntegerType>(to);
  if (fromInt && toInt)
    return toInt.getWidth() != 1 && fromInt.getWidth() <= toInt.getWidth();
  if (fromInt && toFloat) {
    unsigned digits = fromInt.getWidth() == 1 ? 1 : fromInt.getWidth() - 1;
    return digits <= APFloat::semanticsPrecision(toFloat.getFloatSemantics());
  }
  return false;
}

/// A cast of a cast that lost nothing.
struct MergeCasts : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<CastOp>();
    if (!inner)
      return failure();
    Type from = typeOf(inner.getInput()).getElementType();
    Type middle = typeOf(inner.getResult()).getElementType();
    if (!isLossless(from, middle))
      return failure();
    if (inner.getInput().getType() == op.getType())
      rewriter.replaceOp(op, inner.getInput());
    else
      rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), inner.getInput());
    return success();
  }
};

} // namespace

void fusion::populateArithmeticPatterns(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  // x + (-0) is x for every x; x + (+0) is not, for -0.
  patterns.add<DropIdentity<AddOp>>(
      context, [](Value v) { return isMinusZero(v) || isIntZero(v); }, true);
  patterns.add<DropIdentity<SubOp>>(
      context, [](Value v) { return isPlusZero(v) || isIntZero(v); }, false);
  patterns.add<DropIdentity<MulOp>>(context, isOne, true);
  patterns.add<DropIdentity<DivOp>>(context, isOne, false);
  patterns.add<DropIdentity<MaxOp>>(context, isBottom, true);
  patterns.add<DropIdentity<MinOp>>(context, isTop, true);
  patterns.add<DropIdentity<AndOp>>(context, isIntAllOnes, true);
  patterns.add<DropIdentity<OrOp>>(context, isIntZero, true);
  patterns.add<DropIdentity<XorOp>>(context, isIntZero, true);
  patterns.add<DropIdentity<ShiftLeftOp>>(context, isIntZero, false);
  patterns.add<DropIdentity<ShiftRightOp>>(context, isIntZero, false);
  patterns
      .add<DropInvolution<NegOp>, DropInvolution<NotOp>, DropRepeated<AbsOp>,
           DropRepeated<ReluOp>, DropRepeated<CeilOp>, DropRepeated<FloorOp>,
           DropRepeated<RoundOp>, DropRepeated<SignOp>, DropSelf<MaxOp>,
           DropSelf<MinOp>, DropSelf<AndOp>, DropSelf<OrOp>, SimplifySelect,
           DivideByPowerOfTwo, MaxZeroToRelu, DropClampBound, MergeClamps,
           DropReluOfClamp, MergeCasts>(context);
}
