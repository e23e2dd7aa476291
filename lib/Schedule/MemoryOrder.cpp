//===- MemoryOrder.cpp - An order of commands with a lower peak -----------===//
//
// Hill climbing: the profile of live bytes, its first peak, a few moves that
// could lower it, the profile again. A move is kept if the peak is lower, or as
// high at fewer steps.
//
//===----------------------------------------------------------------------===//
#include "MemoryOrder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <optional>

using namespace fusion;

/// Steps that one move may take along: what it frees has to be near.
static constexpr unsigned kMaxMoved = 8;

/// Values at a peak that are looked at, the largest first.
static constexpr unsigned kMaxValues = 32;

/// Steps and values that all profiles together may visit.
static constexpr int64_t kMaxVisits = int64_t(1) << 23;

/// A value of less than this part of the peak is not worth a move.
static constexpr int64_t kLeastShare = 1024;

namespace {

/// Live bytes along an order.
struct Profile {
  int64_t peak = 0;
  unsigned at = 0;    ///< first step of the peak
  unsigned count = 0; ///< steps as high as it

  bool isBetterThan(const Profile &other) const {
    return std::pair(peak, count) < std::pair(other.peak, other.count);
  }
};

class Planner {
public:
  explicit Planner(const OrderedSteps &graph)
      : graph(graph), change(graph.steps.size() + 1),
        position(graph.steps.size()) {}

  MemoryOrder run();

private:
  using Order = llvm::SmallVector<unsigned, 0>;

  Profile measure(const Order &order);
  /// The place of the last reader of a value, of its producer if there is none.
  unsigned getEnd(const OrderedValue &value) const {
    unsigned end = position[value.producer];
    for (unsigned reader : value.readers)
      end = std::max(end, position[reader]);
    return end;
  }
  llvm::SmallVector<unsigned> getLargest(unsigned peak) const;
  std::optional<Order> hoist(llvm::ArrayRef<unsigned> first, const Order &order,
                             unsigned at) const;
  std::optional<Order> hoistPeak(const OrderedValue &value, const Order &order,
                                 unsigned peak) const;
  std::optional<Order> hoistReaders(const OrderedValue &value,
                                    const Order &order, unsigned peak) const;
  std::optional<Order> sink(unsigned producer, const Order &order,
                            unsigned at) const;
  std::optional<Order> sinkBehindPeak(const OrderedValue &value,
                                      const Order &order, unsigned peak) const;
  std::optional<Order> sinkToReader(const OrderedValue &value,
                                    const Order &order, unsigned peak) const;
  bool improve(Order &order, Profile &profile);

  const OrderedSteps &graph;
  llvm::SmallVector<int64_t, 0> change;
  /// Of each step in the order that was measured last.
  llvm::SmallVector<unsigned, 0> position;
  int64_t visits = 0;
};

} // namespace

Profile Planner::measure(const Order &order) {
  visits += order.size() + graph.values.size();
  for (auto [at, step] : llvm::enumerate(order))
    position[step] = at;
  std::fill(change.begin(), change.end(), 0);
  for (const OrderedValue &value : graph.values) {
    unsigned begin = position[value.producer], end = getEnd(value);
    // Bytes that were there are counted once.
    if (value.over >= 0 && graph.values[value.over].bytes == value.bytes &&
        getEnd(graph.values[value.over]) == begin)
      ++begin;
    if (begin > end)
      continue;
    change[begin] += value.bytes;
    change[end + 1] -= value.bytes;
  }
  Profile profile;
  int64_t live = 0;
  for (unsigned at = 0; at < order.size(); ++at) {
    live += change[at];
    if (live > profile.peak)
      profile = {live, at, 1};
    else if (live == profile.peak)
      ++profile.count;
  }
  return profile;
}

/// Values that are alive at the peak, but neither made nor read by its step.
llvm::SmallVector<unsigned> Planner::getLargest(unsigned peak) const {
  llvm::SmallVector<unsigned> found;
  for (auto [i, value] : llvm::enumerate(graph.values))
    if (value.bytes > 0 && position[value.producer] < peak &&
        getEnd(value) > peak)
      found.push_back(i);
  llvm::stable_sort(found, [&](unsigned a, unsigned b) {
    return graph.values[a].bytes > graph.values[b].bytes;
  });
  if (found.size() > kMaxValues)
    found.resize(kMaxValues);
  return found;
}

/// Moves the steps of `first`, with what they need, to the place `at`, which is
/// before all of them.
std::optional<Planner::Order> Planner::hoist(llvm::ArrayRef<unsigned> first,
                                             const Order &order,
                                             unsigned at) const {
  llvm::SmallSetVector<unsigned, kMaxMoved> moved(first.begin(), first.end());
  for (unsigned i = 0; i < moved.size() && moved.size() <= kMaxMoved; ++i)
    for (unsigned needed : graph.steps[moved[i]].before) {
      if (position[needed] == at)
        return std::nullopt;
      if (position[needed] > at)
        moved.insert(needed);
    }
  if (moved.size() > kMaxMoved || !llvm::all_of(moved, [&](unsigned step) {
        return graph.steps[step].isMovable;
      }))
    return std::nullopt;
  llvm::SmallVector<unsigned> sorted(moved.begin(), moved.end());
  llvm::sort(sorted,
             [&](unsigned a, unsigned b) { return position[a] < position[b]; });
  Order result(order.begin(), order.begin() + at);
  result.append(sorted.begin(), sorted.end());
  for (unsigned step : llvm::ArrayRef(order).drop_front(at))
    if (!moved.contains(step))
      result.push_back(step);
  return result;
}

/// Moves all readers of the value behind the peak to before it.
std::optional<Planner::Order> Planner::hoistReaders(const OrderedValue &value,
                                                    const Order &order,
                                                    unsigned peak) const {
  llvm::SmallVector<unsigned> readers;
  for (unsigned reader : value.readers)
    if (position[reader] > peak && !llvm::is_contained(readers, reader))
      readers.push_back(reader);
  return hoist(readers, order, peak);
}

/// Moves the peak's own step to before the value is there.
std::optional<Planner::Order> Planner::hoistPeak(const OrderedValue &value,
                                                 const Order &order,
                                                 unsigned peak) const {
  return hoist(order[peak], order, position[value.producer]);
}

/// Moves the producer to the place `at`, if nothing needs it before.
std::optional<Planner::Order>
Planner::sink(unsigned producer, const Order &order, unsigned at) const {
  const OrderedStep &step = graph.steps[producer];
  if (!step.isMovable || llvm::any_of(step.behind, [&](unsigned other) {
        return position[other] <= at;
      }))
    return std::nullopt;
  Order result;
  for (auto [place, other] : llvm::enumerate(order)) {
    if (other != producer)
      result.push_back(other);
    if (place == at)
      result.push_back(producer);
  }
  return result;
}

/// Moves the producer to behind the peak.
std::optional<Planner::Order> Planner::sinkBehindPeak(const OrderedValue &value,
                                                      const Order &order,
                                                      unsigned peak) const {
  return sink(value.producer, order, peak);
}

/// Moves the producer to in front of what needs it.
std::optional<Planner::Order> Planner::sinkToReader(const OrderedValue &value,
                                                    const Order &order,
                                                    unsigned peak) const {
  unsigned first = order.size();
  for (unsigned other : graph.steps[value.producer].behind)
    first = std::min(first, position[other]);
  // One behind the peak is what was tried before.
  if (first == order.size() || first <= peak + 1)
    return std::nullopt;
  return sink(value.producer, order, first - 1);
}

bool Planner::improve(Order &order, Profile &profile) {
  for (unsigned index : getLargest(profile.at)) {
    const OrderedValue &value = graph.values[index];
    if (value.bytes < profile.peak / kLeastShare)
      return false;
    for (auto move : {&Planner::hoistReaders, &Planner::sinkBehindPeak,
                      &Planner::sinkToReader, &Planner::hoistPeak}) {
      if (visits > kMaxVisits)
        return false;
      std::optional<Order> changed = (this->*move)(value, order, profile.at);
      if (!changed)
        continue;
      Profile other = measure(*changed);
      if (other.isBetterThan(profile)) {
        order = std::move(*changed);
        profile = other;
        return true;
      }
      measure(order); // positions again
    }
  }
  return false;
}

MemoryOrder Planner::run() {
  MemoryOrder result;
  result.order.resize(graph.steps.size());
  for (unsigned i = 0; i < graph.steps.size(); ++i)
    result.order[i] = i;
  Profile profile = measure(result.order);
  result.peakBefore = profile.peak;
  while (improve(result.order, profile))
    continue;
  result.peakAfter = profile.peak;
  for (auto [at, step] : llvm::enumerate(result.order))
    result.numMoved += at != step;
  return result;
}

MemoryOrder fusion::planMemoryOrder(const OrderedSteps &steps) {
  return Planner(steps).run();
}
