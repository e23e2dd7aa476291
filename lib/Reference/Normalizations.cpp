//===- Normalizations.cpp - batch, layer and RMS normalization ------------===//
//
// Statistics in f64, in two passes: the mean first, then the mean square
// distance from it.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

#include <cmath>

using namespace fusion;
using namespace fusion::reference;

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
static double normalize(double x, double mean, double variance, double epsilon,
                        double scale, double bias) {
  return (x - mean) / std::sqrt(variance + epsilon) * scale + bias;
}

static llvm::Error requireChannels(mlir::Operation *op, const Tensor &x,
                                   int64_t axis, Tensors perChannel) {
  for (const Tensor &tensor : perChannel)
    if (llvm::Error error = requireShape(op, "a tensor of channels",
                                         tensor.getShape(), {x.getDim(axis)}))
      return error;
  return llvm::Error::success();
}

static llvm::Expected<Tensor> evaluateBatchNorm(BatchNormOp op, Tensors inputs,
                                                const OpContext &context) {
  const Tensor &x = inputs[0], &scale = inputs[1], &bias = inputs[2];
  const Tensor &mean = inputs[3], &variance = inputs[4];
  int64_t axis = op.getAxis(), i = 0;
  double epsilon = roundNumber(op.getEpsilon(), x.getKind());
  if (llvm::Error error = requireChannels(op, x, axis, inputs.drop_front()))
    return std::move(error);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y)
    return y;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    int64_t c = index[axis];
    y->setFloat(i,
                normalize(x.getFloat(i), mean.getFloat(c), variance.getFloat(c),
                          epsilon, scale.getFloat(c), bias.getFloat(c)));
    ++i;
  });
  return y;
}

static Results evaluateBatchNormTraining(BatchNormTrainingOp op, Tensors inputs,
                                         const OpContext &context) {
  const Tensor &x = inputs[0], &scale = inputs[1], &bias = inputs[2];
  int64_t axis = op.getAxis(), channels = x.getDim(axis);
  double epsilon = roundNumber(op.getEpsilon(), x.getKind());
  if (llvm::Error error = requireChannels(op, x, axis, inputs.drop_front()))
    return std::move(error);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  llvm::Expected<Tensor> means = context.allocate(scale.getKind(), {channels});
  llvm::Expected<Tensor> variances =
      context.allocate(scale.getKind(), {channels});
  if (!y || !means || !variances)
    return llvm::joinErrors(
        y.takeError(),
        llvm::joinErrors(means.takeError(), variances.takeError()));

  std::vector<double> mean(channels, 0), variance(channels, 0);
  double count = channels == 0 ? 0 : x.getNumElements() / channels;
  int64_t i = 0;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    mean[index[axis]] += x.getFloat(i++);
  });
  for (double &sum : mean)
    sum /= count;
  i = 0;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    double distance = x.getFloat(i++) - mean[index[axis]];
    variance[index[axis]] += distance * distance;
  });
  for (double &sum : variance)
    sum /= count;
  i = 0;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    int64_t c = index[axis];
    y->setFloat(i, normalize(x.getFloat(i), mean[c], variance[c], epsilon,
                             scale.getFloat(c), bias.getFloat(c)));
    ++i;
  });
  for (int64_t c = 0; c < channels; ++c) {
    means->setFloat(c, mean[c]);
    variances->setFloat(c, variance[c]);
  }
  return std::vector<Tensor>{*y, *means, *variances};
}

/// A row is the dimensions from `axis` on. RMS normalization is layer
/// normalization around 0 instead of the mean.
template <typename OpT>
static llvm::Expected<Tensor> evaluateRowNorm(OpT op, Tensors inputs,
                                              const OpContext &context) {
  constexpr bool centered = std::is_same_v<OpT, LayerNormOp>;
  const Tensor &x = inputs[0];
  unsigned next = 1;
  const Tensor *scale = op.getScale() ? &inputs[next++] : nullptr;
  const Tensor *bias = op.getBias() ? &inputs[next++] : nullptr;
  double epsilon = roundNumber(op.getEpsilon(), x.getKind());
  llvm::ArrayRef<int64_t> rowShape = x.getShape().drop_front(op.getAxis());
  for (const Tensor &tensor : inputs.drop_front())
    if (llvm::Error error =
            requireShape(op, "scale or bias", tensor.getShape(), rowShape))
      return std::move(error);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y || y->getNumElements() == 0)
    return y;

  int64_t length = *getNumElements(rowShape);
  for (int64_t row = 0; row < x.getNumElements(); row += length) {
    double mean = 0, variance = 0;
    if (centered) {
      for (int64_t i = 0; i < length; ++i)
        mean += x.getFloat(row + i);
      mean /= static_cast<double>(length);
    }
    for (int64_t i = 0; i < length; ++i) {
      double distance = x.getFloat(row + i) - mean;
      variance += distance * distance;
    }
    variance /= static_cast<double>(length);
    for (int64_t i = 0; i < length; ++i)
      y->setFloat(row + i, normalize(x.getFloat(row + i), mean, variance,
                                     epsilon, scale ? scale->getFloat(i) : 1,
                                     bias ? bias->getFloat(i) : 0));
  }
  return y;
}

void fusion::reference::addNormalizationRules(RuleTable &rules) {
  rules.add(evaluateBatchNorm);
  rules.add(evaluateBatchNormTraining);
  rules.add(evaluateRowNorm<LayerNormOp>);
  rules.add(evaluateRowNorm<RmsNormOp>);
}
