//===- ArenaPlanTest.cpp - Offsets never let live buffers share bytes -----===//
#include "ArenaPlan.h"

#include "llvm/Support/MathExtras.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>
#include <vector>

using namespace fusion;

namespace {

bool timesOverlap(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

bool bytesOverlap(const Lifetime &a, const Lifetime &b) {
  return a.size > 0 && b.size > 0 && a.offset < b.offset + b.size &&
         b.offset < a.offset + a.size;
}

/// The largest sum of sizes alive at one command: no plan can be smaller.
int64_t lowerBound(const std::vector<Lifetime> &buffers) {
  int64_t peak = 0;
  for (const Lifetime &at : buffers) {
    int64_t sum = 0;
    for (const Lifetime &buffer : buffers)
      if (buffer.first <= at.first && at.first <= buffer.last)
        sum += buffer.size;
    peak = std::max(peak, sum);
  }
  return peak;
}

void expectValid(const std::vector<Lifetime> &buffers, int64_t total) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_GE(buffers[i].offset, 0);
    EXPECT_EQ(buffers[i].offset % getAlignment(buffers[i].size), 0);
    EXPECT_LE(buffers[i].offset + buffers[i].size, total);
    for (size_t j = 0; j < i; ++j)
      ASSERT_FALSE(timesOverlap(buffers[i], buffers[j]) &&
                   bytesOverlap(buffers[i], buffers[j]))
          << "buffers " << i << " and " << j;
  }
}

std::vector<Lifetime> randomBuffers(size_t count, int64_t reach,
                                    unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Lifetime> buffers;
  for (size_t i = 0; i < count; ++i) {
    Lifetime buffer;
    buffer.first = i;
    buffer.last = i + random() % (reach + 1);
    buffer.size = random() % 8 == 0 ? 0 : random() % 5000;
    buffers.push_back(buffer);
  }
  return buffers;
}

} // namespace

TEST(ArenaPlan, NothingNeedsNothing) {
  std::vector<Lifetime> buffers;
  EXPECT_EQ(planArena(buffers), 0);
}

TEST(ArenaPlan, ChainUsesTwoSlots) {
  std::vector<Lifetime> buffers;
  for (int64_t i = 0; i < 100; ++i)
    buffers.push_back({i, i + 1, 64, -1});
  EXPECT_EQ(planArena(buffers), 128);
  expectValid(buffers, 128);
}

TEST(ArenaPlan, UnusedResultLivesDuringItsCommand) {
  std::vector<Lifetime> buffers = {
      {0, 1, 64, -1}, {1, 1, 64, -1}, {1, 2, 64, -1}};
  EXPECT_EQ(planArena(buffers), 192);
  expectValid(buffers, 192);
}

TEST(ArenaPlan, EmptyBuffersTakeNoSpace) {
  std::vector<Lifetime> buffers = {{0, 9, 0, -1}, {0, 9, 64, -1}};
  EXPECT_EQ(planArena(buffers), 64);
  expectValid(buffers, 64);
}

TEST(ArenaPlan, RandomLifetimesNeverCollide) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<Lifetime> buffers = randomBuffers(200, 12, seed);
    int64_t total = planArena(buffers);
    expectValid(buffers, total);
    // Rounding costs at most an alignment a buffer that is alive together.
    EXPECT_LE(total, 2 * lowerBound(buffers) + 16 * kArenaAlignment)
        << "seed " << seed;
  }
}

TEST(ArenaPlan, ManyBuffersTakeTheLinearPath) {
  std::vector<Lifetime> buffers = randomBuffers(6000, 12, 7);
  int64_t total = planArena(buffers);
  expectValid(buffers, total);
  EXPECT_LE(total, 3 * lowerBound(buffers) + 16 * kArenaAlignment);
}

TEST(ArenaPlan, SameInputSamePlan) {
  std::vector<Lifetime> a = randomBuffers(500, 20, 3), b = a;
  EXPECT_EQ(planArena(a), planArena(b));
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i].offset, b[i].offset);
}

TEST(ArenaPlan, SetsLieSideBySide) {
  // Left alone, 0 and 2 would take the place of buffers that are gone.
  std::vector<Lifetime> buffers = {{1, 3, 100, -1},
                                   {0, 0, 128, -1},
                                   {2, 3, 100, -1},
                                   {0, 1, 64, -1},
                                   {1, 2, 100, -1}};
  int64_t total = planArena(buffers, {{2, 0, 4}});
  expectValid(buffers, total);
  EXPECT_EQ(buffers[0].offset - buffers[2].offset, 128);
  EXPECT_EQ(buffers[4].offset - buffers[0].offset, 128);
  // All of the set is alive at command 2; 1 ends before 0 is there.
  EXPECT_EQ(total, 3 * 128);
}

TEST(ArenaPlan, AnotherOrderWhereLargestFirstLeavesGaps) {
  // Largest first: 1 at 0, 0 at 192, 2 at 0, and the gap of 64 is too small for
  // 3, which comes behind 0: 448. In order: 0 at 0, then 1, then 2 and 3.
  std::vector<Lifetime> buffers = {
      {0, 2, 128, -1}, {0, 1, 192, -1}, {2, 5, 128, -1}, {2, 2, 128, -1}};
  int64_t total = planArena(buffers);
  expectValid(buffers, total);
  EXPECT_EQ(total, 3 * 128);
}

TEST(ArenaPlan, WhatLiesOnTopComesEarlier) {
  // Largest first: 2 and 3 at 0, 1 at 256 beside 3, and 4 beside 2 and 1 at
  // 448: 640, and no order by lengths or times does better. With 4 before them,
  // 512 are enough: what is alive at command 3.
  std::vector<Lifetime> buffers = {{0, 0, 192, -1}, {0, 3, 192, -1},
                                   {5, 5, 256, -1}, {1, 2, 256, -1},
                                   {3, 5, 192, -1}, {3, 3, 128, -1}};
  int64_t total = planArena(buffers);
  expectValid(buffers, total);
  EXPECT_EQ(total, 192 + 192 + 128);
}

TEST(ArenaPlan, RandomSetsNeverCollide) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<Lifetime> buffers = randomBuffers(200, 12, seed);
    std::vector<llvm::SmallVector<int64_t>> sets;
    for (int64_t i = seed % 5; i + 4 <= 200; i += 9) {
      sets.push_back({i + 2, i, i + 3});
      for (int64_t index : sets.back())
        buffers[index].size = 1000 + i;
    }
    int64_t total = planArena(buffers, sets);
    expectValid(buffers, total);
    for (const auto &set : sets)
      for (size_t i = 1; i < set.size(); ++i)
        EXPECT_EQ(buffers[set[i]].offset - buffers[set[i - 1]].offset,
                  int64_t(llvm::alignTo(buffers[set[i]].size, kArenaAlignment)))
            << "seed " << seed;
  }
}

TEST(ArenaPlan, SetMembersOfAnySize) {
  // Bytes of a set that are not alive yet serve others: 2 is gone before 1 is
  // written, so it takes 1's place.
  std::vector<Lifetime> buffers = {
      {0, 9, 100, -1}, {5, 9, 1000, -1}, {0, 4, 900, -1}};
  llvm::SmallVector<llvm::SmallVector<int64_t>> sets = {{0, 1}};
  EXPECT_EQ(planArena(buffers, sets), 1152);
  expectValid(buffers, 1152);
  EXPECT_EQ(buffers[1].offset, buffers[0].offset + 128);
  EXPECT_EQ(buffers[2].offset, 128);
}

TEST(ArenaPlan, LargeBuffersBeginAtALine) {
  // Behind 64 bytes a large one leaves 192 free, and one byte less none.
  for (int64_t size : {kLargeBytes, kLargeBytes - 1}) {
    std::vector<Lifetime> buffers = {{0, 9, 64, -1}, {0, 9, size, -1}};
    bool isLarge = size == kLargeBytes;
    int64_t start = isLarge ? kLargeAlignment : kArenaAlignment;
    EXPECT_EQ(planArena(buffers, {{0, 1}}), start + kLargeBytes);
    EXPECT_EQ(buffers[1].offset, start);
    expectValid(buffers, start + kLargeBytes);
  }
  // Both packers, in sets and alone.
  for (size_t count : {90u, 5000u}) {
    std::vector<Lifetime> buffers = randomBuffers(count, 12, count);
    for (size_t i = 0; i < count; i += 3)
      buffers[i].size = kLargeBytes - 100 + int64_t(i % 200);
    llvm::SmallVector<llvm::SmallVector<int64_t>> sets;
    for (size_t i = 1; i + 5 < count; i += 10)
      sets.push_back({int64_t(i), int64_t(i + 3), int64_t(i + 2)});
    expectValid(buffers, planArena(buffers, sets));
  }
}

TEST(ArenaPlan, RandomUnequalSetsNeverCollide) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    // Both packers.
    size_t count = seed < 48 ? 120 : 5000;
    std::vector<Lifetime> buffers = randomBuffers(count, 12, seed);
    llvm::SmallVector<llvm::SmallVector<int64_t>> sets;
    for (size_t i = seed % 3; i + 5 < count; i += 7)
      sets.push_back({int64_t(i), int64_t(i + 3), int64_t(i + 1)});
    int64_t total = planArena(buffers, sets);
    expectValid(buffers, total);
    for (const auto &set : sets)
      for (size_t k = 1; k < set.size(); ++k)
        EXPECT_EQ(buffers[set[k]].offset,
                  buffers[set[k - 1]].offset +
                      int64_t(llvm::alignTo(buffers[set[k - 1]].size,
                                            kArenaAlignment)));
  }
}
