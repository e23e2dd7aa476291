//===- CudaFaultTest.cpp - What the cuda backend does when things fail ----===//
//
// Every error has its code and says what to do; nothing is left on the device
// after any of them, and a lost device is never asked again.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"

#include <chrono>
#include <thread>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

/// A session, two runs on buffers of the host, two on the device's. Gives
/// how often `entry` was called before the session's end, which has nobody to
/// tell of a failure.
Status exercise(const char *entry = "", uint64_t *calls = nullptr) {
  auto session = cudaSession(sumModule());
  if (!session)
    return session.status();
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  for (int i = 0; i < 2; ++i)
    FUSION_RT_TRY((*session)->run(1, &input, &output));
  EXPECT_EQ(y, sumOf(x));
  DeviceBuffer deviceX(x), deviceY(64);
  input = deviceX.get();
  output = deviceY.get();
  FUSION_RT_TRY((*session)->enqueue(1, &input, &output, nullptr));
  FUSION_RT_TRY((*session)->run(1, &input, &output));
  EXPECT_EQ(deviceY.values(), sumOf(x));
  if (calls)
    *calls = fakeCudaCount(entry);
  return {};
}

/// Fails each call of each entry in turn, also for want of memory: an error
/// each time, never a crash, a second try or a wrong result, and nothing is
/// left.
TEST_F(CudaTest, EveryFailureIsAnErrorAndLeavesNothing) {
  const char *entries[] = {
      "cuDeviceGetCount",     "cuDeviceGet",
      "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
      "cuMemGetInfo_v2",      "cuMemAlloc_v2",
      "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
      "cuMemcpyDtoDAsync_v2", "cuModuleLoadDataEx",
      "cuModuleGetFunction",  "cuLaunchKernelEx",
      "cuStreamCreate",       "cuStreamQuery",
      "cuStreamWaitEvent",    "cuStreamBeginCapture_v2",
      "cuStreamEndCapture",   "cuEventCreate",
      "cuEventRecord",        "cuGraphInstantiateWithFlags",
      "cuGraphUpload",        "cuGraphLaunch",
      "cuCtxSynchronize"};
  ASSERT_TRUE(exercise().ok()); // the driver is open from here on
  for (const char *entry : entries) {
    fakeCudaReset();
    uint64_t calls = 0;
    ASSERT_TRUE(exercise(entry, &calls).ok());
    EXPECT_GT(calls, 0u) << entry;
    for (uint64_t i = 0; i < 2 * calls; ++i) {
      bool isMemory = i % 2;
      fakeCudaReset();
      fakeCudaFail(entry, i / 2, isMemory ? 2 : 1);
      Status status = exercise();
      EXPECT_EQ(status.code(), isMemory ? Code::Resources : Code::Environment)
          << entry << " " << i << ": " << status.message();
      if (entry == std::string("cuMemAlloc_v2"))
        EXPECT_EQ(fakeCudaCount(entry), i / 2 + 1);
      fakeCudaReset();
      expectNothingLeft();
      if (HasFailure())
        return;
    }
  }
}

TEST_F(CudaTest, TooLittleMemoryIsKnownBeforeAnyIsTaken) {
  fakeCudaSet("total", 512);
  auto session = cudaSession(sumModule());
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_HAS(session.status().message(), "the GPU has 512");
  EXPECT_EQ(fakeCudaCount("cuMemAlloc_v2"), 0u);

  fakeCudaSet("total", 1 << 20);
  SessionOptions options;
  options.memoryLimit = 600;
  auto limited = cudaSession(sumModule(), options);
  EXPECT_EQ(limited.status().code(), Code::Resources);
  EXPECT_HAS(limited.status().message(), "limit");
  EXPECT_EQ(fakeCudaCount("cuMemAlloc_v2"), 0u);
}

/// Another process may take the memory between the question and the request.
TEST_F(CudaTest, RefusedMemoryIsAResourceError) {
  fakeCudaFail("cuMemAlloc_v2", 0, 2);
  auto session = cudaSession(sumModule());
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_HAS(session.status().message(), "the GPU gives no");
}

TEST_F(CudaTest, StagingCountsAgainstTheLimit) {
  SessionOptions options;
  options.memoryLimit = 1000; // 768 of the program, 256 for x
  auto session = cudaSession(sumModule(), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  EXPECT_EQ((*session)->run(1, &input, &output).code(), Code::Resources);
  DeviceBuffer deviceX(x), deviceY(64);
  input = deviceX.get();
  output = deviceY.get();
  EXPECT_TRUE((*session)->run(1, &input, &output).ok());
  EXPECT_EQ(deviceY.values(), sumOf(x));
}

TEST_F(CudaTest, WrongDevices) {
  fakeCudaSet("sm", 80);
  auto old = cudaSession(sumModule());
  EXPECT_EQ(old.status().code(), Code::Rejected);
  EXPECT_HAS(old.status().message(), "the module has sm_90, the GPU is "
                                     "'Fake GPU' (sm_80)");
  EXPECT_HAS(old.status().message(), "--target=cuda:sm_80");
  fakeCudaSet("sm", 90);
  SessionOptions options;
  options.device = 1;
  auto absent = cudaSession(sumModule(), options);
  EXPECT_EQ(absent.status().code(), Code::Usage);
  EXPECT_HAS(absent.status().message(), "there is no GPU 1");
}

TEST_F(CudaTest, ModulesGoToTheBackendTheyAreFor) {
  SessionOptions options;
  options.backend = "cpu";
  EXPECT_EQ(cudaSession(sumModule(), options).status().code(), Code::Rejected);
  options.backend = "cuda";
  EXPECT_EQ(cudaSession(convModule(), options).status().code(), Code::Rejected);
}

TEST_F(CudaTest, BadPtxShowsTheCompilersLog) {
  Module module = sumModule();
  module.deviceCode.clear();
  module.ptx = {'?'};
  auto session = cudaSession(module);
  EXPECT_EQ(session.status().code(), Code::Rejected);
  EXPECT_HAS(session.status().message(), "line 1: no PTX");
}

/// Machine code that is not what the module says gives way to the PTX; if that
/// is for other GPUs too, the module is refused.
TEST_F(CudaTest, CodeOfAnotherGpuGivesWayToPtx) {
  fakeCudaFail("cuModuleLoadDataEx", 0, 209);
  ASSERT_TRUE(exercise().ok());
  fakeCudaReset();
  Module module = sumModule();
  module.deviceCode.clear();
  fakeCudaFail("cuModuleLoadDataEx", 0, 209);
  auto session = cudaSession(module);
  EXPECT_EQ(session.status().code(), Code::Rejected);
  EXPECT_HAS(session.status().message(), "compile the model for this GPU");
}

TEST_F(CudaTest, MissingKernelsAreRejected) {
  fakeCudaFail("cuModuleGetFunction", 1, 500);
  auto session = cudaSession(sumModule());
  EXPECT_EQ(session.status().code(), Code::Rejected);
  EXPECT_HAS(session.status().message(), "no kernel 'add'");
}

/// The first run has one second, the timing has one for each of its runs.
TEST_F(CudaTest, KernelsThatNeverEndAreGivenUp) {
  for (bool isTimed : {false, true}) {
    fakeCudaReset();
    SessionOptions options;
    options.timeout = isTimed ? 0.25 : 0.5; // two are timed together
    auto session = cudaSession(sumModule(), options);
    ASSERT_TRUE(session.ok());
    std::vector<float> x = numbers(64), y(64);
    const void *input = x.data();
    void *output = y.data();
    Timings timings;
    if (isTimed) {
      ASSERT_TRUE((*session)->run(1, &input, &output).ok());
    }
    fakeCudaSet("hang", isTimed ? 4 : 2);
    auto start = std::chrono::steady_clock::now();
    Status status = isTimed ? (*session)->measure(1, 5, timings)
                            : (*session)->run(1, &input, &output);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    EXPECT_EQ(status.code(), Code::Timeout) << status.message();
    EXPECT_HAS(status.message(), "within 0.5 s");
    EXPECT_GE(took.count(), 0.5);
    EXPECT_LT(took.count(), 5.5);
    uint64_t calls = fakeCudaCount("all");
    EXPECT_EQ((*session)->run(1, &input, &output).code(), Code::PeerFailed);
    EXPECT_EQ((*session)->measure(1, 5, timings).code(), Code::PeerFailed);
    session->reset(); // would wait for ever
    EXPECT_EQ(fakeCudaCount("all"), calls);
    fakeCudaForget();
  }
}

/// A caller's stream may hang too: who waits for its run does not wait for
/// ever, and neither does the session's end.
TEST_F(CudaTest, RunsOnOtherStreamsThatNeverEndAreGivenUp) {
  for (bool runsAgain : {true, false}) {
    fakeCudaReset();
    SessionOptions options;
    options.timeout = 0.2;
    auto session = cudaSession(sumModule(), options);
    ASSERT_TRUE(session.ok());
    std::vector<float> host = numbers(64), result(64);
    {
      DeviceBuffer x(host), y(64);
      const void *input = x.get();
      void *output = y.get();
      fakeCudaSet("hang", 1);
      ASSERT_TRUE((*session)->enqueue(1, &input, &output, nullptr).ok());
      const void *hostInput = host.data();
      void *hostOutput = result.data();
      if (runsAgain)
        EXPECT_EQ((*session)->run(1, &hostInput, &hostOutput).code(),
                  Code::Timeout);
      session->reset();
    }
    fakeCudaForget();
  }
}

TEST_F(CudaTest, TheCommandThatNeverEndsIsNamedToObservers) {
  SessionOptions options;
  options.timeout = 0.2;
  auto session = cudaSession(sumModule(), options);
  ASSERT_TRUE(session.ok());
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  fakeCudaSet("hang", 2);
  Observer waits;
  Status status = (*session)->run(1, &input, &output, &waits);
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.op(), "launch4");
  session->reset();
  fakeCudaForget();
}

/// A wish to stop is seen while a GPU does not answer.
TEST_F(CudaTest, InterruptsEndTheWait) {
  volatile std::sig_atomic_t stop = 0;
  SessionOptions options;
  options.stop = &stop;
  auto session = cudaSession(sumModule(), options);
  ASSERT_TRUE(session.ok());
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  fakeCudaSet("hang", 1);
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = 2;
  });
  EXPECT_EQ((*session)->run(1, &input, &output).message(), "interrupted");
  user.join();
  session->reset();
  fakeCudaForget();
}

/// Where each command is waited for, an address fault has a name.
TEST_F(CudaTest, TheCommandThatFailsIsNamedToObservers) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok());
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  fakeCudaSet("fault", 2);
  Observer waits;
  Status status = (*session)->run(1, &input, &output, &waits);
  EXPECT_EQ(status.code(), Code::PeerFailed);
  EXPECT_EQ(status.op(), "launch4");
  session->reset();
  fakeCudaForget();
}

TEST_F(CudaTest, BuffersOfAnotherGpuAreRefused) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok());
  DeviceBuffer x(64, 0, 3), y(64);
  const void *input = x.get();
  void *output = y.get();
  Status status = (*session)->run(1, &input, &output);
  EXPECT_EQ(status.code(), Code::Usage);
  EXPECT_HAS(status.message(), "'x': its buffer is on GPU 3");
}

/// Wherever an address fault shows, later runs are refused without a call to
/// the driver, and so is the session's end.
TEST_F(CudaTest, LostDeviceIsNotAskedAgain) {
  for (const char *entry : {"cuGraphLaunch", "cuStreamQuery",
                            "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2"}) {
    fakeCudaReset();
    auto session = cudaSession(sumModule());
    ASSERT_TRUE(session.ok());
    std::vector<float> x = numbers(64), y(64);
    const void *input = x.data();
    void *output = y.data();
    fakeCudaFail(entry, 0, 700);
    Status status = (*session)->run(1, &input, &output);
    EXPECT_EQ(status.code(), Code::PeerFailed) << entry;
    EXPECT_HAS(status.message(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    uint64_t calls = fakeCudaCount("all");
    status = (*session)->run(1, &input, &output);
    EXPECT_EQ(status.code(), Code::PeerFailed) << entry;
    EXPECT_HAS(status.message(), "start a new process");
    session->reset();
    EXPECT_EQ(fakeCudaCount("all"), calls) << entry;
    fakeCudaForget(); // as the end of the process does
  }
}

TEST_F(CudaTest, PtxNewerThanTheDriverIsTold) {
  ASSERT_TRUE(exercise().ok());
  Module module = sumModule();
  module.deviceCode.clear();
  fakeCudaFail("cuModuleLoadDataEx", 0, 222);
  auto session = cudaSession(module);
  EXPECT_EQ(session.status().code(), Code::Environment);
  EXPECT_HAS(session.status().message(), "PTX is of version 8.0");
  EXPECT_HAS(session.status().message(), "supports CUDA 12.8");
}

TEST_F(CudaTest, FailedCommandsAreNamed) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok());
  std::vector<float> x = numbers(64), y(64);
  const void *input = x.data();
  void *output = y.data();
  fakeCudaFail("cuLaunchKernelEx", 1, 1);
  Status status = (*session)->run(1, &input, &output);
  EXPECT_EQ(status.op(), "launch4");
  EXPECT_HAS(status.message(), "cuLaunchKernelEx failed");
  fakeCudaFail("cuMemcpyDtoDAsync_v2", 0, 1);
  EXPECT_EQ((*session)->run(1, &input, &output).op(), "copy1");
  EXPECT_TRUE((*session)->run(1, &input, &output).ok());
  EXPECT_EQ(y, sumOf(x));
}

} // namespace
