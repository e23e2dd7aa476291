//===- CollectiveSuite.cpp - What collectives must give -------------------===//
//
// Every collective, element type and size, against a formula of what all
// members brought: written for reading, without a line of what it tests.
// Floats are small integers, so results are exact.
//
//===----------------------------------------------------------------------===//
#include "CollectiveSuite.h"
#include "Checked.h"

#include <algorithm>
#include <cstring>

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
  case CollectiveOp::Release:
    break;
  }
  return {};
}

} // namespace

std::string test::tryOne(Communicator &communicator, const Group &group,
                         size_t index, CollectiveCall call, DType dtype,
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

std::string test::tryAll(Communicator &communicator, const Group &group,
                         size_t index, DType dtype, int64_t size,
                         uint64_t &command, bool reduces) {
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
  if (reduces && dtype != DType::I1)
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
  // Of four dimensions: what is cut and what is joined may lie anywhere.
  if (size > 1)
    for (call.splitDim = 0; call.splitDim < 4; ++call.splitDim)
      for (call.concatDim = 0; call.concatDim < 4; ++call.concatDim)
        if (!keep(one(call, {{members, 2 * members, members, 3 * members},
                             {2 * members, members, 2 * members, members}})))
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
