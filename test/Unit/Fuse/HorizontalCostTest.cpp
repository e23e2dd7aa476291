//===- HorizontalCostTest.cpp - One launch, many, or several streams ------===//
//
// The cost rule on plain numbers of a made-up device, each answer worked out by
// hand: a launch gap of 10 us, 100 bytes a us from memory and 400 from the
// cache, 1,000 flops a us, 5,000 bytes of cache.
//
//===----------------------------------------------------------------------===//
#include "HorizontalPlan.h"

#include "gtest/gtest.h"

using namespace fusion;

namespace {

HorizontalDevice makeDevice(unsigned streams = 1) {
  HorizontalDevice device;
  device.launchGapUs = 10;
  device.bytesPerUs = 100;
  device.cacheBytesPerUs = 400;
  device.flopsPerUs = 1000;
  device.cacheBytes = 5000;
  device.streams = streams;
  device.fullGaps = 16;
  return device;
}

} // namespace

TEST(HorizontalCost, MemberTakesTheLongerOfBytesAndFlops) {
  EXPECT_DOUBLE_EQ(predictMember({2000, 5000}, makeDevice()), 20);
  EXPECT_DOUBLE_EQ(predictMember({2000, 50000}, makeDevice()), 50);
}

TEST(HorizontalCost, FusingSavesTheGapsBetween) {
  std::vector<HorizontalWork> members(5, {1000, 0});
  HorizontalAnswer answer = decideHorizontal(members, 0, makeDevice());
  EXPECT_EQ(answer.choice, HorizontalChoice::Fused);
  EXPECT_DOUBLE_EQ(answer.serialUs, 5 * 10 + 5 * 10);
  EXPECT_DOUBLE_EQ(answer.fusedUs, 5 * 10 + 10);
}

TEST(HorizontalCost, ValuesThatLeaveTheCacheCost) {
  std::vector<HorizontalWork> members(5, {1000, 0});
  // 40 us saved pay for 2,000 bytes written and read back.
  EXPECT_EQ(decideHorizontal(members, 7000, makeDevice()).choice,
            HorizontalChoice::Fused);
  HorizontalAnswer answer = decideHorizontal(members, 7001, makeDevice());
  EXPECT_EQ(answer.choice, HorizontalChoice::Serial);
  EXPECT_DOUBLE_EQ(answer.fusedUs, 60 + 2 * 2001 / 100.0);
}

TEST(HorizontalCost, TailsThatLoseTheNearCacheCost) {
  // Two gaps become one: 10 us, or 4,000 bytes from the far cache.
  EXPECT_EQ(
      decideHorizontal({{1000, 0, 2000}, {1000, 0, 2000}}, 0, makeDevice())
          .choice,
      HorizontalChoice::Fused);
  EXPECT_EQ(
      decideHorizontal({{1000, 0, 2000}, {1000, 0, 2001}}, 0, makeDevice())
          .choice,
      HorizontalChoice::Serial);
}

TEST(HorizontalCost, StreamsServeMembersThatDoNotFillTheDevice) {
  // 8,000 moved bytes cost 60 us: one launch takes 2 * 100 + 10 + 60. Two
  // streams take 100 us of work and two gaps.
  HorizontalAnswer answer =
      decideHorizontal({{10000, 0}, {10000, 0}}, 8000, makeDevice(2));
  EXPECT_DOUBLE_EQ(answer.streamsUs, 100 + 2 * 10);
  EXPECT_EQ(answer.choice, HorizontalChoice::Streams);
  // A member of more than 16 gaps fills it.
  answer = decideHorizontal({{16001, 0}, {10000, 0}}, 8000, makeDevice(2));
  EXPECT_DOUBLE_EQ(answer.streamsUs, answer.serialUs);
  EXPECT_EQ(answer.choice, HorizontalChoice::Serial);
}
