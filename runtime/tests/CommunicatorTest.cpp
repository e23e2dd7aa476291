//===- CommunicatorTest.cpp - One suite for all communicators -------------===//
//
// The suite on groups of all shapes, and what needs an eye on bits.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "CollectiveSuite.h"
#include "Mesh.h"
#include "RankTesting.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

void conform(std::vector<uint32_t> sizes,
             std::vector<std::vector<uint32_t>> axes,
             std::vector<DType> dtypes) {
  Program program = meshProgram(std::move(sizes), std::move(axes));
  auto texts = onRanks(program, [&](Communicator &communicator) {
    std::vector<Group> groups = groupsOf(program, communicator.rank());
    uint64_t command = 0;
    for (size_t index = 0; index < groups.size(); ++index) {
      for (DType dtype : dtypes)
        for (int64_t size : {0, 1, 1009})
          if (std::string text = tryAll(communicator, groups[index], index,
                                        dtype, size, command);
              !text.empty())
            return text;
      // 1 MB: two rounds, several blocks, uneven chunks.
      CollectiveCall call;
      call.axes = groups[index].axes;
      for (DType dtype : {DType::F32, DType::F16})
        for (bool inPlace : {false, true})
          if (std::string text =
                  tryOne(communicator, groups[index], index, call, dtype,
                         {{int64_t((1 << 20) / elementSize(dtype))}, {100003}},
                         inPlace, ++command);
              !text.empty())
            return text;
    }
    return std::string();
  });
  for (size_t rank = 0; rank < texts.size(); ++rank)
    EXPECT_EQ(texts[rank], "") << "rank " << rank;
}

TEST(HostCommunicator, OneRank) { conform({1}, {{0}}, kAllTypes); }
TEST(HostCommunicator, TwoRanks) { conform({2}, {{0}}, kAllTypes); }
TEST(HostCommunicator, ThreeRanks) { conform({3}, {{0}}, kAllTypes); }
TEST(HostCommunicator, EightRanks) { conform({8}, {{0}}, kAllTypes); }
TEST(HostCommunicator, MeshOfTwoAxes) {
  conform({2, 4}, {{0}, {1}, {1, 0}}, kSomeTypes);
}
TEST(HostCommunicator, MeshOfThreeAxes) {
  conform({2, 1, 3}, {{0, 2}, {1}, {2}}, kSomeTypes);
}

/// Runs all-reduce of one part of one element type with given bits on `ranks`
/// ranks; each must get `wanted`.
template <typename T>
void reduces(DType dtype, Reduction reduction, std::vector<T> brought,
             T wanted) {
  Program program = meshProgram({uint32_t(brought.size())}, {{0}});
  // Short: everybody combines all. Long: each its chunk.
  for (int64_t size : {3, 50000}) {
    auto texts = onRanks(program, [&](Communicator &communicator) {
      std::vector<T> data(size_t(size), brought[communicator.rank()]);
      CollectiveCall call;
      call.axes = {0};
      call.reduction = reduction;
      CollectiveRun run;
      run.call = &call;
      char *bytes = reinterpret_cast<char *>(data.data());
      run.parts.push_back({dtype, {size}, bytes, bytes});
      Status status = communicator.run(run);
      if (!status.ok())
        return status.message();
      for (const T &value : data)
        if (std::memcmp(&value, &wanted, sizeof(T)) != 0)
          return "got " + std::to_string(double(value)) + ", not " +
                 std::to_string(double(wanted));
      return std::string();
    });
    for (const std::string &text : texts)
      EXPECT_EQ(text, "");
  }
}

/// Half of the largest f16 and more on each rank: the sum is no f16.
TEST(HostCommunicator, MeanOfHalvesNeitherOverflowsNorUnderflows) {
  reduces<_Float16>(DType::F16, Reduction::Mean, {60000, 60000, 60000}, 60000);
  _Float16 smallest = _Float16(0x1p-24);
  reduces<_Float16>(DType::F16, Reduction::Mean, {smallest, smallest},
                    smallest);
  // 2/3 lies between 170 and 171 of 2^-8: 0x3f2b.
  reduces<uint16_t>(DType::BF16, Reduction::Mean, {0x3f80, 0x3f80, 0}, 0x3f2b);
  reduces<float>(DType::F32, Reduction::Mean, {3e38f, 3e38f}, 3e38f);
}

/// What is lost when a sum is rounded at each step is kept.
TEST(HostCommunicator, SumsAreRoundedOnce) {
  reduces<float>(DType::F32, Reduction::Sum, {0x1p24f, 1, 1}, 0x1p24f + 2);
  reduces<_Float16>(DType::F16, Reduction::Sum, {2048, 1, 1}, 2050);
  reduces<uint16_t>(DType::BF16, Reduction::Sum, {0x4380, 0x3f80, 0x3f80},
                    0x4381); // 256 + 1 + 1 = 258
  // In order: (1e300 - 1e300) + 1, not 1e300 + (1 - 1e300).
  reduces<double>(DType::F64, Reduction::Sum, {1e300, -1e300, 1}, 1);
  reduces<int8_t>(DType::I8, Reduction::Sum, {100, 100}, int8_t(-56));
  reduces<int8_t>(DType::I8, Reduction::Mean, {100, 101}, 100);
  reduces<int32_t>(DType::I32, Reduction::Mean, {-1, -2}, -1); // to zero
}

TEST(HostCommunicator, MaximumIsThatOfTheStandard) {
  float nan = std::nanf("");
  Program program = meshProgram({2}, {{0}});
  reduces<float>(DType::F32, Reduction::Max, {-0.0f, 0.0f}, 0.0f);
  reduces<float>(DType::F32, Reduction::Max, {0.0f, -0.0f}, 0.0f);
  reduces<float>(DType::F32, Reduction::Min, {0.0f, -0.0f}, -0.0f);
  reduces<float>(DType::F32, Reduction::Max, {nan, 1.0f}, nan);
  reduces<float>(DType::F32, Reduction::Min, {1.0f, nan}, nan);
}

/// Members that bring unequal counts must know before they use a byte.
TEST(HostCommunicator, UnequalCountsAreNamed) {
  Program program = meshProgram({3}, {{0}});
  for (int64_t size : {10, 409600}) {
    auto texts = onRanks(program, [&](Communicator &communicator) {
      int64_t own = communicator.rank() == 1 ? size - 2 : size;
      std::vector<float> data(size_t(own), 1);
      CollectiveCall call;
      call.axes = {0};
      CollectiveRun run;
      run.call = &call;
      char *bytes = reinterpret_cast<char *>(data.data());
      run.parts.push_back({DType::F32, {own}, bytes, bytes});
      Status status = communicator.run(run);
      if (status.ok() || status.code() == Code::Ok)
        return std::string("not noticed");
      for (float value : data)
        if (value != 1)
          return std::string("data was changed");
      bool named = status.message().find("ranks disagree") != std::string::npos;
      return named ? std::string() : status.message();
    });
    for (const std::string &text : texts)
      EXPECT_EQ(text, "");
  }
}

/// The null communicator takes the same calls, and counts.
TEST(NullCommunicator, CountsAndZeroes) {
  Program program = meshProgram({4}, {{0}});
  auto communicator = makeNullCommunicator(1, 4);
  ASSERT_TRUE(communicator->connect(groupsOf(program, 1)).ok());
  CollectiveCall call;
  call.axes = {0};
  std::vector<char> input(64, 1), output(4096, 1);
  for (CollectiveOp op : {CollectiveOp::AllReduce, CollectiveOp::AllGather,
                          CollectiveOp::ReduceScatter, CollectiveOp::AllToAll,
                          CollectiveOp::Broadcast, CollectiveOp::Permute}) {
    std::fill(output.begin(), output.end(), 1);
    call.op = op;
    CollectiveRun run;
    run.call = &call;
    run.parts.push_back({DType::F32, {4, 4}, input.data(), output.data()});
    ASSERT_TRUE(communicator->run(run).ok());
    size_t size = op == CollectiveOp::AllGather       ? 256
                  : op == CollectiveOp::ReduceScatter ? 16
                                                      : 64;
    EXPECT_EQ(std::count(output.begin(), output.end(), 0), long(size));
    EXPECT_EQ(output[size], 1);
  }
  EXPECT_EQ(communicator->counts().collectives, 6u);
  EXPECT_EQ(communicator->counts().bytesSent, 0u);
}

} // namespace
