//===- NcclPlanTest.cpp - Collectives as calls of NCCL --------------------===//
//
// What the values of whole programs do not show: that tensors which follow each
// other become one call, and how little is staged.
//
//===----------------------------------------------------------------------===//
#include "NcclPlan.h"

#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

/// Rank 1 of two, unless said.
class NcclPlanTest : public testing::Test {
protected:
  NcclPlanTest() {
    group.ranks = {0, 1};
    group.position = 1;
    run.call = &call;
  }
  void add(std::vector<int64_t> shape, uint64_t input, uint64_t output,
           DType dtype = DType::F32) {
    PartBuffer part;
    part.dtype = dtype;
    part.shape = std::move(shape);
    part.input = reinterpret_cast<const char *>(input);
    part.output = reinterpret_cast<char *>(output);
    run.parts.push_back(part);
  }
  NcclPlan plan() { return planNccl(run, group, staging); }

  char *staging = reinterpret_cast<char *>(1 << 20);
  CollectiveCall call;
  CollectiveRun run;
  Group group;
};

} // namespace

TEST_F(NcclPlanTest, TensorsOfABucketThatFollowEachOtherAreOneCall) {
  add({16}, 4096, 4096);
  add({4, 4}, 4096 + 64, 4096 + 64);
  add({16}, 4096 + 256, 4096 + 256);            // after a gap
  add({8}, 4096 + 320, 4096 + 320, DType::F64); // of another type
  add({8}, 4096 + 384, 4096 + 512, DType::F64); // not in place
  NcclPlan made = plan();
  ASSERT_EQ(made.calls.size(), 4u);
  EXPECT_EQ(made.calls[0].count, 32u);
  EXPECT_EQ(made.calls[1].count, 16u);
  EXPECT_EQ(made.calls[2].dtype, DType::F64);
  EXPECT_EQ(made.calls[3].count, 8u);
  EXPECT_EQ(made.stagingBytes, 0u);
  EXPECT_TRUE(made.before.empty() && made.after.empty());
  // Of a ring of two each sends as much as it has: 3 * 64 + 2 * 64 bytes.
  EXPECT_EQ(made.sentBytes, 320u);
}

TEST_F(NcclPlanTest, EmptyTensorsAreNoCalls) {
  add({0}, 4096, 4096);
  add({4, 0}, 4096, 4096);
  EXPECT_TRUE(plan().calls.empty());
}

TEST_F(NcclPlanTest, OnlyOtherDimensionsAreStaged) {
  call.op = CollectiveOp::AllGather;
  add({1, 8}, 4096, 8192);
  // The first dimension that is not 1: contiguous.
  call.dim = 1;
  EXPECT_EQ(plan().stagingBytes, 0u);
  EXPECT_TRUE(plan().after.empty());
  run.parts[0].shape = {2, 4};
  NcclPlan made = plan();
  EXPECT_EQ(made.stagingBytes, 256u); // of 64
  ASSERT_EQ(made.after.size(), 2u);
  EXPECT_EQ(made.calls[0].output, staging);
  // The second rank's rows of 16 bytes lie behind the first's.
  EXPECT_EQ(made.after[1].target, reinterpret_cast<char *>(8192 + 16));
  EXPECT_EQ(made.after[1].targetStride, 32u);
  EXPECT_EQ(made.after[1].source, staging + 32);
  EXPECT_EQ(made.after[1].rows, 2u);
}

TEST_F(NcclPlanTest, WhatLeavesInPlaceIsKeptUntilItHasLeft) {
  call.op = CollectiveOp::Permute;
  call.sources = {0, 1};
  call.targets = {1, 0};
  add({4}, 4096, 4096);
  NcclPlan made = plan();
  ASSERT_EQ(made.before.size(), 1u);
  ASSERT_EQ(made.calls.size(), 2u);
  EXPECT_EQ(made.calls[0].input, staging);
  EXPECT_EQ(made.calls[1].output, reinterpret_cast<char *>(4096));
  run.parts[0].output = reinterpret_cast<char *>(8192);
  made = plan();
  EXPECT_TRUE(made.before.empty());
  EXPECT_EQ(made.stagingBytes, 0u);
}

TEST_F(NcclPlanTest, ARankWithoutASourceGetsZerosAfterItHasSent) {
  call.op = CollectiveOp::Permute;
  call.sources = {1};
  call.targets = {0};
  add({4}, 4096, 4096);
  NcclPlan made = plan();
  ASSERT_EQ(made.calls.size(), 1u);
  EXPECT_EQ(made.calls[0].kind, NcclCall::Send);
  ASSERT_EQ(made.after.size(), 1u);
  EXPECT_EQ(made.after[0].source, nullptr);
  EXPECT_EQ(made.after[0].width, 16u);
}

TEST_F(NcclPlanTest, AGroupOfOneCopies) {
  group.ranks = {3};
  group.position = 0;
  for (CollectiveOp op : {CollectiveOp::AllReduce, CollectiveOp::AllGather,
                          CollectiveOp::ReduceScatter, CollectiveOp::AllToAll,
                          CollectiveOp::Broadcast}) {
    call.op = op;
    run.parts.clear();
    add({4}, 4096, 8192);
    NcclPlan made = plan();
    EXPECT_TRUE(made.calls.empty());
    ASSERT_EQ(made.before.size() + made.after.size(), 1u);
    const RowCopy &copy = made.before.empty() ? made.after[0] : made.before[0];
    EXPECT_EQ(copy.source, reinterpret_cast<char *>(4096));
    EXPECT_EQ(copy.target, reinterpret_cast<char *>(8192));
    EXPECT_EQ(copy.width * copy.rows, 16u);
    EXPECT_EQ(made.sentBytes, 0u);
  }
}
