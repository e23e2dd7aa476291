//===- SchedulePlan.h - Tasks over buffers, before streams meet -*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_SCHEDULEPLAN_H
#define FUSION_RUNTIME_TESTS_SCHEDULEPLAN_H

#include "SchedulePrograms.h"

namespace fusion::rt::testing {

constexpr uint64_t kUnit = 64; ///< bytes of a buffer's unit

/// A part of a buffer, in units.
struct Use {
  size_t buffer;
  uint64_t first, count;
};

struct Task {
  CommandKind kind = CommandKind::Launch;
  uint32_t stream = 0;
  std::string name;
  CollectiveOp op = CollectiveOp::AllReduce;
  std::vector<uint32_t> axes;
  std::vector<Use> reads, writes, updates; ///< updates: in place
};

struct Buffer {
  uint64_t units;
  uint32_t segment = 0; ///< 0: the arena
  uint64_t offset = 0;  ///< units
  size_t firstTask = SIZE_MAX, lastTask = 0;
};

/// Tasks in an order in which they are right on one stream.
struct Plan {
  Program program; ///< mesh, ports and their segments; segment 0 is the arena
  std::vector<Task> tasks;
  std::vector<Buffer> buffers;
};

/// The program of a plan: its buffers in the arena, where they share bytes once
/// their earlier owner is done, and an event wherever a task needs another
/// stream's work. Where it has a choice it takes a random one.
Program lower(Plan plan, Random &random);

} // namespace fusion::rt::testing

#endif // FUSION_RUNTIME_TESTS_SCHEDULEPLAN_H
