//===- PeakMemory.cpp - Bytes that are live along the program -------------===//
//
// A segment tree with additions to ranges and the maximum of a range, both
// logarithmic and without pushing sums down.
//
//===----------------------------------------------------------------------===//
#include "PeakMemory.h"

using namespace mlir;
using namespace fusion;

PeakMemory::PeakMemory(const FuseGraph &graph, const FusionLegality &legality,
                       int64_t limit)
    : graph(graph), limit(limit) {
  if (limit == 0)
    return;
  // Sizes can't overflow the sum: they stop at a share of all there is.
  int64_t most = std::numeric_limits<int64_t>::max() /
                 (2 * static_cast<int64_t>(graph.size()) + 2);
  int64_t total = 0;
  for (const FuseNode &node : graph.getNodes()) {
    int64_t size = 0;
    // What is returned has memory of its own; a repeated op has its reader's.
    if (!node.isClone && !node.escapes && node.family != OpFamily::Outside)
      for (Value result : node.op->getResults())
        size =
            std::min(most, size + std::min(most, legality.getByteSize(result)));
    bytes.push_back(size);
    total += size;
  }
  tight = total > limit;
  if (!tight)
    return;
  while (leaves < graph.size())
    leaves *= 2;
  added.assign(2 * leaves, 0);
  peak.assign(2 * leaves, 0);
  lives.resize(graph.size());
  live.assign(graph.size(), true);
  runsAt.resize(graph.size());
  for (unsigned node = graph.size(); node-- > 0;) {
    runsAt[node] = node;
    lives[node] = {node, node};
    for (unsigned consumer : graph[node].consumers)
      lives[node].end =
          std::max(lives[node].end,
                   graph[consumer].isClone ? lives[consumer].end : consumer);
    add(lives[node], bytes[node]);
  }
}

void PeakMemory::add(Interval interval, int64_t amount) {
  size_t first = interval.begin + leaves, last = interval.end + leaves;
  auto apply = [&](size_t at) {
    added[at] += amount;
    peak[at] += amount;
  };
  auto update = [&](size_t at) {
    while (at /= 2)
      peak[at] = added[at] + std::max(peak[2 * at], peak[2 * at + 1]);
  };
  size_t low = first, high = last;
  for (; low <= high; low /= 2, high /= 2) {
    if (low % 2 == 1)
      apply(low++);
    if (high % 2 == 0)
      apply(high--);
  }
  update(first);
  update(last);
}

int64_t PeakMemory::getPeak(Interval interval) const {
  // From both ends up: what is added to a segment counts for all below it.
  size_t low = interval.begin + leaves, high = interval.end + leaves;
  int64_t lowPeak = peak[low], highPeak = peak[high];
  for (; low / 2 != high / 2; low /= 2, high /= 2) {
    if (low % 2 == 0)
      lowPeak = std::max(lowPeak, peak[low + 1]);
    if (high % 2 == 1)
      highPeak = std::max(highPeak, peak[high - 1]);
    lowPeak += added[low / 2];
    highPeak += added[high / 2];
  }
  int64_t result = std::max(lowPeak, highPeak);
  for (low /= 2; low > 0; low /= 2)
    result += added[low];
  return result;
}

void PeakMemory::set(unsigned node, Interval interval, bool isLive) {
  if (live[node])
    add(lives[node], -bytes[node]);
  lives[node] = interval;
  live[node] = isLive;
  if (isLive)
    add(interval, bytes[node]);
}

std::optional<int64_t> PeakMemory::merge(ArrayRef<unsigned> producer,
                                         ArrayRef<unsigned> consumer) {
  if (!tight)
    return std::nullopt;
  unsigned from = runsAt[producer.front()], to = runsAt[consumer.front()];
  if (from > to)
    std::swap(from, to);
  Interval between{from, to};
  int64_t before = getPeak(between);
  auto isInside = [&](unsigned node) {
    return llvm::binary_search(producer, node) ||
           llvm::binary_search(consumer, node);
  };
  auto change = [&](unsigned node, Interval interval, bool isLive) {
    changes.push_back({node, lives[node], live[node]});
    set(node, interval, isLive);
  };
  changes.clear();
  moved.clear();
  for (ArrayRef<unsigned> members : {producer, consumer})
    for (unsigned node : members) {
      const FuseNode &own = graph[node];
      moved.push_back({node, runsAt[node]});
      runsAt[node] = to;
      bool isRead = own.escapes || !llvm::all_of(own.consumers, isInside);
      change(node, {to, std::max(lives[node].end, to)}, live[node] && isRead);
      for (unsigned read : own.producers)
        if (!isInside(read) && lives[read].end < to)
          change(read, {lives[read].begin, to}, live[read]);
    }
  int64_t after = getPeak(between);
  if (after <= limit || after <= before)
    return std::nullopt;
  undo();
  return after;
}

void PeakMemory::undo() {
  // From the last change back: a node may have changed twice.
  for (const Change &change : llvm::reverse(changes))
    set(change.node, change.before, change.wasLive);
  for (auto [node, at] : moved)
    runsAt[node] = at;
  changes.clear();
  moved.clear();
}
