//===- ChunkTimes.cpp - Which way rows come, by predicted times -----------===//
//
// See ChunkedGather.h. Each way is simulated as steps of two streams: what is
// sent, and the products that wait for it.
//
//===----------------------------------------------------------------------===//
#include "ChunkedGather.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

/// Bytes at whose multiples a row of chunks must begin to be computed in place.
static constexpr int64_t kRunAlignment = 16;
/// What libraries' kernels compute at once, in rows and columns of the result.
static constexpr int64_t kTileRows = 128, kTileColumns = 256;

TimedStep ChunkedGather::makeProduct(MatmulOp product, int64_t part,
                                     int64_t ranks, int64_t spared) {
  TimedStep step = prices.getStep(product);
  double us = step.us, gap = device.launchGapUs;
  double share =
      static_cast<double>(part * ranks) / static_cast<double>(rows * groupSize);
  if (!device.isGpu) {
    step.us = us * share + gap * static_cast<double>(ranks);
    return step;
  }
  // One call for all of these ranks' rows, whose last round of tiles leaves
  // multiprocessors idle.
  RankedTensorType type = getTensorType(product.getResult());
  int64_t columns = type.getShape().back();
  int64_t inner = type.getNumElements() / columns / type.getDimSize(0);
  int64_t units = std::max<int64_t>(1, device.units - spared);
  auto rounds = [&](int64_t members, int64_t count, int64_t units) {
    int64_t tiles = members * llvm::divideCeil(count * inner, kTileRows) *
                    llvm::divideCeil(columns, kTileColumns);
    return static_cast<double>(llvm::divideCeil(tiles, units));
  };
  share *= static_cast<double>(device.units) / static_cast<double>(units);
  step.us = us * std::max(share, rounds(ranks, part, units) /
                                     rounds(groupSize, rows, device.units)) +
            gap;
  // What it leaves is not taken from it again.
  if (spared > 0)
    step.slowdown = 0;
  return step;
}

TimedStep ChunkedGather::makeMove(CommOp op, double bytes,
                                  Transport transport) {
  CommCost cost =
      prices.getComms().predict(op, bytes, getCommGroup(gather), transport);
  TimedStep step;
  step.name = "move";
  step.isComm = true;
  step.stream = 2;
  step.us = cost.us;
  step.link = cost.link;
  step.slowdownOfKernels = cost.slowdownCompute;
  step.slowdownOfComm = cost.slowdownComm;
  return step;
}

double ChunkedGather::simulateChunks(ArrayRef<int64_t> sizes,
                                     Transport transport) {
  std::vector<TimedStep> steps;
  double bytes = prices.getBytes(gather);
  std::optional<unsigned> before; // the last product
  for (auto [number, size] : llvm::enumerate(sizes)) {
    unsigned move = steps.size();
    bool isLast = number + 1 == sizes.size();
    steps.push_back(
        makeMove(CommOp::AllGather, bytes * size / rows, transport));
    // It would start where the products of the chunk before it do, and those
    // hold all multiprocessors.
    if (before && waitsForProducts(transport))
      steps.back().waits.push_back(*before);
    for (RowProduct &each : products) {
      TimedStep step = sizes.size() == 1
                           ? prices.getStep(each.product)
                           : makeProduct(each.product, size, groupSize,
                                         isLast ? 0 : getSpared(transport));
      step.waits.push_back(move);
      before = steps.size();
      steps.push_back(std::move(step));
    }
  }
  return simulate(steps, prices.getComms()).stepUs;
}

double ChunkedGather::simulateOwnFirst(RowWay way, ArrayRef<int64_t> sizes,
                                       Transport transport) {
  std::vector<TimedStep> steps;
  auto addProducts = [&](int64_t size, int64_t ranks,
                         std::optional<unsigned> move, bool isLast = false) {
    for (RowProduct &each : products) {
      TimedStep step = makeProduct(each.product, size, ranks,
                                   isLast ? 0 : getSpared(transport));
      if (move)
        step.waits.push_back(*move);
      steps.push_back(std::move(step));
    }
  };
  bool isGathered = way == RowWay::OwnGathers;
  CommOp op = isGathered ? CommOp::AllGather : CommOp::Permute;
  double bytes = isGathered ? prices.getBytes(gather)
                            : prices.getByteSize(gather.getInputs().front());
  SmallVector<int64_t> moved(isGathered ? 0 : groupSize - 2, rows);
  llvm::append_range(moved, sizes);
  for (auto [number, size] : llvm::enumerate(moved)) {
    TimedStep move = makeMove(op, bytes * size / rows, transport);
    if (number > 0 && waitsForProducts(transport))
      move.waits.push_back(steps.size() - 1);
    unsigned index = steps.size();
    steps.push_back(std::move(move));
    if (number == 0)
      addProducts(rows, 1, std::nullopt);
    addProducts(size, isGathered ? groupSize - 1 : 1, index,
                number + 1 == moved.size());
  }
  double us = simulate(steps, prices.getComms()).stepUs;
  // Results of products are known to have pieces once these are rewritten.
  for (RowProduct &each : products)
    joins.insert(each.getResult());
  // What can't go along reads and writes the whole result once more.
  for (RowProduct &each : products) {
    double left = 0;
    for (Operation *op :
         ArrayRef(each.epilogue).drop_front(getOwnEpilogue(each).size()))
      left = std::max(left, prices.getStep(op).us);
    us += left;
  }
  joins.clear();
  return us;
}

/// The sizes of `shares` of kParts, if each part of each result begins where a
/// kernel may write it.
bool ChunkedGather::fits(ArrayRef<int64_t> shares,
                         SmallVectorImpl<int64_t> &sizes) {
  for (int64_t share : shares) {
    int64_t size = rows * share / kParts;
    if (rows * share % kParts != 0 || size == 0)
      return false;
    sizes.push_back(size);
    for (RowProduct &each : products) {
      int64_t rowBytes = prices.getByteSize(each.getResult()) /
                         getTensorType(each.getResult()).getDimSize(0);
      if (size * rowBytes % kRunAlignment != 0)
        return false;
    }
  }
  return true;
}

bool ChunkedGather::fitsGathers(ArrayRef<int64_t> sizes) {
  int64_t rowBytes = prices.getByteSize(gather.getInputs().front()) / rows;
  return llvm::all_of(sizes, [&](int64_t size) {
    return size * rowBytes % RankSliceOp::kAlignment == 0;
  });
}

void ChunkedGather::offer(RowPlan &plan, RowWay way, ArrayRef<int64_t> sizes) {
  for (Transport transport : transports) {
    double us = way == RowWay::Chunks ? simulateChunks(sizes, transport)
                                      : simulateOwnFirst(way, sizes, transport);
    if (us < plan.us)
      plan = {way, SmallVector<int64_t>(sizes), us};
  }
}

void ChunkedGather::choose() {
  wholeUs = gatherUs = INFINITY;
  for (Transport transport : transports) {
    wholeUs = std::min(wholeUs, simulateChunks({rows}, transport));
    gatherUs = std::min(
        gatherUs,
        makeMove(CommOp::AllGather, prices.getBytes(gather), transport).us);
  }
  best.us = wholeUs;
  static constexpr std::initializer_list<int64_t> kShares[] = {
      {4, 4},    {2, 6},    {1, 7},       {2, 2, 4},
      {1, 3, 4}, {1, 2, 5}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (ArrayRef<int64_t> shares : kShares)
    if (SmallVector<int64_t> sizes; fits(shares, sizes))
      offer(best, RowWay::Chunks, sizes);
  // The last chunk is what nothing is sent beside.
  static constexpr std::initializer_list<int64_t> kOwnShares[] = {
      {8},       {4, 4},    {6, 2},    {7, 1},      {2, 6},
      {4, 2, 2}, {4, 3, 1}, {5, 2, 1}, {2, 2, 2, 2}};
  if (hasDonatedResult())
    return;
  RowPlan moves, gathers;
  moves.us = gathers.us = INFINITY;
  for (ArrayRef<int64_t> shares : kOwnShares)
    if (SmallVector<int64_t> sizes; fits(shares, sizes)) {
      offer(moves, RowWay::OwnMoves, sizes);
      if (fitsGathers(sizes))
        offer(gathers, RowWay::OwnGathers, sizes);
    }
  // Gathers take memory for own rows once more.
  RowPlan &own = gathers.us < moves.us * (1 - kLeastGain) ? gathers : moves;
  if (own.us < best.us)
    best = own;
}
