//===- LoopTest.cpp - Runs loop kernels -----------------------------------===//
//
// Elementwise and structural ops on small integers: all results are exact.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include <gtest/gtest.h>

using namespace fusion::test;

static std::vector<float> iota(size_t count, float start = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = start + static_cast<float>(i);
  return values;
}

TEST(Loop, AddsAndActivatesWithRest) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<37xf32>, %y: tensor<37xf32>) -> tensor<37xf32> {
      %r = fusion.group loop (%a = %x : tensor<37xf32>, %b = %y : tensor<37xf32>) -> tensor<37xf32> {
        %0 = fusion.add %a, %b : tensor<37xf32>
        %1 = fusion.relu %0 : tensor<37xf32>
        fusion.yield %1 : tensor<37xf32>
      }
      return %r : tensor<37xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x = iota(37), y(37, -10);
  auto result = fromBytes<float>(runner.run({toBytes(x), toBytes(y)})[0]);
  for (size_t i = 0; i < 37; ++i)
    EXPECT_EQ(result[i], std::max(0.0f, x[i] - 10)) << i;
}

TEST(Loop, BroadcastsChannelsOfTheLastDimension) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<?x3x20xf32>, %y: tensor<20xf32>) -> tensor<?x3x20xf32> attributes {fusion.batch = array<i64: 1, 8>} {
      %r = fusion.group loop (%a = %x : tensor<?x3x20xf32>, %b = %y : tensor<20xf32>) -> tensor<?x3x20xf32> {
        %w = fusion.broadcast %b dims = [2] : tensor<20xf32> to tensor<?x3x20xf32>
        %0 = fusion.mul %a, %w : tensor<?x3x20xf32>
        fusion.yield %0 : tensor<?x3x20xf32>
      }
      return %r : tensor<?x3x20xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  for (int64_t batch : {1, 3}) {
    std::vector<float> x = iota(batch * 60), y = iota(20, 5);
    auto result =
        fromBytes<float>(runner.run({toBytes(x), toBytes(y)}, batch)[0]);
    ASSERT_EQ(result.size(), x.size());
    for (size_t i = 0; i < result.size(); ++i)
      EXPECT_EQ(result[i], x[i] * y[i % 20]) << i;
  }
}

TEST(Loop, TransposesSlicesAndPads) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<5x18xf32>) -> tensor<20x3xf32> {
      %r = fusion.group loop (%a = %x : tensor<5x18xf32>) -> tensor<20x3xf32> {
        %s = fusion.slice %a starts = [0, 0] limits = [5, 18] strides = [2, 1] : tensor<5x18xf32>
        %t = fusion.transpose %s permutation = [1, 0] : tensor<3x18xf32>
        %v = fusion.constant dense<-1.0> : tensor<f32>
        %p = fusion.pad %t, %v low = [1, 0] high = [1, 0] : tensor<18x3xf32>, tensor<f32>
        fusion.yield %p : tensor<20x3xf32>
      }
      return %r : tensor<20x3xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x = iota(90);
  auto result = fromBytes<float>(runner.run({toBytes(x)})[0]);
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 3; ++j) {
      float expected = i == 0 || i == 19 ? -1.0f : x[2 * j * 18 + (i - 1)];
      EXPECT_EQ(result[i * 3 + j], expected) << i << ' ' << j;
    }
}

TEST(Loop, ConcatenatesAlongTheInnermostDimension) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<2x19xf32>, %y: tensor<2x14xf32>) -> tensor<2x33xf32> {
      %r = fusion.group loop (%a = %x : tensor<2x19xf32>, %b = %y : tensor<2x14xf32>) -> tensor<2x33xf32> {
        %0 = fusion.concat %a, %b axis = 1 : tensor<2x19xf32>, tensor<2x14xf32>
        fusion.yield %0 : tensor<2x33xf32>
      }
      return %r : tensor<2x33xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x = iota(38), y = iota(28, 100);
  auto result = fromBytes<float>(runner.run({toBytes(x), toBytes(y)})[0]);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 33; ++j)
      EXPECT_EQ(result[i * 33 + j],
                j < 19 ? x[i * 19 + j] : y[i * 14 + j - 19]);
}

TEST(Loop, EqualGroupsShareAKernel) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %p = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
        %0 = fusion.neg %a : tensor<4xf32>
        fusion.yield %0 : tensor<4xf32>
      }
      %q = fusion.group loop (%a = %p : tensor<4xf32>) -> tensor<4xf32> {
        %0 = fusion.neg %a : tensor<4xf32>
        fusion.yield %0 : tensor<4xf32>
      }
      %r = fusion.group loop (%a = %q : tensor<4xf32>) -> tensor<4xf32> {
        %0 = fusion.abs %a : tensor<4xf32>
        fusion.yield %0 : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  EXPECT_EQ(runner.numKernels(), 2u);
  auto result =
      fromBytes<float>(runner.run({toBytes<float>({1, -2, 3, -4})})[0]);
  EXPECT_EQ(result, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Loop, TakesTheBytesOfAnInput) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<1000xf32>) -> tensor<1000xi32> {
      %r = fusion.group loop (%a = %x : tensor<1000xf32>) -> tensor<1000xi32> {
        %0 = fusion.add %a, %a : tensor<1000xf32>
        %1 = fusion.cast %0 : tensor<1000xf32> to tensor<1000xi32>
        fusion.yield %1 : tensor<1000xi32>
      }
      return %r : tensor<1000xi32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  auto result =
      fromBytes<int32_t>(runner.run({toBytes(iota(1000))}, 1, true)[0]);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(result[i], 2 * i);
}

TEST(Loop, EmptyTensorsHaveNoUnits) {
  KernelRunner runner(R"(
    func.func @main(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
      %r = fusion.group loop (%a = %x : tensor<0x4xf32>) -> tensor<0x4xf32> {
        %0 = fusion.neg %a : tensor<0x4xf32>
        fusion.yield %0 : tensor<0x4xf32>
      }
      return %r : tensor<0x4xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  EXPECT_TRUE(runner.run({Bytes()})[0].empty());
}

TEST(Loop, SplitsLongInnerDimensions) {
  // 3 x 5008: each row is split into blocks of whole vectors, the last one
  // short.
  KernelRunner runner(R"(
    func.func @main(%x: tensor<3x5008xf32>, %y: tensor<3xf32>) -> tensor<3x5008xf32> {
      %r = fusion.group loop (%a = %x : tensor<3x5008xf32>, %b = %y : tensor<3xf32>) -> tensor<3x5008xf32> {
        %w = fusion.broadcast %b dims = [0] : tensor<3xf32> to tensor<3x5008xf32>
        %0 = fusion.add %a, %w : tensor<3x5008xf32>
        fusion.yield %0 : tensor<3x5008xf32>
      }
      return %r : tensor<3x5008xf32>
    })");
  ASSERT_TRUE(runner.ok()) << runner.error();
  std::vector<float> x = iota(3 * 5008), y = {100, 200, 300};
  auto result = fromBytes<float>(runner.run({toBytes(x), toBytes(y)})[0]);
  for (size_t i = 0; i < result.size(); ++i)
    ASSERT_EQ(result[i], x[i] + y[i / 5008]) << i;
}
