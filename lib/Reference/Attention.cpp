//===- Attention.cpp - attention and rope ---------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

#include <limits>

using namespace fusion;
using namespace fusion::reference;

/// One row of scores at a time: query s of head h against all T keys of the
/// head's group, then the weighted sum of the values.
static llvm::Expected<Tensor> evaluateAttention(AttentionOp op, Tensors inputs,
                                                const OpContext &context) {
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const Tensor *mask = op.getMask() ? &inputs[3] : nullptr;
  double scale = op.getScale().convertToDouble();
  int64_t batch = q.getDim(0), heads = q.getDim(1), queries = q.getDim(2);
  int64_t depth = q.getDim(3), groups = k.getDim(1), keys = k.getDim(2);
  int64_t width = v.getDim(3);
  if (llvm::Error error = requireShape(op, "the key", k.getShape(),
                                       {batch, groups, keys, depth}))
    return std::move(error);
  if (llvm::Error error = requireShape(op, "the value", v.getShape(),
                                       {batch, groups, keys, width}))
    return std::move(error);
  if (mask) {
    Shape expected = {mask->getDim(0) == 1 ? 1 : batch,
                      mask->getDim(1) == 1 ? 1 : heads, queries, keys};
    if (llvm::Error error =
            requireShape(op, "the mask", mask->getShape(), expected))
      return std::move(error);
  }
  llvm::Expected<Tensor> y =
      context.allocate(q.getKind(), {batch, heads, queries, width});
  if (!y || y->getNumElements() == 0)
    return y;

  std::vector<double> scores(keys);
  forEachIndex({batch, heads, queries}, [&](llvm::ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], s = index[2];
    int64_t g = h / (heads / groups);
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < depth; ++d)
        dot += q.getFloat(q.offsetOf({b, h, s, d})) *
               k.getFloat(k.offsetOf({b, g, t, d}));
      scores[t] = scale * dot;
      if (mask)
        scores[t] += mask->getFloat(
            mask->offsetOf({mask->getDim(0) == 1 ? 0 : b,
                            mask->getDim(1) == 1 ? 0 : h, s, t}));
      if (op.getCausal() && t > s + (keys - queries))
        scores[t] = -std::numeric_limits<double>::infinity();
      largest = maximum(largest, scores[t]);
    }
    double sum = 0;
    for (double &score : scores) {
      score = std::exp(score - largest);
      sum += score;
    }
    for (int64_t e = 0; e < width; ++e) {
      double result = 0;
      for (int64_t t = 0; t < keys; ++t)
        result += scores[t] / sum * v.getFloat(v.offsetOf({b, g, t, e}));
      y->setFloat(y->offsetOf({b, h, s, e}), result);
    }
  });
  return y;
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
  rules.add(evaluateRope);
}
