//===- PeerPlan.cpp - Which bytes of a collective go where ----------------===//
#include "PeerPlan.h"
#include "Checked.h"

#include <algorithm>
#include <map>

using namespace fusion::rt;
using namespace fusion::rt::peer;

/// Rows up to so many bytes are joined: longer ones take longer than their
/// start.
static constexpr uint64_t kLongestJoinedRow = 64 << 10;

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

namespace {

/// Copies of one form at one distance.
struct Series {
  Copy first;
  uint64_t count = 1, sourceStep = 0, targetStep = 0;

  bool take(const Copy &copy);
  Copy joined() const;
};

} // namespace

bool Series::take(const Copy &copy) {
  const Box &box = first.box;
  if (copy.box.width != box.width || copy.box.height != box.height ||
      copy.box.sourcePitch != box.sourcePitch ||
      copy.box.targetPitch != box.targetPitch)
    return false;
  if (copy.source <= first.source || copy.target <= first.target)
    return false;
  auto sourceAt = uint64_t(copy.source - first.source);
  auto targetAt = uint64_t(copy.target - first.target);
  if (count > 1) {
    if (sourceAt != count * sourceStep || targetAt != count * targetStep)
      return false;
    ++count;
    return true;
  }
  // Rows follow rows; slices are whole numbers of rows.
  bool isRow = box.height == 1;
  if (isRow ? sourceAt < box.width || targetAt < box.width
            : sourceAt < box.height * box.sourcePitch ||
                  targetAt < box.height * box.targetPitch ||
                  sourceAt % box.sourcePitch != 0 ||
                  targetAt % box.targetPitch != 0)
    return false;
  sourceStep = sourceAt;
  targetStep = targetAt;
  ++count;
  return true;
}

Copy Series::joined() const {
  Copy copy = first;
  if (count == 1)
    return copy;
  if (copy.box.height == 1) {
    copy.box.height = count;
    copy.box.sourcePitch = sourceStep;
    copy.box.targetPitch = targetStep;
    return copy;
  }
  copy.box.depth = count;
  copy.box.sourceSlice = sourceStep;
  copy.box.targetSlice = targetStep;
  return copy;
}

/// One more dimension for what is a series.
static std::vector<Copy> joinSeries(const std::vector<Copy> &copies) {
  std::vector<Series> series;
  std::map<std::pair<uint64_t, uint64_t>, size_t> open; // width, height
  for (const Copy &copy : copies) {
    if (copy.box.depth == 1 && copy.box.width <= kLongestJoinedRow) {
      std::pair<uint64_t, uint64_t> form{copy.box.width, copy.box.height};
      auto known = open.find(form);
      if (known != open.end() && series[known->second].take(copy))
        continue;
      open[form] = series.size();
    }
    series.push_back({copy});
  }
  std::vector<Copy> joined;
  joined.reserve(series.size());
  for (const Series &each : series)
    joined.push_back(each.joined());
  return joined;
}

std::vector<Copy> peer::joinCopies(const std::vector<Copy> &copies) {
  return joinSeries(joinSeries(copies));
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
