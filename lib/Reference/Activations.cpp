//===- Activations.cpp - Activations --------------------------------------===//
//
// The formulas of the op descriptions, in f64. Attributes are used as the f64
// numbers they are.
//
//===----------------------------------------------------------------------===//

#include "ElementwiseMap.h"
#include "Scalars.h"

using namespace fusion;
using namespace fusion::reference;

/// `result[i] = function(x[i])` for an op with attributes.
static llvm::Expected<Tensor>
mapFloats(const Tensor &x, const OpContext &context,
          llvm::function_ref<double(double)> function) {
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    y->setFloat(i, function(x.getFloat(i)));
  return y;
}

static double clampToUnit(double x) { return minimum(maximum(x, 0.0), 1.0); }

static llvm::Expected<Tensor> evaluateHardSigmoid(HardSigmoidOp op,
                                                  Tensors inputs,
                                                  const OpContext &context) {
  double alpha = roundNumber(op.getAlpha(), inputs[0].getKind());
  double beta = roundNumber(op.getBeta(), inputs[0].getKind());
  return mapFloats(inputs[0], context,
                   [&](double x) { return clampToUnit(alpha * x + beta); });
}

static llvm::Expected<Tensor> evaluateLeakyRelu(LeakyReluOp op, Tensors inputs,
                                                const OpContext &context) {
  double alpha = roundNumber(op.getAlpha(), inputs[0].getKind());
  return mapFloats(inputs[0], context,
                   [&](double x) { return x >= 0 ? x : alpha * x; });
}

static llvm::Expected<Tensor> evaluateElu(EluOp op, Tensors inputs,
                                          const OpContext &context) {
  double alpha = roundNumber(op.getAlpha(), inputs[0].getKind());
  return mapFloats(inputs[0], context,
                   [&](double x) { return x > 0 ? x : alpha * std::expm1(x); });
}

static double geluErf(double x) {
  return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
}

/// The same without cancellation in the left tail, where 1 + erf is 0 in f64
/// and the result is far from 0 in f32.
static double geluErfc(double x) {
  return x * std::erfc(-x / std::sqrt(2.0)) / 2;
}

static double geluTanh(double x) {
  const double pi = std::acos(-1.0);
  return x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x))) /
         2;
}

static llvm::Expected<Tensor> evaluateGelu(GeluOp op, Tensors inputs,
                                           const OpContext &context) {
  if (op.getKind() == GeluKind::Tanh)
    return mapFloats(inputs[0], context, geluTanh);
  bool isF32 = getElementTypeOrSelf(op.getInput().getType()).isF32();
  return mapFloats(inputs[0], context, isF32 ? geluErfc : geluErf);
}

void fusion::reference::addActivationRules(RuleTable &rules) {
  addUnary<ReluOp>(
      rules, [](double x) { return maximum(x, 0.0); },
      [](int64_t x) { return maximum(x, int64_t(0)); });
  addUnary<SigmoidOp>(rules, sigmoid);
  addUnary<SiluOp>(rules, [](double x) { return x * sigmoid(x); });
  addUnary<SoftplusOp>(rules, softplus);
  addUnary<MishOp>(rules, [](double x) { return x * std::tanh(softplus(x)); });
  addUnary<HardSwishOp>(rules,
                        [](double x) { return x * clampToUnit(x / 6 + 0.5); });
  rules.add(evaluateHardSigmoid);
  rules.add(evaluateLeakyRelu);
  rules.add(evaluateElu);
  rules.add(evaluateGelu);
}
