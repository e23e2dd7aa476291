//===- ElementwiseEvaluator.cpp - Elementwise ops on constants ------------===//
//
// Bodies on numbers. `T` is the compute type: float for f32, f16 and bf16,
// double for f64, so that exactly rounded ops round as generated code does.
//
//===----------------------------------------------------------------------===//
#include "ConstantEvaluator.h"
#include "fusion/Support/SeededBugs.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

using namespace mlir;
using namespace fusion;

template <typename T> using FloatBody = std::function<T(const T *)>;
using IntBody = std::function<int64_t(const int64_t *)>;

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

template <typename T> static T getMaximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<T>::quiet_NaN();
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <typename T> static T getMinimum(T a, T b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<T>::quiet_NaN();
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename T> static T clampToUnit(T x) {
  return getMinimum(getMaximum(x, T(0)), T(1));
}

/// Bodies whose every step is exactly rounded in the compute type. Steps are
/// separate statements, so that none is contracted.
template <typename T> static FloatBody<T> getExactBody(Operation *op) {
  if (isa<AddOp>(op))
    return [](const T *x) { return x[0] + x[1]; };
  if (isa<SubOp>(op))
    return [](const T *x) { return x[0] - x[1]; };
  if (isa<MulOp>(op))
    return [](const T *x) { return x[0] * x[1]; };
  if (isa<DivOp>(op))
    return [](const T *x) { return x[0] / x[1]; };
  if (isa<RemOp>(op))
    return [](const T *x) { return std::fmod(x[0], x[1]); };
  if (isa<MaxOp>(op))
    return [](const T *x) { return getMaximum(x[0], x[1]); };
  if (isa<MinOp>(op))
    return [](const T *x) { return getMinimum(x[0], x[1]); };
  if (isa<ClampOp>(op))
    return [](const T *x) { return getMinimum(getMaximum(x[0], x[1]), x[2]); };
  if (isa<NegOp>(op))
    return [](const T *x) { return -x[0]; };
  if (isa<AbsOp>(op))
    return [](const T *x) { return std::fabs(x[0]); };
  if (isa<SignOp>(op))
    return [](const T *x) { return x[0] > 0 ? T(1) : x[0] < 0 ? T(-1) : x[0]; };
  if (isa<CeilOp>(op))
    return [](const T *x) { return std::ceil(x[0]); };
  if (isa<FloorOp>(op))
    return [](const T *x) { return std::floor(x[0]); };
  if (isa<RoundOp>(op))
    return [](const T *x) { return std::nearbyint(x[0]); };
  if (isa<SqrtOp>(op))
    return [](const T *x) { return std::sqrt(x[0]); };
  if (isa<RsqrtOp>(op))
    return [](const T *x) {
      T root = std::sqrt(x[0]);
      return T(1) / root;
    };
  if (isa<ReciprocalOp>(op))
    return [](const T *x) { return T(1) / x[0]; };
  if (isa<ReluOp>(op))
    return [](const T *x) { return getMaximum(x[0], T(0)); };
  if (auto leaky = dyn_cast<LeakyReluOp>(op)) {
    T alpha = static_cast<T>(leaky.getAlpha().convertToDouble());
    return [alpha](const T *x) { return x[0] >= 0 ? x[0] : alpha * x[0]; };
  }
  if (auto hard = dyn_cast<HardSigmoidOp>(op)) {
    T alpha = static_cast<T>(hard.getAlpha().convertToDouble());
    T beta = static_cast<T>(hard.getBeta().convertToDouble());
    return [alpha, beta](const T *x) {
      T scaled = alpha * x[0];
      T line = scaled + beta;
      return clampToUnit(line);
    };
  }
  if (isa<HardSwishOp>(op))
    return [](const T *x) {
      T sixth = x[0] / T(6);
      T line = sixth + T(0.5);
      return x[0] * clampToUnit(line);
    };
  return nullptr;
}

static double getSoftplus(double x) {
  return getMaximum(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

static double getGelu(GeluKind kind, double x) {
  double inner = kind == GeluKind::Erf
                     ? std::erf(x * 0.70710678118654752440) // sqrt(1/2)
                     : std::tanh(0.79788456080286535588 *   // sqrt(2/pi)
                                 (x + 0.044715 * x * x * x));
  return x * (1.0 + inner) * 0.5;
}

static double getSigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// The library function that an op of one operand is, or null.
static double (*getUnaryFunction(Operation *op))(double) {
  if (isa<ExpOp>(op))
    return std::exp;
  if (isa<Exp2Op>(op))
    return std::exp2;
  if (isa<Expm1Op>(op))
    return std::expm1;
  if (isa<LogOp>(op))
    return std::log;
  if (isa<Log2Op>(op))
    return std::log2;
  if (isa<Log1pOp>(op))
    return std::log1p;
  if (isa<SinOp>(op))
    return std::sin;
  if (isa<CosOp>(op))
    return std::cos;
  if (isa<TanOp>(op))
    return std::tan;
  if (isa<AsinOp>(op))
    return std::asin;
  if (isa<AcosOp>(op))
    return std::acos;
  if (isa<AtanOp>(op))
    return std::atan;
  if (isa<SinhOp>(op))
    return std::sinh;
  if (isa<CoshOp>(op))
    return std::cosh;
  if (isa<AsinhOp>(op))
    return std::asinh;
  if (isa<AcoshOp>(op))
    return std::acosh;
  if (isa<AtanhOp>(op))
    return std::atanh;
  if (isa<TanhOp>(op))
    return std::tanh;
  if (isa<ErfOp>(op))
    return std::erf;
  if (isa<SigmoidOp>(op))
    return getSigmoid;
  if (isa<SoftplusOp>(op))
    return getSoftplus;
  if (isa<SiluOp>(op))
    return [](double x) { return x * getSigmoid(x); };
  if (isa<MishOp>(op))
    return [](double x) { return x * std::tanh(getSoftplus(x)); };
  return nullptr;
}

/// Bodies computed in f64 and rounded once.
static FloatBody<double> getRoundedBody(Operation *op) {
  if (double (*function)(double) = getUnaryFunction(op))
    return [function](const double *x) { return function(x[0]); };
  if (auto elu = dyn_cast<EluOp>(op)) {
    double alpha = elu.getAlpha().convertToDouble();
    if (!cast<RankedTensorType>(elu.getType()).getElementType().isF64())
      alpha = static_cast<float>(alpha);
    return [alpha](const double *x) {
      return x[0] > 0 ? x[0] : alpha * std::expm1(x[0]);
    };
  }
  if (auto gelu = dyn_cast<GeluOp>(op)) {
    GeluKind kind = gelu.getKind();
    return [kind](const double *x) { return getGelu(kind, x[0]); };
  }
  if (isa<PowOp>(op))
    return [](const double *x) { return std::pow(x[0], x[1]); };
  if (isa<Atan2Op>(op))
    return [](const double *x) { return std::atan2(x[0], x[1]); };
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

/// Bodies on sign-extended elements of `width` bits; the caller keeps the low
/// bits of the result.
static IntBody getIntBody(Operation *op, unsigned width) {
  if (isa<AddOp>(op))
    return
        [](const int64_t *x) { return wrap(uint64_t(x[0]) + uint64_t(x[1])); };
  if (isa<SubOp>(op))
    return
        [](const int64_t *x) { return wrap(uint64_t(x[0]) - uint64_t(x[1])); };
  if (isa<MulOp>(op))
    return
        [](const int64_t *x) { return wrap(uint64_t(x[0]) * uint64_t(x[1])); };
  if (isa<DivOp>(op))
    return [](const int64_t *x) {
      if (x[1] == 0)
        return int64_t(-1);
      if (seededBug(3) && x[1] != -1 && x[0] % x[1] && (x[0] ^ x[1]) < 0)
        return x[0] / x[1] - 1;
      return x[1] == -1 ? wrap(-uint64_t(x[0])) : x[0] / x[1];
    };
  if (isa<RemOp>(op))
    return [](const int64_t *x) {
      if (x[1] == 0)
        return x[0];
      return x[1] == -1 ? int64_t(0) : x[0] % x[1];
    };
  if (isa<MaxOp>(op))
    return [](const int64_t *x) { return std::max(x[0], x[1]); };
  if (isa<MinOp>(op))
    return [](const int64_t *x) { return std::min(x[0], x[1]); };
  if (isa<ClampOp>(op))
    return
        [](const int64_t *x) { return std::min(std::max(x[0], x[1]), x[2]); };
  if (isa<AndOp>(op))
    return [](const int64_t *x) { return x[0] & x[1]; };
  if (isa<OrOp>(op))
    return [](const int64_t *x) { return x[0] | x[1]; };
  if (isa<XorOp>(op))
    return [](const int64_t *x) { return x[0] ^ x[1]; };
  if (isa<ShiftLeftOp>(op))
    return [width](const int64_t *x) {
      bool inRange = x[1] >= 0 && x[1] < int64_t(width);
      return inRange ? wrap(uint64_t(x[0]) << x[1]) : int64_t(0);
    };
  if (isa<ShiftRightOp>(op))
    return [width](const int64_t *x) {
      bool inRange = x[1] >= 0 && x[1] < int64_t(width);
      uint64_t bits = uint64_t(x[0]) & (~uint64_t(0) >> (64 - width));
      return inRange ? wrap(bits >> x[1]) : int64_t(0);
    };
  if (isa<NegOp>(op))
    return [](const int64_t *x) { return wrap(-uint64_t(x[0])); };
  if (isa<AbsOp>(op))
    return [](const int64_t *x) {
      return x[0] < 0 ? wrap(-uint64_t(x[0])) : x[0];
    };
  if (isa<SignOp>(op))
    return
        [](const int64_t *x) { return int64_t(x[0] > 0) - int64_t(x[0] < 0); };
  if (isa<NotOp>(op))
    return [](const int64_t *x) { return ~x[0]; };
  if (isa<ReluOp>(op))
    return [](const int64_t *x) { return std::max<int64_t>(x[0], 0); };
  return nullptr;
}

template <typename T> static bool compare(CompareKind kind, T a, T b) {
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
  return false;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Truncates toward zero and saturates at the limits of `width` bits; NaN is 0.
static int64_t toInt(double value, unsigned width) {
  if (std::isnan(value))
    return 0;
  double limit = std::ldexp(1.0, width - 1);
  if (value >= limit)
    return wrap((uint64_t(1) << (width - 1)) - 1);
  if (value < -limit)
    return -wrap(uint64_t(1) << (width - 1));
  return static_cast<int64_t>(value);
}

static void castElement(const TensorData &from, int64_t i, Type to, char *at) {
  Type type = from.getElementType();
  if (isa<FloatType>(type)) {
    double value = from.getFloat(i);
    if (isa<FloatType>(to))
      storeFloat(to, value, at);
    else if (to.isInteger(1))
      storeInt(to, value != 0.0, at); // True for NaN.
    else
      storeInt(to, toInt(value, to.getIntOrFloatBitWidth()), at);
    return;
  }
  int64_t value = from.getInt(i);
  if (to.isInteger(1)) {
    storeInt(to, value != 0, at);
  } else if (isa<IntegerType>(to)) {
    storeInt(to, value, at);
  } else {
    // One rounding, also of what f64 can't hold.
    APFloat rounded(cast<FloatType>(to).getFloatSemantics());
    rounded.convertFromAPInt(APInt(64, value, /*isSigned=*/true),
                             /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
    uint64_t bits = rounded.bitcastToAPInt().getZExtValue();
    std::memcpy(at, &bits, getElementBytes(to));
  }
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

bool fusion::detail::isEvaluableElementwise(Operation *op, bool &isExact) {
  isExact = true;
  if (isa<CastOp, SelectOp, CompareOp, IsNanOp, IsInfOp>(op))
    return true;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!isa<FloatType>(type.getElementType()))
    return static_cast<bool>(getIntBody(op, type.getElementTypeBitWidth()));
  if (getExactBody<double>(op))
    return true;
  isExact = false;
  return static_cast<bool>(getRoundedBody(op));
}

template <typename T>
static void runFloatBody(const FloatBody<T> &body, Type type,
                         ArrayRef<TensorData> operands, int64_t i, char *at) {
  T values[3] = {};
  for (auto [k, operand] : llvm::enumerate(operands))
    values[k] = static_cast<T>(operand.getFloat(i));
  storeFloat(type, body(values), at);
}

TensorData fusion::detail::evaluateElementwise(Operation *op,
                                               ArrayRef<TensorData> operands,
                                               bool isSplat) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Type element = type.getElementType();
  int64_t size = getElementBytes(element);
  int64_t count = isSplat ? 1 : type.getNumElements();
  std::vector<char> bytes(count * size);
  auto forEach = [&](auto compute) {
    for (int64_t i = 0; i < count; ++i)
      compute(i, bytes.data() + i * size);
    return TensorData::own(type, std::move(bytes), isSplat);
  };

  if (isa<CastOp>(op))
    return forEach(
        [&](int64_t i, char *at) { castElement(operands[0], i, element, at); });
  if (isa<SelectOp>(op))
    return forEach([&](int64_t i, char *at) {
      const TensorData &chosen = operands[operands[0].getInt(i) ? 1 : 2];
      std::memcpy(at, chosen.getElement(i), size);
    });
  bool readsFloats = isa<FloatType>(operands[0].getElementType());
  if (auto comparison = dyn_cast<CompareOp>(op)) {
    CompareKind kind = comparison.getKind();
    return forEach([&](int64_t i, char *at) {
      *at =
          readsFloats
              ? compare(kind, operands[0].getFloat(i), operands[1].getFloat(i))
              : compare(kind, operands[0].getInt(i), operands[1].getInt(i));
    });
  }
  if (isa<IsNanOp>(op))
    return forEach([&](int64_t i, char *at) {
      *at = std::isnan(operands[0].getFloat(i));
    });
  if (isa<IsInfOp>(op))
    return forEach([&](int64_t i, char *at) {
      *at = std::isinf(operands[0].getFloat(i));
    });

  if (!readsFloats) {
    IntBody body = getIntBody(op, element.getIntOrFloatBitWidth());
    return forEach([&](int64_t i, char *at) {
      int64_t values[3] = {};
      for (auto [k, operand] : llvm::enumerate(operands))
        values[k] = operand.getInt(i);
      storeInt(element, body(values), at);
    });
  }
  if (element.isF64())
    if (FloatBody<double> body = getExactBody<double>(op))
      return forEach([&](int64_t i, char *at) {
        runFloatBody(body, element, operands, i, at);
      });
  if (FloatBody<float> body = getExactBody<float>(op))
    return forEach([&](int64_t i, char *at) {
      runFloatBody(body, element, operands, i, at);
    });
  FloatBody<double> body = getRoundedBody(op);
  return forEach([&](int64_t i, char *at) {
    runFloatBody(body, element, operands, i, at);
  });
}
