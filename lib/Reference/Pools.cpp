//===- Pools.cpp - max_pool, its gradient, and avg_pool -------------------===//
//
// Padding takes no part in a maximum, and in a mean only where
// `count_include_pad` counts it.
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "Spatial.h"

using namespace fusion;
using namespace fusion::reference;

template <typename OpT> static Window getWindow(OpT op) {
  return {toSpatial(op.getWindow(), 1), toSpatial(op.getStrides(), 1),
          toSpatial(op.getPadLow(), 0), toSpatial(op.getPadHigh(), 0),
          toSpatial(op.getDilations(), 1)};
}

/// The result of a pool, all zero.
template <typename OpT>
static llvm::Expected<Tensor> allocatePooled(OpT op, const Tensor &x,
                                             const OpContext &context) {
  Images in(x.getShape(), op.getLayout());
  Shape sizes = getWindowedSizes(
      getSpatialSizes(x.getShape(), op.getLayout()), op.getWindow(),
      op.getStrides(), op.getPadLow(), op.getPadHigh(), op.getDilations());
  return context.allocate(x.getKind(), makeImageShape(in.batch, in.channels,
                                                      sizes, op.getLayout()));
}

static llvm::Expected<Tensor> evaluateMaxPool(MaxPoolOp op, Tensors inputs,
                                              const OpContext &context) {
  const Tensor &x = inputs[0];
  llvm::Expected<Tensor> y = allocatePooled(op, x, context);
  if (!y)
    return y;
  Images in(x.getShape(), op.getLayout()), out(y->getShape(), op.getLayout());
  Window window = getWindow(op);
  for (int64_t n = 0; n < out.batch; ++n)
    for (int64_t c = 0; c < out.channels; ++c)
      forEachPosition(out.size, [&](const Spatial &at) {
        int64_t to = out.offsetOf(n, c, at);
        bool first = true;
        forEachPosition(window.size, [&](const Spatial &inside) {
          Spatial from = window.position(at, inside);
          if (!in.contains(from))
            return;
          int64_t i = in.offsetOf(n, c, from);
          if (first)
            y->setFrom(to, x, i);
          else if (x.isFloat())
            y->setFloat(to, maximum(y->getFloat(to), x.getFloat(i)));
          else
            y->setInt(to, maximum(y->getInt(to), x.getInt(i)));
          first = false;
        });
      });
  return y;
}

/// Pushes each window's gradient to the element that the window chose.
static llvm::Expected<Tensor> evaluateMaxPoolGrad(MaxPoolGradOp op,
                                                  Tensors inputs,
                                                  const OpContext &context) {
  const Tensor &x = inputs[0], &dy = inputs[1];
  Images in(x.getShape(), op.getLayout()), out(dy.getShape(), op.getLayout());
  if (in.batch != out.batch)
    return failAt(op, FailureKind::Program,
                  "input and gradient have different batches");
  Window window = getWindow(op);
  std::vector<double> grads(x.getNumElements());
  for (int64_t n = 0; n < out.batch; ++n)
    for (int64_t c = 0; c < out.channels; ++c)
      forEachPosition(out.size, [&](const Spatial &at) {
        int64_t chosen = -1;
        forEachPosition(window.size, [&](const Spatial &inside) {
          Spatial from = window.position(at, inside);
          if (!in.contains(from))
            return;
          int64_t i = in.offsetOf(n, c, from);
          double value = x.getFloat(i);
          if (chosen < 0 || value > x.getFloat(chosen) ||
              (std::isnan(value) && !std::isnan(x.getFloat(chosen))))
            chosen = i;
        });
        grads[chosen] += dy.getFloat(out.offsetOf(n, c, at));
      });
  llvm::Expected<Tensor> dx = context.allocate(x.getKind(), x.getShape());
  if (!dx)
    return dx;
  for (auto [i, grad] : llvm::enumerate(grads))
    dx->setFloat(i, grad);
  return dx;
}

static llvm::Expected<Tensor> evaluateAvgPool(AvgPoolOp op, Tensors inputs,
                                              const OpContext &context) {
  const Tensor &x = inputs[0];
  llvm::Expected<Tensor> y = allocatePooled(op, x, context);
  if (!y)
    return y;
  Images in(x.getShape(), op.getLayout()), out(y->getShape(), op.getLayout());
  Window window = getWindow(op);
  auto isInsidePadded = [&](const Spatial &at) {
    for (int dim = 0; dim < 3; ++dim)
      if (at[dim] < -window.padLow[dim] ||
          at[dim] >= in.size[dim] + window.padHigh[dim])
        return false;
    return true;
  };
  for (int64_t n = 0; n < out.batch; ++n)
    for (int64_t c = 0; c < out.channels; ++c)
      forEachPosition(out.size, [&](const Spatial &at) {
        double sum = 0;
        int64_t count = 0;
        forEachPosition(window.size, [&](const Spatial &inside) {
          Spatial from = window.position(at, inside);
          if (in.contains(from)) {
            sum += x.getFloat(in.offsetOf(n, c, from));
            ++count;
          } else if (op.getCountIncludePad() && isInsidePadded(from)) {
            ++count;
          }
        });
        y->setFloat(out.offsetOf(n, c, at), sum / static_cast<double>(count));
      });
  return y;
}

void fusion::reference::addPoolRules(RuleTable &rules) {
  rules.add(evaluateMaxPool);
  rules.add(evaluateMaxPoolGrad);
  rules.add(evaluateAvgPool);
}
