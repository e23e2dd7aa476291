//===- HostMoves.cpp - Collectives that combine nothing -------------------===//
//
// What lies in rows of a larger tensor is packed before it is sent, or received
// beside its place and put there; what is contiguous goes straight.
//
//===----------------------------------------------------------------------===//
#include "HostCollective.h"

#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::host;

void host::copyRows(char *target, uint64_t targetStride, const char *source,
                    uint64_t sourceStride, uint64_t size, uint64_t rows) {
  if (size == 0 || rows == 0)
    return;
  if (targetStride == size && sourceStride == size) {
    std::memcpy(target, source, size * rows);
    return;
  }
  for (uint64_t i = 0; i < rows; ++i)
    std::memcpy(target + i * targetStride, source + i * sourceStride, size);
}

Status HostCollective::gather() {
  struct Late {
    const PartBuffer *part;
    uint32_t peer;
    char *data;
  };
  std::vector<Late> late; // received beside its place
  for (const PartBuffer &part : run.parts) {
    Rows rows(part.shape, call.dim, part.dtype);
    uint64_t row = rows.size * rows.inner;
    copyRows(part.output + self * row, row * count, part.input, row, row,
             rows.outer);
    for (uint32_t peer = 0; peer < count; ++peer) {
      if (peer == self)
        continue;
      send(peer, part.input, rows.bytes());
      char *target = part.output + peer * row;
      if (rows.outer > 1) {
        target = member.staging.take(rows.bytes());
        late.push_back({&part, peer, target});
      }
      receive(peer, target, rows.bytes());
    }
  }
  FUSION_RT_TRY(flush());
  for (const Late &each : late) {
    Rows rows(each.part->shape, call.dim, each.part->dtype);
    uint64_t row = rows.size * rows.inner;
    copyRows(each.part->output + each.peer * row, row * count, each.data, row,
             row, rows.outer);
  }
  return {};
}

/// AllToAll: what goes to a member is packed, what comes is put in its place.
Status HostCollective::exchangeParts() {
  std::vector<std::vector<char *>> received(run.parts.size());
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    Rows rows(part.shape, call.splitDim, part.dtype);
    uint64_t row = rows.size / count * rows.inner, size = row * rows.outer;
    for (uint32_t peer = 0; peer < count; ++peer) {
      char *copy = member.staging.take(size);
      copyRows(copy, row, part.input + peer * row, rows.size * rows.inner, row,
               rows.outer);
      received[i].push_back(peer == self ? copy : member.staging.take(size));
      if (peer == self)
        continue;
      send(peer, copy, size);
      receive(peer, received[i][peer], size);
    }
  }
  FUSION_RT_TRY(flush());
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    std::vector<int64_t> shape = part.shape;
    shape[size_t(call.splitDim)] /= count;
    Rows rows(shape, call.concatDim, part.dtype);
    uint64_t row = rows.size * rows.inner;
    for (uint32_t peer = 0; peer < count; ++peer)
      copyRows(part.output + peer * row, row * count, received[i][peer], row,
               row, rows.outer);
  }
  return {};
}

Status HostCollective::broadcast() {
  for (const PartBuffer &part : run.parts) {
    uint64_t size = partElements(part) * elementSize(part.dtype);
    if (self == uint64_t(call.root)) {
      for (uint32_t peer = 0; peer < count; ++peer)
        if (peer != self)
          send(peer, part.input, size);
      if (part.output != part.input && size != 0)
        std::memcpy(part.output, part.input, size);
    } else {
      receive(uint32_t(call.root), part.output, size);
    }
  }
  return flush();
}

Status HostCollective::permute() {
  int64_t source = -1, target = -1;
  for (size_t i = 0; i < call.sources.size(); ++i) {
    if (call.targets[i] == int64_t(self))
      source = call.sources[i];
    if (call.sources[i] == int64_t(self))
      target = call.targets[i];
  }
  std::vector<std::pair<const PartBuffer *, char *>> late; // in place
  for (const PartBuffer &part : run.parts) {
    uint64_t size = partElements(part) * elementSize(part.dtype);
    if (size == 0)
      continue;
    if (target == int64_t(self)) {
      if (part.output != part.input)
        std::memcpy(part.output, part.input, size);
      continue;
    }
    if (target >= 0)
      send(uint32_t(target), part.input, size);
    char *place = part.output;
    if (part.output == part.input && target >= 0) {
      place = member.staging.take(size);
      late.emplace_back(&part, place);
    }
    if (source >= 0)
      receive(uint32_t(source), place, size);
    else
      std::memset(place, 0, size);
  }
  FUSION_RT_TRY(flush());
  for (auto [part, place] : late)
    std::memcpy(part->output, place,
                partElements(*part) * elementSize(part->dtype));
  return {};
}

Status HostCollective::execute() {
  member.staging.clear();
  ++member.sequence;
  makeHeader();
  member.sentHeader = !member.transport;
  switch (call.op) {
  case CollectiveOp::AllReduce:
    return reduceAll();
  case CollectiveOp::AllGather:
    return gather();
  case CollectiveOp::ReduceScatter:
    return reduceScatter();
  case CollectiveOp::AllToAll:
    return exchangeParts();
  case CollectiveOp::Broadcast:
    return broadcast();
  case CollectiveOp::Permute:
    return permute();
  case CollectiveOp::AxisIndex:
  case CollectiveOp::Release:
    break;
  }
  return Status(Code::Internal, std::string(collectiveName(call.op)) +
                                    " needs no communicator");
}
