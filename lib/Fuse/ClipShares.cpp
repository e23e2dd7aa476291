//===- ClipShares.cpp - Squares that ranks share --------------------------===//
//
// A gradient that was summed over ranks is the same on all of them, and each
// could take the squares of its own part; what is lost is the time of one
// number's sum over the ranks, as far as nothing is left to compute beside it.
// So the gradients that come first are shared, up to the one for which the
// prediction is best, and the squares of the others hide the sum.
//
//===----------------------------------------------------------------------===//
#include "ClipShares.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/IR/TensorData.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;

/// A part that is smaller takes no time that a launch of others does not.
static constexpr int64_t kLeastBytes = 64 << 10;

/// Ops that are looked at to see whether a value is the same on all ranks.
static constexpr size_t kMostOps = 64;

/// Elements that a rank's part is a multiple of: of any type it begins at a
/// whole vector.
static constexpr int64_t kLeastMultiple = 64;

/// A part of a size that has no such divisor leaves at most 1 / 32 of a tensor
/// to all ranks, for rows that a kernel reads well.
static constexpr int64_t kMostMultiple = 1 << 14, kRestShare = 32;

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t fusion::countBytes(ValueRange values) {
  int64_t bytes = 0;
  for (Value value : values)
    if (getType(value).hasStaticShape())
      bytes += getType(value).getNumElements() *
               getElementBytes(getType(value).getElementType());
  return bytes;
}

Operation *fusion::findCollective(const SquaredPart &part) {
  Operation *op = part.value.getDefiningOp();
  if (auto narrowed = dyn_cast_or_null<CastOp>(op))
    if (auto scatter = narrowed.getInput().getDefiningOp<ScatterOp>())
      op = scatter;
  if (auto scatter = dyn_cast_or_null<ScatterOp>(op)) {
    op = scatter.getUpdates().getDefiningOp();
    while (isa_and_present<CastOp, ReshapeOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_present<AllGatherOp>(op) ? op : nullptr;
  }
  return isa_and_present<AllReduceOp, ReduceScatterOp>(op) ? op : nullptr;
}

/// Whether `value` is computed from constants and from what collectives give to
/// all ranks along the axes of `collective`.
static bool isSameOnRanks(Value value, CommunicationOpInterface collective) {
  llvm::SmallDenseSet<Value> seen;
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || seen.size() > kMostOps)
      return false;
    if (isa<AllReduceOp, AllGatherOp>(op)) {
      auto other = cast<CommunicationOpInterface>(op);
      if (other.getCommunicationMesh() != collective.getCommunicationMesh() ||
          other.getCommunicationAxes() != collective.getCommunicationAxes())
        return false;
      continue;
    }
    if (isa<CommunicationOpInterface, AxisIndexOp, RankConcatOp, RankSliceOp>(
            op) ||
        !isMemoryEffectFree(op) || op->getNumRegions() > 0)
      return false;
    llvm::append_range(worklist, op->getOperands());
  }
  return true;
}

/// The collective along whose axes all ranks have `part`, or null.
static Operation *findSharers(const SquaredPart &part) {
  // Of a term that is summed over ranks they have parts.
  if (part.term->overRanks || !getType(part.value).hasStaticShape() ||
      !(part.term->wide.isF32() || part.term->wide.isF64()))
    return nullptr;
  Operation *collective = findCollective(part);
  if (!isa_and_present<AllReduceOp, AllGatherOp>(collective) ||
      !isSameOnRanks(part.value, cast<CommunicationOpInterface>(collective)))
    return nullptr;
  return collective;
}

/// Elements of each rank's part of `count`: all of them, if they can be dealt
/// evenly.
static int64_t getShare(int64_t count, int64_t ranks) {
  int64_t share = count / ranks;
  int64_t multiple =
      std::clamp<int64_t>(llvm::bit_floor<uint64_t>(share / kRestShare),
                          kLeastMultiple, kMostMultiple);
  if (count % ranks == 0 && share % std::min<int64_t>(multiple, 1024) == 0)
    return share;
  return share / multiple * multiple;
}

/// What `op` takes at least; what is fused with others counts nothing.
static double getUs(Operation &op, const FusionLegality &legality,
                    const CostModel &model) {
  switch (getOpFamily(&op)) {
  case OpFamily::Contraction:
  case OpFamily::Reduction:
  case OpFamily::Window:
  case OpFamily::Scatter:
    return model.getMicroseconds(computeKernelWork(
        {&op}, [](Operation *) { return true; }, legality, model.getDevice()));
  default:
    return 0;
  }
}

namespace {

/// A part in the order in which squares are summed.
struct Place {
  SquaredPart *part;
  unsigned number = 0;  ///< of the op that its sum stands behind
  bool isMoved = false; ///< there, from behind its own producer: comes first
  int64_t bytes = 0;    ///< that are read
  int64_t share = 0;    ///< elements that a rank would take, or 0
};

} // namespace

/// Whose parts could be shared, by the group of ranks that have them; that with
/// the most bytes. Sets `share` of its parts.
static CommunicationOpInterface findGroup(MutableArrayRef<Place> places) {
  using Key = std::pair<Attribute, Attribute>;
  struct Sharers {
    CommunicationOpInterface collective;
    SmallVector<std::pair<Place *, int64_t>> shares;
    int64_t bytes = 0;
  };
  llvm::MapVector<Key, Sharers> groups;
  for (Place &place : places) {
    auto collective =
        dyn_cast_or_null<CommunicationOpInterface>(findSharers(*place.part));
    int64_t ranks = collective ? getCommGroup(collective).size : 1;
    if (ranks < 2 || place.bytes < kLeastBytes)
      continue;
    int64_t share =
        getShare(getType(place.part->value).getNumElements(), ranks);
    if (share == 0)
      continue;
    Sharers &sharers = groups[{collective.getCommunicationMesh(),
                               collective.getCommunicationAxes()}];
    sharers.collective = collective;
    sharers.shares.push_back({&place, share});
    sharers.bytes += place.bytes;
  }
  Sharers *most = nullptr;
  for (auto &[key, sharers] : groups)
    if (!most || sharers.bytes > most->bytes)
      most = &sharers;
  if (!most)
    return {};
  for (auto [place, share] : most->shares)
    place->share = share;
  return most->collective;
}

/// Microseconds of kernels in front of `root` from each op on, by its number,
/// but for the sums that are taken anew.
static SmallVector<double>
sumKernels(const llvm::DenseMap<Operation *, unsigned> &numbers,
           ArrayRef<Place> places, Operation *root,
           const FusionLegality &legality, const CostModel &model) {
  llvm::SmallPtrSet<Operation *, 32> replaced;
  for (const Place &place : places)
    replaced.insert(place.part->term->value.getDefiningOp());
  SmallVector<double> us(numbers.lookup(root) + 1);
  for (Operation *op = root->getPrevNode(); op; op = op->getPrevNode()) {
    unsigned number = numbers.lookup(op);
    us[number] = us[number + 1];
    if (!replaced.contains(op))
      us[number] += getUs(*op, legality, model);
  }
  return us;
}

std::optional<ClipShares>
fusion::shareSquares(MutableArrayRef<SquaredPart> parts, Operation *root,
                     const FusionLegality &legality, const CostModel &model) {
  const DeviceModel &device = model.getDevice();
  llvm::DenseMap<Operation *, unsigned> numbers;
  for (Operation &op : *root->getBlock())
    numbers.try_emplace(&op, numbers.size() + 1);
  auto getReadUs = [&](int64_t bytes) {
    return 1e6 * static_cast<double>(bytes) / device.memoryBandwidth;
  };
  SmallVector<Place> places;
  ClipShares shares;
  double laterUs = 0;
  for (SquaredPart &part : parts) {
    places.push_back({&part, numbers.lookup(part.anchor),
                      part.anchor != part.value.getDefiningOp(),
                      countBytes(part.value), 0});
    laterUs += getReadUs(places.back().bytes);
    if (Operation *op = findCollective(part);
        op && (!shares.behind || shares.behind->isBeforeInBlock(op)))
      shares.behind = op;
  }
  CommunicationOpInterface collective = findGroup(places);
  if (!collective)
    return std::nullopt;
  llvm::stable_sort(places, [](const Place &a, const Place &b) {
    return std::pair(a.number, !a.isMoved) < std::pair(b.number, !b.isMoved);
  });
  SmallVector<double> kernelsUs =
      sumKernels(numbers, places, root, legality, model);
  CommGroup group = getCommGroup(collective);
  shares.mesh = collective.getCommunicationMesh();
  shares.axes = collective.getCommunicationAxes();
  shares.ranks = group.size;
  double bytes = getElementBytes(parts.front().term->wide);
  shares.joinUs = CommModel(device).predict(CommOp::AllReduce, bytes, group).us;
  double launchUs =
      device.launchGapUs + device.getKernel(KernelClass::RowReduce).fixedUs;

  size_t best = 0;
  double savedUs = 0;
  for (auto [i, place] : llvm::enumerate(places)) {
    laterUs -= getReadUs(place.bytes);
    if (place.share == 0)
      continue;
    // What the others square.
    savedUs +=
        getReadUs(place.share * (shares.ranks - 1) *
                  getElementBytes(getType(place.part->value).getElementType()));
    unsigned last = std::max(place.number, numbers.lookup(shares.behind));
    double costUs =
        launchUs + std::max(0.0, shares.joinUs - laterUs - kernelsUs[last + 1]);
    if (best > 0 && savedUs - costUs <= shares.savedUs - shares.costUs)
      continue;
    best = i + 1;
    shares.savedUs = savedUs;
    shares.costUs = costUs;
  }
  for (const Place &place : ArrayRef(places).take_front(best)) {
    if (place.share == 0)
      continue;
    ++shares.parts;
    shares.bytes += place.bytes;
    if (shares.isProfitable())
      place.part->share = place.share;
  }
  return shares;
}
