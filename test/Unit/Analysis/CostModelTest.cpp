//===- CostModelTest.cpp - Predicted times --------------------------------===//
//
// Expected figures are worked out by hand from the round device: 1e12 bytes a
// second are 1e6 bytes a microsecond, 1e13 flops a second 1e7 a microsecond.
//
//===----------------------------------------------------------------------===//
#include "AnalysisFixture.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

static std::unique_ptr<CostModel> makeRoofline() {
  return llvm::cantFail(createCostModel(kRooflineModel, makeRoundDevice()));
}

/// Work of many blocks.
static KernelWork makeWork(double bytes, double flops, double blocks = 1000) {
  KernelWork work;
  work.memoryBytes = bytes;
  work.flops[static_cast<unsigned>(Arithmetic::VectorF32)] = flops;
  work.blocks = blocks;
  return work;
}

TEST(CostModel, RooflineTakesTheLongerSide) {
  auto model = makeRoofline();
  EXPECT_DOUBLE_EQ(model->getMicroseconds(makeWork(3e6, 1e7)), 2 + 3);
  EXPECT_DOUBLE_EQ(model->getMicroseconds(makeWork(1e6, 4e7)), 2 + 4);
  // 10 of 50 blocks reach a fifth of the bandwidth, 10 of 100 a tenth of peak.
  EXPECT_DOUBLE_EQ(model->getMicroseconds(makeWork(1e6, 0, 10)), 2 + 5);
  EXPECT_DOUBLE_EQ(model->getMicroseconds(makeWork(0, 1e7, 10)), 2 + 10);
  KernelWork cached;
  cached.cachedBytes = 4e6;
  cached.blocks = 1000;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(cached), 2 + 1);
}

TEST(CostModel, ClassesReachTheirShares) {
  DeviceModel device = makeRoundDevice();
  device.kernels[static_cast<unsigned>(KernelClass::Loop)] = {0.5, 0.5, 0.25,
                                                              0.5, 1};
  auto model = llvm::cantFail(createCostModel(kRooflineModel, device));
  KernelWork work = makeWork(3e6, 1e7);
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work), 2 + 3);
  work.kernel = KernelClass::Loop;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work), 2.5 + 3 / 0.5);
  work.flops[static_cast<unsigned>(Arithmetic::VectorF32)] = 4e7;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work), 2.5 + 4 / 0.25);
  work.spilledBytes = 1e6;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work),
                   2.5 + 4 / 0.25 + 0.5 * 1 / 0.5);
  // 10 blocks that are 40: four fifths of the memory, four tenths of the units.
  device.kernels[static_cast<unsigned>(KernelClass::Loop)].spread = 4;
  model = llvm::cantFail(createCostModel(kRooflineModel, device));
  work = makeWork(1e6, 0, 10);
  work.kernel = KernelClass::Loop;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work), 2.5 + 1 / 0.8 / 0.5);
  work = makeWork(0, 1e7, 10);
  work.kernel = KernelClass::Loop;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(work), 2.5 + 1 / 0.4 / 0.25);
}

TEST(CostModel, RowsAndColumnsAreDealtWhole) {
  // 4 rows of 65536: 1024 threads each, 4 blocks of 256 threads a row.
  // 64 columns of 4096: 32 threads for each 4 of them, 2 blocks.
  // 1024 rows of 64: 8 threads each, 32 blocks.
  Parsed parsed(R"(
    func.func @main(%x: tensor<4x65536xf32>, %y: tensor<4096x64xf32>,
                    %z: tensor<1024x64xf32>)
        -> (tensor<4xf32>, tensor<64xf32>, tensor<1024xf32>) {
      %0 = fusion.reduce sum, %x dims = [1] : tensor<4x65536xf32>
      %1 = fusion.reduce sum, %y dims = [0] : tensor<4096x64xf32>
      %2 = fusion.reduce sum, %z dims = [1] : tensor<1024x64xf32>
      return %0, %1, %2 : tensor<4xf32>, tensor<64xf32>, tensor<1024xf32>
    })");
  DeviceModel device = makeRoundDevice();
  auto blocks = [&](unsigned i) {
    return computeKernelWork(
               {parsed.ops[i]}, [](mlir::Operation *) { return true; },
               *parsed.legality, device)
        .blocks;
  };
  EXPECT_EQ(blocks(0), 16);
  EXPECT_EQ(blocks(1), 2);
  EXPECT_EQ(blocks(2), 32);
  device.isGpu = false;
  EXPECT_EQ(blocks(0), 256);
}

TEST(CostModel, TheLargerOfTwoGivesItsClass) {
  KernelWork small = makeWork(1e6, 0), large = makeWork(2e6, 0), sum;
  small.kernel = KernelClass::Loop;
  large.kernel = KernelClass::RowReduce;
  sum += small;
  EXPECT_EQ(sum.kernel, KernelClass::Loop);
  sum += large;
  EXPECT_EQ(sum.kernel, KernelClass::RowReduce);
}

TEST(CostModel, OneLaunchIsCheaperThanStreamsThanSerial) {
  auto model = makeRoofline();
  // Each alone reaches a fifth of the bandwidth: 5 us; together two fifths.
  KernelWork one = makeWork(1e6, 0, 10);
  KernelWork both = one;
  both += one;
  EXPECT_DOUBLE_EQ(model->getMicroseconds(both), 2 + 5);
  // The streams end with a launch more.
  EXPECT_DOUBLE_EQ(model->getConcurrentMicroseconds({one, one}), 2 + 5 + 2);
  // Full kernels gain nothing.
  KernelWork full = makeWork(1e6, 0);
  EXPECT_DOUBLE_EQ(model->getConcurrentMicroseconds({full, full}), 2 + 2 + 2);
  EXPECT_DOUBLE_EQ(model->getConcurrentMicroseconds({}), 0);
  EXPECT_DOUBLE_EQ(model->getConcurrentMicroseconds({full}), 2 + 1);
  // Four at a time: the fifth waits, a gap and 5 us.
  EXPECT_DOUBLE_EQ(model->getConcurrentMicroseconds({one, one, one, one, one}),
                   2 + 5 + 2 + 5 + 2);
  // A long one beside short ones: no less than it takes alone.
  EXPECT_DOUBLE_EQ(
      model->getConcurrentMicroseconds({makeWork(0, 4e7, 10), one}),
      2 + 40 + 2);
}

TEST(CostModel, OneStreamIsOneAfterTheOther) {
  DeviceModel device = makeRoundDevice();
  device.streams = 1;
  auto model = llvm::cantFail(createCostModel(kRooflineModel, device));
  EXPECT_DOUBLE_EQ(
      model->getConcurrentMicroseconds({makeWork(1e6, 0), makeWork(2e6, 0)}),
      (2 + 1) + (2 + 2));
}

TEST(CostModel, ComparesThreeWays) {
  auto model = makeRoofline();
  KernelWork one = makeWork(1e6, 0), both = makeWork(2e6, 0);
  LaunchAlternatives ways = compareLaunches(*model, {one, one}, both);
  EXPECT_DOUBLE_EQ(ways.fusedUs, 2 + 2);
  EXPECT_DOUBLE_EQ(ways.serialUs, 2 * (2 + 1));
  EXPECT_DOUBLE_EQ(ways.streamsUs, 2 + 2 + 2);
  EXPECT_EQ(ways.choice, LaunchChoice::Fused);
  // A tie is fused; a microsecond more of anything is not.
  both.spilledBytes = 2e6;
  EXPECT_EQ(compareLaunches(*model, {one, one}, both).choice,
            LaunchChoice::Fused);
  both.spilledBytes = 3e6;
  EXPECT_EQ(compareLaunches(*model, {one, one}, both).choice,
            LaunchChoice::Serial);
  // Kernels that fill a tenth of the device gain by streams: 5 us, not 10.
  KernelWork small = makeWork(1e6, 0, 10), pair = makeWork(2e6, 0, 20);
  pair.spilledBytes = 3e6 * 0.4;
  ways = compareLaunches(*model, {small, small}, pair);
  EXPECT_DOUBLE_EQ(ways.fusedUs, 2 + 5 + 3);
  EXPECT_DOUBLE_EQ(ways.serialUs, 2 * (2 + 5));
  EXPECT_DOUBLE_EQ(ways.streamsUs, 2 + 5 + 2);
  EXPECT_EQ(ways.choice, LaunchChoice::Streams);
  // A copy behind the launch is part of it.
  EXPECT_DOUBLE_EQ(compareLaunches(*model, {small, small}, {pair, one}).fusedUs,
                   2 + 5 + 3 + 2 + 1);
}

TEST(CostModel, WhatWaitsSpills) {
  // 4 MB of cache: of 5 MB, one goes to memory and comes back.
  KernelWork work = makeWork(0, 0);
  addSpills(work, 4e6, makeRoundDevice());
  EXPECT_EQ(work.spilledBytes, 0);
  addSpills(work, 5e6, makeRoundDevice());
  EXPECT_EQ(work.spilledBytes, 2e6);
  EXPECT_DOUBLE_EQ(makeRoofline()->getMicroseconds(work), 2 + 2);
}

TEST(CostModel, WeightsThatLeaveTheUnitsCacheAreReadAgain) {
  // 100,000 bytes stay with a unit, 4 MB in the last-level cache. 300 rows are
  // three blocks of 128: two more passes over the weights.
  DeviceModel device = makeRoundDevice();
  KernelWork work;
  addRereads(work, 100000, 300, 1, device);
  addRereads(work, 200000, 128, 1, device);
  EXPECT_EQ(work.rereadBytes, 0);
  addRereads(work, 200000, 300, 3, device);
  EXPECT_EQ(work.rereadBytes, 2 * 3 * 200000);
  EXPECT_EQ(work.spilledBytes, 0);
  addRereads(work, 5e6, 129, 1, device);
  EXPECT_EQ(work.spilledBytes, 5e6);
  // 1.2 MB at 4 MB a microsecond, 5 MB at 1 MB.
  work.blocks = 1000;
  EXPECT_DOUBLE_EQ(makeRoofline()->getMicroseconds(work), 2 + 0.3 + 5);
}

TEST(CostModel, AProductReadsItsWeightsAgain) {
  // Two batches of 256 rows: each reads its 160,000 bytes of weights once more.
  Parsed p(R"(
    func.func @main(%x: tensor<2x256x200xf32>, %w: tensor<2x200x200xf32>) -> tensor<2x256x200xf32> {
      %0 = fusion.matmul %x, %w : tensor<2x256x200xf32>, tensor<2x200x200xf32>
      return %0 : tensor<2x256x200xf32>
    })");
  auto escapes = [&](mlir::Operation *op) { return p.escapes(op); };
  EXPECT_EQ(computeKernelWork(p.ops, escapes, *p.legality, makeRoundDevice())
                .rereadBytes,
            2 * 160000);
}

TEST(CostModel, ACopyReadsWhatIsStillCached) {
  // A quarter of the cache is 1 MB.
  KernelWork work = computeCopyWork(1e6, 250000, makeRoundDevice());
  EXPECT_EQ(work.cachedBytes, 1e6);
  EXPECT_EQ(work.memoryBytes, 1e6);
  EXPECT_EQ(work.blocks, 245);
  EXPECT_EQ(computeCopyWork(2e6, 500000, makeRoundDevice()).memoryBytes, 4e6);
}

TEST(CostModel, WorkOfAChain) {
  Parsed p(R"(
    func.func @main(%x: tensor<1024x1024xf32>, %b: tensor<1024xf32>) -> tensor<1024x1024xf32> {
      %0 = fusion.broadcast %b dims = [1] : tensor<1024xf32> to tensor<1024x1024xf32>
      %1 = fusion.add %x, %0 : tensor<1024x1024xf32>
      %2 = fusion.mul %1, %x : tensor<1024x1024xf32>
      return %2 : tensor<1024x1024xf32>
    })");
  auto escapes = [&](mlir::Operation *op) { return p.escapes(op); };
  KernelWork work =
      computeKernelWork(p.ops, escapes, *p.legality, makeRoundDevice());
  // x and the result, 4 MiB each; b, 4 KiB.
  EXPECT_EQ(work.memoryBytes, 2 * 4 * 1024 * 1024 + 4 * 1024);
  EXPECT_EQ(work.cachedBytes, 0);
  EXPECT_EQ(work.getFlops(), 2 * 1024 * 1024);
  EXPECT_EQ(work.blocks, 1024);
}

TEST(CostModel, IntermediatesThatFitAreReadFromTheCache) {
  // 65536 f32 are 256 KiB, less than a quarter of 4 MB; 1 MiB is more.
  for (auto [size, cached] : {std::pair(65536, true), {262144, false}}) {
    std::string type = "tensor<" + std::to_string(size) + "xf32>";
    Parsed p("func.func @main(%x: " + type + ") -> " + type +
             " {\n  %0 = fusion.exp %x : " + type +
             "\n  %1 = fusion.neg %0 : " + type + "\n  return %1 : " + type +
             "\n}");
    auto all = [](mlir::Operation *) { return true; };
    KernelWork work =
        computeKernelWork(p.ops[1], all, *p.legality, makeRoundDevice());
    EXPECT_EQ(work.cachedBytes, cached ? 4.0 * size : 0);
    EXPECT_EQ(work.memoryBytes, (cached ? 1 : 2) * 4.0 * size);
  }
}

TEST(CostModel, SlicesReadWhatTheyTake) {
  Parsed p(R"(
    func.func @main(%x: tensor<1000x8xf32>) -> tensor<10x8xf32> {
      %0 = fusion.slice %x starts = [0, 0] limits = [10, 8] strides = [1, 1] : tensor<1000x8xf32>
      %1 = fusion.neg %0 : tensor<10x8xf32>
      return %1 : tensor<10x8xf32>
    })");
  auto escapes = [&](mlir::Operation *op) { return p.escapes(op); };
  EXPECT_EQ(computeKernelWork(p.ops, escapes, *p.legality, makeRoundDevice())
                .memoryBytes,
            2 * 10 * 8 * 4);
}

TEST(CostModel, WorkOfAMatmulIsAtTheLargestBatch) {
  Parsed p(R"(
    func.func @main(%x: tensor<?x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<?x32xbf16>
        attributes {fusion.batch = array<i64: 1, 16>} {
      %0 = fusion.matmul %x, %w : tensor<?x64xbf16>, tensor<64x32xbf16>
      return %0 : tensor<?x32xbf16>
    })");
  auto escapes = [&](mlir::Operation *op) { return p.escapes(op); };
  KernelWork work =
      computeKernelWork(p.ops, escapes, *p.legality, makeRoundDevice());
  EXPECT_EQ(work.flops[static_cast<unsigned>(Arithmetic::MatrixBf16)],
            2.0 * 16 * 64 * 32);
  EXPECT_EQ(work.memoryBytes, 2 * (16 * 64 + 64 * 32 + 16 * 32));
}

// The two examples that this project answers to.
TEST(CostModel, TenPercentMoreComputeForHalfTheBytesPays) {
  auto model = makeRoofline();
  FusionProfit profit =
      predictProfit(*model, {makeWork(50e6, 50e6), makeWork(50e6, 50e6)},
                    makeWork(50e6, 110e6));
  EXPECT_FALSE(profit.refusal.has_value());
  EXPECT_EQ(profit.value, 10);
  EXPECT_EQ(profit.limit, 4 * 50);
  // 2 x (gap + 50 us of bytes) against one.
  EXPECT_DOUBLE_EQ(profit.beforeUs, 2 * (2 + 50));
  EXPECT_DOUBLE_EQ(profit.afterUs, 2 + 50);
}

TEST(CostModel, TenTimesTheComputeForAFifthOfTheBytesDoesNot) {
  auto model = makeRoofline();
  // Memory-bound even so: time alone would take it.
  FusionProfit profit =
      predictProfit(*model, {makeWork(50e6, 5e6), makeWork(50e6, 5e6)},
                    makeWork(80e6, 100e6));
  EXPECT_LT(profit.afterUs, profit.beforeUs);
  ASSERT_TRUE(profit.refusal.has_value());
  EXPECT_EQ(*profit.refusal, FusionRule::ComputeDensity);
  EXPECT_EQ(profit.value, 900);
  EXPECT_EQ(profit.limit, 4 * 20);
}

TEST(CostModel, DensityBoundary) {
  auto model = makeRoofline();
  // Four times the percent that are saved are still fused, one more is not.
  EXPECT_FALSE(
      predictProfit(*model, makeWork(100e6, 100e6), makeWork(80e6, 180e6))
          .refusal.has_value());
  EXPECT_EQ(predictProfit(*model, makeWork(100e6, 100e6), makeWork(80e6, 181e6))
                .refusal,
            FusionRule::ComputeDensity);
  // Less than a tenth of the gap, 0.2 us or 2e6 flops, is not weighed.
  EXPECT_FALSE(predictProfit(*model, {makeWork(4e3, 1e3), makeWork(4e3, 1e3)},
                             makeWork(8e3, 1.9e6))
                   .refusal.has_value());
  EXPECT_EQ(predictProfit(*model, {makeWork(4e3, 1e3), makeWork(4e3, 1e3)},
                          makeWork(8e3, 2.1e6))
                .refusal,
            FusionRule::ComputeDensity);
}

TEST(CostModel, SlowerIsNoGain) {
  auto model = makeRoofline();
  FusionProfit profit = predictProfit(
      *model, {makeWork(1e6, 0), makeWork(1e6, 0)}, makeWork(9e6, 0));
  EXPECT_EQ(profit.refusal, FusionRule::NoGain);
}

namespace {
/// What a plugin would register.
struct Constant : CostModel {
  using CostModel::CostModel;
  double getMicroseconds(const KernelWork &) const override { return 7; }
};
} // namespace

TEST(CostModel, ModelsAreFoundByName) {
  registerCostModel("constant", [](DeviceModel device) {
    return std::make_unique<Constant>(std::move(device));
  });
  auto model = llvm::cantFail(createCostModel("constant", makeRoundDevice()));
  EXPECT_EQ(model->getMicroseconds(makeWork(1e9, 0)), 7);
  EXPECT_EQ(model->getDevice().name, "round");
  auto unknown = createCostModel("oracle", makeRoundDevice());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "unknown cost model 'oracle', --cost-model, the models are: "
            "constant, roofline; a plugin can add one");
}
