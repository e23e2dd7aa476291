//===- ArenaPlan.cpp - Offsets for buffers with lifetimes -----------------===//
//
// Two packers. Up to a few thousand buffers: largest first, each at the lowest
// offset free of all placed buffers that live at the same time (quadratic,
// close to optimal in practice), or in another order where that leaves gaps;
// buffers of a set keep their distances, and bytes of a set that are not alive
// yet serve others. Beyond: one sweep over the commands with a best-fit free
// list (n log n), where a set is one buffer.
//
//===----------------------------------------------------------------------===//
#include "ArenaPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace fusion;

/// Buffers up to which several orders are tried: each takes quadratic time.
static constexpr size_t kMostTried = 2048;

/// Orders that are tried by raising what lies on top, in each of three ways,
/// and pairs of buffers that all of them may look at.
static constexpr size_t kMostRaised = 128, kMostPairs = size_t(1) << 23;

static int64_t roundUp(int64_t size) {
  return llvm::alignTo(size, kArenaAlignment);
}

namespace {

/// Buffers that lie one behind the other: places relative to the first.
struct Unit {
  llvm::SmallVector<Lifetime *, 1> parts;
  llvm::SmallVector<int64_t, 1> places;
  int64_t size = 0; ///< of all, each rounded up but a single one
  int64_t alignment = kArenaAlignment; ///< the largest of the parts'

  void add(Lifetime &part) {
    int64_t each = getAlignment(part.size);
    alignment = std::max(alignment, each);
    parts.push_back(&part);
    places.push_back(llvm::alignTo(size, each));
    size = places.back() + roundUp(part.size);
  }
};

} // namespace

/// The lowest offset at which no part shares bytes with a placed buffer that
/// lives at the same time. Offsets only grow, so the search ends.
static int64_t findOffset(const Unit &unit, llvm::ArrayRef<Lifetime *> placed) {
  int64_t offset = 0;
  bool moved = true;
  while (moved) {
    moved = false;
    for (Lifetime *other : placed) {
      if (other->offset >= offset + unit.size)
        break;
      for (auto [part, place] : llvm::zip_equal(unit.parts, unit.places)) {
        int64_t start = offset + place;
        if (part->size == 0 || other->last < part->first ||
            part->last < other->first || other->offset + other->size <= start ||
            start + part->size <= other->offset)
          continue;
        offset =
            llvm::alignTo(other->offset + other->size - place, unit.alignment);
        moved = true;
      }
    }
  }
  return offset;
}

/// Packs in the given order, each unit at the lowest offset that is free.
static int64_t packInTurn(llvm::ArrayRef<Unit *> order) {
  // Kept sorted by offset, so that one walk finds the lowest gap.
  llvm::SmallVector<Lifetime *> placed;
  int64_t total = 0;
  for (Unit *unit : order) {
    int64_t offset = findOffset(*unit, placed);
    for (auto [part, place] : llvm::zip_equal(unit->parts, unit->places)) {
      part->offset = offset + place;
      if (part->size == 0)
        continue;
      total = std::max(total, roundUp(part->offset + part->size));
      auto at = llvm::upper_bound(placed, part, [](Lifetime *a, Lifetime *b) {
        return a->offset < b->offset;
      });
      placed.insert(at, part);
    }
  }
  return total;
}

namespace {

/// The most bytes that are alive at once, and a command that sees them.
struct Peak {
  int64_t bytes = 0, at = 0;
};

} // namespace

static Peak findPeak(llvm::ArrayRef<Unit *> units) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> changes;
  for (const Unit *unit : units)
    for (const Lifetime *part : unit->parts) {
      changes.push_back({part->first, roundUp(part->size)});
      changes.push_back({part->last + 1, -roundUp(part->size)});
    }
  llvm::sort(changes); // ends before starts
  Peak peak;
  int64_t live = 0;
  for (auto [at, change] : changes)
    if ((live += change) > peak.bytes)
      peak = {live, at};
  return peak;
}

/// When a unit is alive, as the first and the last command.
static std::pair<int64_t, int64_t> getSpan(const Unit &unit) {
  std::pair span(unit.parts.front()->first, unit.parts.front()->last);
  for (const Lifetime *part : unit.parts)
    span = {std::min(span.first, part->first),
            std::max(span.second, part->last)};
  return span;
}

static int64_t getEnd(const Unit &unit) {
  int64_t end = 0;
  for (const Lifetime *part : unit.parts)
    end = std::max(end, part->offset + part->size);
  return end;
}

/// What lies on top comes earlier, again and again: to the front, half of the
/// way or a few places. The best order seen replaces `best`, `total` its bytes.
static void raiseTop(llvm::SmallVector<Unit *> &best, int64_t &total,
                     int64_t enough) {
  static constexpr size_t kPlaces = 8;
  size_t numTrials =
      std::min(kMostRaised, kMostPairs / (best.size() * best.size()));
  for (auto getPlace :
       {+[](size_t) -> size_t { return 0; },
        +[](size_t top) { return top / 2; },
        +[](size_t top) { return top - std::min(top, kPlaces); }}) {
    llvm::SmallVector<Unit *> order = best;
    packInTurn(order);
    for (size_t trial = 0; trial < numTrials && total > enough; ++trial) {
      auto top = llvm::max_element(order, [](const Unit *a, const Unit *b) {
        return getEnd(*a) < getEnd(*b);
      });
      auto place = order.begin() + getPlace(top - order.begin());
      std::rotate(place, top, std::next(top));
      if (int64_t bytes = packInTurn(order); bytes < total) {
        total = bytes;
        best = order;
      }
    }
  }
}

/// Largest first is best where sizes differ much. Where it leaves gaps, others
/// are tried: what lives long below, the order in which units come, and what is
/// there at the peak in the order in which it goes, so that the others find one
/// gap behind it; then the best of these, changed where it is too high. The
/// smallest arena counts, the first of equals.
static int64_t packBySize(llvm::MutableArrayRef<Unit> units) {
  struct Entry {
    Unit *unit;
    int64_t first, last, length;
    bool isAtPeak;
  };
  llvm::SmallVector<Unit *> order;
  for (Unit &unit : units)
    if (unit.size > 0)
      order.push_back(&unit);
  llvm::stable_sort(
      order, [](const Unit *a, const Unit *b) { return a->size > b->size; });
  int64_t total = packInTurn(order);
  Peak peak = findPeak(order);
  int64_t enough = peak.bytes + peak.bytes / 1024;
  if (total <= enough || units.size() > kMostTried)
    return total;
  llvm::SmallVector<Entry> entries;
  for (Unit *unit : order) {
    auto [first, last] = getSpan(*unit);
    entries.push_back({unit, first, last, last - first + 1,
                       first <= peak.at && peak.at <= last});
  }
  llvm::SmallVector<Unit *> best = order;
  auto attempt = [&](auto getKey) {
    if (total <= enough)
      return;
    llvm::SmallVector<Entry> sorted = entries;
    llvm::stable_sort(sorted, [&](const Entry &a, const Entry &b) {
      return getKey(a) < getKey(b);
    });
    llvm::SmallVector<Unit *> other = llvm::map_to_vector(
        sorted, [](const Entry &entry) { return entry.unit; });
    if (int64_t bytes = packInTurn(other); bytes < total) {
      total = bytes;
      best = std::move(other);
    }
  };
  attempt([](const Entry &e) {
    return std::pair(!e.isAtPeak, e.isAtPeak ? -e.last : 0);
  });
  attempt([](const Entry &e) {
    return std::pair(!e.isAtPeak, e.isAtPeak ? -e.length : 0);
  });
  attempt([](const Entry &e) { return -double(e.unit->size) * e.length; });
  attempt([](const Entry &e) { return std::pair(e.first, -e.length); });
  attempt([](const Entry &e) { return -e.length; });
  raiseTop(best, total, enough);
  // The offsets that are there are those of the last one tried.
  return packInTurn(best);
}

namespace {

/// Free ranges of an arena that grows at its end.
class FreeList {
public:
  int64_t allocate(int64_t size) {
    auto fit = bySize.lower_bound({size, 0});
    if (fit == bySize.end()) {
      int64_t offset = total;
      // A free range at the end is extended, not left behind.
      if (!byOffset.empty()) {
        auto last = std::prev(byOffset.end());
        if (last->first + last->second == total) {
          offset = last->first;
          erase(last->first, last->second);
        }
      }
      total = offset + size;
      return offset;
    }
    auto [length, offset] = *fit;
    erase(offset, length);
    if (length > size)
      insert(offset + size, length - size);
    return offset;
  }

  void release(int64_t offset, int64_t size) {
    auto next = byOffset.lower_bound(offset);
    if (next != byOffset.end() && offset + size == next->first) {
      size += next->second;
      erase(next->first, next->second);
    }
    auto previous = byOffset.lower_bound(offset);
    if (previous != byOffset.begin()) {
      --previous;
      if (previous->first + previous->second == offset) {
        int64_t start = previous->first, length = previous->second;
        erase(start, length);
        offset = start;
        size += length;
      }
    }
    insert(offset, size);
  }

  int64_t getTotal() const { return total; }

private:
  void insert(int64_t offset, int64_t size) {
    byOffset[offset] = size;
    bySize.insert({size, offset});
  }
  void erase(int64_t offset, int64_t size) {
    byOffset.erase(offset);
    bySize.erase({size, offset});
  }

  std::map<int64_t, int64_t> byOffset;
  std::set<std::pair<int64_t, int64_t>> bySize;
  int64_t total = 0;
};

} // namespace

/// Whatever lies in front of a large buffer.
static int64_t roundFully(int64_t size) {
  return llvm::alignTo(size, kLargeAlignment);
}

static int64_t packInOrder(llvm::MutableArrayRef<Lifetime> buffers) {
  auto starts = llvm::to_vector(llvm::seq<size_t>(0, buffers.size()));
  auto ends = starts;
  llvm::stable_sort(starts, [&](size_t a, size_t b) {
    return buffers[a].first < buffers[b].first;
  });
  llvm::stable_sort(ends, [&](size_t a, size_t b) {
    return buffers[a].last < buffers[b].last;
  });
  FreeList free;
  size_t ended = 0;
  for (size_t index : starts) {
    Lifetime &buffer = buffers[index];
    for (; ended < ends.size() && buffers[ends[ended]].last < buffer.first;
         ++ended)
      if (Lifetime &done = buffers[ends[ended]]; done.size > 0)
        free.release(done.offset, roundFully(done.size));
    if (buffer.size > 0)
      buffer.offset = free.allocate(roundFully(buffer.size));
  }
  return free.getTotal();
}

int64_t fusion::planArena(llvm::MutableArrayRef<Lifetime> buffers) {
  return planArena(buffers, {});
}

/// One buffer for each unit, alive as long as any part.
static llvm::SmallVector<Lifetime> getHulls(llvm::ArrayRef<Unit> units) {
  llvm::SmallVector<Lifetime> hulls;
  for (const Unit &unit : units) {
    Lifetime hull = *unit.parts.front();
    for (const Lifetime *part : unit.parts) {
      hull.first = std::min(hull.first, part->first);
      hull.last = std::max(hull.last, part->last);
    }
    hull.size = unit.size;
    hulls.push_back(hull);
  }
  return hulls;
}

int64_t fusion::planArena(llvm::MutableArrayRef<Lifetime> buffers,
                          llvm::ArrayRef<llvm::SmallVector<int64_t>> sets) {
  int64_t regionBytes = 0;
  return planArena(buffers, sets, {}, regionBytes);
}

/// Plans the buffers of `region` alone and makes them one unit.
static Unit planRegion(llvm::MutableArrayRef<Lifetime> buffers,
                       llvm::ArrayRef<llvm::SmallVector<int64_t>> sets,
                       llvm::ArrayRef<int64_t> region) {
  llvm::SmallVector<Lifetime> alone;
  llvm::SmallVector<int64_t> indexOf(buffers.size(), -1);
  for (int64_t index : region) {
    indexOf[index] = alone.size();
    alone.push_back(buffers[index]);
  }
  llvm::SmallVector<llvm::SmallVector<int64_t>> own;
  for (llvm::ArrayRef<int64_t> set : sets)
    if (!set.empty() && indexOf[set.front()] >= 0) {
      own.emplace_back();
      for (int64_t index : set)
        own.back().push_back(indexOf[index]);
    }
  Unit unit;
  unit.size = planArena(alone, own);
  unit.alignment = kLargeAlignment;
  for (auto [index, planned] : llvm::zip_equal(region, alone)) {
    unit.parts.push_back(&buffers[index]);
    unit.places.push_back(planned.offset);
  }
  return unit;
}

int64_t fusion::planArena(llvm::MutableArrayRef<Lifetime> buffers,
                          llvm::ArrayRef<llvm::SmallVector<int64_t>> sets,
                          llvm::ArrayRef<int64_t> region,
                          int64_t &regionBytes) {
  constexpr size_t kQuadraticLimit = 4096;
  constexpr int64_t kPlaced = -2;
  llvm::SmallVector<int64_t> setOf(buffers.size(), -1);
  for (auto [i, set] : llvm::enumerate(sets))
    for (int64_t index : set)
      setOf[index] = i;
  llvm::SmallVector<Unit> units;
  if (!region.empty()) {
    units.push_back(planRegion(buffers, sets, region));
    regionBytes = units.back().size;
    for (int64_t index : region)
      setOf[index] = kPlaced;
  }
  llvm::SmallVector<bool> seen(sets.size(), false);
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    if (buffer.size == 0)
      buffer.offset = 0;
    if (setOf[i] == kPlaced)
      continue;
    if (setOf[i] < 0) {
      units.emplace_back().add(buffer);
      units.back().size = buffer.size;
      continue;
    }
    if (seen[setOf[i]])
      continue;
    seen[setOf[i]] = true;
    Unit &unit = units.emplace_back();
    for (int64_t index : sets[setOf[i]])
      unit.add(buffers[index]);
  }
  if (buffers.size() <= kQuadraticLimit)
    return packBySize(units);
  llvm::SmallVector<Lifetime> hulls = getHulls(units);
  int64_t total = packInOrder(hulls);
  for (auto [unit, hull] : llvm::zip_equal(units, hulls))
    for (auto [part, place] : llvm::zip_equal(unit.parts, unit.places))
      part->offset = (hull.size > 0 ? hull.offset : 0) + place;
  return total;
}
