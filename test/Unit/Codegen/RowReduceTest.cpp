//===- RowReduceTest.cpp - Runs reductions --------------------------------===//
//
// Sums of small integers are exact in any order; softmax and norms are compared
// with a double evaluation.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace fusion::test;

TEST(RowReduce, SumsRowsOfAnyLength) {
  for (int length : {1, 3, 16, 37, 100}) {
    std::string in = "tensor<5x" + std::to_string(length) + "xf32>";
    KernelRunner runner(
        "func.func @main(%x: " + in +
        ") -> tensor<5xf32> {\n"
        "%r = fusion.group row_reduce (%a = %x : " +
        in +
        ") -> tensor<5xf32> {\n"
        "%0 = fusion.reduce sum, %a dims = [1] : " +
        in +
        "\n"
        "fusion.yield %0 : tensor<5xf32>\n}\nreturn %r : tensor<5xf32>\n}");
    ASSERT_TRUE(runner.ok()) << runner.error();
    std::vector<float> x(5 * length);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((i * 7) % 23) - 11;
    auto result = fromBytes<float>(runner.run({toBytes(x)})[0]);
    for (int row = 0; row < 5; ++row) {
      float expected = 0;
      for (int i = 0; i < length; ++i)
        expected += x[row * length + i];
      EXPECT_EQ(result[row], expected) << length << ' ' << row;
    }
  }
}

TEST(RowReduce, SoftmaxWithPrologueAndEpilogue) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<3x50xf32>, %m: tensor<50xf32>) -> tensor<3x50xf32> {
      %r = fusion.group row_reduce (%a = %x : tensor<3x50xf32>, %b = %m : tensor<50xf32>) -> tensor<3x50xf32> {
        %c = fusion.broadcast %b dims = [1] : tensor<50xf32> to tensor<3x50xf32>
        %0 = fusion.add %a, %c : tensor<3x50xf32>
        %1 = fusion.softmax %0 axis = 1 : tensor<3x50xf32>
        %2 = fusion.neg %1 : tensor<3x50xf32>
        fusion.yield %2 : tensor<3x50xf32>
      }
      return %r : tensor<3x50xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x(150), m(50);
  for (int i = 0; i < 150; ++i)
    x[i] = static_cast<float>((i * 13) % 17) - 8;
  for (int i = 0; i < 50; ++i)
    m[i] = static_cast<float>(i % 5);
  auto result =
      fromBytes<float>(runner.run({toBytes(x), toBytes(m)}, 1, true)[0]);
  for (int row = 0; row < 3; ++row) {
    double sum = 0;
    for (int i = 0; i < 50; ++i)
      sum += std::exp(static_cast<double>(x[row * 50 + i] + m[i]) - 20);
    for (int i = 0; i < 50; ++i) {
      double expected =
          -std::exp(static_cast<double>(x[row * 50 + i] + m[i]) - 20) / sum;
      EXPECT_NEAR(result[row * 50 + i], expected, 1e-6 * std::abs(expected))
          << row << i;
    }
  }
}

TEST(RowReduce, LayerNormOfTwoDimensions) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<?x6x7xf32>, %s: tensor<6x7xf32>) -> tensor<?x6x7xf32> attributes {fusion.batch = array<i64: 1, 4>} {
      %r = fusion.group row_reduce (%a = %x : tensor<?x6x7xf32>, %b = %s : tensor<6x7xf32>) -> tensor<?x6x7xf32> {
        %0 = fusion.layer_norm %a scale %b epsilon = 0.0 axis = 1 : tensor<?x6x7xf32>, tensor<6x7xf32>
        fusion.yield %0 : tensor<?x6x7xf32>
      }
      return %r : tensor<?x6x7xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x(84), s(42);
  for (int i = 0; i < 84; ++i)
    x[i] = static_cast<float>((i * 5) % 19);
  for (int i = 0; i < 42; ++i)
    s[i] = static_cast<float>(i % 3 + 1);
  auto result = fromBytes<float>(runner.run({toBytes(x), toBytes(s)}, 2)[0]);
  for (int row = 0; row < 2; ++row) {
    double mean = 0, variance = 0;
    for (int i = 0; i < 42; ++i)
      mean += x[row * 42 + i] / 42.0;
    for (int i = 0; i < 42; ++i)
      variance += (x[row * 42 + i] - mean) * (x[row * 42 + i] - mean) / 42.0;
    for (int i = 0; i < 42; ++i)
      EXPECT_NEAR(result[row * 42 + i],
                  (x[row * 42 + i] - mean) / std::sqrt(variance) * s[i], 1e-5);
  }
}

TEST(ColumnReduce, SumsAndMaximaOfMiddleDimensions) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<3x5x21xf32>) -> (tensor<3x21xf32>, tensor<5xf32>) {
      %r = fusion.group column_reduce (%a = %x : tensor<3x5x21xf32>) -> tensor<3x21xf32> {
        %0 = fusion.reduce max, %a dims = [1] : tensor<3x5x21xf32>
        %1 = fusion.neg %0 : tensor<3x21xf32>
        fusion.yield %1 : tensor<3x21xf32>
      }
      %s = fusion.group column_reduce (%a = %x : tensor<3x5x21xf32>) -> tensor<5xf32> {
        %0 = fusion.reduce sum, %a dims = [0, 2] : tensor<3x5x21xf32>
        fusion.yield %0 : tensor<5xf32>
      }
      return %r, %s : tensor<3x21xf32>, tensor<5xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x(315);
  for (int i = 0; i < 315; ++i)
    x[i] = static_cast<float>((i * 11) % 31) - 15;
  auto results = runner.run({toBytes(x)});
  auto maxima = fromBytes<float>(results[0]),
       sums = fromBytes<float>(results[1]);
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 21; ++k) {
      float expected = -100;
      for (int j = 0; j < 5; ++j)
        expected = std::max(expected, x[(i * 5 + j) * 21 + k]);
      EXPECT_EQ(maxima[i * 21 + k], -expected);
    }
  for (int j = 0; j < 5; ++j) {
    float expected = 0;
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 21; ++k)
        expected += x[(i * 5 + j) * 21 + k];
    EXPECT_EQ(sums[j], expected);
  }
}
