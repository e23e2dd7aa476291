//===- ExpandMath.cpp - Transcendentals on a CPU --------------------------===//
//
// exp, exp2, expm1, log, log1p, tanh, erf and erfc are arithmetic in f64, for
// f32 too (one rounding at the end); all others are calls of libm's functions,
// lane by lane. Reductions of the argument: Cody and Waite, "Software Manual
// for the Elementary Functions", 1980; the logarithm's series is that of
// fdlibm's e_log.c (Sun Microsystems, 1993).
//
//===----------------------------------------------------------------------===//
#include "ExpandMath.h"
#include "FloatBuilder.h"
#include "fusion/IR/MathPrecision.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

using F = arith::CmpFPredicate;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// ln 2 in two parts: the upper has 21 trailing zeros, so n * upper is exact.
static constexpr double kLn2High = 6.93147180369123816490e-01;
static constexpr double kLn2Low = 1.90821492927058770002e-10;
/// Adding it rounds to an integer, held in the low bits.
static constexpr double kRoundMagic = 6755399441055744.0; // 1.5 * 2^52
static constexpr uint64_t kRoundMagicBits = 0x4338000000000000;

namespace {
/// x = n ln 2 + r, and exp(r) - 1.
struct ExpParts {
  Value n;    ///< as i64
  Value tail; ///< exp(r) - 1
};
} // namespace

/// exp(r) - 1 for |r| <= ln(2) / 2 by its Taylor series: below half an ULP of
/// f64 after r^13, 2^-32 relative (f32 results) after r^8.
static Value expTail(FloatBuilder &b, Value r, bool forF32) {
  static constexpr double c[] = {
      1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
      1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
      1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  ArrayRef<double> terms(c);
  Value q = b.polynomial(r, forF32 ? terms.take_front(7) : terms);
  return b.mulAdd(b.mul(r, r), q, r);
}

static ExpParts splitExp(FloatBuilder &b, Value x, bool forF32) {
  Value shifted = b.mulAdd(x, b.number(x, 1.44269504088896338700), kRoundMagic);
  Value n = b.sub(shifted, kRoundMagic);
  Value r = b.mulAdd(n, -kLn2Low, b.mulAdd(n, -kLn2High, x));
  return {b.isub(b.bits(shifted), kRoundMagicBits), expTail(b, r, forF32)};
}

/// 2^n for n in [-1022, 1023].
static Value powerOfTwo(FloatBuilder &b, Value n) {
  return b.fromBits(b.shl(b.iadd(n, 1023), 52), b.b.getF64Type());
}

/// x * 2^n for any n that exp gives: in two steps, as 2^n may be out of range.
static Value scale(FloatBuilder &b, Value x, Value n) {
  Value half = b.isub(b.shr(b.iadd(n, 4096), 1), 2048);
  return b.mul(b.mul(x, powerOfTwo(b, half)), powerOfTwo(b, b.isub(n, half)));
}

/// Limits x; NaN stays.
static Value limit(FloatBuilder &b, Value x, double low, double high) {
  x = b.select(b.less(x, low), b.number(x, low), x);
  return b.select(b.greater(x, high), b.number(x, high), x);
}

static Value buildExp(FloatBuilder &b, Value x, bool forF32) {
  // Beyond the limits the result is 0 or infinite in f32, f64 holds both.
  if (forF32) {
    ExpParts parts = splitExp(b, limit(b, x, -110.0, 110.0), true);
    return b.mul(b.add(parts.tail, 1.0), powerOfTwo(b, parts.n));
  }
  ExpParts parts = splitExp(b, limit(b, x, -746.0, 710.0), false);
  return scale(b, b.add(parts.tail, 1.0), parts.n);
}

/// For x in [-708, 709], with the precision of f32 in the range of f64: what it
/// is multiplied by may bring it back into the range of f32.
static Value buildWideExp(FloatBuilder &b, Value x) {
  ExpParts parts = splitExp(b, x, true);
  return b.mul(b.add(parts.tail, 1.0), powerOfTwo(b, parts.n));
}

/// The same for any x: 0 and infinite beyond.
static Value buildLimitedWideExp(FloatBuilder &b, Value x) {
  Value value = buildWideExp(b, limit(b, x, -708.0, 709.0));
  value = b.select(b.less(x, -708.0), b.number(x, 0.0), value);
  return b.select(b.greater(x, 709.0), b.number(x, kInfinity), value);
}

static Value buildExp2(FloatBuilder &b, Value x, bool forF32) {
  x = forF32 ? limit(b, x, -160.0, 160.0) : limit(b, x, -1076.0, 1025.0);
  Value shifted = b.add(x, kRoundMagic);
  Value r =
      b.mul(b.sub(x, b.sub(shifted, kRoundMagic)), 0.69314718055994530942);
  Value n = b.isub(b.bits(shifted), kRoundMagicBits);
  Value value = b.add(expTail(b, r, forF32), 1.0);
  return forF32 ? b.mul(value, powerOfTwo(b, n)) : scale(b, value, n);
}

static Value buildExpm1(FloatBuilder &b, Value x) {
  // Below -50 it is -1; above 50 the 1 is lost.
  ExpParts parts = splitExp(b, limit(b, x, -50.0, 50.0), false);
  Value power = powerOfTwo(b, parts.n);
  Value near = b.add(b.mul(power, parts.tail), b.sub(power, 1.0));
  Value value = b.select(b.greater(x, 50.0), buildExp(b, x, false), near);
  return b.select(b.equal(x, 0.0), x, value); // keeps -0
}

static Value buildLog(FloatBuilder &b, Value x) {
  // Subnormals first become normal.
  Value isTiny = b.less(x, std::numeric_limits<double>::min());
  Value normal = b.select(isTiny, b.mul(x, 0x1p54), x);
  Value bits = b.bits(normal);
  // m in [sqrt(1/2), sqrt(2)): the exponent of x / sqrt(1/2), biased to be >=
  // 0.
  Value moved = b.isub(b.iadd(bits, uint64_t(1024) << 52), 0x3fe6a09e667f3bcd);
  Value biased = b.shr(moved, 52);
  Value exponent = b.isub(biased, 1024);
  Value m = b.fromBits(b.isub(bits, b.shl(exponent, 52)), b.b.getF64Type());
  Value k =
      b.sub(b.fromBits(b.iadd(exponent, kRoundMagicBits), b.b.getF64Type()),
            kRoundMagic);
  k = b.select(isTiny, b.sub(k, 54.0), k);
  Value f = b.sub(m, 1.0);
  Value s = b.div(f, b.add(f, 2.0));
  Value z = b.mul(s, s);
  Value r = b.mul(
      z, b.polynomial(z, {6.666666666666735130e-01, 3.999999999940941908e-01,
                          2.857142874366239149e-01, 2.222219843214978396e-01,
                          1.818357216161805012e-01, 1.531383769920937332e-01,
                          1.479819860511658591e-01}));
  Value square = b.mul(b.mul(f, f), 0.5);
  Value inner = b.add(b.mul(s, b.add(square, r)), b.mul(k, kLn2Low));
  Value value = b.sub(b.mul(k, kLn2High), b.sub(b.sub(square, inner), f));
  value = b.select(b.equal(x, 0.0), b.number(x, -kInfinity), value);
  value = b.select(b.less(x, 0.0), b.number(x, kNan), value);
  // +inf and NaN are their own logarithms.
  Value isFinite = b.less(x, kInfinity);
  return b.select(isFinite, value, x);
}

static Value buildLog1p(FloatBuilder &b, Value x) {
  // ln(u) for the rounded u = 1 + x, and what the rounding lost.
  Value u = b.add(x, 1.0);
  Value lost = b.div(b.sub(x, b.sub(u, 1.0)), u);
  Value value = b.add(buildLog(b, u), lost);
  value = b.select(b.equal(u, 0.0), b.number(x, -kInfinity), value);
  value = b.select(b.equal(x, kInfinity), x, value);
  return b.select(b.equal(x, 0.0), x, value); // keeps -0
}

static Value buildTanh(FloatBuilder &b, Value x) {
  // t / (t + 2) with t = exp(2|x|) - 1; beyond 22 it rounds to 1.
  Value magnitude = limit(b, b.abs(x), 0.0, 22.0);
  Value t = buildExpm1(b, b.add(magnitude, magnitude));
  return b.copySign(b.div(t, b.add(t, 2.0)), x);
}

/// Near zero x Q(x^2). Beyond, 1 - t exp(-x^2 + P(t)) with t = 1 / (1 + |x| /
/// 2), the form of "Numerical Recipes" (Press et al.), section 6.2. Q on [0,
/// 9/16] and P on [1/4, 1], by its distance from the middle, are Chebyshev fits
/// made with 50 digits; their errors are 8e-19 and 5e-18.
static Value buildErf(FloatBuilder &b, Value x) {
  static constexpr double q[] = {
      1.1283791670955126,      -0.37612638903183715,    0.11283791670952596,
      -0.026866170644428485,   0.005223977615420539,    -0.0008548326188759752,
      0.00012055289567541706,  -1.4924196305569617e-05, 1.643068417974155e-06,
      -1.5940066854661717e-07, 1.1472499701094691e-08};
  static constexpr double p[] = {
      -0.5014367259211941,    0.5153126870212867,      0.005570761974861621,
      -0.021523642465598118,  0.0004935317205943646,   0.0020287640490839584,
      -0.0003302199968072782, -0.0001949456041471124,  8.147012646306886e-05,
      9.023444431373703e-06,  -1.3601179560908369e-05, 2.116862205335719e-06,
      1.4090795513368938e-06, -6.928529122987724e-07,  -8.250781228450246e-09,
      1.0219008545877706e-07, -2.8809632359014355e-08, -6.0933194640431086e-09,
      5.711453603011776e-09,  -6.230506357588545e-10,  -5.222406926640389e-10,
      1.2368365779688072e-10, 1.5543747051003107e-11};
  Value magnitude = limit(b, b.abs(x), 0.0, 6.0); // beyond, it rounds to 1
  Value square = b.mul(magnitude, magnitude);
  Value near = b.mul(magnitude, b.polynomial(square, q));
  Value t = b.div(b.number(x, 1.0), b.add(b.mul(magnitude, 0.5), 1.0));
  Value u = b.mul(b.sub(t, 0.625), 1 / 0.375);
  Value exponent = b.sub(b.polynomial(u, p), square);
  Value tail = b.mul(t, buildExp(b, exponent, false));
  Value far = b.sub(b.number(x, 1.0), tail);
  return b.copySign(b.select(b.less(magnitude, 0.75), near, far), x);
}

/// 1 - erf(x) for f32, in f64: the tail of buildErf, for all of x. P is fitted
/// on [1/11, 1], x up to 20, where it is below 1e-175; its error is 4.5e-10.
static Value buildErfc(FloatBuilder &b, Value x) {
  static constexpr double p[] = {
      -0.610289285511221,     0.6182379972229459,     0.028208173541428887,
      -0.03736705482074515,   -0.0038974023643337462, 0.005822279052715802,
      0.0001583358488577741,  -0.0011622615183458532, 0.00015128714335386708,
      0.00022341198187223312, -6.700286419351691e-05, -3.289832662677739e-05,
      1.1863910921297915e-05, 2.5570355389830433e-06};
  Value magnitude = limit(b, b.abs(x), 0.0, 20.0);
  Value t = b.div(b.number(x, 1.0), b.mulAdd(magnitude, b.number(x, 0.5), 1.0));
  Value u = b.mul(b.sub(t, 6.0 / 11), 11.0 / 5);
  Value exponent = b.sub(b.polynomial(u, p), b.mul(magnitude, magnitude));
  Value tail = b.mul(t, buildWideExp(b, exponent));
  tail = b.select(b.greater(b.abs(x), 20.0), b.number(x, 0.0), tail);
  return b.select(b.less(x, 0.0), b.sub(b.number(x, 2.0), tail), tail);
}

/// Rounds to the nearest integer, ties to even, with additions only.
static Value buildRound(FloatBuilder &b, Value x) {
  bool isF64 = getElementTypeOrSelf(x.getType()).isF64();
  // From 2^52 (f64) or 2^23 (f32) on, every number is an integer.
  double large = isF64 ? 4503599627370496.0 : 8388608.0;
  Value magnitude = b.abs(x);
  Value rounded = b.sub(b.add(magnitude, large), large);
  Value value = b.copySign(rounded, x);
  return b.select(b.less(magnitude, large), value, x);
}

static Value buildFloor(FloatBuilder &b, Value x) {
  Value rounded = buildRound(b, x);
  Value lowered = b.sub(rounded, 1.0);
  Value value = b.select(b.compare(F::OGT, rounded, x), lowered, rounded);
  return b.copySign(value, x); // a zero keeps its sign
}

static Value buildCeil(FloatBuilder &b, Value x) {
  Value rounded = buildRound(b, x);
  Value raised = b.add(rounded, 1.0);
  Value value = b.select(b.compare(F::OLT, rounded, x), raised, rounded);
  return b.copySign(value, x);
}

namespace {
/// Builds calls of imported functions.
class Importer {
public:
  Importer(ModuleOp kernels, ImportTable &imports)
      : kernels(kernels), imports(imports) {}

  /// Calls libm's `name` (of doubles; `f` is appended for f32) lane by lane.
  Value call(FloatBuilder &b, StringRef name, ValueRange arguments) {
    Type element = getElementTypeOrSelf(arguments[0].getType());
    bool isF64 = element.isF64();
    std::string symbol = name.str() + (isF64 ? "" : "f");
    std::string one = isF64 ? "f64" : "f32", signature = one + "(" + one;
    for (size_t i = 1; i < arguments.size(); ++i)
      signature += "," + one;
    auto found = llvm::find_if(
        imports, [&](auto &entry) { return entry.first == symbol; });
    unsigned ordinal = found - imports.begin();
    if (found == imports.end())
      imports.push_back({symbol, signature + ")"});
    auto vector = dyn_cast<VectorType>(arguments[0].getType());
    Value function = loadFunction(b, ordinal);
    if (!vector)
      return callOne(b, function, element, arguments);
    // Through memory, one call in a loop: sixteen calls in a row would be much
    // code for nothing.
    auto allocate = [&] {
      OpBuilder::InsertionGuard guard(b.b);
      auto function = b.b.getBlock()->getParentOp();
      if (!isa<func::FuncOp>(function))
        function = function->getParentOfType<func::FuncOp>();
      b.b.setInsertionPointToStart(&function->getRegion(0).front());
      Value one =
          arith::ConstantOp::create(b.b, b.loc, b.b.getI64IntegerAttr(1));
      return LLVM::AllocaOp::create(
                 b.b, b.loc, LLVM::LLVMPointerType::get(b.b.getContext()),
                 vector, one, 64)
          .getResult();
    };
    SmallVector<Value> slots;
    for (Value argument : arguments) {
      slots.push_back(allocate());
      LLVM::StoreOp::create(b.b, b.loc, argument, slots.back());
    }
    Value to = allocate();
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b.b, b.loc,
                                       b.b.getI64IntegerAttr(value));
    };
    auto loop = scf::ForOp::create(b.b, b.loc, number(0),
                                   number(vector.getNumElements()), number(1));
    {
      OpBuilder::InsertionGuard guard(b.b);
      b.b.setInsertionPointToStart(loop.getBody());
      auto at = [&](Value slot) -> Value {
        return LLVM::GEPOp::create(b.b, b.loc, slot.getType(), element, slot,
                                   ValueRange{loop.getInductionVar()});
      };
      SmallVector<Value> scalars;
      for (Value slot : slots)
        scalars.push_back(LLVM::LoadOp::create(b.b, b.loc, element, at(slot)));
      Value value = callOne(b, function, element, scalars);
      LLVM::StoreOp::create(b.b, b.loc, value, at(to));
    }
    return LLVM::LoadOp::create(b.b, b.loc, vector, to);
  }

private:
  Value loadFunction(FloatBuilder &b, unsigned ordinal) {
    Type pointer = LLVM::LLVMPointerType::get(kernels.getContext());
    // The array's size is known when all calls are; the type does not matter.
    Value base =
        LLVM::AddressOfOp::create(b.b, b.loc, pointer, "fusion_imports");
    Value slot = LLVM::GEPOp::create(
        b.b, b.loc, pointer, pointer, base,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(ordinal)});
    // Filled at load and never changed.
    auto load = LLVM::LoadOp::create(b.b, b.loc, pointer, slot);
    load.setInvariant(true);
    return load;
  }

  Value callOne(FloatBuilder &b, Value function, Type element,
                ValueRange arguments) {
    SmallVector<Type> types(arguments.size(), element);
    auto type = LLVM::LLVMFunctionType::get(element, types);
    SmallVector<Value> operands{function};
    operands.append(arguments.begin(), arguments.end());
    return LLVM::CallOp::create(b.b, b.loc, type, operands).getResult();
  }

  ModuleOp kernels;
  ImportTable &imports;
};
} // namespace

/// libm's name of a math op without an expansion, or "".
static StringRef libmName(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](math::Log2Op) { return "log2"; })
      .Case([](math::SinOp) { return "sin"; })
      .Case([](math::CosOp) { return "cos"; })
      .Case([](math::TanOp) { return "tan"; })
      .Case([](math::AsinOp) { return "asin"; })
      .Case([](math::AcosOp) { return "acos"; })
      .Case([](math::AtanOp) { return "atan"; })
      .Case([](math::SinhOp) { return "sinh"; })
      .Case([](math::CoshOp) { return "cosh"; })
      .Case([](math::AsinhOp) { return "asinh"; })
      .Case([](math::AcoshOp) { return "acosh"; })
      .Case([](math::AtanhOp) { return "atanh"; })
      .Case([](math::PowFOp) { return "pow"; })
      .Case([](math::Atan2Op) { return "atan2"; })
      .Case([](arith::RemFOp) { return "fmod"; })
      .Default([](Operation *) { return ""; });
}

LogicalResult codegen::expandMath(ModuleOp kernels,
                                  const CpuAbilities &abilities,
                                  ImportTable &imports) {
  SmallVector<Operation *> worklist;
  kernels.walk([&](Operation *op) {
    if (isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op))
      worklist.push_back(op);
  });
  Importer importer(kernels, imports);
  for (Operation *op : worklist) {
    OpBuilder builder(op);
    FloatBuilder b(builder, op->getLoc(), abilities.fusedMultiplyAdd);
    Value x = op->getOperand(0);
    bool isF32 = getElementTypeOrSelf(x.getType()).isF32();
    // f32 is computed in f64 and rounded once.
    auto inF64 = [&](llvm::function_ref<Value(Value)> build) {
      return isF32 ? b.narrow(build(b.widen(x))) : build(x);
    };
    Value result =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case([&](math::ExpOp) {
              if (op->hasAttr(kRoundedToF32Attr))
                return buildLimitedWideExp(b, x);
              return inF64(
                  [&](Value wide) { return buildExp(b, wide, isF32); });
            })
            .Case([&](math::Exp2Op) {
              return inF64(
                  [&](Value wide) { return buildExp2(b, wide, isF32); });
            })
            .Case([&](math::ExpM1Op) {
              return inF64([&](Value wide) { return buildExpm1(b, wide); });
            })
            .Case([&](math::LogOp) {
              return inF64([&](Value wide) { return buildLog(b, wide); });
            })
            .Case([&](math::Log1pOp) {
              return inF64([&](Value wide) { return buildLog1p(b, wide); });
            })
            .Case([&](math::TanhOp) {
              return inF64([&](Value wide) { return buildTanh(b, wide); });
            })
            .Case([&](math::ErfOp) {
              return inF64([&](Value wide) { return buildErf(b, wide); });
            })
            .Case([&](math::ErfcOp) { return buildErfc(b, x); })
            .Case([&](math::RoundEvenOp) {
              return abilities.rounding ? nullptr : buildRound(b, x);
            })
            .Case([&](math::FloorOp) {
              return abilities.rounding ? nullptr : buildFloor(b, x);
            })
            .Case([&](math::CeilOp) {
              return abilities.rounding ? nullptr : buildCeil(b, x);
            })
            .Default([&](Operation *other) -> Value {
              StringRef name = libmName(other);
              return name.empty()
                         ? nullptr
                         : importer.call(b, name, other->getOperands());
            });
    if (!result)
      continue; // one instruction: the conversion to LLVM knows it
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
  return success();
}

void codegen::declareImports(ModuleOp kernels, const ImportTable &imports) {
  if (imports.empty())
    return;
  MLIRContext *context = kernels.getContext();
  if (Operation *old = kernels.lookupSymbol("fusion_imports"))
    old->erase();
  OpBuilder b = OpBuilder::atBlockBegin(kernels.getBody());
  auto type = LLVM::LLVMArrayType::get(LLVM::LLVMPointerType::get(context),
                                       imports.size());
  auto array = LLVM::GlobalOp::create(
      b, kernels.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External,
      "fusion_imports", Attribute());
  array.setDsoLocal(true);
  Block *block = b.createBlock(&array.getInitializerRegion());
  b.setInsertionPointToEnd(block);
  Value zero = LLVM::ZeroOp::create(b, kernels.getLoc(), type);
  LLVM::ReturnOp::create(b, kernels.getLoc(), zero);

  Builder attrs(context);
  SmallVector<Attribute> entries;
  for (auto &[name, signature] : imports)
    entries.push_back(attrs.getStrArrayAttr({name, signature}));
  kernels->setAttr("fusion.imports", attrs.getArrayAttr(entries));
}
