//===- Select.cpp - Compare, select, clamp, cast --------------------------===//
//
// The elementwise ops whose operands and result differ in type.
//
//===----------------------------------------------------------------------===//

#include "ElementwiseMap.h"
#include "Scalars.h"

#include <limits>

using namespace fusion;
using namespace fusion::reference;

/// C's comparisons are the op's: false with a NaN, except that `ne` is true.
template <typename T> static bool compareElements(CompareKind kind, T a, T b) {
  switch (kind) {
  case CompareKind::Eq:
    return a == b;
  case CompareKind::Ne:
    return a != b;
  case CompareKind::Lt:
    return a < b;
  case CompareKind::Le:
    return a <= b;
  case CompareKind::Gt:
    return a > b;
  case CompareKind::Ge:
    return a >= b;
  }
  llvm_unreachable("covered above");
}

static llvm::Expected<Tensor> evaluateCompare(CompareOp op, Tensors inputs,
                                              const OpContext &context) {
  if (llvm::Error error = requireSameShapes(op, inputs))
    return std::move(error);
  const Tensor &a = inputs[0], &b = inputs[1];
  llvm::Expected<Tensor> y = context.allocate(ElementKind::I1, a.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < a.getNumElements(); ++i)
    y->setInt(i,
              a.isFloat()
                  ? compareElements(op.getKind(), a.getFloat(i), b.getFloat(i))
                  : compareElements(op.getKind(), a.getInt(i), b.getInt(i)));
  return y;
}

static llvm::Expected<Tensor> evaluateSelect(SelectOp op, Tensors inputs,
                                             const OpContext &context) {
  if (llvm::Error error = requireSameShapes(op, inputs))
    return std::move(error);
  const Tensor &condition = inputs[0];
  llvm::Expected<Tensor> y =
      context.allocate(inputs[1].getKind(), condition.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < condition.getNumElements(); ++i)
    y->setFrom(i, condition.getInt(i) ? inputs[1] : inputs[2], i);
  return y;
}

static llvm::Expected<Tensor> evaluateClamp(ClampOp op, Tensors inputs,
                                            const OpContext &context) {
  if (llvm::Error error = requireSameShapes(op, inputs))
    return std::move(error);
  const Tensor &x = inputs[0], &low = inputs[1], &high = inputs[2];
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    if (x.isFloat())
      y->setFloat(i, minimum(maximum(x.getFloat(i), low.getFloat(i)),
                             high.getFloat(i)));
    else
      y->setInt(i,
                minimum(maximum(x.getInt(i), low.getInt(i)), high.getInt(i)));
  }
  return y;
}

/// Toward zero, saturated at the limits of the type; NaN gives 0.
static int64_t floatToInt(double value, ElementKind kind) {
  if (std::isnan(value))
    return 0;
  // 2^(width - 1) is a double, the type's largest integer need not be one.
  double limit = std::ldexp(1.0, getBitWidth(kind) - 1);
  int64_t least =
      std::numeric_limits<int64_t>::min() >> (64 - getBitWidth(kind));
  if (value >= limit)
    return -(least + 1);
  if (value <= -limit)
    return least;
  return static_cast<int64_t>(value);
}

static llvm::Expected<Tensor> evaluateCast(CastOp op, Tensors inputs,
                                           const OpContext &context) {
  const Tensor &x = inputs[0];
  ElementKind kind = *getElementKind(op.getResult().getType().getElementType());
  llvm::Expected<Tensor> y = context.allocate(kind, x.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    if (kind == ElementKind::I1)
      y->setInt(i, x.isFloat() ? x.getFloat(i) != 0 : x.getInt(i) != 0);
    else if (x.isFloat() && y->isFloat())
      y->setFloat(i, x.getFloat(i));
    else if (x.isFloat())
      y->setInt(i, floatToInt(x.getFloat(i), kind));
    else if (y->isFloat())
      y->setFloat(i, roundToKind(x.getInt(i), kind));
    else
      y->setInt(i, x.getInt(i));
  }
  return y;
}

/// The rule of a predicate on floats.
static void addPredicate(RuleTable &rules, llvm::StringRef name,
                         bool (*predicate)(double)) {
  rules.add(name,
            [=](mlir::Operation *, Tensors inputs,
                const OpContext &context) -> Results {
              const Tensor &x = inputs[0];
              llvm::Expected<Tensor> y =
                  context.allocate(ElementKind::I1, x.getShape());
              if (!y)
                return y.takeError();
              for (int64_t i = 0; i < x.getNumElements(); ++i)
                y->setInt(i, predicate(x.getFloat(i)));
              return std::vector<Tensor>{*y};
            });
}

void fusion::reference::addSelectRules(RuleTable &rules) {
  rules.add(evaluateCompare);
  rules.add(evaluateSelect);
  rules.add(evaluateClamp);
  rules.add(evaluateCast);
  addPredicate(rules, IsNanOp::getOperationName(),
               [](double x) { return std::isnan(x); });
  addPredicate(rules, IsInfOp::getOperationName(),
               [](double x) { return std::isinf(x); });
}
