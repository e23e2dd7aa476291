//===- ArenaPlan.cpp - Offsets for buffers with lifetimes -----------------===//
//
// Two packers. Up to a few thousand buffers: largest first, each at the lowest
// offset free of all placed buffers that live at the same time (quadratic,
// close to optimal in practice). Beyond: one sweep over the commands with a
// best-fit free list (n log n).
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

static int64_t roundUp(int64_t size) {
  return llvm::alignTo(size, kArenaAlignment);
}

static int64_t packLargestFirst(llvm::MutableArrayRef<Lifetime> buffers) {
  llvm::SmallVector<Lifetime *> order;
  for (Lifetime &buffer : buffers)
    if (buffer.size > 0)
      order.push_back(&buffer);
  llvm::stable_sort(order, [](const Lifetime *a, const Lifetime *b) {
    return a->size > b->size;
  });
  // Kept sorted by offset, so that one walk finds the lowest gap.
  llvm::SmallVector<Lifetime *> placed;
  int64_t total = 0;
  for (Lifetime *buffer : order) {
    int64_t offset = 0;
    for (Lifetime *other : placed) {
      if (other->last < buffer->first || buffer->last < other->first)
        continue;
      if (other->offset - offset >= buffer->size)
        break;
      offset = std::max(offset, roundUp(other->offset + other->size));
    }
    buffer->offset = offset;
    total = std::max(total, roundUp(offset + buffer->size));
    auto at = llvm::upper_bound(placed, buffer, [](Lifetime *a, Lifetime *b) {
      return a->offset < b->offset;
    });
    placed.insert(at, buffer);
  }
  return total;
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
        free.release(done.offset, roundUp(done.size));
    if (buffer.size > 0)
      buffer.offset = free.allocate(roundUp(buffer.size));
  }
  return free.getTotal();
}

int64_t fusion::planArena(llvm::MutableArrayRef<Lifetime> buffers) {
  constexpr size_t kQuadraticLimit = 4096;
  for (Lifetime &buffer : buffers)
    if (buffer.size == 0)
      buffer.offset = 0;
  return buffers.size() <= kQuadraticLimit ? packLargestFirst(buffers)
                                           : packInOrder(buffers);
}

int64_t fusion::planArena(llvm::MutableArrayRef<Lifetime> buffers,
                          llvm::ArrayRef<llvm::SmallVector<int64_t>> sets) {
  // A set is planned as one buffer.
  llvm::SmallVector<int64_t> setOf(buffers.size(), -1);
  for (auto [i, set] : llvm::enumerate(sets))
    for (int64_t index : set)
      setOf[index] = i;
  llvm::SmallVector<Lifetime> units;
  llvm::SmallVector<int64_t> unitOf(buffers.size());
  llvm::SmallVector<int64_t> unitOfSet(sets.size(), -1);
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    int64_t set = setOf[i];
    if (set >= 0 && unitOfSet[set] >= 0) {
      Lifetime &unit = units[unitOfSet[set]];
      unit.first = std::min(unit.first, buffer.first);
      unit.last = std::max(unit.last, buffer.last);
      unit.size += roundUp(buffer.size);
      continue;
    }
    unitOf[i] = units.size();
    units.push_back(buffer);
    if (set >= 0) {
      unitOfSet[set] = units.size() - 1;
      units.back().size = roundUp(buffer.size);
    }
  }
  int64_t total = planArena(units);
  for (auto [i, buffer] : llvm::enumerate(buffers))
    if (setOf[i] < 0)
      buffer.offset = units[unitOf[i]].offset;
  for (auto [i, set] : llvm::enumerate(sets)) {
    int64_t offset = units[unitOfSet[i]].offset;
    for (int64_t index : set) {
      buffers[index].offset = offset;
      offset += roundUp(buffers[index].size);
    }
  }
  return total;
}
