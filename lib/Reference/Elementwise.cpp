//===- Elementwise.cpp - Unary and binary ops -----------------------------===//
//
// Each op is one line: its function on doubles, and on integers where it takes
// them. The result is rounded or wrapped once, when it is stored.
//
//===----------------------------------------------------------------------===//

#include "ElementwiseMap.h"
#include "Scalars.h"

#include <limits>

using namespace fusion;
using namespace fusion::reference;

llvm::Error fusion::reference::requireSameShapes(mlir::Operation *op,
                                                 Tensors inputs) {
  for (const Tensor &input : inputs.drop_front())
    if (llvm::Error error = requireShape(op, "an operand", input.getShape(),
                                         inputs[0].getShape()))
      return error;
  return llvm::Error::success();
}

void fusion::reference::addUnaryRule(RuleTable &rules, llvm::StringRef name,
                                     FloatUnary onFloats, IntUnary onInts) {
  rules.add(name,
            [=](mlir::Operation *op, Tensors inputs,
                const OpContext &context) -> Results {
              const Tensor &x = inputs[0];
              llvm::Expected<Tensor> y =
                  context.allocate(x.getKind(), x.getShape());
              if (!y)
                return y.takeError();
              for (int64_t i = 0; i < x.getNumElements(); ++i) {
                if (x.isFloat())
                  y->setFloat(i, onFloats(x.getFloat(i)));
                else
                  y->setInt(i, onInts(x.getInt(i)));
              }
              return std::vector<Tensor>{*y};
            });
}

void fusion::reference::addBinaryRule(RuleTable &rules, llvm::StringRef name,
                                      FloatBinary onFloats, IntBinary onInts) {
  rules.add(name,
            [=](mlir::Operation *op, Tensors inputs,
                const OpContext &context) -> Results {
              if (llvm::Error error = requireSameShapes(op, inputs))
                return std::move(error);
              const Tensor &a = inputs[0], &b = inputs[1];
              llvm::Expected<Tensor> y =
                  context.allocate(a.getKind(), a.getShape());
              if (!y)
                return y.takeError();
              for (int64_t i = 0; i < a.getNumElements(); ++i) {
                if (a.isFloat())
                  y->setFloat(i, onFloats(a.getFloat(i), b.getFloat(i)));
                else
                  y->setInt(i, onInts(a.getInt(i), b.getInt(i), a.getKind()));
              }
              return std::vector<Tensor>{*y};
            });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// Toward zero; by zero -1; the least integer by -1 is itself.
static int64_t divide(int64_t a, int64_t b, ElementKind) {
  if (b == 0)
    return -1;
  if (b == -1)
    return wrapSub(0, a);
  return a / b;
}

/// With the sign of `a`; by zero `a`.
static int64_t remainder(int64_t a, int64_t b, ElementKind) {
  if (b == 0)
    return a;
  if (b == -1)
    return 0;
  return a % b;
}

static int64_t shiftLeft(int64_t a, int64_t b, ElementKind kind) {
  if (b < 0 || b >= static_cast<int64_t>(getBitWidth(kind)))
    return 0;
  return static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}

/// Logical: zeros come in at the top of the element's own width.
static int64_t shiftRight(int64_t a, int64_t b, ElementKind kind) {
  if (b < 0 || b >= static_cast<int64_t>(getBitWidth(kind)))
    return 0;
  return static_cast<int64_t>(encodeInteger(a, kind) >> b);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

/// A NaN stays, a zero keeps its sign.
static double signOf(double x) {
  if (std::isnan(x) || x == 0)
    return x;
  return std::copysign(1.0, x);
}

static void addUnaryRules(RuleTable &rules) {
  addUnary<NegOp>(
      rules, [](double x) { return -x; },
      [](int64_t x) { return wrapSub(0, x); });
  addUnary<AbsOp>(
      rules, [](double x) { return std::fabs(x); },
      [](int64_t x) { return x < 0 ? wrapSub(0, x) : x; });
  addUnary<SignOp>(rules, signOf,
                   [](int64_t x) { return int64_t(x > 0) - int64_t(x < 0); });
  addUnary<NotOp>(rules, nullptr, [](int64_t x) { return ~x; });

  addUnary<CeilOp>(rules, [](double x) { return std::ceil(x); });
  addUnary<FloorOp>(rules, [](double x) { return std::floor(x); });
  // The default rounding mode takes ties to even.
  addUnary<RoundOp>(rules, [](double x) { return std::nearbyint(x); });
  addUnary<SqrtOp>(rules, [](double x) { return std::sqrt(x); });
  addUnary<RsqrtOp>(rules, [](double x) { return 1 / std::sqrt(x); });
  addUnary<ReciprocalOp>(rules, [](double x) { return 1 / x; });

  addUnary<ExpOp>(rules, [](double x) { return std::exp(x); });
  addUnary<Exp2Op>(rules, [](double x) { return std::exp2(x); });
  addUnary<Expm1Op>(rules, [](double x) { return std::expm1(x); });
  addUnary<LogOp>(rules, [](double x) { return std::log(x); });
  addUnary<Log2Op>(rules, [](double x) { return std::log2(x); });
  addUnary<Log1pOp>(rules, [](double x) { return std::log1p(x); });
  addUnary<SinOp>(rules, [](double x) { return std::sin(x); });
  addUnary<CosOp>(rules, [](double x) { return std::cos(x); });
  addUnary<TanOp>(rules, [](double x) { return std::tan(x); });
  addUnary<AsinOp>(rules, [](double x) { return std::asin(x); });
  addUnary<AcosOp>(rules, [](double x) { return std::acos(x); });
  addUnary<AtanOp>(rules, [](double x) { return std::atan(x); });
  addUnary<SinhOp>(rules, [](double x) { return std::sinh(x); });
  addUnary<CoshOp>(rules, [](double x) { return std::cosh(x); });
  addUnary<TanhOp>(rules, [](double x) { return std::tanh(x); });
  addUnary<AsinhOp>(rules, [](double x) { return std::asinh(x); });
  addUnary<AcoshOp>(rules, [](double x) { return std::acosh(x); });
  addUnary<AtanhOp>(rules, [](double x) { return std::atanh(x); });
  addUnary<ErfOp>(rules, [](double x) { return std::erf(x); });
}

static void addBinaryRules(RuleTable &rules) {
  addBinary<AddOp>(
      rules, [](double a, double b) { return a + b; },
      [](int64_t a, int64_t b, ElementKind) { return wrapAdd(a, b); });
  addBinary<SubOp>(
      rules, [](double a, double b) { return a - b; },
      [](int64_t a, int64_t b, ElementKind) { return wrapSub(a, b); });
  addBinary<MulOp>(
      rules, [](double a, double b) { return a * b; },
      [](int64_t a, int64_t b, ElementKind) { return wrapMul(a, b); });
  addBinary<DivOp>(rules, [](double a, double b) { return a / b; }, divide);
  addBinary<RemOp>(
      rules, [](double a, double b) { return std::fmod(a, b); }, remainder);
  addBinary<PowOp>(rules, [](double a, double b) { return std::pow(a, b); });
  addBinary<Atan2Op>(rules,
                     [](double a, double b) { return std::atan2(a, b); });
  addBinary<MaxOp>(
      rules, [](double a, double b) { return maximum(a, b); },
      [](int64_t a, int64_t b, ElementKind) { return maximum(a, b); });
  addBinary<MinOp>(
      rules, [](double a, double b) { return minimum(a, b); },
      [](int64_t a, int64_t b, ElementKind) { return minimum(a, b); });

  addBinary<AndOp>(rules, nullptr,
                   [](int64_t a, int64_t b, ElementKind) { return a & b; });
  addBinary<OrOp>(rules, nullptr,
                  [](int64_t a, int64_t b, ElementKind) { return a | b; });
  addBinary<XorOp>(rules, nullptr,
                   [](int64_t a, int64_t b, ElementKind) { return a ^ b; });
  addBinary<ShiftLeftOp>(rules, nullptr, shiftLeft);
  addBinary<ShiftRightOp>(rules, nullptr, shiftRight);
}

void fusion::reference::addElementwiseRules(RuleTable &rules) {
  addUnaryRules(rules);
  addBinaryRules(rules);
}
