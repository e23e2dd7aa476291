//===- Convolutions.cpp - conv and conv_transpose -------------------------===//
//
// Sums in f64, bias included, rounded once. Weights are [O, C / groups, ...]
// for conv and [C, O / groups, ...] for conv_transpose, in either layout.
//
//===----------------------------------------------------------------------===//

#include "Spatial.h"

#include "llvm/ADT/SmallVector.h"

using namespace fusion;
using namespace fusion::reference;

static llvm::Expected<Tensor> evaluateConv(ConvOp op, Tensors inputs,
                                           const OpContext &context) {
  const Tensor &x = inputs[0], &weights = inputs[1];
  const Tensor *bias = op.getBias() ? &inputs[2] : nullptr;
  Layout layout = op.getLayout();
  llvm::ArrayRef<int64_t> windowSizes = weights.getShape().drop_front(2);
  int64_t outputs = weights.getDim(0), channelsPerGroup = weights.getDim(1);
  int64_t outputsPerGroup = outputs / op.getGroups();
  Shape sizes = getWindowedSizes(getSpatialSizes(x.getShape(), layout),
                                 windowSizes, op.getStrides(), op.getPadLow(),
                                 op.getPadHigh(), op.getDilations());
  llvm::Expected<Tensor> y = context.allocate(
      x.getKind(), makeImageShape(x.getDim(0), outputs, sizes, layout));
  if (!y || y->getNumElements() == 0)
    return y;

  Images in(x.getShape(), layout), out(y->getShape(), layout);
  Images filter(weights.getShape(), Layout::NCHW);
  Window window = {toSpatial(windowSizes, 1), toSpatial(op.getStrides(), 1),
                   toSpatial(op.getPadLow(), 0), toSpatial(op.getPadHigh(), 0),
                   toSpatial(op.getDilations(), 1)};
  for (int64_t n = 0; n < in.batch; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      int64_t firstChannel = o / outputsPerGroup * channelsPerGroup;
      forEachPosition(out.size, [&](const Spatial &at) {
        double sum = bias ? bias->getFloat(o) : 0;
        for (int64_t c = 0; c < channelsPerGroup; ++c)
          forEachPosition(window.size, [&](const Spatial &inside) {
            Spatial from = window.position(at, inside);
            if (in.contains(from))
              sum += x.getFloat(in.offsetOf(n, firstChannel + c, from)) *
                     weights.getFloat(filter.offsetOf(o, c, inside));
          });
        y->setFloat(out.offsetOf(n, o, at), sum);
      });
    }
  }
  return y;
}

/// Each element of the input, times the weights, is added to the window of the
/// result that a conv of the same attributes would read for it.
static llvm::Expected<Tensor> evaluateConvTranspose(ConvTransposeOp op,
                                                    Tensors inputs,
                                                    const OpContext &context) {
  const Tensor &x = inputs[0], &weights = inputs[1];
  const Tensor *bias = op.getBias() ? &inputs[2] : nullptr;
  Layout layout = op.getLayout();
  llvm::ArrayRef<int64_t> windowSizes = weights.getShape().drop_front(2);
  llvm::ArrayRef<int64_t> inSizes = getSpatialSizes(x.getShape(), layout);
  int64_t channels = weights.getDim(0), outputsPerGroup = weights.getDim(1);
  int64_t channelsPerGroup = channels / op.getGroups();
  int64_t outputs = outputsPerGroup * op.getGroups();
  Shape sizes;
  for (size_t i = 0; i < inSizes.size(); ++i)
    sizes.push_back((inSizes[i] - 1) * op.getStrides()[i] +
                    op.getDilations()[i] * (windowSizes[i] - 1) + 1 +
                    op.getOutputPadding()[i] - op.getPadLow()[i] -
                    op.getPadHigh()[i]);
  Shape shape = makeImageShape(x.getDim(0), outputs, sizes, layout);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  llvm::Expected<Tensor> sums = context.allocate(ElementKind::F64, shape);
  if (!y || !sums)
    return llvm::joinErrors(y.takeError(), sums.takeError());

  Images in(x.getShape(), layout), out(shape, layout);
  Images filter(weights.getShape(), Layout::NCHW);
  Window window = {toSpatial(windowSizes, 1), toSpatial(op.getStrides(), 1),
                   toSpatial(op.getPadLow(), 0), toSpatial(op.getPadHigh(), 0),
                   toSpatial(op.getDilations(), 1)};
  for (int64_t n = 0; n < in.batch; ++n) {
    if (bias)
      for (int64_t o = 0; o < outputs; ++o)
        forEachPosition(out.size, [&](const Spatial &at) {
          sums->setFloat(out.offsetOf(n, o, at), bias->getFloat(o));
        });
    for (int64_t c = 0; c < channels; ++c) {
      int64_t firstOutput = c / channelsPerGroup * outputsPerGroup;
      forEachPosition(in.size, [&](const Spatial &at) {
        double element = x.getFloat(in.offsetOf(n, c, at));
        for (int64_t o = 0; o < outputsPerGroup; ++o)
          forEachPosition(window.size, [&](const Spatial &inside) {
            Spatial target = window.position(at, inside);
            if (!out.contains(target))
              return;
            int64_t to = out.offsetOf(n, firstOutput + o, target);
            double product =
                element * weights.getFloat(filter.offsetOf(c, o, inside));
            sums->setFloat(to, sums->getFloat(to) + product);
          });
      });
    }
  }
  for (int64_t i = 0; i < y->getNumElements(); ++i)
    y->setFloat(i, sums->getFloat(i));
  return y;
}

void fusion::reference::addConvRules(RuleTable &rules) {
  rules.add(evaluateConv);
  rules.add(evaluateConvTranspose);
}
