//===- ActivationIdioms.cpp - gelu and silu in primitives -----------------===//
//
// A gelu is written in many orders: x * 0.5 * (1 + e), x * (1 + e) / 2,
// 0.5 * x + 0.5 * x * e. All are one polynomial in x and in e, the erf or tanh,
// whose coefficients say what it is; so is the argument of tanh. Polynomials of
// a low degree are read off the graph within a fixed budget of ops.
//
//===----------------------------------------------------------------------===//
#include "Idioms.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

static constexpr double kSqrtHalf = 0.70710678118654752440;
static constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
static constexpr double kCubic = 0.044715;

/// Most ops of a polynomial, and of the steps from erf or tanh to the root.
static constexpr unsigned kMaxOps = 24, kMaxSteps = 8;

namespace {
/// Coefficients of x^i e^j.
struct Polynomial {
  static constexpr unsigned kX = 4, kE = 2;
  double at[kX][kE] = {};

  static Polynomial term(unsigned i, unsigned j, double coefficient = 1.0) {
    Polynomial p;
    p.at[i][j] = coefficient;
    return p;
  }
  bool isConstant() const {
    for (unsigned i = 0; i < kX; ++i)
      for (unsigned j = 0; j < kE; ++j)
        if (i + j > 0 && at[i][j] != 0.0)
          return false;
    return true;
  }
  Polynomial plus(const Polynomial &other, double sign) const {
    Polynomial sum = *this;
    for (unsigned i = 0; i < kX; ++i)
      for (unsigned j = 0; j < kE; ++j)
        sum.at[i][j] += sign * other.at[i][j];
    return sum;
  }
  /// Nullopt if the degree is too high.
  std::optional<Polynomial> times(const Polynomial &other) const {
    Polynomial product;
    for (unsigned i = 0; i < kX * kX; ++i)
      for (unsigned j = 0; j < kE * kE; ++j) {
        double factor = at[i % kX][j % kE] * other.at[i / kX][j / kE];
        if (factor == 0.0)
          continue;
        unsigned x = i % kX + i / kX, e = j % kE + j / kE;
        if (x >= kX || e >= kE)
          return std::nullopt;
        product.at[x][e] += factor;
      }
    return product;
  }
};

/// Reads a value as a polynomial in `x` and `e`, and remembers the ops.
class PolynomialReader {
public:
  PolynomialReader(Value x, Value e) : x(x), e(e) {}

  /// Recursion ends with the budget.
  std::optional<Polynomial> read(Value value);
  /// The ops between the value that was read and x, e and the constants.
  const llvm::SmallSetVector<Operation *, 16> &getOps() const { return ops; }

private:
  std::optional<Polynomial> readPower(PowOp op);

  Value x, e;
  unsigned budget = kMaxOps;
  llvm::SmallSetVector<Operation *, 16> ops;
};
} // namespace

std::optional<Polynomial> PolynomialReader::readPower(PowOp op) {
  std::optional<double> exponent = getSplatNumber(op.getRhs());
  std::optional<Polynomial> base = read(op.getLhs());
  if (!base || !exponent || (*exponent != 2.0 && *exponent != 3.0))
    return std::nullopt;
  std::optional<Polynomial> power = base->times(*base);
  return power && *exponent == 3.0 ? power->times(*base) : power;
}

std::optional<Polynomial> PolynomialReader::read(Value value) {
  if (value == x)
    return Polynomial::term(1, 0);
  if (value == e)
    return Polynomial::term(0, 1);
  if (std::optional<double> number = getSplatNumber(value))
    return Polynomial::term(0, 0, *number);
  Operation *op = value.getDefiningOp();
  if (!op || budget == 0 || !isa<AddOp, SubOp, MulOp, DivOp, NegOp, PowOp>(op))
    return std::nullopt;
  --budget;
  std::optional<Polynomial> result;
  if (auto pow = dyn_cast<PowOp>(op)) {
    result = readPower(pow);
  } else if (isa<NegOp>(op)) {
    result = read(op->getOperand(0));
    if (result)
      result = Polynomial().plus(*result, -1.0);
  } else {
    std::optional<Polynomial> lhs = read(op->getOperand(0));
    std::optional<Polynomial> rhs =
        lhs ? read(op->getOperand(1)) : std::nullopt;
    if (!rhs)
      return std::nullopt;
    if (isa<AddOp, SubOp>(op))
      result = lhs->plus(*rhs, isa<AddOp>(op) ? 1.0 : -1.0);
    else if (isa<MulOp>(op))
      result = lhs->times(*rhs);
    else if (rhs->isConstant() && rhs->at[0][0] != 0.0)
      result = lhs->times(Polynomial::term(0, 0, 1.0 / rhs->at[0][0]));
  }
  if (result)
    ops.insert(op);
  return result;
}

/// Whether a coefficient is `wanted`, but for the rounding of the constants
/// that it comes from to `element`: two, each by half a unit at most. A
/// constant that is one step of bf16 away is another number.
static bool isNear(double value, double wanted, Type element) {
  double unit = element.isF64()   ? std::ldexp(1.0, -53)
                : element.isF32() ? std::ldexp(1.0, -24)
                                  : std::ldexp(1.0, element.isF16() ? -11 : -8);
  return std::abs(value - wanted) <= 1.5 * unit * wanted;
}

/// x/2 + x*e/2 and nothing else.
static bool isGelu(const Polynomial &p, Type element) {
  Polynomial rest = p;
  rest.at[1][0] = rest.at[1][1] = 0.0;
  return rest.isConstant() && rest.at[0][0] == 0.0 &&
         isNear(p.at[1][0], 0.5, element) && isNear(p.at[1][1], 0.5, element);
}

/// The argument's linear and cubic coefficients in x, if it has no others.
static std::optional<std::pair<double, double>>
readArgument(Value argument, Value x, Idiom &idiom) {
  PolynomialReader reader(x, Value());
  std::optional<Polynomial> p = reader.read(argument);
  if (!p || p->at[0][0] != 0.0 || p->at[2][0] != 0.0 || p->at[1][0] == 0.0)
    return std::nullopt;
  idiom.interior.assign(reader.getOps().begin(), reader.getOps().end());
  return std::pair(p->at[1][0], p->at[3][0]);
}

/// Values that an argument may be a polynomial of, the nearest first.
static SmallVector<Value> collectVariables(Value argument) {
  llvm::SmallSetVector<Value, 16> variables;
  variables.insert(argument);
  for (size_t i = 0; i < variables.size() && variables.size() < kMaxOps; ++i) {
    Operation *op = variables[i].getDefiningOp();
    if (!op || !isa<AddOp, SubOp, MulOp, DivOp, NegOp, PowOp>(op))
      continue;
    for (Value operand : op->getOperands())
      if (!getSplatNumber(operand))
        variables.insert(operand);
  }
  return variables.takeVector();
}

/// Climbs from erf or tanh to the root of the gelu of `idiom.input`.
static bool findGeluRoot(Operation *anchor, Idiom &idiom) {
  Type element = getTensorType(idiom.input).getElementType();
  Value e = anchor->getResult(0), value = e;
  for (unsigned step = 0; step < kMaxSteps && value.hasOneUse(); ++step) {
    Operation *reader = *value.user_begin();
    if (!isa<AddOp, SubOp, MulOp, DivOp>(reader))
      return false;
    value = reader->getResult(0);
    PolynomialReader polynomial(idiom.input, e);
    std::optional<Polynomial> p = polynomial.read(value);
    if (!p)
      return false;
    if (!isGelu(*p, element))
      continue;
    idiom.root = reader;
    llvm::append_range(idiom.interior, polynomial.getOps());
    return true;
  }
  return false;
}

std::optional<Idiom> fusion::matchGelu(Operation *anchor) {
  Idiom idiom(IdiomKind::Gelu);
  bool isErf = isa<ErfOp>(anchor);
  if (!isErf && !isa<TanhOp>(anchor))
    return std::nullopt;
  idiom.gelu = isErf ? GeluKind::Erf : GeluKind::Tanh;
  Value argument = anchor->getOperand(0);
  Type element = getTensorType(argument).getElementType();

  // Each candidate for x; the last that is near says why none is.
  std::string reason;
  for (Value x : collectVariables(argument)) {
    auto coefficients = readArgument(argument, x, idiom);
    if (!coefficients)
      continue;
    auto [linear, cubic] = *coefficients;
    // A tanh of anything without a cube is no gelu, not even nearly.
    if ((cubic != 0.0) == isErf || x == argument)
      continue;
    if (isErf ? !isNear(linear, kSqrtHalf, element)
              : !isNear(linear, kSqrtTwoOverPi, element) ||
                    !isNear(cubic, kSqrtTwoOverPi * kCubic, element)) {
      if (reason.empty())
        reason = isErf
                     ? llvm::formatv("erf's argument is {0} * x, not "
                                     "sqrt(1/2) * x",
                                     formatNumber(linear))
                           .str()
                     : llvm::formatv("tanh's argument is {0} * x + {1} * "
                                     "x^3, not sqrt(2/pi) * (x + 0.044715 * "
                                     "x^3)",
                                     formatNumber(linear), formatNumber(cubic))
                           .str();
      continue;
    }
    idiom.input = x;
    idiom.take(anchor);
    if (!findGeluRoot(anchor, idiom))
      return idiom.refuse(
          llvm::formatv("no op computes x * (1 + {0}) / 2 from it alone",
                        isErf ? "erf" : "tanh"));
    if (std::string outside = findOutsideReader(idiom); !outside.empty())
      return idiom.refuse(outside);
    idiom.addRounding("several roundings become one");
    return idiom;
  }
  if (reason.empty())
    return std::nullopt;
  return idiom.refuse(reason);
}

/// From exp(-x): takes 1 + exp(-x) and what divides by it. Null if nothing
/// does; `isProduct` if that is x * (1 / (1 + exp(-x))).
static Operation *findLogistic(ExpOp exponential, Idiom &idiom) {
  auto one = exponential->hasOneUse()
                 ? dyn_cast<AddOp>(*exponential->user_begin())
                 : AddOp();
  std::optional<SplatOperand> parts = one ? getSplatOperand(one) : std::nullopt;
  if (!parts || parts->number != 1.0 || !one->hasOneUse())
    return nullptr;
  idiom.take(exponential);
  idiom.take(one);
  Operation *division = *one->user_begin();
  if (isa<ReciprocalOp>(division))
    return division;
  return isa<DivOp>(division) && division->getOperand(1) == one.getResult()
             ? division
             : nullptr;
}

std::optional<Idiom> fusion::matchSilu(Operation *anchor) {
  Idiom idiom(IdiomKind::Silu);
  Operation *gate = anchor;
  Value x;
  if (auto sigmoid = dyn_cast<SigmoidOp>(anchor)) {
    x = sigmoid.getInput();
  } else if (auto exponential = dyn_cast<ExpOp>(anchor)) {
    auto neg = exponential.getInput().getDefiningOp<NegOp>();
    gate = neg ? findLogistic(exponential, idiom) : nullptr;
    if (!gate)
      return std::nullopt;
    idiom.take(neg);
    x = neg.getInput();
    idiom.addRounding("several roundings become one");
  } else {
    return std::nullopt;
  }
  idiom.input = x;
  if (isa<DivOp>(gate) && gate->getOperand(0) == x) {
    idiom.root = gate;
  } else {
    // 1 / (1 + exp(-x)) or sigmoid(x), times x.
    if (isa<DivOp>(gate) && getSplatNumber(gate->getOperand(0)) != 1.0)
      return std::nullopt;
    for (Operation *reader : gate->getUsers())
      if (isa<MulOp>(reader) && getOther(reader, gate->getResult(0)) == x) {
        idiom.root = reader;
        break;
      }
  }
  idiom.take(gate);
  if (!idiom.root) {
    // A gate of something else is nothing like it, unless that is c * x.
    std::optional<SplatOperand> scaled;
    if (Operation *product = x.getDefiningOp(); isa_and_nonnull<MulOp>(product))
      scaled = getSplatOperand(product);
    if (!scaled || !gate->hasOneUse() || !isa<MulOp>(*gate->user_begin()) ||
        getOther(*gate->user_begin(), gate->getResult(0)) != scaled->rest)
      return std::nullopt;
    return idiom.refuse(llvm::formatv("the sigmoid is of {0} * x, not of x",
                                      formatNumber(scaled->number)));
  }
  idiom.take(idiom.root);
  if (std::string outside = findOutsideReader(idiom); !outside.empty())
    return idiom.refuse(outside);
  Type element = getTensorType(x).getElementType();
  if (!element.isF64())
    idiom.addRounding("several roundings become one");
  return idiom;
}
