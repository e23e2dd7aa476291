//===- SchedulePrograms.h - Programs, mutants and reorderings ---*- C++ -*-===//
//
// Random programs that are right by construction, and edits of programs: those
// that may do harm (mutants) and those that can't (legal moves).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_SCHEDULEPROGRAMS_H
#define FUSION_RUNTIME_TESTS_SCHEDULEPROGRAMS_H

#include "ModuleData.h"

#include <random>
#include <string>
#include <vector>

namespace fusion::rt::testing {

using Random = std::mt19937;

/// A number in [0, count); the same on every standard library.
inline size_t pick(Random &random, size_t count) {
  return size_t(random()) % count;
}

/// The number of ranks of a program's mesh.
inline uint32_t ranksOf(const Program &program) {
  uint32_t ranks = 1;
  for (const auto &axis : program.mesh.axes)
    ranks *= axis.second;
  return ranks;
}

/// A correct program of one of the shapes of real ones: a backward whose
/// buckets are reduced on stream 1, prefetched gathers on stream 2 into a ring,
/// sharded parameters (reduce-scatter, update, gather), two communicators that
/// share their ranks, or any graph. It has at most 12 launches, copies and
/// collectives, the events they need, and 2 ranks, sometimes 4.
Program makeProgram(Random &random);

enum class Mutation {
  DropWait,   ///< a wait or its record goes, or it waits for another event
  SwapStarts, ///< two commands, one of them asynchronous, change places
  ReuseEarly, ///< a buffer gets bytes that another still needs
  RankOrder,  ///< one rank has commands in another order
  WrongGroup, ///< a collective on other axes, mostly on one rank only
};
constexpr size_t kMutations = 5;

const char *name(Mutation mutation);

/// The programs of the ranks with one such edit; empty if `program` has nothing
/// to edit that way.
std::vector<Program> mutate(const Program &program, Mutation mutation,
                            uint32_t ranks, Random &random);

/// Some edits that keep what happens before what: independent commands change
/// places, streams and events get other numbers, events are added, buffers that
/// share no byte lie elsewhere.
Program reorder(const Program &program, Random &random);

} // namespace fusion::rt::testing

#endif // FUSION_RUNTIME_TESTS_SCHEDULEPROGRAMS_H
