//===- Accounting.cpp - Counting commands and memory ----------------------===//
//
// What every backend reports alike: the commands of a run and why a program
// does not fit into a memory limit.
//
//===----------------------------------------------------------------------===//
#include "Executor.h"
#include "Text.h"

#include <algorithm>
#include <map>
#include <vector>

using namespace fusion::rt;

static void countOperands(const std::vector<Operand> &operands,
                          Counters &counters) {
  for (const Operand &operand : operands) {
    counters.bytesRead += operand.reads ? operand.range.size : 0;
    counters.bytesWritten += operand.writes ? operand.range.size : 0;
  }
}

Counters fusion::rt::countCommands(const Program &program) {
  Counters counters;
  for (const Command &command : program.commands) {
    switch (command.kind) {
    case CommandKind::Launch:
      ++counters.launches;
      countOperands(command.launch.operands, counters);
      break;
    case CommandKind::Call:
      ++counters.calls;
      countOperands(command.operands, counters);
      if (command.hasTail) {
        ++counters.tails;
        countOperands(command.launch.operands, counters);
      }
      break;
    case CommandKind::Copy:
      ++counters.copies;
      counters.bytesRead += command.source.size;
      counters.bytesWritten += command.target.size;
      break;
    case CommandKind::Record:
      ++counters.records;
      break;
    case CommandKind::Wait:
      ++counters.waits;
      break;
    case CommandKind::Collective:
      ++counters.collectives;
      countOperands(command.operands, counters);
      break;
    }
  }
  return counters;
}

Status fusion::rt::checkMemoryLimit(const Program &program, uint64_t need,
                                    uint64_t limit) {
  if (limit == 0 || need <= limit)
    return {};
  return outOfMemory(
      program, need,
      "the limit is " + bytesText(limit) +
          "; raise --memory-limit or compile for a smaller batch");
}

Status fusion::rt::outOfMemory(const Program &program, uint64_t need,
                               const std::string &reason) {
  // The largest distinct private ranges, each with the command that first
  // writes it.
  std::map<std::pair<uint32_t, uint64_t>, std::pair<uint64_t, std::string>>
      buffers;
  auto add = [&](const std::vector<Operand> &operands, const Command &command) {
    for (const Operand &operand : operands) {
      const ByteRange &range = operand.range;
      if (!operand.writes ||
          program.segments[range.segment].kind != SegmentKind::Private)
        continue;
      auto &entry = buffers[{range.segment, range.offset}];
      if (range.size > entry.first)
        entry = {range.size, command.name};
    }
  };
  for (const Command &command : program.commands) {
    add(command.operands, command);
    add(command.launch.operands, command);
  }
  std::vector<std::pair<uint64_t, std::string>> largest;
  for (auto &[where, entry] : buffers)
    largest.push_back(entry);
  std::sort(largest.begin(), largest.end(), [](auto &a, auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::string message =
      "memory: the program needs " + bytesText(need) + ", " + reason;
  if (!largest.empty())
    message += "; largest buffers:";
  for (size_t i = 0; i < largest.size() && i < 5; ++i)
    message += std::string(i ? "," : "") + " '" +
               escape(largest[i].second, 64) + "' " +
               bytesText(largest[i].first);
  return Status(Code::Resources, message);
}
