//===- ScheduleEdits.cpp - Mutants and legal reorderings ------------------===//
//
// Edits of any program, whoever made it. An edit is random; what it does is for
// the explorer to say.
//
//===----------------------------------------------------------------------===//
#include "SchedulePrograms.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace fusion::rt;
using namespace fusion::rt::testing;

const char *fusion::rt::testing::name(Mutation mutation) {
  const char *names[] = {"drop a wait", "swap starts", "reuse early",
                         "rank-dependent order", "wrong group"};
  return names[size_t(mutation)];
}

static bool isSync(const Command &command) {
  return command.kind == CommandKind::Record ||
         command.kind == CommandKind::Wait;
}

/// All ranges of a command, to read or to edit.
static std::vector<ByteRange *> rangesOf(Command &command) {
  std::vector<ByteRange *> list;
  for (auto *operands : {&command.operands, &command.launch.operands})
    for (Operand &operand : *operands)
      list.push_back(&operand.range);
  if (command.kind == CommandKind::Copy) {
    list.push_back(&command.source);
    list.push_back(&command.target);
  }
  return list;
}

struct Access {
  ByteRange range;
  bool reads, writes;
};

static std::vector<Access> accessesOf(const Command &command) {
  std::vector<Access> list;
  for (auto *operands : {&command.operands, &command.launch.operands})
    for (const Operand &operand : *operands)
      list.push_back({operand.range, operand.reads, operand.writes});
  if (command.kind == CommandKind::Copy) {
    list.push_back({command.source, true, false});
    list.push_back({command.target, false, true});
  }
  return list;
}

static bool overlap(const ByteRange &a, const ByteRange &b) {
  return a.segment == b.segment && a.offset < b.offset + b.size &&
         b.offset < a.offset + a.size;
}

/// Whether the order of two commands matters for the bytes they touch.
static bool conflict(const Program &program, const Command &a,
                     const Command &b) {
  auto memory = [&](ByteRange range) {
    for (const Port &port : program.inputs)
      if (port.donatedTo >= 0 &&
          program.outputs[port.donatedTo].segment == range.segment)
        range.segment = port.segment;
    return range;
  };
  for (const Access &x : accessesOf(a))
    for (const Access &y : accessesOf(b))
      if ((x.writes || y.writes) && overlap(memory(x.range), memory(y.range)))
        return true;
  return false;
}

static std::vector<size_t> commandsThat(const Program &program,
                                        bool (*test)(const Command &)) {
  std::vector<size_t> list;
  for (size_t i = 0; i < program.commands.size(); ++i)
    if (test(program.commands[i]))
      list.push_back(i);
  return list;
}

static bool isWait(const Command &command) {
  return command.kind == CommandKind::Wait;
}
static bool isRecord(const Command &command) {
  return command.kind == CommandKind::Record;
}
static bool isWork(const Command &command) { return !isSync(command); }
static bool isCollective(const Command &command) {
  return command.kind == CommandKind::Collective;
}

/// A wait goes, or the record before it; it waits for another event; or two
/// events become one.
static bool dropWait(Program &program, Random &random) {
  size_t how = pick(random, 6);
  std::vector<size_t> syncs =
      commandsThat(program, how == 0 ? isRecord : isWait);
  if (syncs.empty())
    return false;
  size_t at = syncs[pick(random, syncs.size())];
  if (how == 0 || how > 2 || program.events < 2) {
    program.commands.erase(program.commands.begin() + at);
    return true;
  }
  uint32_t event = program.commands[at].event;
  uint32_t other =
      (event + 1 + uint32_t(pick(random, program.events - 1))) % program.events;
  if (how == 1)
    program.commands[at].event = other;
  else
    for (Command &command : program.commands)
      if (isSync(command) && command.event == event)
        command.event = other;
  return true;
}

/// Two commands change places in the list; each keeps its stream.
static bool swapStarts(Program &program, Random &random) {
  std::vector<size_t> work = commandsThat(program, isWork), starts;
  for (size_t i : work)
    if (program.commands[i].stream > 0 || isCollective(program.commands[i]))
      starts.push_back(i);
  if (pick(random, 4) == 0)
    starts = work; // without streams an order of two kernels is one too
  if (starts.empty() || work.size() < 2)
    return false;
  size_t a = starts[pick(random, starts.size())], b = a;
  while (b == a)
    b = work[pick(random, work.size())];
  std::swap(program.commands[a], program.commands[b]);
  return true;
}

static bool reuseEarly(Program &program, Random &random) {
  std::map<uint32_t, ByteRange> allocations; // number -> hull
  for (Command &command : program.commands)
    for (ByteRange *range : rangesOf(command)) {
      if (range->allocation == 0)
        continue;
      auto [it, isNew] = allocations.emplace(range->allocation, *range);
      uint64_t end = std::max(it->second.offset + it->second.size,
                              range->offset + range->size);
      it->second.offset = std::min(it->second.offset, range->offset);
      it->second.size = end - it->second.offset;
    }
  if (allocations.size() < 2)
    return false;
  auto from = std::next(allocations.begin(), pick(random, allocations.size()));
  auto to = std::next(allocations.begin(), pick(random, allocations.size()));
  const ByteRange &moved = from->second, &target = to->second;
  uint64_t size = program.segments[moved.segment].size;
  if (moved.segment != target.segment || moved.offset == target.offset ||
      target.offset + moved.size > size)
    return false;
  for (Command &command : program.commands)
    for (ByteRange *range : rangesOf(command))
      if (range->allocation == from->first)
        range->offset = range->offset - moved.offset + target.offset;
  return true;
}

/// One rank swaps two commands of a stream, or two streams.
static bool rankOrder(Program &program, Random &random) {
  std::vector<size_t> work = commandsThat(program, isWork);
  std::vector<size_t> collectives = commandsThat(program, isCollective);
  if (collectives.empty() || work.size() < 2)
    return false;
  size_t a = collectives[pick(random, collectives.size())], b = a;
  std::vector<size_t> &others =
      collectives.size() > 1 && pick(random, 3) != 0 ? collectives : work;
  while (b == a)
    b = others[pick(random, others.size())];
  std::swap(program.commands[a], program.commands[b]);
  if (pick(random, 2) == 0)
    std::swap(program.commands[a].stream, program.commands[b].stream);
  return true;
}

static bool wrongGroup(Program &program, size_t which,
                       const std::vector<uint32_t> &axes) {
  std::vector<size_t> collectives = commandsThat(program, isCollective);
  if (collectives.empty())
    return false;
  CollectiveCall &call =
      program.commands[collectives[which % collectives.size()]].collective;
  if (call.axes == axes)
    return false;
  call.axes = axes;
  return true;
}

std::vector<Program> fusion::rt::testing::mutate(const Program &program,
                                                 Mutation mutation,
                                                 uint32_t ranks,
                                                 Random &random) {
  Program edited = program;
  bool done = false, onOne = false;
  switch (mutation) {
  case Mutation::DropWait:
    done = dropWait(edited, random);
    break;
  case Mutation::SwapStarts:
    done = swapStarts(edited, random);
    break;
  case Mutation::ReuseEarly:
    done = reuseEarly(edited, random);
    break;
  case Mutation::RankOrder:
    done = rankOrder(edited, random);
    onOne = true;
    break;
  case Mutation::WrongGroup: {
    std::vector<uint32_t> axes(program.mesh.axes.size());
    std::iota(axes.begin(), axes.end(), 0);
    for (size_t i = 1; i < axes.size(); ++i)
      std::swap(axes[i], axes[pick(random, i + 1)]);
    axes.resize(1 + pick(random, axes.size()));
    done = wrongGroup(edited, random() % 64, axes);
    onOne = pick(random, 4) != 0;
    break;
  }
  }
  if (!done)
    return {};
  std::vector<Program> result(ranks, onOne ? program : edited);
  if (onOne)
    result[pick(random, ranks)] = edited;
  return result;
}

/// Whether command `a` and its neighbour `b` may change places in the list.
static bool maySwap(const Program &program, const Command &a,
                    const Command &b) {
  if (isSync(a) && isSync(b) && a.event == b.event)
    return false;
  if (a.stream != b.stream)
    return true;
  // An earlier wait and a later record only order more; the list stays legal.
  if (isWait(b) || isRecord(a))
    return true;
  return isWork(a) && isWork(b) && !conflict(program, a, b);
}

static void swapNeighbours(Program &program, Random &random) {
  for (int i = 0; i < 8 && program.commands.size() > 1; ++i) {
    size_t at = pick(random, program.commands.size() - 1);
    if (maySwap(program, program.commands[at], program.commands[at + 1]))
      std::swap(program.commands[at], program.commands[at + 1]);
  }
}

/// A random permutation of 0, 1, ...
static std::vector<uint32_t> shuffled(size_t count, Random &random) {
  std::vector<uint32_t> list(count);
  std::iota(list.begin(), list.end(), 0);
  for (size_t i = 1; i < count; ++i)
    std::swap(list[i], list[pick(random, i + 1)]);
  return list;
}

static void renumber(Program &program, Random &random) {
  auto streams = shuffled(program.streams, random);
  auto events = shuffled(program.events, random);
  for (Command &command : program.commands) {
    command.stream = streams[command.stream];
    if (isSync(command))
      command.event = events[command.event];
  }
}

static void addEvent(Program &program, Random &random) {
  Command command;
  command.kind = CommandKind::Record;
  command.stream = uint32_t(pick(random, program.streams));
  command.event = program.events++;
  command.name = "event " + std::to_string(command.event);
  size_t at = pick(random, program.commands.size() + 1);
  program.commands.insert(program.commands.begin() + at, command);
  command.kind = CommandKind::Wait;
  command.stream = uint32_t(pick(random, program.streams));
  at += 1 + pick(random, program.commands.size() - at);
  program.commands.insert(program.commands.begin() + at, command);
}

/// Parts of the arena that no allocation crosses trade places, with gaps; some
/// allocations that share bytes with others get their own.
static void moveBuffers(Program &program, Random &random) {
  uint32_t arena = 0;
  while (program.segments[arena].kind != SegmentKind::Private)
    if (++arena == program.segments.size())
      return;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> hulls;
  for (Command &command : program.commands)
    for (ByteRange *range : rangesOf(command)) {
      if (range->segment != arena)
        continue;
      auto [it, isNew] = hulls.emplace(
          range->allocation,
          std::make_pair(range->offset, range->offset + range->size));
      it->second.first = std::min(it->second.first, range->offset);
      it->second.second =
          std::max(it->second.second, range->offset + range->size);
    }
  // What leaves its slot is a block of its own; the others join if they touch.
  struct Block {
    uint64_t begin, end;
    std::vector<uint32_t> allocations;
  };
  std::vector<Block> blocks;
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, uint32_t>> sorted;
  for (auto &[number, hull] : hulls)
    if (number != 0 && pick(random, 4) == 0)
      blocks.push_back({hull.first, hull.second, {number}});
    else
      sorted.push_back({hull, number});
  std::sort(sorted.begin(), sorted.end());
  size_t own = blocks.size();
  for (auto &[hull, number] : sorted) {
    if (blocks.size() > own && blocks.back().end > hull.first) {
      blocks.back().end = std::max(blocks.back().end, hull.second);
      blocks.back().allocations.push_back(number);
    } else {
      blocks.push_back({hull.first, hull.second, {number}});
    }
  }
  std::map<uint32_t, uint64_t> delta; // allocation -> to add, modulo 2^64
  uint64_t end = 0;
  for (uint32_t index : shuffled(blocks.size(), random)) {
    const Block &block = blocks[index];
    end = (end + 63) / 64 * 64 + 64 * pick(random, 3);
    for (uint32_t number : block.allocations)
      delta[number] = end - block.begin;
    end += block.end - block.begin;
  }
  auto numbers = shuffled(hulls.size(), random);
  std::map<uint32_t, uint32_t> renamed;
  for (auto &[number, hull] : hulls)
    if (number != 0)
      renamed.emplace(number, 1 + numbers[renamed.size()]);
  for (Command &command : program.commands)
    for (ByteRange *range : rangesOf(command))
      if (range->segment == arena) {
        range->offset += delta[range->allocation];
        range->allocation = renamed[range->allocation];
      }
  program.peakBytes += end - program.segments[arena].size;
  program.segments[arena].size = end;
}

Program fusion::rt::testing::reorder(const Program &program, Random &random) {
  Program result = program;
  swapNeighbours(result, random);
  for (size_t i = 1 + pick(random, 4); i-- > 0;)
    switch (pick(random, 5)) {
    case 0:
    case 1:
      swapNeighbours(result, random);
      break;
    case 2:
      renumber(result, random);
      break;
    case 3:
      addEvent(result, random);
      break;
    case 4:
      moveBuffers(result, random);
      break;
    }
  return result;
}
