//===- CommunicatorTest.cpp - One suite for all communicators -------------===//
//
// Every collective, element type, size and group shape, against a formula of
// what all members brought: written for reading, without a line of what it
// tests. Floats are small integers, so results are exact.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Mesh.h"
#include "RankTesting.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// A tensor of small integers.
struct Values {
  std::vector<int64_t> shape;
  std::vector<int64_t> at;
};

int64_t count(const std::vector<int64_t> &shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

void store(DType dtype, int64_t value, char *to) {
  auto put = [&](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  float single = float(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  switch (dtype) {
  case DType::F64:
    return put(double(value));
  case DType::F32:
    return put(single);
  case DType::F16:
    return put(_Float16(single));
  case DType::BF16:
    return put(uint16_t(bits >> 16));
  case DType::I1:
  case DType::I8:
    return put(int8_t(value));
  case DType::I32:
    return put(int32_t(value));
  case DType::I64:
    return put(value);
  }
}

std::vector<char> encode(DType dtype, const Values &values) {
  uint64_t width = elementSize(dtype);
  std::vector<char> bytes(values.at.size() * width);
  for (size_t i = 0; i < values.at.size(); ++i)
    store(dtype, values.at[i], &bytes[i * width]);
  return bytes;
}

/// What `rank` brings as part `part`.
Values bring(uint32_t rank, size_t part, const std::vector<int64_t> &shape,
             DType dtype, const CollectiveCall &call) {
  Values values{shape, {}};
  for (int64_t i = 0; i < count(shape); ++i) {
    int64_t value = (i * 7 + int64_t(rank) * 5 + int64_t(part) * 3) % 9 - 4;
    if (call.reduction == Reduction::Prod)
      value = value % 2 ? -1 : 1 + (i + int64_t(rank)) % 3 / 2;
    if (dtype == DType::I1)
      value &= 1;
    values.at.push_back(value);
  }
  return values;
}

/// The element of `values` whose index in `dim` is shifted by `start`, where
/// `shape` is the window's.
int64_t lookUp(const Values &values, const std::vector<int64_t> &shape,
               int64_t flat, int64_t dim, int64_t start) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d])
    index[d] = flat % shape[d];
  index[size_t(dim)] += start;
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    at = at * values.shape[d] + index[d];
  return values.at[size_t(at)];
}

Values slice(const Values &values, int64_t dim, int64_t part, int64_t parts) {
  Values result{values.shape, {}};
  int64_t size = result.shape[size_t(dim)] /= parts;
  for (int64_t i = 0; i < count(result.shape); ++i)
    result.at.push_back(lookUp(values, result.shape, i, dim, part * size));
  return result;
}

Values join(const std::vector<Values> &list, int64_t dim) {
  Values result{list[0].shape, {}};
  int64_t size = result.shape[size_t(dim)];
  result.shape[size_t(dim)] *= int64_t(list.size());
  int64_t inner = 1;
  for (size_t d = size_t(dim) + 1; d < result.shape.size(); ++d)
    inner *= result.shape[d];
  for (int64_t i = 0; i < count(result.shape); ++i) {
    int64_t along = i / inner % result.shape[size_t(dim)];
    std::vector<int64_t> shape = result.shape;
    const Values &from = list[size_t(along / size)];
    result.at.push_back(lookUp(from, shape, i, dim, -(along / size) * size));
  }
  return result;
}

Values reduce(const std::vector<Values> &list, Reduction reduction) {
  Values result = list[0];
  for (size_t i = 0; i < result.at.size(); ++i) {
    int64_t value = list[0].at[i];
    for (size_t k = 1; k < list.size(); ++k) {
      int64_t next = list[k].at[i];
      value = reduction == Reduction::Prod  ? value * next
              : reduction == Reduction::Min ? std::min(value, next)
              : reduction == Reduction::Max ? std::max(value, next)
                                            : value + next;
    }
    result.at[i] =
        reduction == Reduction::Mean ? value / int64_t(list.size()) : value;
  }
  return result;
}

Values expected(const CollectiveCall &call, const std::vector<Values> &brought,
                uint32_t self) {
  int64_t members = int64_t(brought.size());
  switch (call.op) {
  case CollectiveOp::AllReduce:
    return reduce(brought, call.reduction);
  case CollectiveOp::AllGather:
    return join(brought, call.dim);
  case CollectiveOp::ReduceScatter:
    return slice(reduce(brought, call.reduction), call.dim, self, members);
  case CollectiveOp::AllToAll: {
    std::vector<Values> received;
    for (const Values &each : brought)
      received.push_back(slice(each, call.splitDim, self, members));
    return join(received, call.concatDim);
  }
  case CollectiveOp::Broadcast:
    return brought[size_t(call.root)];
  case CollectiveOp::Permute:
    for (size_t i = 0; i < call.targets.size(); ++i)
      if (call.targets[i] == int64_t(self))
        return brought[size_t(call.sources[i])];
    return {brought[0].shape, std::vector<int64_t>(brought[0].at.size())};
  case CollectiveOp::AxisIndex:
    break;
  }
  return {};
}

/// Runs one collective of two parts and compares every byte of the results.
/// `nullRun`: the results need only be whole.
std::string tryOne(Communicator &communicator, const Group &group, size_t index,
                   CollectiveCall call, DType dtype,
                   std::vector<std::vector<int64_t>> shapes, bool inPlace,
                   uint64_t command) {
  CollectiveRun run;
  run.call = &call;
  run.group = index;
  run.command = command;
  std::vector<std::vector<char>> inputs, outputs, wanted;
  std::vector<std::vector<Values>> brought(shapes.size());
  for (size_t p = 0; p < shapes.size(); ++p) {
    for (uint32_t rank : group.ranks) {
      brought[p].push_back(bring(rank, p, shapes[p], dtype, call));
      // Means of integers are whole, of floats exact.
      if (call.reduction == Reduction::Mean)
        for (int64_t &value : brought[p].back().at)
          value *= int64_t(group.ranks.size());
    }
    inputs.push_back(encode(dtype, brought[p][group.position]));
    wanted.push_back(encode(dtype, expected(call, brought[p], group.position)));
    outputs.emplace_back(wanted.back().size(), char(0x5a));
  }
  for (size_t p = 0; p < shapes.size(); ++p)
    run.parts.push_back({dtype, shapes[p], inputs[p].data(),
                         inPlace ? inputs[p].data() : outputs[p].data()});
  Status status = communicator.run(run);
  std::string name = std::string(collectiveName(call.op)) + " " +
                     dtypeName(dtype) + " of " +
                     std::to_string(count(shapes[0])) + " on group " +
                     std::to_string(index) + (inPlace ? " in place" : "");
  if (!status.ok())
    return name + ": " + status.message();
  for (size_t p = 0; p < shapes.size(); ++p)
    if ((inPlace ? inputs[p] : outputs[p]) != wanted[p])
      return name + ": part " + std::to_string(p) + " differs";
  return {};
}

/// All collectives on one group with tensors of about `size` elements.
std::string tryAll(Communicator &communicator, const Group &group, size_t index,
                   DType dtype, int64_t size, uint64_t &command) {
  int64_t members = int64_t(group.ranks.size());
  std::vector<std::vector<int64_t>> flat{{size}, {3, size % 5}};
  auto one = [&](CollectiveCall call, std::vector<std::vector<int64_t>> shapes,
                 bool inPlace = false) {
    call.axes = group.axes;
    return tryOne(communicator, group, index, call, dtype, std::move(shapes),
                  inPlace, ++command);
  };
  std::string text;
  auto keep = [&](const std::string &result) {
    if (text.empty())
      text = result;
    return text.empty();
  };
  CollectiveCall call;
  if (dtype != DType::I1)
    for (Reduction reduction : {Reduction::Sum, Reduction::Mean, Reduction::Min,
                                Reduction::Max, Reduction::Prod}) {
      call.op = CollectiveOp::AllReduce;
      call.reduction = reduction;
      if (!keep(one(call, flat)) || !keep(one(call, flat, true)))
        return text;
      call.op = CollectiveOp::ReduceScatter;
      for (call.dim = 0; call.dim < 2; ++call.dim)
        if (!keep(
                one(call, {{2 * members, members * size}, {members, members}})))
          return text;
    }
  call = {};
  call.op = CollectiveOp::AllGather;
  for (call.dim = 0; call.dim < 2; ++call.dim)
    if (!keep(one(call, {{2, size}, {3, 1}})))
      return text;
  call = {};
  call.op = CollectiveOp::AllToAll;
  for (call.splitDim = 0; call.splitDim < 2; ++call.splitDim)
    for (call.concatDim = 0; call.concatDim < 2; ++call.concatDim)
      if (!keep(one(call, {{members, members * size}, {members, members}})))
        return text;
  call = {};
  call.op = CollectiveOp::Broadcast;
  for (int64_t root : {int64_t(0), members - 1}) {
    call.root = root;
    if (!keep(one(call, flat)) || !keep(one(call, flat, true)))
      return text;
  }
  call = {};
  call.op = CollectiveOp::Permute;
  for (int64_t i = 0; i < members; ++i) { // a ring
    call.sources.push_back(i);
    call.targets.push_back((i + 1) % members);
  }
  if (!keep(one(call, flat)) || !keep(one(call, flat, true)))
    return text;
  call.sources = {0}; // others get zeros
  call.targets = {members - 1};
  if (!keep(one(call, flat)) || !keep(one(call, flat, true)))
    return text;
  call.sources.clear();
  call.targets.clear();
  keep(one(call, flat));
  return text;
}

const std::vector<DType> kAllTypes = {DType::F64,  DType::F32, DType::F16,
                                      DType::BF16, DType::I1,  DType::I8,
                                      DType::I32,  DType::I64};
/// Widths of 1, 2 and 4 bytes, where it is the group that matters.
const std::vector<DType> kSomeTypes = {DType::I8, DType::BF16, DType::F32};

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
