//===- ControlTest.cpp - Hubs, links, watches and sums, without ranks -----===//
#include "Hub.h"
#include "RankLink.h"
#include "Reduce.h"
#include "TestModules.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace fusion::rt;

namespace {

//===----------------------------------------------------------------------===//
// Watch
//===----------------------------------------------------------------------===//

RankView viewAt(uint32_t command, StreamProgress::State state,
                uint64_t collectives, uint64_t changes) {
  return {RankProgress::Working,
          false,
          false,
          false,
          changes,
          {{command, uint32_t(state), collectives}}};
}

/// Three ranks, the third of which has not come to the second collective.
class WatchTest : public testing::Test {
protected:
  WatchTest() : module(test::overlapModule(3, 4, 3)) {
    ranks = {viewAt(7, StreamProgress::Collective, 2, 10),
             viewAt(7, StreamProgress::Collective, 2, 10),
             viewAt(6, StreamProgress::Running, 1, 9)};
  }
  /// Looks every 50 ms for `seconds`.
  Status lookFor(Watch &watch, double seconds) {
    for (double end = now + seconds; now < end; now += 0.05)
      if (Status status = watch.look(ranks, now); !status.ok())
        return status;
    return {};
  }
  Module module;
  std::vector<RankView> ranks;
  double now = 1000;
};

TEST_F(WatchTest, NamesTheRankThatHasNotCome) {
  Watch watch(module.program, 2);
  EXPECT_TRUE(lookFor(watch, 1.9).ok());
  EXPECT_TRUE(watch.isSlow());
  EXPECT_FALSE(watch.isSlow()); // says so once
  Status status = lookFor(watch, 0.3);
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.rank(), 2);
  EXPECT_NE(status.message().find("rank 2 last did command 6"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("rank 0 waits in command 7"),
            std::string::npos);
}

TEST_F(WatchTest, SaysWhatACommandWithoutANameDoes) {
  Command &last = module.program.commands[6];
  last.kind = CommandKind::Wait;
  last.name.clear();
  module.program.commands[7].name.clear();
  Watch watch(module.program, 2);
  std::string message = lookFor(watch, 2.2).message();
  EXPECT_NE(message.find("rank 2 last did command 6 (wait), 1 collectives"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 0 waits in command 7 (all_reduce), 2 coll"),
            std::string::npos)
      << message;
}

TEST_F(WatchTest, AnyStepOfAnyRankIsProgress) {
  Watch watch(module.program, 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(lookFor(watch, 1.5).ok());
    ++ranks[2].changes;
  }
}

TEST_F(WatchTest, LongComputeIsNoTimeoutIfNobodyWaits) {
  Watch watch(module.program, 2);
  for (RankView &rank : ranks)
    rank.streams[0].state = StreamProgress::Running;
  EXPECT_TRUE(lookFor(watch, 100).ok());
}

TEST_F(WatchTest, ALongStepOfGpusIsNoTimeoutIfNoneIsInACollective) {
  Watch watch(module.program, 2);
  for (RankView &rank : ranks) {
    rank.onDevice = true;
    rank.streams[0] = {7, StreamProgress::Running, 1};
  }
  EXPECT_TRUE(lookFor(watch, 100).ok());
}

TEST_F(WatchTest, OfGpusTheOneFurthestBehindIsNamed) {
  Watch watch(module.program, 2);
  for (RankView &rank : ranks) { // all in the same step
    rank.onDevice = true;
    rank.streams[0] = {7, StreamProgress::Collective, 1};
  }
  ranks[1].streams[0] = {6, StreamProgress::Collective, 1};
  Status status = lookFor(watch, 2.3);
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.rank(), 1);
  EXPECT_NE(status.message().find("rank 1 waits in command 6"),
            std::string::npos)
      << status.message();
}

TEST_F(WatchTest, AWordOfAnotherRankIsWaitedForNoLonger) {
  Watch watch(module.program, 2);
  for (RankView &rank : ranks)
    rank.streams[0] = {7, StreamProgress::Running, 2};
  EXPECT_TRUE(lookFor(watch, 100).ok());
  ranks[0].waiting = ranks[1].waiting = true;
  Status status = lookFor(watch, 2.3);
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.rank(), 2);
}

TEST_F(WatchTest, WritingResultsIsNoTimeout) {
  Watch watch(module.program, 2);
  ranks[0].phase = ranks[1].phase = RankProgress::Done;
  ranks[2].phase = RankProgress::Writing;
  EXPECT_TRUE(lookFor(watch, 100).ok());
  ranks[2].phase = RankProgress::Ending;
  Status status = lookFor(watch, 2.3);
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.rank(), 2);
}

TEST_F(WatchTest, SuspendedAndJumpingClocksAreNoTimeout) {
  Watch watch(module.program, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(lookFor(watch, 0.1).ok());
    now += 3600; // the machine slept: one tick
  }
  now -= 7200;
  EXPECT_TRUE(watch.look(ranks, now).ok());
  EXPECT_EQ(lookFor(watch, 3).code(), Code::Timeout);
}

TEST_F(WatchTest, NoLimitIsNone) {
  Watch watch(module.program, 0);
  EXPECT_TRUE(lookFor(watch, 1000).ok());
}

TEST_F(WatchTest, WhatStandsStillIsToBlame) {
  Watch watch(module.program, 1);
  ranks[2] = ranks[1];
  ranks[1].stopped = true;
  Status status = lookFor(watch, 2);
  EXPECT_EQ(status.rank(), 1);
  ranks[1].stopped = false;
  Watch other(module.program, 1);
  status = lookFor(other, 2);
  EXPECT_EQ(status.rank(), -1);
  EXPECT_EQ(status.message().compare(0, 14, "all ranks wait"), 0)
      << status.message();
}

TEST_F(WatchTest, ViewsTravel) {
  RankView back;
  ranks[0].waiting = ranks[0].onDevice = true;
  ASSERT_TRUE(decodeView(encodeView(ranks[0]), back));
  EXPECT_EQ(back.phase, ranks[0].phase);
  EXPECT_TRUE(back.waiting);
  EXPECT_TRUE(back.onDevice);
  EXPECT_EQ(back.changes, 10u);
  ASSERT_EQ(back.streams.size(), 1u);
  EXPECT_EQ(back.streams[0].command, 7u);
  EXPECT_EQ(back.streams[0].collectives, 2u);
  for (const char *text : {"", "1 2 ", "1 0 3 99 ", "a", "1 0 3 1 1 1 "})
    EXPECT_FALSE(decodeView(text, back)) << text;
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

TEST(Frames, ComeOutAsTheyWent) {
  std::string bytes =
      encodeFrame(FrameType::Set, "abc") + encodeFrame(FrameType::Bye, "");
  std::string arrived;
  Frame frame;
  std::vector<Frame> frames;
  for (char c : bytes) { // a byte at a time
    arrived += c;
    if (takeFrame(arrived, frame) == 1)
      frames.push_back(frame);
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].type, FrameType::Set);
  EXPECT_EQ(frames[0].payload, "abc");
  EXPECT_EQ(frames[1].type, FrameType::Bye);
}

TEST(Frames, GarbageAndGiantsAreRefused) {
  Frame frame;
  std::string text = "G";
  EXPECT_EQ(takeFrame(text, frame), -1); // at the first byte
  text = encodeFrame(FrameType::Set, "abc");
  text[4] = 99;
  EXPECT_EQ(takeFrame(text, frame), -1);
  text = encodeFrame(FrameType::Set, std::string(kFramePayload, 'x'));
  EXPECT_EQ(takeFrame(text, frame), 1);
  text = encodeFrame(FrameType::Set, "abc");
  text[8] = 1;
  text[10] = 1; // 65537 bytes
  EXPECT_EQ(takeFrame(text, frame), -1);
}

TEST(Frames, FieldsOfAnyBytes) {
  std::vector<std::string> fields{"", std::string("a\0b", 3), "\n"}, back;
  ASSERT_TRUE(splitFields(joinFields(fields), 3, back));
  EXPECT_EQ(back, fields);
  EXPECT_FALSE(splitFields(joinFields(fields), 2, back));
  EXPECT_FALSE(splitFields(joinFields(fields), 4, back));
  std::string cut = joinFields(fields);
  cut.pop_back();
  EXPECT_FALSE(splitFields(cut, 3, back));
  Status status =
      decodeStatus(encodeStatus(Status(Code::Timeout, "what", "op", 3)));
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.message(), "what");
  EXPECT_EQ(status.op(), "op");
  EXPECT_EQ(status.rank(), 3);
  EXPECT_EQ(decodeStatus("junk").code(), Code::Internal);
  Identity identity{{"rank", "0"}, {"a", ""}}, again;
  ASSERT_TRUE(decodeIdentity(encodeIdentity(identity), again));
  EXPECT_EQ(again, identity);
  EXPECT_FALSE(decodeIdentity("9999\nx", again));
}

//===----------------------------------------------------------------------===//
// Hub and link
//===----------------------------------------------------------------------===//

/// A hub on a thread, and the sockets of its ranks.
class Job {
public:
  explicit Job(uint32_t size, std::string token = "t") : hub(size, token) {
    for (uint32_t i = 0; i < size; ++i)
      sockets.push_back(connect());
  }
  ~Job() {
    ending = true;
    if (thread.joinable())
      thread.join();
  }
  int connect() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    hub.add(ends[0], -1);
    return ends[1];
  }
  void start() {
    thread = std::thread([this] {
      while (!ending) {
        std::vector<pollfd> list;
        hub.fillPoll(list);
        poll(list.data(), nfds_t(list.size()), 5);
        hub.handle(list);
        if (hub.allDone())
          hub.finish();
        if (!hub.rejection().ok())
          hub.stop(hub.rejection());
      }
    });
  }
  Hub hub;
  std::vector<int> sockets;

private:
  std::atomic<bool> ending{false};
  std::thread thread;
};

Identity named(uint32_t rank, uint32_t size, const std::string &module = "m") {
  return {{"rank", std::to_string(rank)},
          {"ranks", std::to_string(size)},
          {"module", module},
          {"device", ""}};
}

TEST(Hub, LetsRanksInAndKeepsTheirWords) {
  Job job(2);
  job.start();
  auto rank = [&](uint32_t index) {
    RankLink link(job.sockets[index], "t", "the hub", 0);
    ASSERT_TRUE(link.join(named(index, 2), 5).ok());
    ASSERT_TRUE(
        link.set("k" + std::to_string(index), {char('a' + index)}).ok());
    auto value = link.get("k" + std::to_string(1 - index));
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value, std::vector<char>{char('b' - index)});
    EXPECT_TRUE(link.done(Status()).ok());
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

TEST(Hub, WrongTokensOfEitherSideAreRefused) {
  for (bool hubIsWrong : {false, true}) {
    Job job(1, hubIsWrong ? "other" : "t");
    job.start();
    RankLink link(job.sockets[0], hubIsWrong ? "t" : "wrong", "the hub", 0);
    EXPECT_FALSE(link.join(named(0, 1), 1).ok());
  }
}

TEST(Hub, DifferencesAreTold) {
  Job job(2);
  job.start();
  Status statuses[2];
  auto rank = [&](uint32_t index) {
    RankLink link(job.sockets[index], "t", "the hub", 0);
    statuses[index] = link.join(named(index, 2, index ? "n" : "m"), 5);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  for (const Status &status : statuses) {
    EXPECT_EQ(status.code(), Code::Rejected);
    EXPECT_NE(status.message().find("module: rank 0 has m, rank 1 has n"),
              std::string::npos)
        << status.message();
  }
}

/// What is no rank neither fails nor stalls the job.
TEST(Hub, StrangersAreDroppedAndCounted) {
  Job job(1);
  std::vector<int> strangers;
  for (const std::string &text :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string("\x01"),
        encodeFrame(FrameType::Set, "x"),
        encodeFrame(FrameType::Hello, "no fields"),
        encodeFrame(FrameType::Hello, joinFields({"short", "proof", ""}))}) {
    strangers.push_back(job.connect());
    EXPECT_EQ(write(strangers.back(), text.data(), text.size()),
              ssize_t(text.size()));
  }
  close(job.connect());
  job.start();
  RankLink link(job.sockets[0], "t", "the hub", 0);
  EXPECT_TRUE(link.join(named(0, 1), 5).ok());
  EXPECT_TRUE(link.done(Status()).ok());
  // All but the one that sent a single byte and waits.
  for (int i = 0; i < 200 && job.hub.droppedPeers() < 5; ++i)
    usleep(5000);
  EXPECT_EQ(job.hub.droppedPeers(), 5u);
  for (int stranger : strangers)
    close(stranger);
}

TEST(Link, EndsWhenTheHubIsGone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  RankLink link(ends[1], "t", "the hub", 0);
  std::thread closer([&] {
    usleep(50000);
    close(ends[0]);
  });
  Status status = link.join(named(0, 1), 5);
  EXPECT_EQ(status.code(), Code::PeerFailed);
  closer.join();
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Every f16 is its own sum.
TEST(Reduce, EveryHalfSurvives) {
  std::vector<uint16_t> all(65536), sums(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint16_t(i);
  const void *inputs[] = {all.data()};
  for (DType dtype : {DType::F16, DType::BF16}) {
    reduceElements(dtype, Reduction::Sum, sums.data(), inputs, 1, all.size());
    int mantissa = dtype == DType::F16 ? 10 : 7;
    uint16_t infinity = uint16_t(0x7fff >> mantissa << mantissa);
    for (size_t i = 0; i < all.size(); ++i) {
      bool isNan = (i & 0x7fff) > infinity;
      if (isNan)
        EXPECT_GT(sums[i] & 0x7fff, infinity) << i;
      else
        EXPECT_EQ(sums[i], i);
    }
  }
}

/// Sums of two are what the compiler's own type makes of the exact sum.
TEST(Reduce, SumsOfHalvesAreRoundedToNearestEven) {
  std::vector<_Float16> a, b;
  uint32_t state = 1;
  auto next = [&] {
    state = state * 1664525 + 1013904223;
    uint16_t bits = uint16_t(state >> 16);
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return value;
  };
  for (int i = 0; i < 200000; ++i) {
    a.push_back(next());
    b.push_back(next());
  }
  std::vector<_Float16> sums(a.size());
  const void *inputs[] = {a.data(), b.data()};
  reduceElements(DType::F16, Reduction::Sum, sums.data(), inputs, 2, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    _Float16 wanted = _Float16(double(a[i]) + double(b[i]));
    if (std::isnan(double(wanted)))
      EXPECT_TRUE(std::isnan(double(sums[i])));
    else
      EXPECT_EQ(std::memcmp(&sums[i], &wanted, 2), 0)
          << double(a[i]) << " + " << double(b[i]);
  }
}

/// bf16: of the two neighbours of the exact sum, the nearer, else the even one.
TEST(Reduce, SumsOfBrainsAreRoundedToNearestEven) {
  uint32_t state = 7;
  std::vector<uint16_t> a(100000), b(100000), sums(100000);
  for (size_t i = 0; i < a.size(); ++i) {
    state = state * 1664525 + 1013904223;
    a[i] = uint16_t(state >> 16);
    state = state * 1664525 + 1013904223;
    // Close exponents, so that rounding has something to do.
    b[i] = uint16_t((a[i] & 0x7f80) ^ (state >> 16 & 0x80ff));
  }
  auto widen = [](uint16_t bits) {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return double(value);
  };
  const void *inputs[] = {a.data(), b.data()};
  reduceElements(DType::BF16, Reduction::Sum, sums.data(), inputs, 2, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    double exact = widen(a[i]) + widen(b[i]), got = widen(sums[i]);
    if (!std::isfinite(exact) || !std::isfinite(got))
      continue;
    double error = std::fabs(got - exact);
    for (int step : {-1, 1}) {
      uint16_t beside = uint16_t(sums[i] + step);
      if ((beside ^ sums[i]) & 0x8000 || !std::isfinite(widen(beside)))
        continue;
      double other = std::fabs(widen(beside) - exact);
      EXPECT_LE(error, other);
      if (error == other && error != 0)
        EXPECT_EQ(sums[i] & 1, 0);
    }
  }
}

} // namespace
