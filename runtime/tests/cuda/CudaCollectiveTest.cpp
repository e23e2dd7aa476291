//===- CudaCollectiveTest.cpp - A rank's session on a GPU -----------------===//
//
// What a session asks of whatever puts its collectives on streams, with one
// that doubles instead of summing over two ranks that have the same.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "DeviceCommunicator.h"
#include "Watch.h"

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// What a test sees of a communicator, after its end too.
struct Seen {
  int connected = 0, enqueued = 0, aborted = 0, ended = 0;
  std::vector<uint64_t> commands;
  Status answer; ///< of `poll`
  uint64_t arenaSize = 0;
  bool isHung = false;
};

class Doubling final : public DeviceCommunicator {
public:
  explicit Doubling(Seen &seen) : seen(seen) {}
  ~Doubling() override { ++seen.ended; }
  uint32_t rank() const override { return 1; }
  uint32_t size() const override { return 2; }
  Status connect(const DeviceSetup &setup) override {
    ++seen.connected;
    seen.arenaSize = setup.arenaSize;
    EXPECT_EQ(setup.groups.size(), 1u);
    EXPECT_EQ(setup.groups[0].ranks, (std::vector<uint32_t>{0, 1}));
    return {};
  }
  Status enqueue(const CollectiveRun &run, cuda::CUstream stream) override {
    ++seen.enqueued;
    seen.commands.push_back(run.command);
    PartBuffer part = run.parts[0];
    fakeCudaSubmit(stream, [this, part] {
      if (seen.isHung)
        return 600;
      auto *from =
          static_cast<float *>(fakeCudaBytes(const_cast<char *>(part.input)));
      auto *to = static_cast<float *>(fakeCudaBytes(part.output));
      for (int64_t i = 0; i < part.shape[0]; ++i)
        to[i] = 2 * from[i];
      return 0;
    });
    return {};
  }
  uint64_t bytes() const override { return 4321; }
  Status poll() override { return seen.answer; }
  void abort() override { ++seen.aborted; }
  std::vector<Counts> counts() const override { return {}; }

private:
  Seen &seen;
};

/// y = the sum over two ranks of relu(x), on `stream`, and relu of that.
Module rankModule(uint32_t stream = 1) {
  ModuleBuilder builder;
  builder.module.program.mesh = {"m", {{"dp", 2}}};
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  ByteRange t = builder.scratch(x.size);
  builder.launch(Relu, {x}, t, {0, 64});
  if (stream == 1) {
    builder.event(CommandKind::Record, 0, 0);
    builder.event(CommandKind::Wait, 0, 1);
  }
  CollectiveCall sum;
  sum.axes = {0};
  builder.collective(sum, stream, {{64}}, {t}, {t});
  if (stream == 1) {
    builder.event(CommandKind::Record, 1, 1);
    builder.event(CommandKind::Wait, 1, 0);
  }
  builder.launch(Relu, {t}, y, {0, 64});
  Module module = forCuda(builder.build());
  for (Kernel &kernel : module.kernels)
    kernel.waits = true;
  return module;
}

class CudaCollectiveTest : public CudaTest {
protected:
  Expected<std::unique_ptr<Session>> open() {
    SessionOptions options;
    options.deviceCommunicator = std::make_shared<Doubling>(seen);
    return cudaSession(rankModule(), options);
  }
  std::vector<float> expected() const {
    std::vector<float> result;
    for (float value : x)
      result.push_back(value < 0 ? 0 : 2 * value);
    return result;
  }
  Seen seen;
  std::vector<float> x = numbers(64), y = std::vector<float>(64);
};

} // namespace

TEST_F(CudaCollectiveTest, ACapturedStepIsReplayed) {
  {
    auto session = open();
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(seen.connected, 1);
    EXPECT_EQ(seen.arenaSize, 256u);
    // The collective's stream goes first.
    EXPECT_EQ(fakeCudaCount("first streams"), 1u);
    EXPECT_EQ((*session)->executor().memory().communication, 4321u);
    for (int i = 0; i < 3; ++i) {
      EXPECT_OK(run(**session, x.data(), y.data()));
      EXPECT_EQ(y, expected());
    }
    EXPECT_EQ(seen.enqueued, 1);
    EXPECT_EQ(seen.commands, (std::vector<uint64_t>{3}));
    EXPECT_EQ((*session)->executor().counters().collectives, 3u);
    EXPECT_EQ(seen.ended, 0);
  }
  EXPECT_EQ(seen.ended, 1);
  EXPECT_EQ(seen.aborted, 0);
}

TEST_F(CudaCollectiveTest, NothingIsLaunchedEarlyBehindAnothersKernel) {
  SessionOptions options;
  options.deviceCommunicator = std::make_shared<Doubling>(seen);
  auto session = cudaSession(rankModule(0), options);
  options.deviceCommunicator.reset();
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_OK(run(**session, x.data(), y.data()));
  EXPECT_EQ(y, expected());
  // The last kernel waits for the collective alone, which is a kernel too.
  EXPECT_EQ(fakeCudaCount("early launches"), 0u);
}

TEST_F(CudaCollectiveTest, AnotherAddressIsAnotherGraph) {
  auto session = open();
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 20; ++i) {
    DeviceBuffer from(x), to(64);
    EXPECT_OK(run(**session, from.get(), to.get()));
    EXPECT_EQ(to.values(), expected());
  }
  // A graph with another library's nodes is never changed.
  EXPECT_EQ(fakeCudaCount("cuGraphExecUpdate_v2"), 0u);
}

TEST_F(CudaCollectiveTest, CommandByCommand) {
  auto session = open();
  ASSERT_TRUE(session.ok());
  Observer observer;
  EXPECT_OK(run(**session, x.data(), y.data(), 1, &observer));
  EXPECT_EQ(y, expected());
  EXPECT_EQ(seen.enqueued, 1);
}

TEST_F(CudaCollectiveTest, AnErrorOfTheOthersEndsTheWait) {
  {
    auto session = open();
    ASSERT_TRUE(session.ok());
    seen.isHung = true;
    seen.answer = Status(Code::PeerFailed, "rank 0 is gone");
    Status status = run(**session, x.data(), y.data());
    EXPECT_EQ(status.code(), Code::PeerFailed);
    EXPECT_EQ(status.message(), "rank 0 is gone");
    status = run(**session, x.data(), y.data());
    EXPECT_EQ(status.code(), Code::PeerFailed);
  }
  // What still waits on the device is given up.
  EXPECT_EQ(seen.aborted, 1);
  fakeCudaReset();
  fakeCudaForget();
}

TEST_F(CudaCollectiveTest, TheDeviceSaysHowFarItIs) {
  auto progress = std::make_unique<RankProgress>();
  SessionOptions options;
  options.deviceCommunicator = std::make_shared<Doubling>(seen);
  options.progress = progress.get();
  progress->isWatched = 1;
  {
    auto session = cudaSession(rankModule(), options);
    options.deviceCommunicator.reset();
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(progress->hasDevice, 1u);
    EXPECT_OK(run(**session, x.data(), y.data()));
    EXPECT_EQ(y, expected());
    // Past the collective, which is command 3.
    EXPECT_EQ(progress->streams[1].device, 8u);
    seen.isHung = true;
    seen.answer = Status(Code::PeerFailed, "rank 0 is gone");
    EXPECT_EQ(run(**session, x.data(), y.data()).code(), Code::PeerFailed);
    RankView view = readProgress(*progress, 2);
    EXPECT_TRUE(view.onDevice);
    EXPECT_EQ(view.streams[1].command, 3u);
    EXPECT_EQ(view.streams[1].state, uint32_t(StreamProgress::Collective));
    EXPECT_EQ(view.streams[0].state, uint32_t(StreamProgress::Idle));
  }
  // It stays where it is, for all to see.
  EXPECT_EQ(progress->hasDevice, 1u);
  fakeCudaReset();
  fakeCudaForget();
}

TEST_F(CudaCollectiveTest, NobodyWatchesNothingIsSaid) {
  auto progress = std::make_unique<RankProgress>();
  SessionOptions options;
  options.deviceCommunicator = std::make_shared<Doubling>(seen);
  options.progress = progress.get();
  auto session = cudaSession(rankModule(), options);
  options.deviceCommunicator.reset();
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_OK(run(**session, x.data(), y.data()));
  EXPECT_EQ(y, expected());
  EXPECT_EQ(progress->streams[1].device, 0u);
  EXPECT_EQ(fakeCudaCount("cuMemHostRegister_v2"), 0u);
}

TEST_F(CudaCollectiveTest, RanksReplayAsOftenAsTheSlowestWants) {
  std::vector<double> asked;
  SessionOptions options;
  options.deviceCommunicator = std::make_shared<Doubling>(seen);
  options.agreeOnLargest = [&](double &value) {
    asked.push_back(value);
    value = 500; // of 2 ms
    return Status();
  };
  auto session = cudaSession(rankModule(), options);
  ASSERT_TRUE(session.ok());
  options.deviceCommunicator.reset();
  EXPECT_OK(run(**session, x.data(), y.data()));
  Timings timings;
  EXPECT_OK((*session)->measure(1, 2, timings));
  EXPECT_EQ(timings.replays, 4);
  // How long a run takes, before each batch that isn't timed and after the
  // last; then the ranks meet before all that is.
  ASSERT_EQ(asked.size(), 7u);
  for (size_t i = 0; i < asked.size(); ++i)
    EXPECT_NEAR(asked[i], i < 3 ? 50 : 0, 0.1);
  timings.hasWall = false;
  EXPECT_OK((*session)->measure(1, 2, timings));
  EXPECT_EQ(timings.device.size(), 2u);
  EXPECT_TRUE(timings.wall.empty());
  EXPECT_EQ(asked.size(), 7u + 5u);
}

TEST_F(CudaCollectiveTest, RanksAreAsManyAsTheMeshHas) {
  auto none = cudaSession(rankModule());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::Usage);
  EXPECT_NE(none.status().message().find("--ranks 2"), std::string::npos);
}
