//===- ElementwiseTest.cpp - Unary, binary, select and activations --------===//
//
// Expected values are worked out by hand, or are mathematical constants, or
// come from a formula other than the evaluator's.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"

#include <cmath>
#include <limits>

using namespace fusion::reference;
using namespace fusion::reference::testing;

static const double kInf = std::numeric_limits<double>::infinity();
static const double kNan = std::numeric_limits<double>::quiet_NaN();
static constexpr int64_t kLeast32 = std::numeric_limits<int32_t>::min();
static constexpr int64_t kLeast64 = std::numeric_limits<int64_t>::min();

static std::string typeOf(const Tensor &tensor) {
  return "tensor<" + std::to_string(tensor.getNumElements()) + "x" +
         getName(tensor.getKind()).str() + ">";
}

static Tensor unary(const std::string &op, const Tensor &x) {
  std::string type = typeOf(x);
  return evaluateOp("%x: " + type, "fusion." + op + " : " + type, type, {x});
}

static Tensor binary(const std::string &op, const Tensor &a, const Tensor &b) {
  std::string type = typeOf(a);
  return evaluateOp("%a: " + type + ", %b: " + type,
                    "fusion." + op + " %a, %b : " + type, type, {a, b});
}

static std::vector<int64_t> bits(const std::string &op, const Tensor &x) {
  return intsOf(
      evaluateOp("%x: " + typeOf(x), "fusion." + op + " : " + typeOf(x),
                 "tensor<" + std::to_string(x.getNumElements()) + "xi1>", {x}));
}

TEST(Elementwise, IntegersDivideTowardZero) {
  Tensor a = i32({7}, {7, -7, 7, -7, 5, kLeast32, 0});
  Tensor b = i32({7}, {2, 2, -2, -2, 0, -1, 0});
  EXPECT_EQ(intsOf(binary("div", a, b)),
            (std::vector<int64_t>{3, -3, -3, 3, -1, kLeast32, -1}));
  EXPECT_EQ(intsOf(binary("rem", a, b)),
            (std::vector<int64_t>{1, -1, 1, -1, 5, 0, 0}));
  EXPECT_EQ(
      intsOf(binary("div", i64({2}, {kLeast64, kLeast64}), i64({2}, {-1, 0}))),
      (std::vector<int64_t>{kLeast64, -1}));
  EXPECT_EQ(intsOf(binary("div", ints(ElementKind::I8, {1}, {-128}),
                          ints(ElementKind::I8, {1}, {-1}))),
            (std::vector<int64_t>{-128}));
}

TEST(Elementwise, IntegersWrap) {
  Tensor most = i32({2}, {2147483647, kLeast32});
  EXPECT_EQ(intsOf(binary("add", most, i32({2}, {1, -1}))),
            (std::vector<int64_t>{kLeast32, 2147483647}));
  EXPECT_EQ(intsOf(binary("mul", i64({1}, {int64_t(1) << 62}), i64({1}, {6}))),
            (std::vector<int64_t>{kLeast64}));
  EXPECT_EQ(intsOf(unary("neg %x", most)),
            (std::vector<int64_t>{-2147483647, kLeast32}));
  EXPECT_EQ(intsOf(unary("abs %x", most)),
            (std::vector<int64_t>{2147483647, kLeast32}));
  EXPECT_EQ(intsOf(unary("sign %x", i32({3}, {-9, 0, 4}))),
            (std::vector<int64_t>{-1, 0, 1}));
}

TEST(Elementwise, ShiftsAndBits) {
  Tensor a = ints(ElementKind::I8, {6}, {-1, -1, -1, 1, 1, 64});
  Tensor b = ints(ElementKind::I8, {6}, {1, 8, -1, 7, 8, 1});
  EXPECT_EQ(intsOf(binary("shift_right", a, b)),
            (std::vector<int64_t>{127, 0, 0, 0, 0, 32}));
  EXPECT_EQ(intsOf(binary("shift_left", a, b)),
            (std::vector<int64_t>{-2, 0, 0, -128, 0, -128}));
  EXPECT_EQ(
      intsOf(binary("shift_right", i64({2}, {-1, -1}), i64({2}, {63, 64}))),
      (std::vector<int64_t>{1, 0}));
  Tensor p = ints(ElementKind::I1, {4}, {0, 0, 1, 1});
  Tensor q = ints(ElementKind::I1, {4}, {0, 1, 0, 1});
  EXPECT_EQ(intsOf(binary("and", p, q)), (std::vector<int64_t>{0, 0, 0, 1}));
  EXPECT_EQ(intsOf(binary("or", p, q)), (std::vector<int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(intsOf(binary("xor", p, q)), (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(intsOf(unary("not %x", p)), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(intsOf(unary("not %x", i32({1}, {5}))), (std::vector<int64_t>{-6}));
}

// A NaN from either side, and +0 above -0, on both sides.
TEST(Elementwise, MaxAndMinOfSpecials) {
  Tensor a = f32({6}, {kNan, 1, -0.0, 0.0, -kInf, 2});
  Tensor b = f32({6}, {1, kNan, 0.0, -0.0, 3, 5});
  std::vector<double> most = valuesOf(binary("max", a, b));
  std::vector<double> least = valuesOf(binary("min", a, b));
  for (int i : {0, 1}) {
    EXPECT_TRUE(std::isnan(most[i]));
    EXPECT_TRUE(std::isnan(least[i]));
  }
  for (int i : {2, 3}) {
    EXPECT_FALSE(std::signbit(most[i]));
    EXPECT_TRUE(std::signbit(least[i]));
  }
  EXPECT_EQ(most[4], 3);
  EXPECT_EQ(least[4], -kInf);
  EXPECT_EQ(most[5], 5);
  EXPECT_EQ(least[5], 2);
}

TEST(Elementwise, SignsAndRounding) {
  std::vector<double> sign =
      valuesOf(unary("sign %x", f32({4}, {-0.0, kNan, -3, kInf})));
  EXPECT_TRUE(sign[0] == 0 && std::signbit(sign[0]));
  EXPECT_TRUE(std::isnan(sign[1]));
  EXPECT_EQ(sign[2], -1);
  EXPECT_EQ(sign[3], 1);
  Tensor halves = f32({5}, {0.5, 1.5, 2.5, -0.5, -1.5});
  EXPECT_EQ(valuesOf(unary("round %x", halves)),
            (std::vector<double>{0, 2, 2, -0.0, -2}));
  EXPECT_EQ(valuesOf(unary("ceil %x", halves)),
            (std::vector<double>{1, 2, 3, -0.0, -1}));
  EXPECT_EQ(valuesOf(unary("floor %x", halves)),
            (std::vector<double>{0, 1, 2, -1, -2}));
}

// Constants of the mathematical tables, to 16 digits.
TEST(Elementwise, TranscendentalsAtOne) {
  struct {
    const char *op;
    double x, want;
  } const table[] = {{"exp", 1, 2.718281828459045},
                     {"exp2", 0.5, 1.4142135623730951},
                     {"expm1", 1, 1.718281828459045},
                     {"expm1", 1e-10, 1.00000000005e-10},
                     {"log", 2, 0.6931471805599453},
                     {"log2", 10, 3.321928094887362},
                     {"log1p", 1e-10, 9.9999999995e-11},
                     {"sin", 1, 0.8414709848078965},
                     {"cos", 1, 0.5403023058681398},
                     {"tan", 1, 1.5574077246549023},
                     {"asin", 1, 1.5707963267948966},
                     {"acos", 0, 1.5707963267948966},
                     {"atan", 1, 0.7853981633974483},
                     {"sinh", 1, 1.1752011936438014},
                     {"cosh", 1, 1.5430806348152437},
                     {"tanh", 1, 0.7615941559557649},
                     {"asinh", 1, 0.881373587019543},
                     {"acosh", 2, 1.3169578969248166},
                     {"atanh", 0.5, 0.5493061443340549},
                     {"erf", 1, 0.8427007929497149},
                     {"sqrt", 2, 1.4142135623730951},
                     {"rsqrt", 4, 0.5},
                     {"reciprocal", 8, 0.125}};
  for (const auto &row : table) {
    double got =
        valuesOf(unary(std::string(row.op) + " %x", f64({1}, {row.x})))[0];
    EXPECT_NEAR(got, row.want, 4e-16 * std::max(1.0, row.want)) << row.op;
  }
  EXPECT_EQ(
      valuesOf(binary("pow", f64({3}, {2, kNan, -2}), f64({3}, {10, 0, 3}))),
      (std::vector<double>{1024, 1, -8}));
  EXPECT_NEAR(valuesOf(binary("atan2", f64({1}, {1}), f64({1}, {-1})))[0],
              2.356194490192345, 1e-15);
  EXPECT_EQ(
      valuesOf(binary("rem", f64({3}, {5.5, -5.5, 5}), f64({3}, {2, 2, kInf}))),
      (std::vector<double>{1.5, -1.5, 5}));
}

// The result is rounded to the element type, once: 1 + 2^-11 lies halfway
// between two f16 numbers, and 1 + 3 * 2^-11 as well.
TEST(Elementwise, ResultsAreRoundedToTheType) {
  double ulp = std::ldexp(1.0, -10);
  Tensor sum = binary("add", floats(ElementKind::F16, {2}, {1, 1 + ulp}),
                      floats(ElementKind::F16, {2}, {ulp / 2, ulp / 2}));
  EXPECT_EQ(valuesOf(sum), (std::vector<double>{1, 1 + 2 * ulp}));
  EXPECT_EQ(valuesOf(unary("exp2 %x", f32({1}, {128})))[0], kInf);
  EXPECT_EQ(valuesOf(binary("mul", floats(ElementKind::F16, {1}, {300}),
                            floats(ElementKind::F16, {1}, {300})))[0],
            kInf);
}

TEST(Elementwise, CompareWithNan) {
  Tensor a = f32({3}, {kNan, 1, 2}), b = f32({3}, {kNan, 2, 2});
  auto compare = [&](const std::string &kind) {
    return intsOf(
        evaluateOp("%a: tensor<3xf32>, %b: tensor<3xf32>",
                   "fusion.compare " + kind + ", %a, %b : tensor<3xf32>",
                   "tensor<3xi1>", {a, b}));
  };
  EXPECT_EQ(compare("eq"), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(compare("ne"), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(compare("lt"), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(compare("le"), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(compare("gt"), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(compare("ge"), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(intsOf(evaluateOp("%a: tensor<2xi1>, %b: tensor<2xi1>",
                              "fusion.compare lt, %a, %b : tensor<2xi1>",
                              "tensor<2xi1>",
                              {ints(ElementKind::I1, {2}, {0, 1}),
                               ints(ElementKind::I1, {2}, {1, 0})})),
            (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(bits("is_nan %x", f32({3}, {kNan, kInf, 0})),
            (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(bits("is_inf %x", f32({3}, {kNan, -kInf, 0})),
            (std::vector<int64_t>{0, 1, 0}));
}

TEST(Elementwise, SelectAndClamp) {
  Tensor y = evaluateOp(
      "%c: tensor<2xi1>, %a: tensor<2xf32>, %b: tensor<2xf32>",
      "fusion.select %c, %a, %b : tensor<2xi1>, tensor<2xf32>", "tensor<2xf32>",
      {ints(ElementKind::I1, {2}, {1, 0}), f32({2}, {1, kNan}),
       f32({2}, {kNan, 2})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{1, 2}));
  // With low above high, the result is high.
  Tensor z =
      evaluateOp("%x: tensor<5xf32>, %l: tensor<5xf32>, %h: tensor<5xf32>",
                 "fusion.clamp %x, %l, %h : tensor<5xf32>", "tensor<5xf32>",
                 {f32({5}, {-3, 5, 2, kNan, 0}), f32({5}, {-1, -1, 3, 0, kNan}),
                  f32({5}, {4, 4, 1, 1, 1})});
  std::vector<double> clamped = valuesOf(z);
  EXPECT_EQ(clamped[0], -1);
  EXPECT_EQ(clamped[1], 4);
  EXPECT_EQ(clamped[2], 1);
  EXPECT_TRUE(std::isnan(clamped[3]));
  EXPECT_TRUE(std::isnan(clamped[4]));
}

static Tensor cast(const Tensor &x, const std::string &kind) {
  std::string to =
      "tensor<" + std::to_string(x.getNumElements()) + "x" + kind + ">";
  return evaluateOp("%x: " + typeOf(x),
                    "fusion.cast %x : " + typeOf(x) + " to " + to, to, {x});
}

TEST(Elementwise, CastsSaturateAndWrap) {
  Tensor x =
      f64({8}, {kNan, kInf, -kInf, 1e20, -1.9, 127.9, -128.9, 2147483647.5});
  EXPECT_EQ(intsOf(cast(x, "i8")),
            (std::vector<int64_t>{0, 127, -128, 127, -1, 127, -128, 127}));
  EXPECT_EQ(intsOf(cast(x, "i32"))[7], 2147483647);
  EXPECT_EQ(intsOf(cast(x, "i64"))[1], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(intsOf(cast(x, "i64"))[2], kLeast64);
  EXPECT_EQ(intsOf(cast(f32({4}, {kNan, 0, -0.0, 1e-30}), "i1")),
            (std::vector<int64_t>{1, 0, 0, 1}));
  EXPECT_EQ(intsOf(cast(i32({3}, {300, -1, 128}), "i8")),
            (std::vector<int64_t>{44, -1, -128}));
  EXPECT_EQ(intsOf(cast(ints(ElementKind::I8, {1}, {-5}), "i64")),
            (std::vector<int64_t>{-5}));
  EXPECT_EQ(valuesOf(cast(ints(ElementKind::I1, {2}, {0, 1}), "f16")),
            (std::vector<double>{0, 1}));
  // 2^24 + 1 is no f32, and ties to even.
  EXPECT_EQ(valuesOf(cast(i32({2}, {16777217, 16777219}), "f32")),
            (std::vector<double>{16777216, 16777220}));
}

TEST(Activations, PiecewiseLinear) {
  std::vector<double> relu =
      valuesOf(unary("relu %x", f32({4}, {-2, -0.0, 3, kNan})));
  EXPECT_EQ(relu[0], 0);
  EXPECT_FALSE(std::signbit(relu[1]));
  EXPECT_EQ(relu[2], 3);
  EXPECT_TRUE(std::isnan(relu[3]));
  EXPECT_EQ(intsOf(unary("relu %x", i32({2}, {-4, 4}))),
            (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(valuesOf(unary("hard_swish %x", f64({4}, {-4, -1.5, 0, 3}))),
            (std::vector<double>{-0.0, -0.375, 0, 3}));
  EXPECT_EQ(valuesOf(unary("hard_sigmoid %x alpha = 0.25 beta = 0.5",
                           f64({3}, {-8, 1, 8}))),
            (std::vector<double>{0, 0.75, 1}));
  EXPECT_EQ(valuesOf(unary("leaky_relu %x alpha = 0.25", f64({3}, {-8, 0, 8}))),
            (std::vector<double>{-2, 0, 8}));
}

// A number on an op is one of the type that the op computes in: 1e39 is an
// infinity for f32, 1e-46 zero.
TEST(Activations, NumbersAreRounded) {
  auto f32At = [](const char *op, double x) {
    return valuesOf(unary(op, f32({1}, {x})))[0];
  };
  auto f64At = [](const char *op, double x) {
    return valuesOf(unary(op, f64({1}, {x})))[0];
  };
  const char *steep = "elu %x alpha = 1.0e39";
  EXPECT_TRUE(std::isnan(f32At(steep, 0)));
  EXPECT_EQ(f64At(steep, 0), 0);
  EXPECT_EQ(f32At(steep, -1), -kInf);
  const char *flat = "leaky_relu %x alpha = 1.0e-46";
  EXPECT_TRUE(std::isnan(f32At(flat, -kInf)));
  EXPECT_EQ(f64At(flat, -kInf), -kInf);
  const char *line = "hard_sigmoid %x alpha = 1.0e39 beta = 0.5";
  EXPECT_TRUE(std::isnan(f32At(line, 0)));
  EXPECT_EQ(f64At(line, 0), 0.5);
  const char *shifted = "hard_sigmoid %x alpha = 1.0 beta = 1.0e39";
  EXPECT_TRUE(std::isnan(f32At(shifted, -kInf)));
  EXPECT_EQ(f64At(shifted, -1.0e39), 0);
}

// Against other forms of the same functions.
TEST(Activations, Smooth) {
  std::vector<double> xs = {-20, -3, -0.5, 0, 0.25, 1, 4, 30};
  Tensor x = f64({8}, xs);
  std::vector<double> sigmoid, silu, softplus, mish, gelu, geluTanh, elu;
  for (double v : xs) {
    double s = 0.5 * (1 + std::tanh(v / 2));
    sigmoid.push_back(s);
    silu.push_back(v * s);
    double p = v > 25 ? v : std::log(1 + std::exp(v));
    softplus.push_back(p);
    // tanh(ln(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1)
    double square = (1 + std::exp(v)) * (1 + std::exp(v));
    mish.push_back(v * (square - 1) / (square + 1));
    gelu.push_back(v / 2 * std::erfc(-v * 0.7071067811865476));
    geluTanh.push_back(v / (1 + std::exp(-2 * 0.7978845608028654 *
                                         (v + 0.044715 * std::pow(v, 3)))));
    elu.push_back(v > 0 ? v : 0.5 * (std::exp(v) - 1));
  }
  expectNear(unary("sigmoid %x", x), sigmoid, 1e-14);
  expectNear(unary("silu %x", x), silu, 1e-14);
  expectNear(unary("softplus %x", x), softplus, 1e-14);
  expectNear(unary("mish %x", x), mish, 1e-13);
  expectNear(unary("gelu erf, %x", x), gelu, 1e-14);
  expectNear(unary("gelu tanh, %x", x), geluTanh, 1e-14);
  expectNear(unary("elu %x alpha = 0.5", x), elu, 1e-14);
  // No overflow in between.
  EXPECT_EQ(valuesOf(unary("softplus %x", f32({2}, {1000, -1000}))),
            (std::vector<double>{1000, 0}));
  EXPECT_EQ(valuesOf(unary("sigmoid %x", f32({2}, {1000, -1000}))),
            (std::vector<double>{1, 0}));
}

// Mills' ratio bounds the upper tail of the normal distribution, Q(9), between
// density(9) 9 / (9^2 + 1) and density(9) / 9.
TEST(Activations, GeluOfF32KeepsItsLeftTail) {
  double density = std::exp(-40.5) / std::sqrt(2 * std::acos(-1.0));
  double value = valuesOf(unary("gelu erf, %x", f32({1}, {-9})))[0];
  EXPECT_LT(value, -9 * density * 9 / 82 * 0.999999);
  EXPECT_GT(value, -density * 1.000001);
}
