//===- NamedTest.cpp - Contractions, pools, norms, attention --------------===//
//
// Integer data makes contractions exact. Expected values come from loops
// written here in the direct form of the definition, or by hand.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"

#include <cmath>
#include <limits>

using namespace fusion::reference;
using namespace fusion::reference::testing;

static const double kInf = std::numeric_limits<double>::infinity();
static const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Matmul, AllTransposes) {
  // [[1, 2, 3], [4, 5, 6]] times [[1, 0], [0, 1], [2, 1]].
  std::vector<int64_t> want = {7, 5, 16, 11};
  Tensor a = i32({2, 3}, {1, 2, 3, 4, 5, 6}),
         b = i32({3, 2}, {1, 0, 0, 1, 2, 1});
  Tensor at = i32({3, 2}, {1, 4, 2, 5, 3, 6});
  Tensor bt = i32({2, 3}, {1, 0, 2, 0, 1, 1});
  auto matmul = [](const Tensor &lhs, const Tensor &rhs,
                   const std::string &attributes) {
    auto type = [](const Tensor &t) {
      return "tensor<" + toString(t.getShape()) + "xi32>";
    };
    return intsOf(evaluateOp("%a: " + type(lhs) + ", %b: " + type(rhs),
                             "fusion.matmul %a, %b " + attributes + " : " +
                                 type(lhs) + ", " + type(rhs),
                             "tensor<2x2xi32>", {lhs, rhs}));
  };
  EXPECT_EQ(matmul(a, b, ""), want);
  EXPECT_EQ(matmul(at, b, "{transpose_lhs}"), want);
  EXPECT_EQ(matmul(a, bt, "{transpose_rhs}"), want);
  EXPECT_EQ(matmul(at, bt, "{transpose_lhs, transpose_rhs}"), want);
}

TEST(Matmul, BatchesAndEmptyK) {
  Tensor a = f32({2, 1, 2}, {1, 2, 3, 4});
  Tensor shared = f32({2, 1}, {10, 1});
  EXPECT_EQ(valuesOf(evaluateOp("%a: tensor<2x1x2xf32>, %b: tensor<2x1xf32>",
                                "fusion.matmul %a, %b : tensor<2x1x2xf32>, "
                                "tensor<2x1xf32>",
                                "tensor<2x1x1xf32>", {a, shared})),
            (std::vector<double>{12, 34}));
  Tensor own = f32({2, 2, 1}, {10, 1, 100, 1});
  EXPECT_EQ(valuesOf(evaluateOp("%a: tensor<2x1x2xf32>, %b: tensor<2x2x1xf32>",
                                "fusion.matmul %a, %b : tensor<2x1x2xf32>, "
                                "tensor<2x2x1xf32>",
                                "tensor<2x1x1xf32>", {a, own})),
            (std::vector<double>{12, 304}));
  EXPECT_EQ(valuesOf(evaluateOp("%a: tensor<2x0xf32>, %b: tensor<0x3xf32>",
                                "fusion.matmul %a, %b : tensor<2x0xf32>, "
                                "tensor<0x3xf32>",
                                "tensor<2x3xf32>",
                                {f32({2, 0}, {}), f32({0, 3}, {})})),
            std::vector<double>(6, 0));
}

/// A 2-D convolution by definition: NCHW, groups, everything explicit.
static std::vector<double> conv2d(const Tensor &x, const Tensor &w,
                                  const Tensor &b, int stride, int low,
                                  int high, int dilation, int groups) {
  int64_t n = x.getDim(0), h = x.getDim(2), wd = x.getDim(3);
  int64_t o = w.getDim(0), cg = w.getDim(1), kh = w.getDim(2), kw = w.getDim(3);
  int64_t oh = (h + low + high - dilation * (kh - 1) - 1) / stride + 1;
  int64_t ow = (wd + low + high - dilation * (kw - 1) - 1) / stride + 1;
  std::vector<double> y;
  for (int64_t in = 0; in < n; ++in)
    for (int64_t io = 0; io < o; ++io)
      for (int64_t ih = 0; ih < oh; ++ih)
        for (int64_t iw = 0; iw < ow; ++iw) {
          double sum = b.getFloat(io);
          for (int64_t c = 0; c < cg; ++c)
            for (int64_t r = 0; r < kh; ++r)
              for (int64_t s = 0; s < kw; ++s) {
                int64_t row = ih * stride + r * dilation - low;
                int64_t column = iw * stride + s * dilation - low;
                if (row < 0 || row >= h || column < 0 || column >= wd)
                  continue;
                int64_t channel = io / (o / groups) * cg + c;
                sum +=
                    x.getFloat(((in * x.getDim(1) + channel) * h + row) * wd +
                               column) *
                    w.getFloat(((io * cg + c) * kh + r) * kw + s);
              }
          y.push_back(sum);
        }
  return y;
}

/// NCHW to NHWC.
static Tensor channelsLast(const Tensor &x) {
  int64_t n = x.getDim(0), c = x.getDim(1), p = x.getDim(2) * x.getDim(3);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < p; ++j)
      for (int64_t k = 0; k < c; ++k)
        values.push_back(x.getFloat((i * c + k) * p + j));
  return floats(x.getKind(), {n, x.getDim(2), x.getDim(3), c}, values);
}

TEST(Conv, BothLayoutsAgainstLoops) {
  struct {
    int stride, low, high, dilation, groups;
    const char *nchw, *nhwc;
  } const table[] = {
      {1, 0, 0, 1, 1, "2x6x5x4xf32", "2x5x4x6xf32"},
      {2, 1, 1, 1, 2, "2x6x4x3xf32", "2x4x3x6xf32"},
      {1, 2, 1, 2, 2, "2x6x6x5xf32", "2x6x5x6xf32"},
  };
  for (const auto &row : table) {
    Tensor x = smallIntegers(ElementKind::F32, {2, 4, 7, 6}, 1);
    Tensor w = smallIntegers(ElementKind::F32, {6, 4 / row.groups, 3, 3}, 2);
    Tensor b = smallIntegers(ElementKind::F32, {6}, 3);
    std::string wt = "tensor<" + toString(w.getShape()) + "xf32>";
    auto pair = [](int v) {
      return "[" + std::to_string(v) + ", " + std::to_string(v) + "]";
    };
    auto run = [&](const Tensor &input, const std::string &layout,
                   const std::string &result) {
      std::string xt = "tensor<" + toString(input.getShape()) + "xf32>";
      return evaluateOp(
          "%x: " + xt + ", %w: " + wt + ", %b: tensor<6xf32>",
          "fusion.conv %x, %w bias %b strides = " + pair(row.stride) +
              " pad_low = " + pair(row.low) + " pad_high = " + pair(row.high) +
              " dilations = " + pair(row.dilation) + " groups = " +
              std::to_string(row.groups) + " layout = " + layout + " : " + xt +
              ", " + wt + ", tensor<6xf32>",
          "tensor<" + result + ">", {input, w, b});
    };
    Tensor y = run(x, "nchw", row.nchw);
    EXPECT_EQ(valuesOf(y), conv2d(x, w, b, row.stride, row.low, row.high,
                                  row.dilation, row.groups));
    EXPECT_EQ(valuesOf(run(channelsLast(x), "nhwc", row.nhwc)),
              valuesOf(channelsLast(y)));
  }
}

// By hand: [1, 2, 3] with [1, 10] over one dimension; a 2x2x2 cube of ones.
TEST(Conv, OneAndThreeDimensions) {
  Tensor y = evaluateOp(
      "%x: tensor<1x1x3xf32>, %w: tensor<1x1x2xf32>",
      "fusion.conv %x, %w strides = [1] pad_low = [1] pad_high = [0] dilations "
      "= [1] groups = 1 layout = nchw : tensor<1x1x3xf32>, tensor<1x1x2xf32>",
      "tensor<1x1x3xf32>",
      {f32({1, 1, 3}, {1, 2, 3}), f32({1, 1, 2}, {1, 10})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{10, 21, 32}));
  Tensor z = evaluateOp(
      "%x: tensor<1x2x2x3x1xf32>, %w: tensor<1x1x2x2x2xf32>",
      "fusion.conv %x, %w strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = "
      "[0, 0, 0] dilations = [1, 1, 1] groups = 1 layout = nhwc : "
      "tensor<1x2x2x3x1xf32>, tensor<1x1x2x2x2xf32>",
      "tensor<1x1x1x2x1xf32>",
      {f32({1, 2, 2, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
       f32({1, 1, 2, 2, 2}, std::vector<double>(8, 1))});
  // 1+2+4+5+7+8+10+11 and 2+3+5+6+8+9+11+12.
  EXPECT_EQ(valuesOf(z), (std::vector<double>{48, 56}));
}

// By hand: each element spreads its window, stride 2: 1*[1,10,100] at 0 and
// 2*[1,10,100] at 2; then padding cuts, output padding extends.
TEST(ConvTranspose, SpreadsWindows) {
  auto run = [](const std::string &pads, const std::string &result) {
    return valuesOf(evaluateOp(
        "%x: tensor<1x1x2xf32>, %w: tensor<1x1x3xf32>, %b: tensor<1xf32>",
        "fusion.conv_transpose %x, %w bias %b strides = [2] " + pads +
            " dilations = [1] groups = 1 layout = nchw : tensor<1x1x2xf32>, "
            "tensor<1x1x3xf32>, tensor<1xf32>",
        result,
        {f32({1, 1, 2}, {1, 2}), f32({1, 1, 3}, {1, 10, 100}),
         f32({1}, {1000})}));
  };
  EXPECT_EQ(run("pad_low = [0] pad_high = [0] output_padding = [0]",
                "tensor<1x1x5xf32>"),
            (std::vector<double>{1001, 1010, 1102, 1020, 1200}));
  EXPECT_EQ(run("pad_low = [1] pad_high = [1] output_padding = [1]",
                "tensor<1x1x4xf32>"),
            (std::vector<double>{1010, 1102, 1020, 1200}));
}

// <conv(x), y> = <x, conv_transpose(y)>: it is the gradient, with groups,
// dilation, and in both layouts.
TEST(ConvTranspose, IsTheAdjointOfConv) {
  Tensor x = smallIntegers(ElementKind::F64, {2, 4, 7, 5}, 5);
  Tensor w = smallIntegers(ElementKind::F64, {6, 2, 3, 2}, 6);
  Tensor y = smallIntegers(ElementKind::F64, {2, 6, 3, 3}, 7);
  const std::string lists =
      "strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1]";
  Tensor cx = evaluateOp("%x: tensor<2x4x7x5xf64>, %w: tensor<6x2x3x2xf64>",
                         "fusion.conv %x, %w " + lists +
                             " dilations = [2, 2] groups = 2 layout = nchw : "
                             "tensor<2x4x7x5xf64>, tensor<6x2x3x2xf64>",
                         "tensor<2x6x3x3xf64>", {x, w});
  Tensor ty = evaluateOp(
      "%y: tensor<2x6x3x3xf64>, %w: tensor<6x2x3x2xf64>",
      "fusion.conv_transpose %y, %w " + lists +
          " output_padding = [0, 0] dilations = [2, 2] groups = 2 layout = "
          "nchw : tensor<2x6x3x3xf64>, tensor<6x2x3x2xf64>",
      "tensor<2x4x7x5xf64>", {y, w});
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.getNumElements(); ++i)
    left += cx.getFloat(i) * y.getFloat(i);
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    right += x.getFloat(i) * ty.getFloat(i);
  EXPECT_EQ(left, right);
  EXPECT_NE(left, 0);
  Tensor last = evaluateOp(
      "%y: tensor<2x3x3x6xf64>, %w: tensor<6x2x3x2xf64>",
      "fusion.conv_transpose %y, %w " + lists +
          " output_padding = [0, 0] dilations = [2, 2] groups = 2 layout = "
          "nhwc : tensor<2x3x3x6xf64>, tensor<6x2x3x2xf64>",
      "tensor<2x7x5x4xf64>", {channelsLast(y), w});
  EXPECT_EQ(valuesOf(last), valuesOf(channelsLast(ty)));
}

static std::string pool(const std::string &op, const std::string &rest) {
  return "fusion." + op +
         " %x window = [2, 2] strides = [2, 2] pad_low = [1, 1] pad_high = "
         "[1, 1] dilations = [1, 1] layout = nchw " +
         rest;
}

// A 2x2 image, padded by one: each window sees one element.
TEST(Pools, PaddingTakesNoPart) {
  Tensor x = f32({1, 1, 2, 2}, {-1, -2, -3, kNan});
  std::string type = "tensor<1x1x2x2xf32>";
  std::vector<double> most = valuesOf(
      evaluateOp("%x: " + type, pool("max_pool", ": " + type), type, {x}));
  EXPECT_EQ(most[0], -1);
  EXPECT_EQ(most[2], -3);
  EXPECT_TRUE(std::isnan(most[3]));
  Tensor y = f32({1, 1, 2, 2}, {4, 8, 12, 16});
  EXPECT_EQ(valuesOf(evaluateOp("%x: " + type, pool("avg_pool", ": " + type),
                                type, {y})),
            (std::vector<double>{4, 8, 12, 16}));
  EXPECT_EQ(valuesOf(evaluateOp(
                "%x: " + type,
                pool("avg_pool", "{count_include_pad} : " + type), type, {y})),
            (std::vector<double>{1, 2, 3, 4}));
}

// Windows (0, 1, 2) and (2, 3, padding) of one row. Equals: the first one gets
// the gradient. A NaN wins over a larger number, the first of two NaNs over the
// second. -inf everywhere is no padding.
TEST(Pools, MaxPoolGradChoosesTheFirst) {
  auto grads = [&](std::vector<double> x, std::vector<double> dy) {
    return valuesOf(evaluateOp(
        "%x: tensor<1x1x4xf32>, %dy: tensor<1x1x2xf32>",
        "fusion.max_pool_grad %x, %dy window = [3] strides = [2] pad_low = [0] "
        "pad_high = [1] dilations = [1] layout = nchw : tensor<1x1x4xf32>, "
        "tensor<1x1x2xf32>",
        "tensor<1x1x4xf32>", {f32({1, 1, 4}, x), f32({1, 1, 2}, dy)}));
  };
  using Values = std::vector<double>;
  EXPECT_EQ(grads({1, 2, 5, 3}, {10, 20}), (Values{0, 0, 30, 0}));
  EXPECT_EQ(grads({4, 4, 4, 4}, {10, 20}), (Values{10, 0, 20, 0}));
  EXPECT_EQ(grads({9, kNan, kNan, 3}, {10, 20}), (Values{0, 10, 20, 0}));
  EXPECT_EQ(grads({-kInf, -kInf, -kInf, -kInf}, {10, 20}),
            (Values{10, 0, 20, 0}));
  EXPECT_EQ(grads({0.0, -0.0, -1, -0.5}, {10, 20}), (Values{10, 0, 0, 20}));
}

// The four windows of a 3x3 image meet in its centre; channels last.
TEST(Pools, MaxPoolGradSumsWindows) {
  std::string x = "tensor<1x3x3x1xf32>", dy = "tensor<1x2x2x1xf32>";
  Tensor y = evaluateOp(
      "%x: " + x + ", %dy: " + dy,
      "fusion.max_pool_grad %x, %dy window = [2, 2] strides = [1, 1] pad_low = "
      "[0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc : " +
          x + ", " + dy,
      x,
      {f32({1, 3, 3, 1}, {0, 1, 2, 3, 9, 4, 5, 6, 7}),
       f32({1, 2, 2, 1}, {1, 2, 4, 8})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{0, 0, 0, 0, 15, 0, 0, 0, 0}));
}

TEST(Pools, ThreeDimensionsChannelsLastAndIntegers) {
  Tensor x = i32({1, 2, 2, 1, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  Tensor y = evaluateOp(
      "%x: tensor<1x2x2x1x2xi32>",
      "fusion.max_pool %x window = [2, 1, 1] strides = [1, 1, 1] pad_low = [0, "
      "0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] layout = nhwc : "
      "tensor<1x2x2x1x2xi32>",
      "tensor<1x1x2x1x2xi32>", {x});
  EXPECT_EQ(intsOf(y), (std::vector<int64_t>{3, 30, 4, 40}));
  Tensor z = evaluateOp(
      "%x: tensor<1x1x5xf32>",
      "fusion.avg_pool %x window = [2] strides = [1] pad_low = [0] pad_high = "
      "[0] dilations = [3] layout = nchw : tensor<1x1x5xf32>",
      "tensor<1x1x2xf32>", {f32({1, 1, 5}, {1, 2, 3, 5, 8})});
  EXPECT_EQ(valuesOf(z), (std::vector<double>{3, 5}));
}

// f16 data with f32 statistics that f16 cannot hold.
TEST(Norms, BatchNormMixesTypes) {
  Tensor y = evaluateOp(
      "%x: tensor<1x2x2xf16>, %s: tensor<2xf32>, %b: tensor<2xf32>, %m: "
      "tensor<2xf32>, %v: tensor<2xf32>",
      "fusion.batch_norm %x, %s, %b, %m, %v epsilon = 0.0 axis = 1 : "
      "tensor<1x2x2xf16>, tensor<2xf32>",
      "tensor<1x2x2xf16>",
      {floats(ElementKind::F16, {1, 2, 2}, {100, 300, 1, 2}),
       f32({2}, {1024, -2}), f32({2}, {0, 5}), f32({2}, {200, 1}),
       f32({2}, {1048576, 0.25})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{-100, 100, 5, 1}));
}

// Variance of four values around 20000: 0.3125, which x^2 - mean^2 in f32 makes
// negative.
TEST(Norms, TwoPasses) {
  Tensor x = f32({1, 4}, {20000, 20000.5, 19999.5, 20001});
  Tensor y = evaluateOp("%x: tensor<1x4xf32>",
                        "fusion.layer_norm %x epsilon = 0.0 axis = 1 : "
                        "tensor<1x4xf32>",
                        "tensor<1x4xf32>", {x});
  double deviation = std::sqrt(0.3125);
  expectNear(y,
             {-0.25 / deviation, 0.25 / deviation, -0.75 / deviation,
              0.75 / deviation},
             1e-7);
  Outcome training = evaluateModule(
      "func.func @main(%x: tensor<4x1xf32>, %s: tensor<1xf32>, %b: "
      "tensor<1xf32>) -> (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>) {\n"
      "  %y, %m, %v = fusion.batch_norm_training %x, %s, %b epsilon = 0.0 axis "
      "= 1 : tensor<4x1xf32>, tensor<1xf32>\n"
      "  return %y, %m, %v : tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>\n}",
      {x.withShape({4, 1}), f32({1}, {2}), f32({1}, {3})});
  EXPECT_EQ(valuesOf(training[1])[0], roundToKind(20000.25, ElementKind::F32));
  EXPECT_EQ(valuesOf(training[2])[0], 0.3125);
  expectNear(training[0],
             {3 - 0.5 / deviation, 3 + 0.5 / deviation, 3 - 1.5 / deviation,
              3 + 1.5 / deviation},
             1e-6);
}

TEST(Norms, RowsWithScaleAndBias) {
  Tensor x = f64({2, 2, 2}, {1, 3, 5, 7, 2, 2, 2, 2});
  std::string args =
      "%x: tensor<2x2x2xf64>, %s: tensor<2x2xf64>, %b: tensor<2x2xf64>";
  std::vector<Tensor> inputs = {x, f64({2, 2}, {1, 2, 3, 4}),
                                f64({2, 2}, {10, 20, 30, 40})};
  Tensor y = evaluateOp(args,
                        "fusion.layer_norm %x scale %s bias %b epsilon = 4.0 "
                        "axis = 1 : tensor<2x2x2xf64>, tensor<2x2xf64>, "
                        "tensor<2x2xf64>",
                        "tensor<2x2x2xf64>", inputs);
  // Row 0: mean 4, variance 5, sqrt(9) = 3; row 1 is constant: the bias.
  expectNear(y, {10 - 1.0, 20 - 2.0 / 3, 30 + 1.0, 40 + 4.0, 10, 20, 30, 40},
             1e-15);
  Tensor z =
      evaluateOp("%x: tensor<1x2xf64>, %b: tensor<2xf64>",
                 "fusion.rms_norm %x bias %b epsilon = 0.0 axis = 1 : "
                 "tensor<1x2xf64>, tensor<2xf64>",
                 "tensor<1x2xf64>", {f64({1, 2}, {1, 7}), f64({2}, {0, 1})});
  expectNear(z, {0.2, 2.4}, 1e-15); // root mean square 5
}

TEST(Softmax, RowsAlongAnyAxis) {
  double l2 = std::log(2.0), l5 = std::log(5.0);
  // Columns are (ln 1, ln 2, ln 5) + 1000 and (-inf, -inf, -inf).
  Tensor x = f64({3, 2}, {1000, -kInf, 1000 + l2, -kInf, 1000 + l5, -kInf});
  for (std::string op : {"softmax", "log_softmax"}) {
    std::vector<double> y =
        valuesOf(evaluateOp("%x: tensor<3x2xf64>",
                            "fusion." + op + " %x axis = 0 : tensor<3x2xf64>",
                            "tensor<3x2xf64>", {x}));
    const double want[] = {0.125, 0.25, 0.625};
    for (int i = 0; i < 3; ++i) {
      double w = op == "softmax" ? want[i] : std::log(want[i]);
      EXPECT_NEAR(y[2 * i], w, 1e-12);
      EXPECT_TRUE(std::isnan(y[2 * i + 1]));
    }
  }
}

// Four heads in two groups, with a mask of one batch and head, by the formula.
TEST(Attention, GroupsMaskAndCausal) {
  const int64_t B = 2, H = 4, G = 2, S = 3, T = 5, D = 2, E = 3;
  Tensor q = smallIntegers(ElementKind::F64, {B, H, S, D}, 1);
  Tensor k = smallIntegers(ElementKind::F64, {B, G, T, D}, 2);
  Tensor v = smallIntegers(ElementKind::F64, {B, G, T, E}, 3);
  Tensor m = smallIntegers(ElementKind::F64, {1, 1, S, T}, 4);
  for (bool causal : {false, true}) {
    Tensor y = evaluateOp(
        "%q: tensor<2x4x3x2xf64>, %k: tensor<2x2x5x2xf64>, %v: "
        "tensor<2x2x5x3xf64>, %m: tensor<1x1x3x5xf64>",
        std::string("fusion.attention %q, %k, %v mask %m scale = 0.125 ") +
            (causal ? "causal " : "") +
            ": tensor<2x4x3x2xf64>, tensor<2x2x5x2xf64>, tensor<2x2x5x3xf64>, "
            "tensor<1x1x3x5xf64>",
        "tensor<2x4x3x3xf64>", {q, k, v, m});
    std::vector<double> want;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t s = 0; s < S; ++s)
          for (int64_t e = 0; e < E; ++e) {
            int64_t g = h / 2;
            double top = 0, bottom = 0;
            for (int64_t t = 0; t < T; ++t) {
              if (causal && t > s + 2)
                continue;
              double dot = 0;
              for (int64_t d = 0; d < D; ++d)
                dot += q.getFloat(((b * H + h) * S + s) * D + d) *
                       k.getFloat(((b * G + g) * T + t) * D + d);
              double p = std::exp(dot / 8 + m.getFloat(s * T + t));
              top += p * v.getFloat(((b * G + g) * T + t) * E + e);
              bottom += p;
            }
            want.push_back(top / bottom);
          }
    expectNear(y, want, 1e-13);
  }
}

// Two equal keys with values 0 and 1 weigh 1/2 each: by hand dv = dy / 2 and
// dS = (-dy / 4, dy / 4) * scale. Two heads share the group, scale is 2.
TEST(Attention, GradientByHand) {
  std::string q = "tensor<1x2x1x1xf64>", k = "tensor<1x1x2x1xf64>";
  Outcome grads = evaluateModule(
      "func.func @main(%q: " + q + ", %k: " + k + ", %v: " + k + ", %g: " + q +
          ") -> (" + q + ", " + k + ", " + k +
          ") {\n  %dq, %dk, %dv = fusion.attention_grad %q, %k, %v, %g scale = "
          "2.0 : " +
          q + ", " + k + ", " + k + ", " + q +
          "\n  return %dq, %dk, %dv : " + q + ", " + k + ", " + k + "\n}",
      {f64({1, 2, 1, 1}, {3, 5}), f64({1, 1, 2, 1}, {7, 7}),
       f64({1, 1, 2, 1}, {0, 1}), f64({1, 2, 1, 1}, {4, 8})});
  EXPECT_EQ(valuesOf(grads[0]), (std::vector<double>{0, 0}));
  EXPECT_EQ(valuesOf(grads[1]), (std::vector<double>{-2 * 3 - 4 * 5, 26}));
  EXPECT_EQ(valuesOf(grads[2]), (std::vector<double>{6, 6}));
}

TEST(Attention, FullyMaskedRowIsNan) {
  Tensor y = evaluateOp(
      "%q: tensor<1x1x1x1xf32>, %m: tensor<1x1x1x1xf32>",
      "fusion.attention %q, %q, %q mask %m scale = 1.0 : tensor<1x1x1x1xf32>, "
      "tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>",
      "tensor<1x1x1x1xf32>",
      {f32({1, 1, 1, 1}, {1}), f32({1, 1, 1, 1}, {-kInf})});
  EXPECT_TRUE(std::isnan(valuesOf(y)[0]));
}

// Rotation by a quarter turn at position 1: (a, b) becomes (-b, a).
TEST(Rope, RotatesPairs) {
  Tensor x = f32({2, 4}, {1, 2, 3, 4, 1, 2, 3, 4});
  Tensor c = f32({2, 2}, {1, 1, 0, 0}), s = f32({2, 2}, {0, 0, 1, 1});
  auto rope = [&](const std::string &attributes) {
    return valuesOf(evaluateOp(
        "%x: tensor<2x4xf32>, %c: tensor<2x2xf32>, %s: tensor<2x2xf32>",
        "fusion.rope %x, %c, %s " + attributes +
            " : tensor<2x4xf32>, tensor<2x2xf32>",
        "tensor<2x4xf32>", {x, c, s}));
  };
  EXPECT_EQ(rope(""), (std::vector<double>{1, 2, 3, 4, -3, -4, 1, 2}));
  EXPECT_EQ(rope("{interleaved}"),
            (std::vector<double>{1, 2, 3, 4, -2, 1, -4, 3}));
}
