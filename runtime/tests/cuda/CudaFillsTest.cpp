//===- CudaFillsTest.cpp - Fills of graphs that become kernels ------------===//
//
// On the tests' driver: kernels take the places of fills, and what stood in
// front of these and behind them still does.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "Driver.h"
#include "GraphFills.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::test;

namespace {

class CudaFillsTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    auto opened = Driver::open();
    ASSERT_TRUE(opened.ok());
    driver = *opened;
    driver->contextPush(reinterpret_cast<CUcontext>(0x1000));
    ASSERT_EQ(driver->streamCreate(&stream, kStreamNonBlocking), kSuccess);
    fills = GraphFills::load(*driver);
    ASSERT_TRUE(fills);
  }
  void TearDown() override {
    fills.reset();
    driver->streamDestroy(stream);
    CUcontext ignored;
    driver->contextPop(&ignored);
    CudaTest::TearDown();
  }
  CUdeviceptr address(const DeviceBuffer &buffer) {
    return reinterpret_cast<CUdeviceptr>(buffer.get());
  }
  /// Replays what `enqueue` captures, in several orders. `numKernels`: fills
  /// that become kernels, `numFills`: those that stay.
  template <typename T>
  void replay(T enqueue, uint64_t numKernels, uint64_t numFills) {
    ASSERT_EQ(driver->streamBeginCapture(stream, kCaptureThreadLocal),
              kSuccess);
    enqueue();
    CUgraph captured = nullptr;
    CUgraphExec graph = nullptr;
    ASSERT_EQ(driver->streamEndCapture(stream, &captured), kSuccess);
    uint64_t made = fakeCudaCount("cuGraphAddKernelNode_v2");
    EXPECT_OK(fills->replaceIn(captured));
    EXPECT_EQ(fakeCudaCount("cuGraphAddKernelNode_v2") - made, numKernels);
    ASSERT_EQ(driver->graphInstantiate(&graph, captured, 0), kSuccess);
    driver->graphDestroy(captured);
    uint64_t before = fakeCudaCount("memset");
    ASSERT_EQ(driver->graphLaunch(graph, stream), kSuccess);
    ASSERT_EQ(driver->streamSynchronize(stream), kSuccess);
    EXPECT_EQ(fakeCudaCount("memset") - before, numFills);
    driver->graphExecDestroy(graph);
  }

  const Driver *driver = nullptr;
  CUstream stream = nullptr;
  std::unique_ptr<GraphFills> fills;
};

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

TEST_F(CudaFillsTest, KernelsKeepTheOrder) {
  for (int64_t seed = 0; seed < 20; ++seed) {
    fakeCudaSet("jitter", seed);
    DeviceBuffer x(numbers(300)), y(numbers(300, 1)), z(numbers(300, 2));
    replay(
        [&] {
          driver->copyOnDevice(address(z), address(x), 1200, stream);
          driver->fillWords(address(x), bitsOf(5), 300, stream);
          driver->copyOnDevice(address(y), address(x), 1200, stream);
          // Two in a row, the second within the first.
          driver->fillWords(address(x), bitsOf(7), 300, stream);
          driver->fillWords(address(x) + 400, bitsOf(8), 1, stream);
        },
        3, 0);
    std::vector<float> after(300, 7.f);
    after[100] = 8;
    EXPECT_EQ(z.values(), numbers(300));
    EXPECT_EQ(y.values(), std::vector<float>(300, 5.f));
    EXPECT_EQ(x.values(), after);
  }
  fakeCudaSet("jitter", 0);
}

TEST_F(CudaFillsTest, BytesBecomeWords) {
  DeviceBuffer x(numbers(8));
  replay([&] { driver->fillBytes(address(x), 0x40, 32, stream); }, 1, 0);
  float value;
  uint32_t bits = 0x40404040;
  std::memcpy(&value, &bits, 4);
  EXPECT_EQ(x.values(), std::vector<float>(8, value));
}

TEST_F(CudaFillsTest, WhatIsLargeOrNoWordsStays) {
  uint64_t most = GraphFills::kMostBytes;
  DeviceBuffer x(most / 4 + 1), y(numbers(8)), z(most / 4);
  replay(
      [&] {
        driver->fillWords(address(x), bitsOf(1), most / 4 + 1, stream);
        driver->fillWords(address(z), bitsOf(2), most / 4, stream);
        driver->fillBytes(address(y), 0, 6, stream);
        driver->fillBytes(address(y) + 9, 0, 4, stream);
      },
      1, 3);
  EXPECT_EQ(x.values(), std::vector<float>(most / 4 + 1, 1.f));
  EXPECT_EQ(z.values(), std::vector<float>(most / 4, 2.f));
}

TEST_F(CudaFillsTest, AGraphWithoutFillsIsLeftAlone) {
  DeviceBuffer x(numbers(8)), y(numbers(8, 1));
  replay([&] { driver->copyOnDevice(address(y), address(x), 32, stream); }, 0,
         0);
  EXPECT_EQ(y.values(), numbers(8));
}

} // namespace
