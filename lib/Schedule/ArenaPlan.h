//===- ArenaPlan.h - Offsets for buffers with lifetimes ---------*- C++ -*-===//
//
// Packs buffers, each alive over an interval of commands, into one arena.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_ARENAPLAN_H
#define FUSION_LIB_SCHEDULE_ARENAPLAN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace fusion {

/// A buffer alive from the start of command `first` to the end of `last`
/// (inclusive: a result that nobody reads lives during its own command).
struct Lifetime {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size = 0;    ///< bytes
  int64_t offset = -1; ///< bytes, the answer
};

/// Alignment of every buffer in the arena, in bytes: a cache line, and the
/// widest vector.
constexpr int64_t kArenaAlignment = 64;

/// Alignment of buffers from so many bytes on. A GPU reads rows that begin in
/// the middle of a line of 128 bytes a fifth more slowly.
constexpr int64_t kLargeAlignment = 256, kLargeBytes = 64 << 10;

/// Of a buffer of so many bytes.
constexpr int64_t getAlignment(int64_t size) {
  return size < kLargeBytes ? kArenaAlignment : kLargeAlignment;
}

/// Sets all offsets so that buffers whose lifetimes overlap share no byte, and
/// returns the arena's size. Deterministic. Zero-size buffers get offset 0.
int64_t planArena(llvm::MutableArrayRef<Lifetime> buffers);

/// The same, but the buffers of a set (indices, in no other set) lie one behind
/// the other in its order, each at the next multiple of its alignment.
int64_t planArena(llvm::MutableArrayRef<Lifetime> buffers,
                  llvm::ArrayRef<llvm::SmallVector<int64_t>> sets);

/// The same, but the buffers of `region` (indices; with one of a set, all of
/// it) lie in one range of the arena, planned as if they were alone. What is
/// free of it serves others meanwhile. `regionBytes` gets its size.
int64_t planArena(llvm::MutableArrayRef<Lifetime> buffers,
                  llvm::ArrayRef<llvm::SmallVector<int64_t>> sets,
                  llvm::ArrayRef<int64_t> region, int64_t &regionBytes);

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_ARENAPLAN_H
