//===- CompareTest.cpp - Criteria and tolerances --------------------------===//

#include "fusion/Reference/Compare.h"
#include "TestGraph.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <limits>
#include <set>

using namespace fusion::reference;
using namespace fusion::reference::testing;

static const double kInf = std::numeric_limits<double>::infinity();
static const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Compare, BitsMindTheSignOfZero) {
  Tensor a = f32({3}, {0.0, kNan, 1}), b = f32({3}, {-0.0, kNan, 1});
  Comparison bits = compare(a, b, Criterion::makeBits());
  EXPECT_FALSE(bits.passed);
  EXPECT_EQ(bits.mismatches, 1);
  EXPECT_EQ(bits.firstIndex, 0);
  EXPECT_TRUE(compare(a, b, Criterion::makeUlps(0)).passed);
  EXPECT_TRUE(compare(a, a, Criterion::makeBits()).passed);
}

TEST(Compare, UlpsOfEachType) {
  EXPECT_EQ(ulpDistance(1, 1 + std::ldexp(1.0, -23), ElementKind::F32), 1);
  EXPECT_EQ(ulpDistance(1, 1 - std::ldexp(1.0, -24), ElementKind::F32), 1);
  EXPECT_EQ(ulpDistance(1, 1 + std::ldexp(3.0, -10), ElementKind::F16), 3);
  EXPECT_EQ(ulpDistance(1, 1 + std::ldexp(1.0, -7), ElementKind::BF16), 1);
  EXPECT_EQ(ulpDistance(1, 1 + std::ldexp(1.0, -52), ElementKind::F64), 1);
  // Across zero: the least subnormals are two steps apart.
  double least = std::ldexp(1.0, -149);
  EXPECT_EQ(ulpDistance(least, -least, ElementKind::F32), 2);
  EXPECT_EQ(ulpDistance(kNan, 1, ElementKind::F32), kInf);
  Tensor a = f32({1}, {1}), b = f32({1}, {1 + std::ldexp(2.0, -23)});
  EXPECT_TRUE(compare(a, b, Criterion::makeUlps(2)).passed);
  EXPECT_FALSE(compare(a, b, Criterion::makeUlps(1)).passed);
  EXPECT_EQ(compare(a, b, Criterion::makeUlps(1)).maxUlps, 2);
}

// NaN and infinities must stand at the same places, whatever the tolerance.
TEST(Compare, SpecialsAreNotTolerated) {
  Criterion loose = Criterion::makeRelative(1, 1e300);
  EXPECT_FALSE(compare(f32({1}, {kNan}), f32({1}, {1}), loose).passed);
  EXPECT_FALSE(compare(f32({1}, {1}), f32({1}, {kNan}), loose).passed);
  EXPECT_FALSE(compare(f32({1}, {kInf}), f32({1}, {-kInf}), loose).passed);
  EXPECT_FALSE(compare(f32({1}, {3e38}), f32({1}, {kInf}), loose).passed);
  EXPECT_TRUE(compare(f32({1}, {-kInf}), f32({1}, {-kInf}), loose).passed);
}

TEST(Compare, RelativeAndAbsolute) {
  Criterion criterion = Criterion::makeRelative(0.1, 1);
  EXPECT_TRUE(compare(f64({1}, {112}), f64({1}, {102}), criterion).passed);
  EXPECT_FALSE(compare(f64({1}, {113.5}), f64({1}, {102}), criterion).passed);
}

TEST(Compare, ShapeAndTypeAreExact) {
  Tensor a = f32({2}, {1, 2});
  EXPECT_NE(compare(a, f32({2, 1}, {1, 2}), Criterion::makeUlps(9))
                .message.find("2x1"),
            std::string::npos);
  EXPECT_FALSE(compare(a, f64({2}, {1, 2}), Criterion::makeUlps(9)).passed);
  EXPECT_TRUE(
      compare(f32({0}, {}), f32({0}, {}), Criterion::makeBits()).passed);
}

TEST(Compare, MessageNamesTheFirstAndTheWorst) {
  Comparison result = compare(f32({2, 2}, {1, 2, 3.5, 5}),
                              f32({2, 2}, {1, 2, 3, 4}), Criterion::makeBits());
  EXPECT_EQ(result.mismatches, 2);
  EXPECT_NE(result.message.find("2 of 4 elements differ, the first at [1, 0]: "
                                "got 3.5, want 3"),
            std::string::npos)
      << result.message;
  EXPECT_EQ(result.maxAbsolute, 1);
  EXPECT_EQ(result.maxRelative, 0.25);
  EXPECT_FALSE(
      compare(i32({1}, {1}), i32({1}, {2}), Criterion::makeUlps(9)).passed);
}

/// The criterion of the first op in @main that has results.
static llvm::Expected<Criterion> criterionOf(const std::string &text,
                                             std::vector<Tensor> inputs,
                                             const Tensor &want) {
  static mlir::MLIRContext context;
  context.loadDialect<fusion::FusionDialect, mlir::func::FuncDialect>();
  static std::vector<mlir::OwningOpRef<mlir::ModuleOp>> kept;
  kept.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context));
  auto function = kept.back()->lookupSymbol<mlir::func::FuncOp>("main");
  return getCriterion(&function.getBody().front().front(), inputs, want);
}

// (K + 4) * u * sum |a * b| + u * |y| + half the least subnormal, with K = 2.
TEST(Tolerances, ContractionsHaveAHardBound) {
  Tensor a = f32({1, 2}, {3, -2}), b = f32({2, 1}, {5, 4});
  std::string text =
      makeModule("%a: tensor<1x2xf32>, %b: tensor<2x1xf32>",
                 "fusion.matmul %a, %b : tensor<1x2xf32>, tensor<2x1xf32>",
                 "tensor<1x1xf32>");
  Criterion criterion =
      llvm::cantFail(criterionOf(text, {a, b}, f32({1, 1}, {7})));
  ASSERT_EQ(criterion.bounds.size(), 1u);
  double u = std::ldexp(1.0, -24);
  EXPECT_EQ(criterion.bounds[0],
            6 * u * (15 + 8) + 2 * u * 7 + std::ldexp(1.0, -150));
  Comparison result =
      compare(f32({1, 1}, {7.001}), f32({1, 1}, {7}), criterion);
  EXPECT_FALSE(result.passed);
}

// Three updates of 0.1 (in f16) to 3, each sum rounded: 3.0996, 3.1992, 3.2988.
// In f64 it is 3.29993, of which the nearest f16 is 3.30078: one place more.
TEST(Tolerances, AScatterAddsInTheTypeOfItsElements) {
  auto f16 = [](std::vector<double> values) {
    return floats(ElementKind::F16, {static_cast<int64_t>(values.size())},
                  values);
  };
  Tensor x = f16({3}), updates = f16({0.1, 0.1, 0.1});
  Tensor indices = i64({3, 1}, {0, 0, 0});
  std::string text = makeModule(
      "%x: tensor<1xf16>, %i: tensor<3x1xi64>, %u: tensor<3xf16>",
      "fusion.scatter add, %x, %i, %u : tensor<1xf16>, tensor<3x1xi64>, "
      "tensor<3xf16>",
      "tensor<1xf16>");
  Tensor want = f16({3.30078125});
  Criterion criterion =
      llvm::cantFail(criterionOf(text, {x, indices, updates}, want));
  EXPECT_TRUE(compare(f16({3.298828125}), want, criterion).passed);
  // (4 + 4) * 2^-11 * 3.3 + 2^-11 * 3.3 = 0.0145
  EXPECT_TRUE(compare(f16({3.3125}), want, criterion).passed);
  EXPECT_FALSE(compare(f16({3.3203125}), want, criterion).passed);
}

TEST(Tolerances, ClassesByOp) {
  Tensor x = f32({2}, {1, 2});
  auto modeOf = [&](const std::string &op) {
    return llvm::cantFail(criterionOf(
        makeModule("%x: tensor<2xf32>", "fusion." + op + " : tensor<2xf32>",
                   "tensor<2xf32>"),
        {x}, x));
  };
  EXPECT_EQ(modeOf("neg %x").mode, Criterion::Mode::Bits);
  EXPECT_EQ(modeOf("sqrt %x").mode, Criterion::Mode::Bits);
  EXPECT_EQ(modeOf("exp %x").mode, Criterion::Mode::Ulps);
  EXPECT_EQ(modeOf("exp %x").ulps, 2);
  EXPECT_EQ(modeOf("softmax %x axis = 0").mode, Criterion::Mode::Relative);
}

// Every op that the evaluator runs and that computes has a class.
TEST(Tolerances, CoverTheDialect) {
  mlir::MLIRContext context;
  context.loadDialect<fusion::FusionDialect>();
  const std::set<std::string> structure = {"fusion.group", "fusion.async",
                                           "fusion.await", "fusion.yield"};
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    std::string op = name.getStringRef().str();
    if (!canEvaluate(op) || structure.count(op) || op == "fusion.reduce" ||
        op == "fusion.scatter" || op == "fusion.all_reduce" ||
        op == "fusion.reduce_scatter")
      continue; // no class, or one that depends on the kind
    mlir::OperationState state(mlir::UnknownLoc::get(&context), name);
    mlir::Operation *created = mlir::Operation::create(state);
    EXPECT_TRUE(static_cast<bool>(getAccuracyClass(created))) << op;
    created->destroy();
  }
}
