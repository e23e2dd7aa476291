//===- CudaSessionTest.cpp - Running modules on the cuda backend ----------===//
//
// On the tests' driver (FakeCuda.cpp), which counts entries: what is copied,
// captured, replayed and kept, and that results are right through all of it.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

TEST_F(CudaTest, HostBuffersAreCopiedAroundOneGraph) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ((*session)->backendName(), "cuda");
  EXPECT_EQ(fakeCudaCount("cubin"), 1u);
  EXPECT_EQ(fakeCudaCount("cuMemcpyHtoDAsync_v2"), 1u); // the constants
  for (int i = 0; i < 3; ++i) {
    std::vector<float> x = numbers(64, i), y(64);
    EXPECT_OK(run(**session, x.data(), y.data()));
    EXPECT_EQ(y, sumOf(x));
  }
  EXPECT_EQ(fakeCudaCount("cuMemcpyHtoDAsync_v2"), 4u);
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoHAsync_v2"), 3u);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 1u);
  EXPECT_EQ(fakeCudaCount("cuGraphLaunch"), 3u);
  EXPECT_EQ(fakeCudaCount("cuLaunchKernelEx"), 2u); // while it was captured
  Counters counters = (*session)->executor().counters();
  EXPECT_EQ(counters.runs, 3u);
  EXPECT_EQ(counters.launches, 6u);
  EXPECT_EQ(counters.copies, 3u);
}

TEST_F(CudaTest, DeviceBuffersAreUsedInPlace) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64);
  DeviceBuffer x(values), y(64);
  uint64_t allocations = fakeCudaCount("cuMemAlloc_v2");
  EXPECT_OK(run(**session, x.get(), y.get()));
  EXPECT_EQ(y.values(), sumOf(values));
  EXPECT_EQ(fakeCudaCount("cuMemAlloc_v2"), allocations);
  EXPECT_EQ(fakeCudaCount("cuMemcpyHtoDAsync_v2"), 1u); // the constants
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoHAsync_v2"), 0u);
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoDAsync_v2"), 1u); // the program's own
  // One on the device and one on the host.
  std::vector<float> result(64);
  EXPECT_OK(run(**session, x.get(), result.data()));
  EXPECT_EQ(result, sumOf(values));
}

TEST_F(CudaTest, UnalignedDeviceBuffersAreStaged) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64);
  DeviceBuffer x(values, 4), y(64, 8);
  EXPECT_OK(run(**session, x.get(), y.get()));
  EXPECT_EQ(y.values(), sumOf(values));
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoHAsync_v2"), 0u);
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoDAsync_v2"), 3u);
}

/// Addresses that come back find their graph; after 16 sets the least recent
/// graph is updated instead of a new one made.
TEST_F(CudaTest, ChangedAddressesGetGraphsOfTheirOwn) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<std::unique_ptr<DeviceBuffer>> xs, ys;
  for (int i = 0; i < 18; ++i) {
    xs.push_back(std::make_unique<DeviceBuffer>(numbers(64, i)));
    ys.push_back(std::make_unique<DeviceBuffer>(64));
  }
  auto check = [&](size_t i) {
    fakeCudaWrite(ys[i]->get(), std::vector<float>(64, -99).data(), 256);
    EXPECT_OK(run(**session, xs[i]->get(), ys[i]->get()));
    EXPECT_EQ(ys[i]->values(), sumOf(numbers(64, int(i)))) << i;
  };
  for (size_t i = 0; i < 16; ++i)
    check(i);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 16u);
  check(0);
  EXPECT_EQ(fakeCudaCount("cuStreamBeginCapture_v2"), 16u);
  check(16); // takes the place of set 1
  EXPECT_EQ(fakeCudaCount("cuGraphExecUpdate_v2"), 1u);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 16u);
  check(0);
  EXPECT_EQ(fakeCudaCount("cuStreamBeginCapture_v2"), 17u);
  check(1);
  EXPECT_EQ(fakeCudaCount("cuStreamBeginCapture_v2"), 18u);
  // A driver that can't update a graph gets a new one.
  fakeCudaFail("cuGraphExecUpdate_v2", 0, 910);
  check(17);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 17u);
  EXPECT_EQ(fakeCudaLive("exec"), 16);
}

/// The graph that gives way may still run on a caller's stream.
TEST_F(CudaTest, GraphsInUseAreWaitedFor) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<std::unique_ptr<DeviceBuffer>> ys;
  DeviceBuffer x(numbers(64));
  for (int i = 0; i < 17; ++i) {
    EXPECT_EQ(fakeCudaCount("cuEventQuery"), 0u);
    ys.push_back(std::make_unique<DeviceBuffer>(64));
    const void *input = x.get();
    void *output = ys.back()->get();
    EXPECT_OK((*session)->enqueue(1, &input, &output, nullptr));
  }
  EXPECT_EQ(fakeCudaCount("cuEventQuery"), 1u);
  EXPECT_EQ(ys.back()->values(), sumOf(numbers(64)));
}

TEST_F(CudaTest, EachBatchHasItsGraph) {
  auto session = cudaSession(sumModule(3));
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (int64_t batch : {3, 1, 2, 3, 1}) {
    size_t size = size_t(batch) * 64;
    std::vector<float> x = numbers(size, int(batch)), y(size + 1, 77);
    EXPECT_OK(run(**session, x.data(), y.data(), batch));
    EXPECT_EQ(y.back(), 77);
    y.pop_back();
    EXPECT_EQ(y, sumOf(x));
  }
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), 3u);
}

/// In place: the input's bytes become the output's.
TEST_F(CudaTest, DonatedInputs) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  ByteRange t = builder.scratch(256);
  builder.launch(Relu, {x}, t, {0, 64});
  builder.launch(Add, {t, t}, y, {0, 64});
  builder.module.program.inputs[0].donatedTo = 0;
  auto session = cudaSession(forCuda(builder.build()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), expected, result(64);
  for (float value : values)
    expected.push_back(value < 0 ? 0 : 2 * value);
  EXPECT_OK(run(**session, values.data(), result.data()));
  EXPECT_EQ(result, expected);
  DeviceBuffer both(values);
  EXPECT_OK(run(**session, both.get(), both.get()));
  EXPECT_EQ(both.values(), expected);
  DeviceBuffer from(values), to(64);
  EXPECT_OK(run(**session, from.get(), to.get()));
  EXPECT_EQ(to.values(), expected);
  EXPECT_EQ(from.values(), values);
}

/// y = relu(x) + d in x's place, z = y + y.
TEST_F(CudaTest, StepsKeepWhatIsDonatedOnTheDevice) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), d = builder.input("d", {64});
  ByteRange y = builder.output("y", {64}), z = builder.output("z", {64});
  ByteRange t = builder.scratch(256);
  builder.launch(Relu, {x}, t, {0, 64});
  builder.launch(Add, {t, d}, y, {0, 64});
  builder.launch(Add, {y, y}, z, {0, 64});
  builder.module.program.inputs[0].donatedTo = 0;
  auto session = cudaSession(forCuda(builder.build()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> state(64, 1), data(64, 10), left(64), result(64);
  const void *inputs[] = {state.data(), data.data()};
  void *outputs[] = {left.data(), result.data()};
  EXPECT_EQ((*session)->step(1, inputs, outputs).code(), Code::Usage);
  EXPECT_OK((*session)->run(1, inputs, outputs));
  EXPECT_EQ(left, std::vector<float>(64, 11));
  EXPECT_EQ(result, std::vector<float>(64, 22));
  uint64_t in = fakeCudaCount("cuMemcpyHtoDAsync_v2"),
           out = fakeCudaCount("cuMemcpyDtoHAsync_v2"),
           graphs = fakeCudaCount("cuGraphInstantiateWithFlags");
  for (int step = 0; step < 3; ++step) {
    data.assign(64, float(step - 20)); // relu takes what is below 0
    EXPECT_OK((*session)->step(1, inputs, outputs));
  }
  // 11 - 20 = -9; 0 - 19 = -19; 0 - 18 = -18.
  EXPECT_EQ(result, std::vector<float>(64, -36));
  // The caller's are as they were; one tensor went there, one came back.
  EXPECT_EQ(state, std::vector<float>(64, 1));
  EXPECT_EQ(left, std::vector<float>(64, 11));
  EXPECT_EQ(fakeCudaCount("cuMemcpyHtoDAsync_v2"), in + 3);
  EXPECT_EQ(fakeCudaCount("cuMemcpyDtoHAsync_v2"), out + 3);
  EXPECT_EQ(fakeCudaCount("cuGraphInstantiateWithFlags"), graphs);
  const Program &program = (*session)->module().program;
  auto *kept = static_cast<const float *>((*session)->executor().address(
      {program.outputs[0].segment, 0, 64 * sizeof(float)}));
  ASSERT_TRUE(kept);
  EXPECT_EQ(std::vector<float>(kept, kept + 64), std::vector<float>(64, -18));
}

TEST_F(CudaTest, EnqueueReturnsAndLaterRunsWait) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), host(64);
  DeviceBuffer x(values), y(64), skewed(64, 4);
  auto enqueue = [&](const void *input, void *output) {
    return (*session)->enqueue(1, &input, &output, nullptr);
  };
  EXPECT_OK(run(**session, values.data(), host.data()));
  EXPECT_OK(run(**session, values.data(), host.data()));
  EXPECT_EQ(fakeCudaCount("cuEventQuery"), 0u); // nothing to wait for
  uint64_t queries = fakeCudaCount("cuStreamQuery");
  EXPECT_OK(enqueue(x.get(), y.get()));
  EXPECT_EQ(y.values(), sumOf(values));
  EXPECT_EQ(fakeCudaCount("cuStreamQuery"), queries);
  EXPECT_OK(run(**session, values.data(), host.data()));
  EXPECT_EQ(fakeCudaCount("cuEventQuery"), 1u);
  // Who fills device buffers is waited for, on whatever stream.
  EXPECT_EQ(fakeCudaCount("cuCtxSynchronize"), 0u);
  EXPECT_OK(run(**session, x.get(), y.get()));
  EXPECT_EQ(fakeCudaCount("cuCtxSynchronize"), 1u);
  for (Status refused :
       {enqueue(host.data(), y.get()), enqueue(x.get(), host.data()),
        enqueue(x.get(), skewed.get())})
    EXPECT_EQ(refused.code(), Code::Usage) << refused.message();
}

TEST_F(CudaTest, ObserversSeeCopiesOfTheDevice) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  struct Watch final : Observer {
    explicit Watch(const Session &session) : session(session) {}
    void before(size_t) override {}
    void after(size_t command) override {
      order.push_back(command);
      if (command != 0)
        return;
      const ByteRange &range =
          session.module().program.commands[0].launch.operands[1].range;
      auto *at = static_cast<const float *>(session.executor().address(range));
      ASSERT_NE(at, nullptr);
      seen.assign(at, at + 64);
    }
    const Session &session;
    std::vector<size_t> order;
    std::vector<float> seen;
  } watch(**session);
  std::vector<float> x = numbers(64), y(64), relu;
  for (float value : x)
    relu.push_back(value < 0 ? 0 : value);
  EXPECT_OK(run(**session, x.data(), y.data(), 1, &watch));
  EXPECT_EQ(watch.order, (std::vector<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(watch.seen, relu);
  EXPECT_EQ(y, sumOf(x));
}

/// Streams that the program leaves apart are joined at the end of a run.
TEST_F(CudaTest, StreamsEndTogether) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64});
  ByteRange y = builder.output("y", {64}), z = builder.output("z", {64});
  builder.launch(Relu, {x}, y, {0, 64});
  builder.launch(Add, {x, x}, z, {0, 64}).stream = 1;
  builder.module.program.streams = 2;
  auto session = cudaSession(forCuda(builder.build()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> values = numbers(64), first(64), second(64), twice;
  for (float value : values)
    twice.push_back(2 * value);
  const void *input = values.data();
  void *outputs[] = {first.data(), second.data()};
  uint64_t allocations = fakeCudaCount("cuMemAlloc_v2");
  EXPECT_OK((*session)->run(1, &input, outputs));
  EXPECT_EQ(second, twice);
  // One for the input, and one for all outputs.
  EXPECT_EQ(fakeCudaCount("cuMemAlloc_v2"), allocations + 2);
  EXPECT_EQ((*session)->executor().memory().scratchpad, 3u * 256);
}

/// The fake's clock goes on by 50 us a launched graph.
TEST_F(CudaTest, DeviceTimesAreMeansOfReplays) {
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x = numbers(64), y(64);
  Timings timings;
  EXPECT_FALSE((*session)->measure(1, 5, timings).ok()); // nothing is bound
  EXPECT_OK(run(**session, x.data(), y.data()));
  uint64_t copies = fakeCudaCount("cuMemcpyHtoDAsync_v2");
  EXPECT_OK((*session)->measure(1, 5, timings));
  EXPECT_EQ(fakeCudaCount("cuMemcpyHtoDAsync_v2"), copies);
  ASSERT_EQ(timings.device.size(), 5u);
  EXPECT_EQ(timings.wall.size(), 5u);
  EXPECT_EQ(timings.replays, 40); // 2 ms
  for (double micros : timings.device)
    EXPECT_NEAR(micros, 50, 0.1);
}

TEST_F(CudaTest, NewerGpuCompilesThePtx) {
  fakeCudaSet("sm", 100);
  auto session = cudaSession(sumModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(fakeCudaCount("PTX"), 1u);
  EXPECT_EQ(fakeCudaCount("cubin"), 0u);
  std::vector<float> x = numbers(64), y(64);
  EXPECT_OK(run(**session, x.data(), y.data()));
  EXPECT_EQ(y, sumOf(x));
}

TEST_F(CudaTest, PtxAloneIsCompiled) {
  Module module = sumModule();
  module.deviceCode.clear();
  auto session = cudaSession(module);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(fakeCudaCount("PTX"), 1u);
}

TEST_F(CudaTest, RunsStopWhenAsked) {
  volatile std::sig_atomic_t stop = 0;
  SessionOptions options;
  options.stop = &stop;
  auto session = cudaSession(sumModule(), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x = numbers(64), y(64);
  EXPECT_OK(run(**session, x.data(), y.data()));
  stop = 2;
  uint64_t launches = fakeCudaCount("cuGraphLaunch");
  EXPECT_EQ(run(**session, x.data(), y.data()).message(), "interrupted");
  Timings timings;
  EXPECT_FALSE((*session)->measure(1, 3, timings).ok());
  EXPECT_EQ(fakeCudaCount("cuGraphLaunch"), launches);
}

/// Nothing is launched for no units, nor copied for no bytes.
TEST_F(CudaTest, AKernelStandsInForALibrary) {
  auto session = cudaSession(poolModule());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x = numbers(64), y(64), expected;
  for (float value : x)
    expected.push_back(value < 0 ? 0 : value);
  EXPECT_OK(run(**session, x.data(), y.data()));
  EXPECT_EQ(y, expected);
  EXPECT_EQ(fakeCudaCount("cuLaunchKernelEx"), 1u);
  // Said once, with the reason.
  EXPECT_OK(run(**session, x.data(), y.data()));
  std::vector<std::string> notes = (*session)->executor().notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'call0' runs as a plain kernel"), std::string::npos)
      << notes[0];
  EXPECT_NE(notes[0].find("no CUDA library"), std::string::npos) << notes[0];
}

TEST_F(CudaTest, WithoutOneTheCallIsRefused) {
  Module module = poolModule();
  module.program.commands[0].hasFallback = false;
  auto session = cudaSession(module);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), Code::Rejected);
  EXPECT_EQ(session.status().op(), "call0");
}

TEST_F(CudaTest, EmptyWorkIsLeftOut) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {0}), y = builder.output("y", {0});
  builder.launch(Relu, {x}, y, {0, 0});
  auto session = cudaSession(forCuda(builder.build()));
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_OK(run(**session, nullptr, nullptr));
  EXPECT_EQ(fakeCudaCount("cuLaunchKernelEx"), 0u);
}

} // namespace
