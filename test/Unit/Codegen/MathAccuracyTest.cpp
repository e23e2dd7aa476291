//===- MathAccuracyTest.cpp - Error of the transcendentals ----------------===//
//
// f32 against double functions and f64 against long double ones, on more than a
// million points of each op: uniform ones where functions are interesting, and
// random bit patterns for the rest of the number line. 16-bit types are tried
// on all of their values.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include "fusion/Reference/Compare.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace fusion::test;
using fusion::reference::ElementKind;

namespace {
struct Function {
  const char *name;
  long double (*exact)(long double);
  double f32Ulps, f64Ulps, f16Ulps;
  double low = -20, high = 20; ///< range of the uniform points
  double least = -INFINITY;    ///< below, a step of the formula is subnormal
};
} // namespace

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double silu(long double x) { return x / (1 + expl(-x)); }
static long double softplus(long double x) {
  return std::max(x, 0.0L) + log1pl(expl(-std::fabs(x)));
}
static long double rsqrt(long double x) { return 1 / sqrtl(x); }
static long double mish(long double x) { return x * tanhl(softplus(x)); }

static const Function functions[] = {{"exp", expl, 1, 2, 1, -90, 90},
                                     {"exp2", exp2l, 1, 2, 1, -130, 130},
                                     {"expm1", expm1l, 1, 2, 1},
                                     {"log", logl, 1, 2, 1, 0, 20},
                                     {"log2", log2l, 2, 2, 1, 0, 20},
                                     {"log1p", log1pl, 1, 2, 1, -1, 20},
                                     {"sin", sinl, 2, 2, 1},
                                     {"cos", cosl, 2, 2, 1},
                                     {"tan", tanl, 2, 2, 1},
                                     {"asin", asinl, 2, 2, 1, -1, 1},
                                     {"acos", acosl, 2, 2, 1, -1, 1},
                                     {"atan", atanl, 2, 2, 1},
                                     {"sinh", sinhl, 2, 2, 1},
                                     {"cosh", coshl, 2, 2, 1},
                                     {"asinh", asinhl, 2, 2, 1},
                                     {"acosh", acoshl, 2, 2, 1, 1, 20},
                                     {"atanh", atanhl, 2, 2, 1, -1, 1},
                                     {"tanh", tanhl, 1, 2, 1},
                                     {"erf", erfl, 2, 2, 1, -6, 6},
                                     {"rsqrt", rsqrt, 2, 2, 1, 0, 20},
                                     {"sigmoid", sigmoid, 1, 3, 1},
                                     {"silu", silu, 1, 4, 1, -20, 20, -700},
                                     {"softplus", softplus, 1, 3, 1},
                                     {"mish", mish, 1, 6, 1, -20, 20, -700}};

static constexpr size_t kPoints = 1 << 20;

/// All functions of one type in one module: a group each over the same input.
static std::string makeModule(const std::string &type) {
  std::string body, results, types;
  for (const Function &f : functions) {
    std::string name = f.name;
    body += "%" + name + " = fusion.group loop (%a = %x_" + name + " : " +
            type + ") -> " + type + " {\n%0 = fusion." + name +
            " %a : " + type + "\nfusion.yield %0 : " + type + "\n}\n";
    results += (results.empty() ? "%" : ", %") + name;
    types += (types.empty() ? "" : ", ") + type;
  }
  std::string arguments;
  for (const Function &f : functions)
    arguments += std::string(arguments.empty() ? "" : ", ") + "%x_" + f.name +
                 ": " + type;
  return "func.func @main(" + arguments + ") -> (" + types + ") {\n" + body +
         "return " + results + " : " + types + "\n}";
}

template <typename T, typename Bits>
static std::vector<T> makePoints(const Function &f, std::mt19937_64 &random) {
  std::uniform_real_distribution<double> uniform(f.low, f.high);
  std::vector<T> x(kPoints);
  for (size_t i = 0; i < kPoints; ++i) {
    if (i % 2) {
      x[i] = static_cast<T>(uniform(random));
      continue;
    }
    Bits bits = static_cast<Bits>(random());
    std::memcpy(&x[i], &bits, sizeof(T));
  }
  return x;
}

template <typename T>
static void check(const Function &f, const std::vector<T> &x,
                  const std::vector<T> &y, ElementKind kind, double limit) {
  double worst = 0;
  T where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (kind == ElementKind::F64 && x[i] < f.least)
      continue;
    long double exact = f.exact(static_cast<long double>(x[i]));
    double error = fusion::reference::ulpDistance(
        static_cast<double>(y[i]), static_cast<double>(static_cast<T>(exact)),
        kind);
    if (error > worst) {
      worst = error;
      where = x[i];
    }
  }
  EXPECT_LE(worst, limit) << f.name << " at " << where;
  ::testing::Test::RecordProperty(f.name, std::to_string(worst));
}

TEST(MathAccuracy, F32) {
  KernelRunner runner(makeModule("tensor<1048576xf32>"));
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::mt19937_64 random(1);
  std::vector<std::vector<float>> points;
  std::vector<Bytes> inputs;
  for (const Function &f : functions) {
    points.push_back(makePoints<float, uint32_t>(f, random));
    inputs.push_back(toBytes(points.back()));
  }
  auto results = runner.run(inputs);
  for (size_t i = 0; i < std::size(functions); ++i)
    check(functions[i], points[i], fromBytes<float>(results[i]),
          ElementKind::F32, functions[i].f32Ulps);
}

/// f32 alone: it is computed as x erfc(-x / sqrt(2)) / 2, which keeps the left
/// tail; the other types add 1 to erf.
TEST(MathAccuracy, GeluOfF32) {
  KernelRunner runner("func.func @main(%x: tensor<1048576xf32>) -> "
                      "tensor<1048576xf32> {\n"
                      "%0 = fusion.group loop (%a = %x : tensor<1048576xf32>) "
                      "-> tensor<1048576xf32> {\n"
                      "%1 = fusion.gelu erf, %a : tensor<1048576xf32>\n"
                      "fusion.yield %1 : tensor<1048576xf32>\n}\n"
                      "return %0 : tensor<1048576xf32>\n}");
  ASSERT_TRUE(runner.ok()) << runner.error();
  Function gelu{
      "gelu", [](long double x) { return x * erfcl(-x * sqrtl(0.5L)) / 2; },
      1,      0,
      0,      -14.5,
      8};
  std::mt19937_64 random(3);
  std::vector<float> x = makePoints<float, uint32_t>(gelu, random);
  // The ends of the fit, and where a limit is reached.
  float ends[] = {-INFINITY, INFINITY, -0.0f, 0.0f, -28.3f, -28.2f, -3e38f};
  std::copy(std::begin(ends), std::end(ends), x.begin());
  auto y = fromBytes<float>(runner.run({toBytes(x)})[0]);
  check(gelu, x, y, ElementKind::F32, gelu.f32Ulps);
  EXPECT_TRUE(std::isnan(y[0])); // -inf * 0, as in the formula
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::signbit(y[2]) && y[2] == 0 && !std::signbit(y[3]));
  EXPECT_EQ(y[6], 0.0f);
}

TEST(MathAccuracy, F64) {
  KernelRunner runner(makeModule("tensor<1048576xf64>"));
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::mt19937_64 random(2);
  std::vector<std::vector<double>> points;
  std::vector<Bytes> inputs;
  for (const Function &f : functions) {
    points.push_back(makePoints<double, uint64_t>(f, random));
    inputs.push_back(toBytes(points.back()));
  }
  auto results = runner.run(inputs);
  for (size_t i = 0; i < std::size(functions); ++i)
    check(functions[i], points[i], fromBytes<double>(results[i]),
          ElementKind::F64, functions[i].f64Ulps);
}

/// All values of a 16-bit type.
static void checkAllValues(const std::string &type, ElementKind kind,
                           const std::string &cpu) {
  KernelRunner runner(makeModule("tensor<65536x" + type + ">"), cpu);
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = static_cast<uint16_t>(i);
  std::vector<Bytes> inputs(std::size(functions), toBytes(bits));
  auto results = runner.run(inputs);
  for (size_t i = 0; i < std::size(functions); ++i) {
    auto y = fromBytes<uint16_t>(results[i]);
    double worst = 0, where = 0;
    for (size_t j = 0; j < bits.size(); ++j) {
      double x = fusion::reference::decodeFloat(bits[j], kind);
      double exact = fusion::reference::roundToKind(
          static_cast<double>(functions[i].exact(x)), kind);
      double error = fusion::reference::ulpDistance(
          fusion::reference::decodeFloat(y[j], kind), exact, kind);
      if (error > worst) {
        worst = error;
        where = x;
      }
    }
    EXPECT_LE(worst, functions[i].f16Ulps)
        << type << ' ' << functions[i].name << " at " << where;
  }
}

TEST(MathAccuracy, AllOfF16) {
  checkAllValues("f16", ElementKind::F16, "native");
}
TEST(MathAccuracy, AllOfBf16) {
  checkAllValues("bf16", ElementKind::BF16, "native");
}
TEST(MathAccuracy, AllOfF16WithoutInstructions) {
  checkAllValues("f16", ElementKind::F16, "x86-64");
}
