//===- CudaCaptureTest.cpp - Runs that become part of a caller's graph ----===//
//
// On the tests' driver and cuBLASLt: a run on a stream that the caller captures
// adds the session's commands to the caller's graph, and asks for nothing that
// a capture forbids.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "Driver.h"
#include "FakeBlasLt.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::test;

namespace {

class CudaCaptureTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fakeBlasLtReset();
    auto opened = Driver::open();
    ASSERT_TRUE(opened.ok());
    driver = *opened;
    driver->contextPush(reinterpret_cast<CUcontext>(0x1000));
    ASSERT_EQ(driver->streamCreate(&stream, kStreamNonBlocking), kSuccess);
  }
  void TearDown() override {
    if (graph)
      driver->graphExecDestroy(graph);
    driver->streamDestroy(stream);
    CUcontext ignored;
    driver->contextPop(&ignored);
    CudaTest::TearDown();
  }
  void begin() {
    ASSERT_EQ(driver->streamBeginCapture(stream, kCaptureThreadLocal),
              kSuccess);
  }
  /// The result of the capture, which becomes `graph` if it is one.
  CUresult end() {
    CUgraph captured = nullptr;
    CUresult result = driver->streamEndCapture(stream, &captured);
    if (captured) {
      EXPECT_EQ(driver->graphInstantiate(&graph, captured, 0), kSuccess);
      driver->graphDestroy(captured);
    }
    return result;
  }
  Status enqueue(Session &session, const void *x, void *y, int64_t batch = 1) {
    return session.enqueue(batch, &x, &y, stream);
  }
  void replay() {
    ASSERT_NE(graph, nullptr);
    ASSERT_EQ(driver->graphLaunch(graph, stream), kSuccess);
  }

  const Driver *driver = nullptr;
  CUstream stream = nullptr;
  CUgraphExec graph = nullptr;
};

/// y = x w for [batch, 4] and [4, 4].
Module linearModule(int64_t maxBatch) {
  ModuleBuilder builder(maxBatch);
  ByteRange x = builder.input("x", {4}, true);
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = call.outputShape = {{1, 0}, {0, 4}};
  call.weightShape = {{0, 4}, {0, 4}};
  ByteRange w = builder.constant(numbers(16));
  ByteRange y = builder.output("y", {4}, true);
  builder.call(call, {x, w}, y);
  return forCuda(builder.build());
}

/// Commands of two streams, of which the first is the caller's, twice.
TEST_F(CudaCaptureTest, RunsBecomeNodesOfTheCallersGraph) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), later = numbers(64, 2);
  DeviceBuffer x(values), y(64), z(64);
  std::vector<float> before = y.values();
  uint64_t allocations = fakeCudaCount("cuMemAlloc_v2");
  begin();
  EXPECT_OK(enqueue(**session, x.get(), y.get()));
  EXPECT_OK(enqueue(**session, y.get(), z.get()));
  EXPECT_EQ(end(), kSuccess);
  // Nothing ran, and nothing was made but the caller's own graph.
  EXPECT_EQ(std::memcmp(y.values().data(), before.data(), 256), 0);
  EXPECT_EQ(fakeCudaCount("cuGraphLaunch"), 0u);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 1u);
  EXPECT_EQ(fakeCudaCount("cuMemAlloc_v2"), allocations);
  EXPECT_EQ((*session)->executor().counters().runs, 2u);
  replay();
  EXPECT_EQ(y.values(), sumOf(values));
  EXPECT_EQ(z.values(), sumOf(sumOf(values)));
  fakeCudaWrite(x.get(), later.data(), 256);
  replay();
  EXPECT_EQ(z.values(), sumOf(sumOf(later)));
}

/// y = 2 relu(x) for 64 floats: two kernels, the second on y alone.
Module chainModule(bool waits) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  builder.launch(Relu, {x}, y, {0, 64});
  builder.launch(Twice, {}, y, {0, 64});
  Module module = forCuda(builder.build());
  for (Kernel &kernel : module.kernels)
    kernel.waits = waits;
  return module;
}

/// Kernels that wait for themselves begin while the kernel before them ends.
TEST_F(CudaCaptureTest, KernelsBehindKernelsBeginEarly) {
  struct Case {
    Module module;
    uint64_t own, captured;
  };
  // Of one run: all but its first kernel. Of two in a capture: all but one.
  // Behind a kernel and a copy, and behind nothing, it is as ever.
  Module sum = sumModule();
  for (Kernel &kernel : sum.kernels)
    kernel.waits = true;
  for (const Case &each : {Case{chainModule(true), 1, 3},
                           Case{chainModule(false), 0, 0}, Case{sum, 0, 0}}) {
    auto session = cudaSession(each.module);
    ASSERT_TRUE(session.ok()) << session.status().message();
    DeviceBuffer x(numbers(64)), y(64);
    uint64_t before = fakeCudaCount("early launches");
    EXPECT_OK(run(**session, x.get(), y.get()));
    EXPECT_EQ(fakeCudaCount("early launches"), before + each.own);
    begin();
    EXPECT_OK(enqueue(**session, x.get(), y.get()));
    EXPECT_OK(enqueue(**session, x.get(), y.get()));
    EXPECT_EQ(end(), kSuccess);
    EXPECT_EQ(fakeCudaCount("early launches"),
              before + each.own + each.captured);
    driver->graphExecDestroy(graph);
    graph = nullptr;
  }
}

/// Before, between and after, the session runs as ever, on any stream.
TEST_F(CudaCaptureTest, OtherRunsGoOn) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), host(64);
  DeviceBuffer x(values), y(64), z(64);
  EXPECT_OK(enqueue(**session, x.get(), z.get()));
  EXPECT_EQ(z.values(), sumOf(values));
  begin();
  EXPECT_OK(enqueue(**session, x.get(), y.get()));
  EXPECT_EQ(end(), kSuccess);
  EXPECT_OK(run(**session, values.data(), host.data()));
  EXPECT_EQ(host, sumOf(values));
  replay();
  EXPECT_EQ(y.values(), sumOf(values));
  EXPECT_OK(enqueue(**session, x.get(), z.get()));
  EXPECT_OK(run(**session, x.get(), z.get()));
}

TEST_F(CudaCaptureTest, PlansAreMadeBefore) {
  auto session = cudaSession(sumModule(4));
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(128);
  DeviceBuffer x(values), y(128);
  begin();
  Status refused = enqueue(**session, x.get(), y.get(), 2);
  EXPECT_EQ(refused.code(), Code::Usage);
  EXPECT_NE(refused.message().find("not prepared for batch 2"),
            std::string::npos)
      << refused.message();
  // The capture is as good as before.
  EXPECT_EQ(end(), kSuccess);
  driver->graphExecDestroy(graph);
  EXPECT_OK((*session)->prepare(2));
  begin();
  EXPECT_OK(enqueue(**session, x.get(), y.get(), 2));
  EXPECT_EQ(end(), kSuccess);
  replay();
  std::vector<float> expected; // the constant goes on in the second half
  for (size_t i = 0; i < values.size(); ++i)
    expected.push_back((values[i] < 0 ? 0 : values[i]) + float(i % 7));
  EXPECT_EQ(y.values(), expected);
}

TEST_F(CudaCaptureTest, WrongBuffersAreRefused) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), host(64);
  DeviceBuffer x(values), y(64), skewed(64, 4);
  begin();
  for (Status refused : {enqueue(**session, values.data(), y.get()),
                         enqueue(**session, x.get(), host.data()),
                         enqueue(**session, x.get(), skewed.get())})
    EXPECT_EQ(refused.code(), Code::Usage) << refused.message();
  EXPECT_EQ(end(), kSuccess);
}

TEST_F(CudaCaptureTest, AFailedCaptureIsTold) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64);
  DeviceBuffer x(values), y(64);
  begin();
  EXPECT_NE(driver->streamQuery(stream), kSuccess); // no capture survives it
  Status refused = enqueue(**session, x.get(), y.get());
  EXPECT_EQ(refused.code(), Code::Usage);
  EXPECT_NE(refused.message().find("has failed before"), std::string::npos)
      << refused.message();
  EXPECT_NE(end(), kSuccess);
  EXPECT_OK(enqueue(**session, x.get(), y.get()));
  EXPECT_EQ(y.values(), sumOf(values));
}

/// The caller's graph knows where the workspace was: a larger one comes beside.
TEST_F(CudaCaptureTest, TheWorkspaceStays) {
  for (bool isCaptured : {false, true}) {
    fakeBlasLtSet("workspace", 512);
    auto session = cudaSession(linearModule(4));
    ASSERT_TRUE(session.ok()) << session.status().message();
    DeviceBuffer x(numbers(16)), y(16);
    if (isCaptured)
      begin();
    EXPECT_OK(enqueue(**session, x.get(), y.get(), 4));
    if (isCaptured)
      EXPECT_EQ(end(), kSuccess);
    int64_t pieces = fakeCudaLive("memory");
    uint64_t bytes = (*session)->executor().memory().total();
    fakeBlasLtSet("workspace", 4096);
    EXPECT_OK((*session)->prepare(2));
    EXPECT_EQ(fakeCudaLive("memory"), pieces + isCaptured);
    EXPECT_EQ((*session)->executor().memory().total(),
              bytes + 4096 - (isCaptured ? 0 : 512));
  }
}

} // namespace
