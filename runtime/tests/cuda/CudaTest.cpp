//===- CudaTest.cpp - The CUDA backend on a driver without a GPU ----------===//
//
// The program's RPATH finds the fake libcuda.so.1 before the machine's.
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"
#include "Session.h"
#include "TestModules.h"

#include <cmath>
#include <csignal>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

/// y = -(-x) on [B, 8] through the arena, with two streams.
Module cudaModule() {
  ModuleBuilder builder(4);
  ByteRange x = builder.input("x", {1, 8}, true);
  ByteRange y = builder.output("y", {1, 8}, true);
  ByteRange t = builder.scratch(x.size);
  builder.launch(Relu, {x}, t, {8, 0});
  builder.event(CommandKind::Record, 0, 0);
  builder.event(CommandKind::Wait, 0, 1);
  builder.launch(Relu, {t}, y, {8, 0}).stream = 1;
  builder.constant({1, 2, 3});
  builder.module.nativeCode = {0};
  Module module = builder.build();
  module.nativeCode.clear();
  module.imports.clear();
  module.cpu.clear();
  module.cpuFeatures.clear();
  module.target = "cuda:sm_90";
  Kernel kernel{"k0", "-x"};
  kernel.threads = 64;
  module.kernels = {kernel};
  module.deviceCode = {1, 2, 3, 4};
  module.ptx = {'p', 't', 'x'};
  return module;
}

std::shared_ptr<LoadedModule> load(const Module &module) {
  std::string path = temporaryPath("cuda.fsn");
  Status status = writeModuleFile(module, path);
  EXPECT_TRUE(status.ok()) << status.message();
  auto loaded = loadModuleFile(path);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? *loaded : nullptr;
}

template <typename T> T symbol(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<T>(library ? dlsym(library, name) : nullptr);
}

/// The error of a session in a process of its own, where FAKE_CUDA is `mode`.
std::string errorWith(const char *mode) {
  int pipes[2];
  if (pipe(pipes) != 0)
    return "";
  pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_CUDA", mode, 1);
    auto session = Session::create(load(cudaModule()), {});
    std::string text = std::to_string(int(session.status().code())) + " " +
                       session.status().message();
    _exit(write(pipes[1], text.data(), text.size()) < 0);
  }
  close(pipes[1]);
  std::string text(4096, 0);
  ssize_t size = read(pipes[0], text.data(), text.size());
  text.resize(size > 0 ? size_t(size) : 0);
  close(pipes[0]);
  waitpid(child, nullptr, 0);
  return text;
}

// The first test: a process opens the driver once.
TEST(CudaDriver, UnusableOnesAreTold) {
  EXPECT_HAS(errorWith("stub"), "5 libcuda.so.1 is the CUDA toolkit's stub");
  EXPECT_HAS(errorWith("none"), "5 the NVIDIA driver finds no GPU");
  EXPECT_HAS(errorWith("empty"), "CUDA_VISIBLE_DEVICES");
  EXPECT_HAS(errorWith("old"), "5 the NVIDIA driver supports CUDA 11.4, 12.0");
}

class Cuda : public testing::Test {
protected:
  void SetUp() override {
    auto get = symbol<FakeCuda *(*)()>("fakeCuda");
    ASSERT_TRUE(get) << "the fake driver is not the one that was found";
    fake = get();
    *fake = FakeCuda();
    for (int i = 0; i < 32; ++i)
      x.push_back(float(i - 9));
  }

  Expected<std::unique_ptr<Session>> open(SessionOptions options = {}) {
    return Session::create(load(cudaModule()), options);
  }
  Status run(Session &session, int64_t batch, const void *in, void *out,
             Observer *observer = nullptr) {
    return session.run(batch, &in, &out, observer);
  }
  /// 32 floats of the "device".
  float *deviceBuffer() {
    unsigned long long pointer = 0;
    symbol<int (*)(unsigned long long *, size_t)>("cuMemAlloc_v2")(&pointer,
                                                                   128 + 16);
    return reinterpret_cast<float *>(pointer);
  }
  void free(float *buffer) {
    symbol<int (*)(unsigned long long)>("cuMemFree_v2")(
        reinterpret_cast<unsigned long long>(buffer));
  }

  FakeCuda *fake = nullptr;
  std::vector<float> x, y = std::vector<float>(32, NAN);
};

TEST_F(Cuda, HostBuffersAreStagedAndNothingLeaks) {
  {
    auto session = open();
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ((*session)->backendName(), "cuda");
    EXPECT_FALSE(fake->loadedPtx);
    EXPECT_EQ(fake->allocations, 2); // arena, constants
    for (int64_t batch : {4, 2, 4}) {
      std::fill(y.begin(), y.end(), NAN);
      Status status = run(**session, batch, x.data(), y.data());
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < 32; ++i)
        if (i < size_t(batch) * 8)
          ASSERT_EQ(y[i], x[i]);
        else
          ASSERT_TRUE(std::isnan(y[i]));
    }
    // Other buffers of the host need no other graph: one a batch.
    std::vector<float> other(32);
    ASSERT_TRUE(run(**session, 4, x.data(), other.data()).ok());
    EXPECT_EQ(other, x);
    EXPECT_EQ(fake->captures, 2);
    EXPECT_EQ(fake->graphLaunches, 4);
    EXPECT_EQ(fake->threads, 64u);
    EXPECT_EQ(fake->allocations, 4); // and the two stand-ins
    Counters counters = (*session)->executor().counters();
    EXPECT_EQ(counters.runs, 4u);
    EXPECT_EQ(counters.launches, uint64_t(fake->kernels));
  }
  EXPECT_EQ(fake->objects, 0);
}

TEST_F(Cuda, DeviceBuffersAreUsedInPlace) {
  float *in = deviceBuffer(), *out = deviceBuffer(), *out2 = deviceBuffer();
  std::copy(x.begin(), x.end(), in);
  {
    auto session = open();
    ASSERT_TRUE(session.ok()) << session.status().message();
    long uploads = fake->uploads, allocations = fake->allocations;
    for (float *target : {out, out2, out})
      for (int i = 0; i < 2; ++i) {
        std::fill(target, target + 32, NAN);
        ASSERT_TRUE(run(**session, 4, in, target).ok());
        ASSERT_TRUE(std::equal(x.begin(), x.end(), target));
      }
    EXPECT_EQ(fake->captures, 2); // one a pair of addresses
    EXPECT_EQ(fake->uploads, uploads);
    EXPECT_EQ(fake->allocations, allocations);
    // A badly aligned one is copied.
    ASSERT_TRUE(run(**session, 4, in, out + 1).ok());
    EXPECT_TRUE(std::equal(x.begin(), x.end(), out + 1));
    EXPECT_EQ(fake->allocations, allocations + 1);
    // On the caller's stream; there it can't be.
    const void *input = in;
    void *output = out2;
    std::fill(out2, out2 + 32, NAN);
    ASSERT_TRUE((*session)->enqueue(4, &input, &output, nullptr).ok());
    EXPECT_TRUE(std::equal(x.begin(), x.end(), out2));
    output = out2 + 1;
    EXPECT_EQ((*session)->enqueue(4, &input, &output, nullptr).code(),
              Code::Usage);
    // More addresses than graphs are kept: the oldest is changed.
    std::vector<float *> many;
    for (int i = 0; i < 20; ++i) {
      many.push_back(deviceBuffer());
      ASSERT_TRUE(run(**session, 4, in, many.back()).ok());
      ASSERT_TRUE(std::equal(x.begin(), x.end(), many.back()));
    }
    EXPECT_GT(fake->updates, 0);
    for (float *buffer : many)
      free(buffer);
    fake->ordinal = 1;
    Status status = run(**session, 4, in, out);
    EXPECT_EQ(status.code(), Code::Usage);
    EXPECT_HAS(status.message(), "GPU 1");
  }
  for (float *buffer : {in, out, out2})
    free(buffer);
  EXPECT_EQ(fake->objects, 0);
}

TEST_F(Cuda, LostDeviceIsLeftAlone) {
  for (const char *call : {"cuGraphLaunch", "cuStreamSynchronize",
                           "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"}) {
    *fake = FakeCuda();
    auto session = open();
    ASSERT_TRUE(session.ok());
    fake->failingCall = call;
    fake->failure = 700;
    Status status = run(**session, 4, x.data(), y.data());
    EXPECT_EQ(status.code(), Code::PeerFailed) << call;
    EXPECT_HAS(status.message(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    long calls = fake->calls;
    EXPECT_EQ(run(**session, 4, x.data(), y.data()).code(), Code::PeerFailed);
    session->reset();
    EXPECT_EQ(fake->calls, calls) << call;
    EXPECT_EQ(fake->callsAfterLoss, 0) << call;
  }
}

struct Recorder : Observer {
  explicit Recorder(Session &session) : session(session) {}
  void before(size_t) override {}
  void after(size_t command) override {
    const Program &program = session.module().program;
    if (program.commands[command].kind != CommandKind::Launch)
      return;
    auto *data = static_cast<const float *>(session.executor().address(
        program.commands[command].launch.operands[1].range));
    ASSERT_TRUE(data);
    values.emplace_back(data, data + 32);
  }
  Session &session;
  std::vector<std::vector<float>> values;
};

TEST_F(Cuda, ObserverSeesEachCommand) {
  auto session = open();
  ASSERT_TRUE(session.ok());
  Recorder recorder(**session);
  ASSERT_TRUE(run(**session, 4, x.data(), y.data(), &recorder).ok());
  EXPECT_EQ(fake->captures, 0);
  ASSERT_EQ(recorder.values.size(), 2u);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(recorder.values[0][i], -x[i]);
  EXPECT_EQ(recorder.values[1], x);
  fake->failingCall = "cuLaunchKernel";
  fake->failure = 1;
  Status status = run(**session, 4, x.data(), y.data(), &recorder);
  EXPECT_EQ(status.op(), "launch0");
  EXPECT_HAS(status.message(), "cuLaunchKernel failed: CUDA_ERROR_OTHER");
}

TEST_F(Cuda, MemoryIsCheckedFirst) {
  SessionOptions options;
  options.memoryLimit = 64;
  auto session = open(options);
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_HAS(session.status().message(), "the limit is 64");
  EXPECT_HAS(session.status().message(), "'launch0'");
  EXPECT_EQ(fake->allocations, 0);
  fake->freeMemory = 100;
  session = open();
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_HAS(session.status().message(), "the GPU has");
  EXPECT_EQ(fake->allocations, 0);
  *fake = FakeCuda();
  fake->failingCall = "cuMemAlloc";
  fake->failure = 2;
  session = open();
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_EQ(fake->objects, 0);
}

TEST_F(Cuda, ArchitecturesAreTold) {
  fake->major = 8;
  auto session = open();
  EXPECT_EQ(session.status().code(), Code::Environment);
  EXPECT_HAS(session.status().message(), "sm_80");
  EXPECT_HAS(session.status().message(), "cuda:sm_90");
  fake->major = 10;
  EXPECT_TRUE(open().ok());
  EXPECT_TRUE(fake->loadedPtx);
  fake->ptxFailure = 218;
  session = open();
  EXPECT_EQ(session.status().code(), Code::Environment);
  EXPECT_HAS(session.status().message(), "line 7: unknown");
  fake->ptxFailure = 222;
  EXPECT_HAS(open().status().message(), "CUDA 13.0");
  SessionOptions options;
  options.device = 1;
  EXPECT_EQ(open(options).status().code(), Code::Usage);
  EXPECT_EQ(fake->objects, 0);
}

TEST_F(Cuda, RunsStopAndAreTimed) {
  volatile std::sig_atomic_t stop = 0;
  SessionOptions options;
  options.stop = &stop;
  auto session = open(options);
  ASSERT_TRUE(session.ok());
  Timings timings;
  EXPECT_FALSE((*session)->measure(4, 3, timings).ok());
  ASSERT_TRUE(run(**session, 4, x.data(), y.data()).ok());
  long uploads = fake->uploads;
  ASSERT_TRUE((*session)->measure(4, 3, timings).ok());
  EXPECT_EQ(fake->uploads, uploads);
  // The fake says 1 ms between any two events.
  EXPECT_EQ(timings.replays, 20);
  EXPECT_EQ(timings.device, std::vector<double>(3, 50.0));
  EXPECT_EQ(timings.wall.size(), 3u);
  stop = 2;
  EXPECT_EQ(run(**session, 4, x.data(), y.data()).message(), "interrupted");
  EXPECT_EQ((*session)->measure(4, 3, timings).message(), "interrupted");
}

} // namespace
