//===- ScheduleSteps.h - Commands of ranks, over cells ----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_SCHEDULESTEPS_H
#define FUSION_RUNTIME_TESTS_SCHEDULESTEPS_H

#include "ModuleData.h"

#include <map>
#include <vector>

namespace fusion::rt::testing {

/// A symbol made of two; never 0, which is "unwritten".
uint64_t mix(uint64_t a, uint64_t b);

/// Consecutive cells of a rank's memory, as a command uses them.
struct Cells {
  size_t first = 0, count = 0;
  bool reads = false, writes = false;
  bool overlaps(const Cells &other) const {
    return first < other.first + other.count && other.first < first + count;
  }
  bool equals(const Cells &other) const {
    return first == other.first && count == other.count;
  }
};

/// Something that computes all it writes from all it reads. A call with a tail
/// is two, one after the other.
struct Phase {
  uint64_t seed = 0;
  std::vector<Cells> operands;
};

/// One command of a stream.
struct Step {
  const Command *command = nullptr;
  std::vector<Phase> phases;
  bool meets = false;              ///< a collective that waits for its group
  std::vector<uint32_t> group;     ///< its ranks
  uint32_t records = 0;            ///< Wait: how many records it needs
  std::vector<bool> read, written; ///< by cell
  bool clashes = false;            ///< its own operands overlap
  /// By stream: the place behind the last command that this one may race with.
  std::vector<uint64_t> noticedUntil;
};

/// What a rank runs. The program must outlive it.
struct Rank {
  const Program *program = nullptr;
  std::vector<std::vector<Step>> streams;
  std::vector<size_t> alias; ///< segment -> the one that has its bytes
  std::vector<size_t> base;  ///< segment -> first cell
  std::vector<size_t> sizes; ///< segment -> cells
  /// Where allocations are apart: segment and allocation -> first cell, for its
  /// lowest byte.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<size_t, uint64_t>> apart;
  size_t cells = 0;
  size_t places = 0, memory = 0; ///< where its parts of a state start
};

/// The commands of `programs[r]` on rank r, over cells of one size: the
/// greatest that divides 64 bytes and every range, so that a cell is touched as
/// a whole or not at all. With `apart`, each allocation has cells of its own,
/// and so has an output that takes over an input's bytes.
std::vector<Rank> makeSteps(const std::vector<Program> &programs, bool apart);

} // namespace fusion::rt::testing

#endif // FUSION_RUNTIME_TESTS_SCHEDULESTEPS_H
