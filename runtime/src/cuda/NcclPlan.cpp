//===- NcclPlan.cpp - A collective as calls of NCCL -----------------------===//
//
// See NcclPlan.h.
//
//===----------------------------------------------------------------------===//
#include "NcclPlan.h"

#include "HostCollective.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using host::Rows;

namespace {

class Planner {
public:
  Planner(const CollectiveRun &run, const Group &group, char *staging)
      : call(*run.call), run(run), staging(staging), count(group.ranks.size()),
        self(group.position) {}

  NcclPlan make();

private:
  void reduce(const PartBuffer &part);
  void gather(const PartBuffer &part);
  void reduceScatter(const PartBuffer &part);
  void exchange(const PartBuffer &part);
  void broadcast(const PartBuffer &part);
  void permute(const PartBuffer &part);

  static uint64_t bytesOf(const PartBuffer &part) {
    return host::partElements(part) * elementSize(part.dtype);
  }
  char *take(uint64_t size) {
    char *place = staging + plan.stagingBytes;
    plan.stagingBytes += (size + 255) & ~uint64_t(255);
    return place;
  }
  void copy(std::vector<RowCopy> &list, char *target, uint64_t targetStride,
            const char *source, uint64_t sourceStride, uint64_t width,
            uint64_t rows) {
    if (width == 0 || rows == 0 || target == source)
      return;
    // Contiguous on both sides: one row.
    if (rows == 1 || (targetStride == width && sourceStride == width))
      list.push_back(
          {target, width * rows, source, width * rows, width * rows, 1});
    else
      list.push_back({target, targetStride, source, sourceStride, width, rows});
  }
  void copyAll(std::vector<RowCopy> &list, char *target, const char *source,
               uint64_t size) {
    copy(list, target, size, source, size, size, 1);
  }

  const CollectiveCall &call;
  const CollectiveRun &run;
  char *staging;
  uint64_t count, self;
  NcclPlan plan;
};

} // namespace

void Planner::reduce(const PartBuffer &part) {
  uint64_t elements = host::partElements(part);
  if (count == 1) {
    copyAll(plan.before, part.output, part.input, bytesOf(part));
    return;
  }
  plan.sentBytes += 2 * (count - 1) * bytesOf(part) / count;
  // Tensors of a bucket that follow each other are one.
  if (!plan.calls.empty()) {
    NcclCall &last = plan.calls.back();
    uint64_t size = last.count * elementSize(last.dtype);
    if (last.dtype == part.dtype && last.input + size == part.input &&
        last.output + size == part.output) {
      last.count += elements;
      return;
    }
  }
  plan.calls.push_back(
      {NcclCall::AllReduce, part.input, part.output, elements, part.dtype});
}

void Planner::gather(const PartBuffer &part) {
  Rows rows(part.shape, call.dim, part.dtype);
  uint64_t row = rows.size * rows.inner;
  if (count == 1) {
    copyAll(plan.before, part.output, part.input, rows.bytes());
    return;
  }
  plan.sentBytes += (count - 1) * rows.bytes();
  char *place = rows.outer == 1 ? part.output : take(count * rows.bytes());
  plan.calls.push_back({NcclCall::AllGather, part.input, place, rows.bytes()});
  for (uint64_t peer = 0; rows.outer > 1 && peer < count; ++peer)
    copy(plan.after, part.output + peer * row, row * count,
         place + peer * rows.bytes(), row, row, rows.outer);
}

void Planner::reduceScatter(const PartBuffer &part) {
  Rows rows(part.shape, call.dim, part.dtype);
  uint64_t row = rows.size / count * rows.inner, size = row * rows.outer;
  if (count == 1) {
    copyAll(plan.before, part.output, part.input, size);
    return;
  }
  plan.sentBytes += (count - 1) * size;
  const char *place = part.input;
  if (rows.outer > 1) {
    char *packed = take(count * size);
    for (uint64_t peer = 0; peer < count; ++peer)
      copy(plan.before, packed + peer * size, row, part.input + peer * row,
           row * count, row, rows.outer);
    place = packed;
  }
  plan.calls.push_back({NcclCall::ReduceScatter, place, part.output,
                        size / elementSize(part.dtype), part.dtype});
}

/// AllToAll: what goes to a member is packed, what comes is put in its place;
/// the rank's own part needs no NCCL.
void Planner::exchange(const PartBuffer &part) {
  Rows from(part.shape, call.splitDim, part.dtype);
  uint64_t row = from.size / count * from.inner, size = row * from.outer;
  std::vector<int64_t> shape = part.shape;
  shape[size_t(call.splitDim)] /= int64_t(count);
  Rows to(shape, call.concatDim, part.dtype);
  uint64_t place = to.size * to.inner;
  for (uint64_t peer = 0; peer < count; ++peer) {
    const char *sent = part.input + peer * row;
    if (from.outer > 1) {
      char *packed = take(size);
      copy(plan.before, packed, row, sent, row * count, row, from.outer);
      sent = packed;
    }
    char *target = part.output + peer * place;
    if (peer == self) {
      copy(plan.after, target, place * count, sent, place, place, to.outer);
      continue;
    }
    char *received = target;
    if (to.outer > 1) {
      received = take(size);
      copy(plan.after, target, place * count, received, place, place, to.outer);
    }
    plan.sentBytes += size;
    plan.calls.push_back(
        {NcclCall::Send, sent, nullptr, size, DType::I8, int(peer)});
    plan.calls.push_back(
        {NcclCall::Receive, nullptr, received, size, DType::I8, int(peer)});
  }
}

void Planner::broadcast(const PartBuffer &part) {
  uint64_t size = bytesOf(part);
  if (count == 1) {
    copyAll(plan.before, part.output, part.input, size);
    return;
  }
  plan.sentBytes += self == uint64_t(call.root) ? size : 0;
  plan.calls.push_back({NcclCall::Broadcast, part.input, part.output, size,
                        DType::I8, int(call.root)});
}

void Planner::permute(const PartBuffer &part) {
  int64_t source = -1, target = -1;
  for (size_t i = 0; i < call.sources.size(); ++i) {
    if (call.targets[i] == int64_t(self))
      source = call.sources[i];
    if (call.sources[i] == int64_t(self))
      target = call.targets[i];
  }
  uint64_t size = bytesOf(part);
  if (target == int64_t(self)) {
    copyAll(plan.before, part.output, part.input, size);
    return;
  }
  if (target >= 0) {
    const char *sent = part.input;
    // What arrives must not be what leaves.
    if (part.output == part.input && source >= 0) {
      char *kept = take(size);
      copyAll(plan.before, kept, part.input, size);
      sent = kept;
    }
    plan.sentBytes += size;
    plan.calls.push_back(
        {NcclCall::Send, sent, nullptr, size, DType::I8, int(target)});
  }
  if (source >= 0)
    plan.calls.push_back({NcclCall::Receive, nullptr, part.output, size,
                          DType::I8, int(source)});
  else
    copyAll(plan.after, part.output, nullptr, size);
}

NcclPlan Planner::make() {
  for (const PartBuffer &part : run.parts) {
    if (host::partElements(part) == 0)
      continue;
    switch (call.op) {
    case CollectiveOp::AllReduce:
      reduce(part);
      break;
    case CollectiveOp::AllGather:
      gather(part);
      break;
    case CollectiveOp::ReduceScatter:
      reduceScatter(part);
      break;
    case CollectiveOp::AllToAll:
      exchange(part);
      break;
    case CollectiveOp::Broadcast:
      broadcast(part);
      break;
    case CollectiveOp::Permute:
      permute(part);
      break;
    case CollectiveOp::AxisIndex:
    case CollectiveOp::Release:
      break;
    }
  }
  return std::move(plan);
}

NcclPlan fusion::rt::cuda::planNccl(const CollectiveRun &run,
                                    const Group &group, char *staging) {
  return Planner(run, group, staging).make();
}
