//===- Softmax.cpp - softmax and log_softmax ------------------------------===//
//
// The formulas of the op descriptions in f64. A row of all -inf gives NaN
// because -inf - -inf does.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

using namespace fusion;
using namespace fusion::reference;

template <typename OpT>
static llvm::Expected<Tensor> evaluateSoftmax(OpT op, Tensors inputs,
                                              const OpContext &context) {
  constexpr bool logarithm = std::is_same_v<OpT, LogSoftmaxOp>;
  const Tensor &x = inputs[0];
  int64_t axis = op.getAxis(), length = x.getDim(axis);
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y || y->getNumElements() == 0)
    return y;
  // Elements of a row are `stride` apart.
  int64_t stride = *getNumElements(x.getShape().drop_front(axis + 1));
  int64_t rows = x.getNumElements() / length;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t start = row / stride * stride * length + row % stride;
    double largest = x.getFloat(start), sum = 0;
    for (int64_t i = 1; i < length; ++i)
      largest = maximum(largest, x.getFloat(start + i * stride));
    for (int64_t i = 0; i < length; ++i)
      sum += std::exp(x.getFloat(start + i * stride) - largest);
    for (int64_t i = 0; i < length; ++i) {
      double shifted = x.getFloat(start + i * stride) - largest;
      y->setFloat(start + i * stride, logarithm ? shifted - std::log(sum)
                                                : std::exp(shifted) / sum);
    }
  }
  return y;
}

void fusion::reference::addSoftmaxRules(RuleTable &rules) {
  rules.add(evaluateSoftmax<SoftmaxOp>);
  rules.add(evaluateSoftmax<LogSoftmaxOp>);
}
