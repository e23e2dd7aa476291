//===- PeerPlan.cpp - Which bytes of a collective go where ----------------===//
#include "PeerPlan.h"
#include "Checked.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::peer;

bool peer::isMove(CollectiveOp op) {
  return op == CollectiveOp::AllGather || op == CollectiveOp::AllToAll ||
         op == CollectiveOp::Broadcast || op == CollectiveOp::Permute;
}

/// The product of dimensions [begin, end).
static uint64_t product(const std::vector<int64_t> &shape, int64_t begin,
                        int64_t end) {
  uint64_t result = 1;
  for (int64_t i = begin; i < end; ++i)
    result *= uint64_t(shape[size_t(i)]);
  return result;
}

static Box whole(const PartBuffer &part) {
  Box box;
  box.width = product(part.shape, 0, int64_t(part.shape.size())) *
              elementSize(part.dtype);
  return box;
}

static Box gathered(const CollectiveCall &call, const PartBuffer &part,
                    uint32_t from, uint32_t members) {
  Box box;
  box.width = product(part.shape, call.dim, int64_t(part.shape.size())) *
              elementSize(part.dtype);
  box.height = product(part.shape, 0, call.dim);
  box.sourcePitch = box.width;
  box.targetPitch = box.width * members;
  box.target = box.width * from;
  return box;
}

/// The piece of the split dimension that is `to`'s, put at the place of the
/// concatenated one that is `from`'s.
static Box exchanged(const CollectiveCall &call, const PartBuffer &part,
                     uint32_t from, uint32_t to, uint32_t members) {
  const std::vector<int64_t> &shape = part.shape;
  int64_t split = call.splitDim, concat = call.concatDim;
  int64_t first = std::min(split, concat), last = std::max(split, concat);
  uint64_t inner =
      product(shape, last + 1, int64_t(shape.size())) * elementSize(part.dtype);
  uint64_t piece = uint64_t(shape[size_t(split)]) / members;
  uint64_t other = uint64_t(shape[size_t(concat)]);
  Box box;
  box.depth = product(shape, 0, first);
  if (split == concat) {
    box.width = piece * inner;
    box.height = box.depth;
    box.depth = 1;
    box.source = to * box.width;
    box.target = from * box.width;
    box.sourcePitch = box.targetPitch = members * box.width;
    return box;
  }
  uint64_t between = product(shape, first + 1, last);
  if (split < concat) {
    box.width = other * inner;
    box.height = piece * between;
    box.sourcePitch = box.width;
    box.sourceSlice = members * box.height * box.width;
    box.source = to * box.height * box.width;
    box.targetPitch = members * box.width;
    box.targetSlice = box.height * box.targetPitch;
    box.target = from * box.width;
    return box;
  }
  box.width = piece * inner;
  box.height = other * between;
  box.sourcePitch = members * box.width;
  box.sourceSlice = box.height * box.sourcePitch;
  box.source = to * box.width;
  box.targetPitch = box.width;
  box.targetSlice = members * box.height * box.width;
  box.target = from * box.height * box.width;
  return box;
}

/// The same bytes with as few rows and slices as can be.
static Box folded(Box box) {
  if (box.bytes() == 0)
    return Box();
  if (box.height == 1) { // slices are the rows
    box.height = box.depth;
    box.sourcePitch = box.sourceSlice;
    box.targetPitch = box.targetSlice;
    box.depth = 1;
  } else if (box.depth > 1 && box.sourceSlice == box.height * box.sourcePitch &&
             box.targetSlice == box.height * box.targetPitch) {
    box.height *= box.depth;
    box.depth = 1;
  }
  if (box.height > 1 && box.sourcePitch == box.width &&
      box.targetPitch == box.width) {
    box.width *= box.height;
    box.height = box.depth;
    box.sourcePitch = box.sourceSlice;
    box.targetPitch = box.targetSlice;
    box.depth = 1;
  }
  return box;
}

Box peer::boxOf(const CollectiveCall &call, const PartBuffer &part,
                uint32_t from, uint32_t to, uint32_t members) {
  switch (call.op) {
  case CollectiveOp::AllGather:
    return folded(gathered(call, part, from, members));
  case CollectiveOp::AllToAll:
    return folded(exchanged(call, part, from, to, members));
  case CollectiveOp::Broadcast:
    return from == call.root ? whole(part) : Box();
  case CollectiveOp::Permute:
    for (size_t i = 0; i < call.sources.size(); ++i)
      if (call.sources[i] == from && call.targets[i] == to)
        return whole(part);
    return Box();
  default:
    return Box();
  }
}

uint64_t peer::outputBytes(const CollectiveCall &call, const PartBuffer &part,
                           uint32_t members) {
  return whole(part).width * (call.op == CollectiveOp::AllGather ? members : 1);
}

bool peer::getsZeros(const CollectiveCall &call, uint32_t to) {
  return call.op == CollectiveOp::Permute &&
         !std::count(call.targets.begin(), call.targets.end(), int64_t(to));
}
