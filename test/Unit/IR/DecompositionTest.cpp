//===- DecompositionTest.cpp - Compositions equal their named ops ---------===//
//
// Each named op, in each form, against its decomposition on the reference
// evaluator. A composition rounds once an op where the named op rounds once in
// all, hence the tolerance; special values must agree exactly.
//
//===----------------------------------------------------------------------===//
#include "EvaluateText.h"

#include "fusion/IR/BatchExtent.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::test;

/// Replaces every decomposable op by its composition, repeatedly.
static bool decomposeAll(Program &program) {
  while (auto op = program.find<DecomposableOpInterface>()) {
    OpBuilder builder(op);
    FailureOr<SmallVector<Value>> values = op.decompose(builder);
    if (failed(values))
      return false;
    for (auto [result, value] : llvm::zip_equal(op->getResults(), *values)) {
      EXPECT_EQ(result.getType(), value.getType());
      result.replaceAllUsesWith(value);
    }
    op->erase();
  }
  return succeeded(verify(program.getModule()));
}

/// Relative error that a few roundings to `kind` amount to.
static double toleranceOf(reference::ElementKind kind) {
  // The compositions of f16 and bf16 work in f32: the last rounding dominates.
  return std::ldexp(reference::getByteSize(kind) >= 4 ? 64 : 2,
                    -int(reference::getPrecision(kind)));
}

static void expectClose(const reference::Tensor &actual,
                        const reference::Tensor &expected) {
  ASSERT_EQ(actual.getShape(), expected.getShape());
  ASSERT_EQ(actual.getKind(), expected.getKind());
  double tolerance = toleranceOf(expected.getKind());
  for (int64_t i = 0; i < expected.getNumElements(); ++i) {
    double a = actual.getFloat(i), e = expected.getFloat(i);
    if (std::isnan(e) || std::isinf(e))
      EXPECT_TRUE(std::isnan(e) ? std::isnan(a) : a == e)
          << "element " << i << ": " << a << " for " << e;
    else
      EXPECT_NEAR(a, e, tolerance * std::max(1.0, std::abs(e)))
          << "element " << i;
  }
}

/// `op` is the text of one op %r from arguments (`arguments`) to `results`.
static void expectSame(StringRef arguments, StringRef op, StringRef results,
                       StringRef values = "%r") {
  std::string text =
      ("func.func @main(" + arguments + ") -> (" + results + ") {\n" + op +
       "\nreturn " + values + " : " + results + "\n}")
          .str();
  SCOPED_TRACE(text);
  Program named(text), composed(text);
  ASSERT_TRUE(named.find<DecomposableOpInterface>());
  ASSERT_TRUE(decomposeAll(composed));
  auto inputs = named.makeInputs();
  auto expected = named.evaluate(inputs), actual = composed.evaluate(inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (auto [a, e] : llvm::zip_equal(actual, expected))
    expectClose(a, e);
}

/// `TYPE` in the texts stands for each float type in turn.
static void expectSameInAllTypes(StringRef arguments, StringRef op,
                                 StringRef results, StringRef values = "%r") {
  for (StringRef type : {"f64", "f32", "f16", "bf16"}) {
    auto with = [&](StringRef text) {
      std::string out(text);
      for (size_t at; (at = out.find("TYPE")) != std::string::npos;)
        out.replace(at, 4, type.str());
      return out;
    };
    expectSame(with(arguments), with(op), with(results), values);
  }
}

TEST(Decomposition, BatchNorm) {
  expectSameInAllTypes(
      "%x: tensor<2x4x3xTYPE>, %s: tensor<4xTYPE>, %v: tensor<4xTYPE>",
      "%a = fusion.abs %v : tensor<4xTYPE>\n"
      "%r = fusion.batch_norm %x, %s, %s, %v, %a epsilon = 1.0e-3 axis = 1 : "
      "tensor<2x4x3xTYPE>, "
      "tensor<4xTYPE>",
      "tensor<2x4x3xTYPE>");
  // Wider parameters; a batch; channels last.
  expectSame("%x: tensor<?x2x4xbf16>, %s: tensor<4xf64>",
             "%a = fusion.abs %s : tensor<4xf64>\n"
             "%r = fusion.batch_norm %x, %s, %s, %s, %a epsilon = 0.5 axis = 2 "
             ": tensor<?x2x4xbf16>, tensor<4xf64>",
             "tensor<?x2x4xbf16>");
}

TEST(Decomposition, BatchNormTraining) {
  expectSameInAllTypes("%x: tensor<2x4x3xTYPE>, %s: tensor<4xTYPE>",
                       "%r:3 = fusion.batch_norm_training %x, %s, %s epsilon = "
                       "1.0e-3 axis = 1 : tensor<2x4x3xTYPE>, "
                       "tensor<4xTYPE>",
                       "tensor<2x4x3xTYPE>, tensor<4xTYPE>, tensor<4xTYPE>",
                       "%r#0, %r#1, %r#2");
  expectSame("%x: tensor<?x4xf16>, %s: tensor<4xf32>",
             "%r:3 = fusion.batch_norm_training %x, %s, %s epsilon = 1.0e-3 "
             "axis = 1 : tensor<?x4xf16>, tensor<4xf32>",
             "tensor<?x4xf16>, tensor<4xf32>, tensor<4xf32>",
             "%r#0, %r#1, %r#2");
}

TEST(Decomposition, RowNorms) {
  for (StringRef name : {"layer_norm", "rms_norm"}) {
    std::string op = ("%r = fusion." + name + " %x ").str();
    expectSameInAllTypes("%x: tensor<2x3x4xTYPE>, %s: tensor<4xTYPE>",
                         op + "scale %s bias %s epsilon = 1.0e-3 axis = 2 : "
                              "tensor<2x3x4xTYPE>, tensor<4xTYPE>, "
                              "tensor<4xTYPE>",
                         "tensor<2x3x4xTYPE>");
    expectSame("%x: tensor<?x3x4xf32>, %s: tensor<3x4xf32>",
               op + "bias %s epsilon = 1.0e-3 axis = 1 : tensor<?x3x4xf32>, "
                    "tensor<3x4xf32>",
               "tensor<?x3x4xf32>");
    expectSame("%x: tensor<6xf64>",
               op + "epsilon = 1.0e-3 axis = 0 : tensor<6xf64>",
               "tensor<6xf64>");
    // Rows without elements.
    expectSame("%x: tensor<2x0xf32>",
               op + "epsilon = 1.0e-3 axis = 1 : tensor<2x0xf32>",
               "tensor<2x0xf32>");
  }
}

TEST(Decomposition, Softmax) {
  for (StringRef name : {"softmax", "log_softmax"}) {
    std::string op = ("%r = fusion." + name + " %x axis = ").str();
    expectSameInAllTypes("%x: tensor<2x3x4xTYPE>",
                         op + "1 : tensor<2x3x4xTYPE>", "tensor<2x3x4xTYPE>");
    // Along the batch, beside it, over nothing.
    expectSame("%x: tensor<?x4xf32>", op + "0 : tensor<?x4xf32>",
               "tensor<?x4xf32>");
    expectSame("%x: tensor<?x4xf32>", op + "1 : tensor<?x4xf32>",
               "tensor<?x4xf32>");
    expectSame("%x: tensor<2x0xf32>", op + "1 : tensor<2x0xf32>",
               "tensor<2x0xf32>");
  }
  // A row of -inf is NaN, a row with one NaN too; large values do not overflow.
  expectSame(
      "%i: tensor<1xf32>",
      "%x = fusion.constant dense<[[0xFF800000, 0xFF800000], [0x7FC00000, "
      "1.0], [3.0e38, -3.0e38]]> : "
      "tensor<3x2xf32>\n%r = fusion.softmax %x axis = 1 : tensor<3x2xf32>",
      "tensor<3x2xf32>");
}

TEST(Decomposition, Attention) {
  expectSameInAllTypes("%q: tensor<2x4x3x2xTYPE>, %k: tensor<2x2x5x2xTYPE>, "
                       "%v: tensor<2x2x5x3xTYPE>",
                       "%r = fusion.attention %q, %k, %v scale = 0.125 causal "
                       ": tensor<2x4x3x2xTYPE>, "
                       "tensor<2x2x5x2xTYPE>, tensor<2x2x5x3xTYPE>",
                       "tensor<2x4x3x3xTYPE>");
  expectSame("%q: tensor<?x2x3x2xf32>, %m: tensor<?x1x3x3xf32>",
             "%r = fusion.attention %q, %q, %q mask %m scale = 0.25 : "
             "tensor<?x2x3x2xf32>, tensor<?x2x3x2xf32>, "
             "tensor<?x2x3x2xf32>, tensor<?x1x3x3xf32>",
             "tensor<?x2x3x2xf32>");
  // One mask for the whole batch, several heads a group.
  expectSame("%q: tensor<?x4x3x2xf32>, %k: tensor<?x2x3x2xf32>, %m: "
             "tensor<1x4x3x3xf32>",
             "%r = fusion.attention %q, %k, %k mask %m scale = 0.25 causal : "
             "tensor<?x4x3x2xf32>, "
             "tensor<?x2x3x2xf32>, tensor<?x2x3x2xf32>, tensor<1x4x3x3xf32>",
             "tensor<?x4x3x2xf32>");
  // More queries than keys: the first queries see no key at all.
  expectSame("%q: tensor<1x1x4x2xf32>, %k: tensor<1x1x2x2xf32>",
             "%r = fusion.attention %q, %k, %k scale = 1.0 causal : "
             "tensor<1x1x4x2xf32>, tensor<1x1x2x2xf32>, "
             "tensor<1x1x2x2xf32>",
             "tensor<1x1x4x2xf32>");
  // No heads.
  expectSame("%q: tensor<2x0x4x2xf32>, %k: tensor<2x1x2x2xf32>",
             "%r = fusion.attention %q, %k, %k scale = 1.0 : "
             "tensor<2x0x4x2xf32>, tensor<2x1x2x2xf32>, "
             "tensor<2x1x2x2xf32>",
             "tensor<2x0x4x2xf32>");
}

TEST(Decomposition, AttentionGrad) {
  expectSameInAllTypes(
      "%q: tensor<2x4x3x2xTYPE>, %k: tensor<2x2x5x2xTYPE>, "
      "%v: tensor<2x2x5x3xTYPE>, %g: tensor<2x4x3x3xTYPE>",
      "%r:3 = fusion.attention_grad %q, %k, %v, %g scale = 0.125 causal : "
      "tensor<2x4x3x2xTYPE>, tensor<2x2x5x2xTYPE>, tensor<2x2x5x3xTYPE>, "
      "tensor<2x4x3x3xTYPE>",
      "tensor<2x4x3x2xTYPE>, tensor<2x2x5x2xTYPE>, tensor<2x2x5x3xTYPE>",
      "%r#0, %r#1, %r#2");
  // One mask for the whole batch, several heads a group.
  expectSame("%q: tensor<?x4x3x2xf32>, %k: tensor<?x2x3x2xf32>, %m: "
             "tensor<1x4x3x3xf32>, %g: tensor<?x4x3x2xf32>",
             "%r:3 = fusion.attention_grad %q, %k, %k, %g mask %m scale = 0.25 "
             ": tensor<?x4x3x2xf32>, tensor<?x2x3x2xf32>, "
             "tensor<?x2x3x2xf32>, tensor<?x4x3x2xf32>, tensor<1x4x3x3xf32>",
             "tensor<?x4x3x2xf32>, tensor<?x2x3x2xf32>, tensor<?x2x3x2xf32>",
             "%r#0, %r#1, %r#2");
  // The first queries see no key: a softmax of nothing, and its gradient, NaN.
  expectSame("%q: tensor<1x1x4x2xf32>, %k: tensor<1x1x2x2xf32>",
             "%r:3 = fusion.attention_grad %q, %k, %k, %q scale = 1.0 causal : "
             "tensor<1x1x4x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, "
             "tensor<1x1x4x2xf32>",
             "tensor<1x1x4x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>",
             "%r#0, %r#1, %r#2");
  // No heads: the keys' gradients are sums of nothing.
  expectSame("%q: tensor<2x0x4x2xf32>, %k: tensor<2x1x2x2xf32>",
             "%r:3 = fusion.attention_grad %q, %k, %k, %q scale = 1.0 : "
             "tensor<2x0x4x2xf32>, tensor<2x1x2x2xf32>, tensor<2x1x2x2xf32>, "
             "tensor<2x0x4x2xf32>",
             "tensor<2x0x4x2xf32>, tensor<2x1x2x2xf32>, tensor<2x1x2x2xf32>",
             "%r#0, %r#1, %r#2");
}

TEST(Decomposition, Rope) {
  for (StringRef form : {"", " {interleaved}"}) {
    expectSameInAllTypes(
        "%x: tensor<2x3x4xTYPE>, %c: tensor<3x2xTYPE>, %s: tensor<3x2xTYPE>",
        ("%r = fusion.rope %x, %c, %s" + form +
         " : tensor<2x3x4xTYPE>, tensor<3x2xTYPE>")
            .str(),
        "tensor<2x3x4xTYPE>");
    expectSame(
        "%x: tensor<?x2x3x4xf32>, %c: tensor<3x2xf32>, %s: tensor<3x2xf32>",
        ("%r = fusion.rope %x, %c, %s" + form +
         " : tensor<?x2x3x4xf32>, tensor<3x2xf32>")
            .str(),
        "tensor<?x2x3x4xf32>");
  }
}

/// A batch that is no multiple of B: parameters are broadcast in two parts.
TEST(Decomposition, BatchWithBase) {
  expectSame("%x: tensor<?x4xf32>, %y: tensor<2x4xf32>, %s: tensor<4xf32>",
             "%c = fusion.concat %x, %y, %x axis = 0 : tensor<?x4xf32>, "
             "tensor<2x4xf32>, tensor<?x4xf32>\n"
             "%r = fusion.layer_norm %c scale %s epsilon = 1.0e-3 axis = 1 : "
             "tensor<?x4xf32>, tensor<4xf32>",
             "tensor<?x4xf32>");
}

/// Nothing is left behind when a batch's size is not known.
TEST(Decomposition, FailsCleanly) {
  Program program(
      "func.func private @f(tensor<?x4xf32>) -> tensor<?x4xf32>\n"
      "func.func @main(%x: tensor<?x4xf32>, %s: tensor<4xf32>) -> "
      "tensor<?x4xf32> {\n"
      "%y = func.call @f(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>\n"
      "%r = fusion.layer_norm %y scale %s epsilon = 0.0 axis = 1 : "
      "tensor<?x4xf32>, tensor<4xf32>\n"
      "return %r : tensor<?x4xf32>\n}");
  auto op = program.find<DecomposableOpInterface>();
  size_t before = op->getBlock()->getOperations().size();
  OpBuilder builder(op);
  EXPECT_TRUE(failed(op.decompose(builder)));
  EXPECT_EQ(op->getBlock()->getOperations().size(), before);
}

/// The affine size of dimension 0 of what @main returns.
static std::optional<Extent> extentOf(StringRef body, StringRef type,
                                      unsigned dim = 0) {
  Program program(("func.func @main(%x: tensor<?x4xf32>) -> " + type + " {\n" +
                   body + "\nreturn %r : " + type + "\n}")
                      .str());
  return getBatchExtent(
      program.main().getBody().front().getTerminator()->getOperand(0), dim);
}

TEST(BatchExtent, FollowsProducers) {
  EXPECT_EQ(extentOf("%r = fusion.neg %x : tensor<?x4xf32>", "tensor<?x4xf32>"),
            (Extent{1, 0}));
  EXPECT_EQ(
      extentOf("%r = fusion.neg %x : tensor<?x4xf32>", "tensor<?x4xf32>", 1),
      (Extent{0, 4}));
  EXPECT_EQ(
      extentOf("%r = fusion.reshape %x : tensor<?x4xf32> to tensor<?xf32>",
               "tensor<?xf32>"),
      (Extent{4, 0}));
  EXPECT_EQ(
      extentOf(
          "%r = fusion.transpose %x permutation = [1, 0] : tensor<?x4xf32>",
          "tensor<4x?xf32>", 1),
      (Extent{1, 0}));
  EXPECT_EQ(extentOf("%c = fusion.constant dense<1.0> : tensor<f32>\n%r = "
                     "fusion.broadcast %c dims = [] {batch_scale "
                     "= 6 : i64} : tensor<f32> to tensor<?xf32>",
                     "tensor<?xf32>"),
            (Extent{6, 0}));
  EXPECT_EQ(extentOf("%r = fusion.concat %x, %x axis = 0 : tensor<?x4xf32>, "
                     "tensor<?x4xf32>",
                     "tensor<?x4xf32>"),
            (Extent{2, 0}));
  EXPECT_EQ(extentOf("%r = fusion.reduce sum, %x dims = [1] : tensor<?x4xf32>",
                     "tensor<?xf32>"),
            (Extent{1, 0}));
}

/// Halves of the terms of a concat are whole only in their sum.
TEST(BatchExtent, AddsFractions) {
  EXPECT_EQ(
      extentOf("%c = fusion.concat %x, %x axis = 0 : tensor<?x4xf32>, "
               "tensor<?x4xf32>\n"
               "%r = fusion.reshape %c : tensor<?x4xf32> to tensor<?x8xf32>",
               "tensor<?x8xf32>"),
      (Extent{1, 0}));
  // An odd batch cannot be halved: no answer.
  EXPECT_EQ(
      extentOf("%r = fusion.reshape %x : tensor<?x4xf32> to tensor<?x8xf32>",
               "tensor<?x8xf32>"),
      std::nullopt);
}

/// A ladder of concats has 2^40 paths: the walk gives up instead of hanging, or
/// overflows and says so.
TEST(BatchExtent, BoundsItsWork) {
  std::string body = "%c0 = fusion.neg %x : tensor<?x4xf32>\n";
  for (int i = 0; i < 40; ++i) {
    std::string from = "%c" + std::to_string(i),
                to = i == 39 ? "%r" : "%c" + std::to_string(i + 1);
    body += to + " = fusion.concat " + from + ", " + from +
            " axis = 0 : tensor<?x4xf32>, tensor<?x4xf32>\n";
  }
  EXPECT_EQ(extentOf(body, "tensor<?x4xf32>"), std::nullopt);
}
