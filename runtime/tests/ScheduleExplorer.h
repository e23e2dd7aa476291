//===- ScheduleExplorer.h - Every interleaving of a program -----*- C++ -*-===//
//
// Decides by trying whether a schedule does harm: the streams of all ranks run
// in every order that the runtime allows. Meant to judge the verifier, so it
// shares nothing with it: no clocks, no intervals, only states.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_SCHEDULEEXPLORER_H
#define FUSION_RUNTIME_TESTS_SCHEDULEEXPLORER_H

#include "ModuleData.h"

#include <string>
#include <vector>

namespace fusion::rt::testing {

enum class Harm {
  None,
  Race,      ///< two commands use a byte at the same time, one writes it
  Unwritten, ///< a command reads, or the end leaves, a byte without a value
  Mismatch,  ///< ranks meet in collectives that don't fit together
  Deadlock,  ///< not all streams get to their end
  Diverges,  ///< two interleavings end with different outputs
};

const char *name(Harm harm);

struct Exploration {
  Harm harm = Harm::None;
  std::string what; ///< which commands, and the steps that led there
  /// Without harm: the values of the outputs, rank by rank.
  std::vector<uint64_t> outputs;
  uint64_t states = 0;  ///< visited
  bool complete = true; ///< false: gave up, the rest means nothing
};

/// Runs `ranks[r]` on rank r. Values are symbols: an input is one of its rank,
/// port and place, a kernel writes a hash of its number and all that it reads,
/// a reduction a hash of its members' elements; a gather moves them.
///
/// A command begins and ends; it may read from its begin and write until its
/// end. A collective begins for each rank alone and ends for its group at once,
/// when all have begun. Its group meets by stream and axes, as communicators
/// do. The n-th record of an event in list order is what a wait behind it (and
/// before the next) waits for: it passes when n records are done.
///
/// A step that no other stream's remaining commands can notice is taken at
/// once (unless `reduce` is false, which takes very long); all other orders are
/// tried, equal states once. Ends at the first harm.
Exploration explore(const std::vector<Program> &ranks, bool reduce = true);

/// What a program means on `ranks` ranks that all run it: its commands one
/// after the other in list order, with each allocation in bytes of its own and
/// inputs that are donated kept apart from their outputs. Harm: `Unwritten`
/// where it uses a value before it is computed, `Mismatch`.
Exploration meaningOf(const Program &program, uint32_t ranks);

} // namespace fusion::rt::testing

#endif // FUSION_RUNTIME_TESTS_SCHEDULEEXPLORER_H
