//===- EvaluateAttention.cpp - One element of attention -------------------===//
//
// Two walks over the keys: the largest score, then the sums of the weights and
// of the weighted values. Every element computes its scores anew, so this is
// right and slow: it stands in where no library is at hand.
//
//===----------------------------------------------------------------------===//
#include "BodyEvaluator.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

Value BodyEvaluator::evaluateAttention(AttentionOp op, Key at) {
  // Scores, weights and sums are f32 for f16 and bf16.
  Type element = getElementTypeOrSelf(op.getResult().getType());
  Type compute = k.computeType(element);
  Size rows = k.size(op.getQuery(), 2), keys = k.size(op.getKey(), 2);
  int64_t heads = op.getQuery().getType().getDimSize(1),
          groups = op.getKey().getType().getDimSize(1);
  Index group = k.divide(at[1], Size::of(heads / groups));
  Value infinity =
      k.constant(compute, -std::numeric_limits<double>::infinity());
  Value scale = k.constant(compute, op.getScaleAttr().getValueAsDouble());

  auto scoreOf = [&](const Index &key) {
    Value sum =
        nest({k.size(op.getKey(), 3)}, {k.constant(compute, 0.0)},
             [&](ArrayRef<Index> inner, Values carried) -> Values {
               return {multiplyAdd(
                   carried[0],
                   evaluate(op.getQuery(), {at[0], at[1], at[2], inner[0]}),
                   evaluate(op.getKey(), {at[0], group, key, inner[0]}))};
             })[0];
    Value score = k.op<arith::MulFOp>(sum, scale);
    if (op.getMask())
      score = k.op<arith::AddFOp>(
          score, evaluate(op.getMask(), {at[0], at[1], at[2], key}));
    if (!op.getCausal())
      return score;
    // Behind the query, where the last of both see each other.
    Index last = k.sub(k.add(at[2], k.fromSize(keys)), k.fromSize(rows));
    Value isFuture = k.compare(arith::CmpIPredicate::sgt, key, last);
    return k.select(isFuture, infinity, score);
  };

  Value largest = nest(
      {keys}, {infinity}, [&](ArrayRef<Index> key, Values carried) -> Values {
        return {k.op<arith::MaximumFOp>(carried[0], scoreOf(key[0]))};
      })[0];
  Value zero = k.constant(compute, 0.0);
  Values sums = nest(
      {keys}, {zero, zero}, [&](ArrayRef<Index> key, Values carried) -> Values {
        Value weight =
            k.op<math::ExpOp>(k.op<arith::SubFOp>(scoreOf(key[0]), largest));
        Value value = evaluate(op.getValue(), {at[0], group, key[0], at[3]});
        return {k.op<arith::AddFOp>(carried[0], weight),
                multiplyAdd(carried[1], weight, value)};
      });
  return k.round(k.op<arith::DivFOp>(sums[1], sums[0]), element);
}
