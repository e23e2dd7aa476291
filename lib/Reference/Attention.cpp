//===- Attention.cpp - attention, its gradient, and rope ------------------===//
//
// One row of weights at a time: query s of head h against all T keys of the
// head's group.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

#include <limits>

using namespace fusion;
using namespace fusion::reference;

namespace {

/// The operands and sizes that attention and its gradient share.
template <typename OpT> struct Attention {
  OpT op;
  const Tensor &q, &k, &v;
  const Tensor *mask;
  double scale;
  bool causal;
  int64_t batch, heads, queries, depth, groups, keys, width;

  Attention(OpT op, Tensors inputs)
      : op(op), q(inputs[0]), k(inputs[1]), v(inputs[2]),
        mask(op.getMask() ? &inputs.back() : nullptr),
        scale(roundNumber(op.getScale(), q.getKind())), causal(op.getCausal()),
        batch(q.getDim(0)), heads(q.getDim(1)), queries(q.getDim(2)),
        depth(q.getDim(3)), groups(k.getDim(1)), keys(k.getDim(2)),
        width(v.getDim(3)) {}

  llvm::Error checkShapes() const {
    if (llvm::Error error = requireShape(op, "the key", k.getShape(),
                                         {batch, groups, keys, depth}))
      return error;
    if (llvm::Error error = requireShape(op, "the value", v.getShape(),
                                         {batch, groups, keys, width}))
      return error;
    if (!mask)
      return llvm::Error::success();
    Shape expected = {mask->getDim(0) == 1 ? 1 : batch,
                      mask->getDim(1) == 1 ? 1 : heads, queries, keys};
    return requireShape(op, "the mask", mask->getShape(), expected);
  }

  int64_t groupOf(int64_t h) const { return h / (heads / groups); }

  /// softmax(scale * q k^T + mask) in the row of query s of head h.
  std::vector<double> weights(int64_t b, int64_t h, int64_t s) const {
    std::vector<double> scores(keys);
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < depth; ++d)
        dot += q.getFloat(q.offsetOf({b, h, s, d})) *
               k.getFloat(k.offsetOf({b, groupOf(h), t, d}));
      scores[t] = scale * dot;
      if (mask)
        scores[t] += mask->getFloat(
            mask->offsetOf({mask->getDim(0) == 1 ? 0 : b,
                            mask->getDim(1) == 1 ? 0 : h, s, t}));
      if (causal && t > s + (keys - queries))
        scores[t] = -std::numeric_limits<double>::infinity();
      largest = maximum(largest, scores[t]);
    }
    double sum = 0;
    for (double &score : scores) {
      score = std::exp(score - largest);
      sum += score;
    }
    for (double &score : scores)
      score /= sum;
    return scores;
  }
};

} // namespace

static llvm::Expected<Tensor> evaluateAttention(AttentionOp op, Tensors inputs,
                                                const OpContext &context) {
  Attention<AttentionOp> a(op, inputs);
  if (llvm::Error error = a.checkShapes())
    return std::move(error);
  llvm::Expected<Tensor> y =
      context.allocate(a.q.getKind(), {a.batch, a.heads, a.queries, a.width});
  if (!y || y->getNumElements() == 0)
    return y;
  forEachIndex(
      {a.batch, a.heads, a.queries}, [&](llvm::ArrayRef<int64_t> index) {
        int64_t b = index[0], h = index[1], s = index[2];
        std::vector<double> weights = a.weights(b, h, s);
        for (int64_t e = 0; e < a.width; ++e) {
          double result = 0;
          for (int64_t t = 0; t < a.keys; ++t)
            result += weights[t] *
                      a.v.getFloat(a.v.offsetOf({b, a.groupOf(h), t, e}));
          y->setFloat(y->offsetOf({b, h, s, e}), result);
        }
      });
  return y;
}

/// The formulas of the op's description, row by row.
static Results evaluateAttentionGrad(AttentionGradOp op, Tensors inputs,
                                     const OpContext &context) {
  Attention<AttentionGradOp> a(op, inputs);
  const Tensor &dy = inputs[3];
  if (llvm::Error error = a.checkShapes())
    return std::move(error);
  if (llvm::Error error = requireShape(op, "the gradient", dy.getShape(),
                                       {a.batch, a.heads, a.queries, a.width}))
    return std::move(error);
  std::vector<double> dq(a.q.getNumElements()), dk(a.k.getNumElements()),
      dv(a.v.getNumElements());
  forEachIndex(
      {a.batch, a.heads, a.queries}, [&](llvm::ArrayRef<int64_t> index) {
        int64_t b = index[0], h = index[1], s = index[2], g = a.groupOf(h);
        std::vector<double> weights = a.weights(b, h, s), grads(a.keys);
        double mean = 0;
        for (int64_t t = 0; t < a.keys; ++t) {
          for (int64_t e = 0; e < a.width; ++e) {
            double grad = dy.getFloat(dy.offsetOf({b, h, s, e}));
            int64_t value = a.v.offsetOf({b, g, t, e});
            grads[t] += grad * a.v.getFloat(value);
            dv[value] += weights[t] * grad;
          }
          mean += weights[t] * grads[t];
        }
        for (int64_t t = 0; t < a.keys; ++t) {
          double scoreGrad = weights[t] * (grads[t] - mean) * a.scale;
          for (int64_t d = 0; d < a.depth; ++d) {
            int64_t query = a.q.offsetOf({b, h, s, d});
            int64_t key = a.k.offsetOf({b, g, t, d});
            dq[query] += scoreGrad * a.k.getFloat(key);
            dk[key] += scoreGrad * a.q.getFloat(query);
          }
        }
      });
  std::vector<Tensor> results;
  for (const auto &[like, grads] :
       {std::pair(&a.q, &dq), std::pair(&a.k, &dk), std::pair(&a.v, &dv)}) {
    llvm::Expected<Tensor> result =
        context.allocate(like->getKind(), like->getShape());
    if (!result)
      return result.takeError();
    for (auto [i, grad] : llvm::enumerate(*grads))
      result->setFloat(i, grad);
    results.push_back(std::move(*result));
  }
  return results;
}

/// Pair (a, b) becomes (a c - b s, b c + a s).
static llvm::Expected<Tensor> evaluateRope(RopeOp op, Tensors inputs,
                                           const OpContext &context) {
  const Tensor &x = inputs[0], &cosine = inputs[1], &sine = inputs[2];
  int64_t depth = x.getShape().back(), pairs = depth / 2;
  int64_t positions = x.getDim(x.getRank() - 2);
  for (const Tensor *angles : {&cosine, &sine})
    if (llvm::Error error = requireShape(op, "the angles", angles->getShape(),
                                         {positions, pairs}))
      return std::move(error);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y || y->getNumElements() == 0)
    return y;
  int64_t rows = x.getNumElements() / depth;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      int64_t first = row * depth + (op.getInterleaved() ? 2 * pair : pair);
      int64_t second = op.getInterleaved() ? first + 1 : first + pairs;
      int64_t angle = row % positions * pairs + pair;
      double a = x.getFloat(first), b = x.getFloat(second);
      double c = cosine.getFloat(angle), s = sine.getFloat(angle);
      y->setFloat(first, a * c - b * s);
      y->setFloat(second, b * c + a * s);
    }
  }
  return y;
}

void fusion::reference::addAttentionRules(RuleTable &rules) {
  rules.add(evaluateAttention);
  rules.add(evaluateAttentionGrad);
  rules.add(evaluateRope);
}
