//===- VerifySchedule.cpp - Proof that a program has no race --------------===//
//
// One sweep in list order. For each segment a map of disjoint byte intervals
// remembers the last writer and the readers since; for each stream a vector
// clock says which commands of the other streams are known to be done. The
// idea is that of dynamic race detectors (FastTrack), on byte ranges.
//
//===----------------------------------------------------------------------===//
#include "VerifySchedule.h"
#include "Checked.h"
#include "CommandText.h"
#include "Limits.h"
#include "Text.h"
#include "Turns.h"

#include <algorithm>
#include <map>
#include <new>
#include <tuple>

using namespace fusion::rt;

namespace {

/// One access: the command's stream and its 1-based position in that stream.
/// Position 0 is the caller, who is before everything.
struct Access {
  uint32_t stream = 0;
  uint32_t position = 0;
  uint32_t command = 0; ///< index, for messages
};

/// Bytes [key, end) of a segment that share one history.
struct Interval {
  uint64_t end = 0;
  uint32_t allocation = 0;
  Access writer;
  std::vector<Access> readers; ///< since the write; the last one a stream
};

using IntervalMap = std::map<uint64_t, Interval>;
using Clock = std::vector<uint32_t>;

struct Event {
  Clock clock; ///< empty: not recorded
  std::vector<Access> waits;
};

class ScheduleVerifier {
public:
  /// `visits`: of intervals so far, by the proofs for other ranks.
  ScheduleVerifier(const Program &program, uint64_t &visits)
      : program(program), visits(visits) {}
  Status verify();

private:
  Status bad(const std::string &what);
  Status prepareSegments();
  /// `inPlace`: a read by a command that then writes the same range.
  Status access(const ByteRange &range, bool reads, bool writes,
                bool inPlace = false);
  Status read(IntervalMap &map, uint32_t segment, const ByteRange &range,
              bool inPlace);
  Status write(IntervalMap &map, uint32_t segment, const ByteRange &range);
  Status operands(const std::vector<Operand> &list);
  Status checkDisjoint(const Command &command);
  Status record(uint32_t event);
  Status wait(uint32_t event);
  Status checkOutputs();
  Status race(const char *first, const Access &other, const char *second,
              uint32_t segment, uint64_t offset);

  bool visit() { return ++visits <= limits::kIntervalVisits; }
  Status tooFragmented() {
    return bad("S5: more than 100000000 interval visits are needed; use fewer "
               "partial overlaps");
  }
  bool happenedBefore(const Access &other) const {
    return clocks[now.stream][other.stream] >= other.position;
  }
  static IntervalMap::iterator splitAt(IntervalMap &map, uint64_t offset);

  const Program &program;
  bool oneStream = false;
  std::vector<uint32_t> alias;    ///< segment -> the one that has its bytes
  std::vector<bool> writable;     ///< by segment
  std::vector<IntervalMap> state; ///< by segment
  std::vector<Clock> clocks;      ///< by stream
  std::vector<Event> events;
  Access now;
  uint64_t &visits;
};

} // namespace

Status ScheduleVerifier::bad(const std::string &what) {
  if (now.command >= program.commands.size())
    return Status(Code::BadProgram, "schedule: " + what);
  return Status(Code::BadProgram,
                "schedule: " + commandText(program, now.command) + ": " + what,
                program.commands[now.command].name);
}

Status ScheduleVerifier::race(const char *first, const Access &other,
                              const char *second, uint32_t segment,
                              uint64_t offset) {
  return bad(std::string("S5: ") + second + " byte " + std::to_string(offset) +
             " of segment " + std::to_string(segment) + " that command " +
             std::to_string(other.command) + " '" +
             escape(program.commands[other.command].name) + "' " + first +
             " on stream " + std::to_string(other.stream) +
             " without an event between them");
}

Status ScheduleVerifier::prepareSegments() {
  size_t count = program.segments.size();
  alias.resize(count);
  for (size_t i = 0; i < count; ++i)
    alias[i] = uint32_t(i);
  writable.assign(count, true);
  state.resize(count);
  auto fill = [&](uint32_t segment) {
    if (uint64_t size = program.segments[segment].size)
      state[segment][0].end = size;
  };
  for (size_t i = 0; i < count; ++i) {
    SegmentKind kind = program.segments[i].kind;
    if (kind != SegmentKind::Const && kind != SegmentKind::Input)
      continue;
    writable[i] = false;
    fill(uint32_t(i));
  }
  for (const Port &port : program.outputs)
    if (port.segment >= count)
      return bad("S1: an output's segment does not exist");
  for (const Port &port : program.inputs) {
    if (port.segment >= count)
      return bad("S1: an input's segment does not exist");
    if (port.donatedTo == -1)
      continue;
    if (port.donatedTo < 0 || size_t(port.donatedTo) >= program.outputs.size())
      return bad("S3: an input is donated to no output");
    uint32_t output = program.outputs[port.donatedTo].segment;
    if (program.segments[output].size != program.segments[port.segment].size)
      return bad("S3: an input is donated to an output of another size");
    writable[port.segment] = true;
    alias[output] = port.segment;
  }
  return {};
}

/// Makes `offset` a border between intervals; returns the first interval that
/// starts at or after it.
IntervalMap::iterator ScheduleVerifier::splitAt(IntervalMap &map,
                                                uint64_t offset) {
  auto next = map.lower_bound(offset);
  if (next == map.begin() || (next != map.end() && next->first == offset))
    return next;
  auto before = std::prev(next);
  if (before->second.end <= offset)
    return next;
  Interval rest = before->second;
  before->second.end = offset;
  return map.emplace_hint(next, offset, std::move(rest));
}

Status ScheduleVerifier::read(IntervalMap &map, uint32_t segment,
                              const ByteRange &range, bool inPlace) {
  uint64_t end = range.offset + range.size, reached = range.offset;
  SegmentKind kind = program.segments[segment].kind;
  bool numbered = range.allocation != 0 && kind != SegmentKind::Const &&
                  kind != SegmentKind::Input && kind != SegmentKind::Output;
  // With one stream all accesses are ordered: readers need no memory.
  IntervalMap::iterator it;
  if (oneStream) {
    it = map.upper_bound(range.offset);
    if (it != map.begin() && std::prev(it)->second.end > range.offset)
      --it;
  } else {
    splitAt(map, end);
    it = splitAt(map, range.offset);
  }
  for (; it != map.end() && it->first < end; ++it) {
    if (!visit())
      return tooFragmented();
    Interval &interval = it->second;
    if (it->first > reached)
      break;
    if (!happenedBefore(interval.writer))
      return race("writes", interval.writer, "reads", segment, it->first);
    if (numbered && interval.allocation != range.allocation)
      return bad("S4: reads allocation " + std::to_string(range.allocation) +
                 " at byte " + std::to_string(std::max(it->first, reached)) +
                 " of segment " + std::to_string(segment) + ", which command " +
                 std::to_string(interval.writer.command) +
                 " wrote for allocation " +
                 std::to_string(interval.allocation));
    if (range.segment == segment && kind == SegmentKind::Input &&
        interval.allocation != 0)
      return bad("S4: reads byte " +
                 std::to_string(std::max(it->first, range.offset)) +
                 " of input segment " + std::to_string(segment) +
                 ", which command " + std::to_string(interval.writer.command) +
                 " wrote as the output that the input is donated to");
    if (range.segment != segment && !inPlace && interval.allocation == 0)
      return bad("S4: reads byte " +
                 std::to_string(std::max(it->first, range.offset)) +
                 " of output segment " + std::to_string(range.segment) +
                 ", which still holds the input that is donated to it");
    reached = interval.end;
    if (oneStream)
      continue;
    // Readers that happen before this one are implied by it.
    auto &readers = interval.readers;
    visits += readers.size();
    readers.erase(std::remove_if(readers.begin(), readers.end(),
                                 [&](const Access &reader) {
                                   return happenedBefore(reader);
                                 }),
                  readers.end());
    readers.push_back(now);
  }
  if (reached < end)
    return bad("S4: reads byte " + std::to_string(reached) + " of segment " +
               std::to_string(segment) + ", which nothing wrote before");
  return {};
}

Status ScheduleVerifier::write(IntervalMap &map, uint32_t segment,
                               const ByteRange &range) {
  uint64_t end = range.offset + range.size;
  splitAt(map, end);
  auto it = splitAt(map, range.offset);
  while (it != map.end() && it->first < end) {
    if (!visit())
      return tooFragmented();
    const Interval &interval = it->second;
    if (!happenedBefore(interval.writer))
      return race("writes", interval.writer, "writes", segment, it->first);
    for (const Access &reader : interval.readers)
      if (!happenedBefore(reader))
        return race("reads", reader, "writes", segment, it->first);
    it = map.erase(it);
  }
  Interval written;
  written.end = end;
  // What is written to a donated input under its output's name is another
  // value than the input's.
  written.allocation = program.segments[segment].kind == SegmentKind::Input
                           ? range.segment != segment
                           : range.allocation;
  written.writer = now;
  uint64_t start = range.offset;
  // Neighbours of one history merge, so that a buffer filled piece by piece
  // is one interval for its readers.
  auto same = [&](const Interval &other) {
    return oneStream && other.allocation == written.allocation;
  };
  if (it != map.end() && it->first == end && same(it->second)) {
    written.end = it->second.end;
    it = map.erase(it);
  }
  if (it != map.begin()) {
    auto before = std::prev(it);
    if (before->second.end == start && same(before->second)) {
      start = before->first;
      map.erase(before);
    }
  }
  map.emplace_hint(it, start, std::move(written));
  return {};
}

Status ScheduleVerifier::access(const ByteRange &range, bool reads, bool writes,
                                bool inPlace) {
  if (range.segment >= program.segments.size())
    return bad("S1: segment " + std::to_string(range.segment) +
               " does not exist");
  uint64_t size = program.segments[range.segment].size;
  if (!rangeFits(range.offset, range.size, size))
    return bad("S1: bytes " + std::to_string(range.offset) + " + " +
               std::to_string(range.size) + " are outside segment " +
               std::to_string(range.segment) + " of " + std::to_string(size) +
               " bytes");
  uint32_t segment = alias[range.segment];
  if (writes && !writable[segment])
    return bad(program.segments[segment].kind == SegmentKind::Const
                   ? "S3: writes a constant"
                   : "S3: writes an input that is not donated");
  if (range.size == 0)
    return {};
  if (reads)
    FUSION_RT_TRY(read(state[segment], segment, range, inPlace));
  if (writes)
    FUSION_RT_TRY(write(state[segment], segment, range));
  return {};
}

Status ScheduleVerifier::operands(const std::vector<Operand> &list) {
  for (const Operand &operand : list)
    if (operand.reads)
      FUSION_RT_TRY(access(operand.range, true, false, operand.writes));
  // What is computed in place over a donated input is the output's, in whatever
  // order the two are named.
  auto isRenamed = [&](const ByteRange &range) {
    return range.segment < alias.size() &&
           alias[range.segment] != range.segment;
  };
  for (const Operand &operand : list)
    if (!operand.reads || (operand.writes && !isRenamed(operand.range)))
      FUSION_RT_TRY(access(operand.range, false, operand.writes));
  for (const Operand &operand : list)
    if (operand.reads && operand.writes && isRenamed(operand.range))
      FUSION_RT_TRY(access(operand.range, false, true));
  return {};
}

Status ScheduleVerifier::checkDisjoint(const Command &command) {
  struct Item {
    uint32_t segment;
    uint64_t offset, end;
    bool writes;
    bool ofCall;
    bool exempt; ///< the call's output or addend, which may coincide exactly
    uint64_t member; ///< of the call
  };
  std::vector<Item> items;
  auto add = [&](const ByteRange &range, bool writes, bool ofCall, bool exempt,
                 uint64_t member = 0) {
    // Out-of-range operands are reported by `access`.
    if (range.size != 0 && range.segment < alias.size() &&
        rangeFits(range.offset, range.size,
                  program.segments[range.segment].size))
      items.push_back({alias[range.segment], range.offset,
                       range.offset + range.size, writes, ofCall, exempt,
                       member});
  };
  bool isCall = command.kind == CommandKind::Call;
  if (isCall) {
    size_t members = size_t(std::max<int64_t>(1, command.call.members));
    size_t count = std::max<size_t>(1, command.operands.size() / members);
    for (size_t i = 0; i < command.operands.size(); ++i) {
      size_t left = count - 1 - i % count; // operands of the member behind it
      // The output, and an addend in front of it, may be the same bytes.
      size_t output = command.call.op == LibraryOp::MatMul
                          ? command.call.numResults() - 1
                          : 0;
      bool exempt =
          left == output || (command.call.hasAddend && left == output + 1);
      add(command.operands[i].range, command.operands[i].writes, true, exempt,
          i / count);
    }
  }
  if (command.kind == CommandKind::Launch || (isCall && command.hasTail))
    for (const Operand &operand : command.launch.operands)
      add(operand.range, operand.writes, false,
          operand.reads && operand.writes);
  if (command.kind == CommandKind::Collective)
    for (const Operand &operand : command.operands)
      add(operand.range, operand.writes, true, false);
  if (command.kind == CommandKind::Copy) {
    add(command.source, false, true, false);
    add(command.target, true, true, false);
  }
  if (items.size() < 2)
    return {};
  std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
    return std::tie(a.segment, a.offset, a.end) <
           std::tie(b.segment, b.offset, b.end);
  });
  auto allowed = [](const Item &a, const Item &b) {
    if (!a.writes && !b.writes)
      return true;
    // A tail's reads of the call's operands come after the call.
    if ((a.ofCall && !b.ofCall && !b.writes) ||
        (b.ofCall && !a.ofCall && !a.writes))
      return true;
    bool exact = a.offset == b.offset && a.end == b.end;
    if (a.ofCall && b.ofCall)
      return exact && a.exempt && b.exempt && a.member == b.member;
    if (a.ofCall != b.ofCall)
      return exact && (a.ofCall ? a.exempt : b.exempt);
    // A kernel that computes in place says so on both of its operands.
    return exact && a.exempt && b.exempt;
  };
  // `open` holds the items that reach beyond the current one's start. Readers
  // may pile up there, so only the writers are compared with everything.
  std::vector<const Item *> open;
  for (const Item &item : items) {
    size_t kept = 0;
    for (const Item *other : open) {
      if (!visit())
        return tooFragmented();
      if (other->segment != item.segment || other->end <= item.offset)
        continue;
      if (!allowed(*other, item))
        return bad("S2: operands overlap at byte " +
                   std::to_string(item.offset) + " of segment " +
                   std::to_string(item.segment) + " and one is written");
      open[kept++] = other;
    }
    open.resize(kept);
    open.push_back(&item);
  }
  return {};
}

Status ScheduleVerifier::record(uint32_t event) {
  if (event >= events.size())
    return bad("S6: event " + std::to_string(event) + " does not exist");
  Event &entry = events[event];
  for (const Access &waiter : entry.waits)
    if (!happenedBefore(waiter))
      return bad("S6: records event " + std::to_string(event) +
                 " again while command " + std::to_string(waiter.command) +
                 " may still wait for it");
  visits += program.streams + entry.waits.size();
  entry.waits.clear();
  entry.clock = clocks[now.stream];
  return visit() ? Status() : tooFragmented();
}

Status ScheduleVerifier::wait(uint32_t event) {
  if (event >= events.size() || events[event].clock.empty())
    return bad("S6: waits for event " + std::to_string(event) +
               ", which no earlier command records");
  Clock &clock = clocks[now.stream];
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], events[event].clock[i]);
  visits += program.streams;
  if (!oneStream)
    events[event].waits.push_back(now);
  return visit() ? Status() : tooFragmented();
}

Status ScheduleVerifier::checkOutputs() {
  now.command = uint32_t(program.commands.size());
  for (const Port &port : program.outputs) {
    uint64_t reached = 0;
    for (const auto &[start, interval] : state[alias[port.segment]]) {
      if (start > reached)
        break;
      reached = interval.end;
    }
    if (reached < program.segments[port.segment].size)
      return bad("S7: byte " + std::to_string(reached) + " of output '" +
                 escape(port.tensor.name) + "' is never written");
  }
  return {};
}

Status ScheduleVerifier::verify() {
  now.command = uint32_t(program.commands.size());
  if (program.streams < 1 || program.streams > limits::kStreams ||
      program.events > limits::kEvents ||
      program.commands.size() > limits::kCommands)
    return bad("streams, events or commands exceed the format's limits");
  if (uint64_t(program.streams) * program.events > (uint64_t(1) << 24))
    return bad("streams times events exceed 2^24");
  oneStream = program.streams == 1;
  FUSION_RT_TRY(prepareSegments());
  clocks.assign(program.streams, Clock(program.streams));
  events.resize(program.events);
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    now.command = uint32_t(i);
    now.stream = command.stream;
    if (command.stream >= program.streams)
      return bad("S6: stream " + std::to_string(command.stream) +
                 " does not exist");
    now.position = ++clocks[now.stream][now.stream];
    FUSION_RT_TRY(checkDisjoint(command));
    switch (command.kind) {
    case CommandKind::Launch:
      FUSION_RT_TRY(operands(command.launch.operands));
      break;
    case CommandKind::Call:
      FUSION_RT_TRY(operands(command.operands));
      if (command.hasTail)
        FUSION_RT_TRY(operands(command.launch.operands));
      break;
    case CommandKind::Copy:
      FUSION_RT_TRY(access(command.source, true, false));
      FUSION_RT_TRY(access(command.target, false, true));
      break;
    case CommandKind::Record:
      FUSION_RT_TRY(record(command.event));
      break;
    case CommandKind::Wait:
      FUSION_RT_TRY(wait(command.event));
      break;
    case CommandKind::Collective:
      FUSION_RT_TRY(operands(command.operands));
      break;
    }
  }
  return checkOutputs();
}

Status fusion::rt::verifySchedule(const Program &program) {
  try {
    FUSION_RT_TRY(verifyTurns(program));
    uint64_t visits = 0;
    for (uint32_t rank : getPlaces(program)) {
      Program placed;
      if (!program.turns.empty()) {
        placed = program;
        if (!placeRanges(placed, rank))
          return Status(Code::BadProgram,
                        "schedule: S1: a range leaves all segments on rank " +
                            std::to_string(rank));
      }
      const Program &own = program.turns.empty() ? program : placed;
      FUSION_RT_TRY(ScheduleVerifier(own, visits).verify());
      FUSION_RT_TRY(verifyDirectMoves(own));
    }
    return {};
  } catch (const std::bad_alloc &) {
    return Status(Code::Resources, "out of memory while verifying a schedule");
  }
}
