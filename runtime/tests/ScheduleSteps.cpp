//===- ScheduleSteps.cpp - Commands of ranks, over cells ------------------===//
//
// Turns ranges into cells and commands into what they read and write there, and
// finds which commands of a rank's streams could notice each other.
//
//===----------------------------------------------------------------------===//
#include "ScheduleSteps.h"

#include <algorithm>
#include <numeric>

using namespace fusion::rt;
using namespace fusion::rt::testing;

uint64_t fusion::rt::testing::mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) | 1;
}

namespace {

class StepMaker {
public:
  StepMaker(const std::vector<Program> &programs, bool apart);
  std::vector<Rank> take() { return std::move(ranks); }

private:
  void prepareUnit(const std::vector<Program> &programs);
  void prepareRank(Rank &rank, const Program &program, uint32_t number);
  void prepareApart(Rank &rank);
  void prepareStep(Rank &rank, Step &step, uint32_t number);
  bool clashes(const Rank &rank, const Command &command) const;
  void prepareNotice(Rank &rank);
  Cells cellsOf(const Rank &rank, const ByteRange &range, bool reads,
                bool writes) const;

  bool apart;
  uint64_t unit = 64; ///< bytes of a cell
  size_t stateSize = 0;
  std::vector<Rank> ranks;
};

/// The ranks of `rank`'s group: those with its coordinates on all other axes.
std::vector<uint32_t>
groupAlong(const Mesh &mesh, const std::vector<uint32_t> &axes, uint32_t rank) {
  std::vector<uint32_t> coordinates(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    coordinates[i] = rank % mesh.axes[i].second;
    rank /= mesh.axes[i].second;
  }
  std::vector<uint32_t> group;
  std::vector<uint32_t> at(axes.size());
  while (true) {
    for (size_t i = 0; i < axes.size(); ++i)
      coordinates[axes[i]] = at[i];
    uint32_t number = 0;
    for (size_t i = 0; i < mesh.axes.size(); ++i)
      number = number * mesh.axes[i].second + coordinates[i];
    group.push_back(number);
    size_t i = axes.size();
    while (i > 0 && ++at[i - 1] == mesh.axes[axes[i - 1]].second)
      at[--i] = 0;
    if (i == 0)
      return group;
  }
}

std::vector<const Operand *> operandsOf(const Command &command) {
  std::vector<const Operand *> list;
  for (const Operand &operand : command.operands)
    list.push_back(&operand);
  for (const Operand &operand : command.launch.operands)
    list.push_back(&operand);
  return list;
}

} // namespace

void StepMaker::prepareUnit(const std::vector<Program> &programs) {
  auto divide = [&](const ByteRange &range) {
    unit = std::gcd(std::gcd(unit, range.offset), range.size);
  };
  for (const Program &program : programs) {
    for (const Segment &segment : program.segments)
      unit = std::gcd(unit, segment.size);
    for (const Command &command : program.commands) {
      for (const Operand *operand : operandsOf(command))
        divide(operand->range);
      divide(command.source);
      divide(command.target);
    }
  }
  unit = std::max<uint64_t>(unit, 1);
}

Cells StepMaker::cellsOf(const Rank &rank, const ByteRange &range, bool reads,
                         bool writes) const {
  size_t first = rank.base[range.segment] + size_t(range.offset / unit);
  auto own = rank.apart.find({range.segment, range.allocation});
  if (own != rank.apart.end())
    first =
        own->second.first + size_t((range.offset - own->second.second) / unit);
  return {first, size_t(range.size / unit), reads, writes};
}

void StepMaker::prepareStep(Rank &rank, Step &step, uint32_t number) {
  const Command &command = *step.command;
  // A kernel that computes in place has both its operands both ways; it reads
  // the first and writes the second.
  auto isPair = [&](const Operand &a, const Operand &b) {
    return a.reads && a.writes && b.reads && b.writes &&
           rank.alias[a.range.segment] == rank.alias[b.range.segment] &&
           a.range.offset == b.range.offset && a.range.size == b.range.size;
  };
  auto add = [&](uint64_t seed, std::vector<Operand> operands) {
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t j = i + 1; j < operands.size(); ++j)
        if (isPair(operands[i], operands[j]))
          operands[i].writes = operands[j].reads = false;
    Phase &phase = step.phases.emplace_back();
    phase.seed = seed;
    for (const Operand &operand : operands)
      phase.operands.push_back(
          cellsOf(rank, operand.range, operand.reads, operand.writes));
  };
  switch (command.kind) {
  case CommandKind::Launch:
    add(mix(1, command.launch.kernel), command.launch.operands);
    break;
  case CommandKind::Call:
    add(mix(2, uint64_t(command.call.op)), command.operands);
    if (command.hasTail)
      add(mix(1, command.launch.kernel), command.launch.operands);
    break;
  case CommandKind::Copy:
    add(3, {{command.source, true, false}, {command.target, false, true}});
    break;
  case CommandKind::Collective: {
    step.group =
        groupAlong(rank.program->mesh, command.collective.axes, number);
    step.meets = command.collective.op != CollectiveOp::AxisIndex;
    size_t position = std::find(step.group.begin(), step.group.end(), number) -
                      step.group.begin();
    add(mix(4, position), command.operands);
    break;
  }
  case CommandKind::Record:
  case CommandKind::Wait:
    break;
  }
  step.read.resize(rank.cells);
  step.written.resize(rank.cells);
  for (const Phase &phase : step.phases)
    for (const Cells &cells : phase.operands)
      for (size_t i = cells.first; i < cells.first + cells.count; ++i) {
        // A tail reads what its call has just written.
        if (cells.reads && !(&phase != &step.phases[0] && step.written[i]))
          step.read[i] = true;
        if (cells.writes)
          step.written[i] = true;
      }
  step.clashes = !apart && clashes(rank, command);
}

/// Whether a command writes what it reads or writes elsewhere. Element by
/// element in place it may; a call may add to its output, its tail change it.
bool StepMaker::clashes(const Rank &rank, const Command &command) const {
  std::vector<Operand> all;
  for (const Operand *operand : operandsOf(command))
    all.push_back(*operand);
  if (command.kind == CommandKind::Copy)
    all = {{command.source, true, false}, {command.target, false, true}};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      const Operand &a = all[i], &b = all[j];
      Cells x = cellsOf(rank, a.range, a.reads, a.writes);
      Cells y = cellsOf(rank, b.range, b.reads, b.writes);
      if (!x.overlaps(y) || !(a.writes || b.writes))
        continue;
      bool inPlace = command.kind == CommandKind::Launch && a.reads &&
                     a.writes && b.reads && b.writes;
      bool isCall = command.kind == CommandKind::Call;
      if (!(x.equals(y) && (inPlace || isCall)))
        return true;
    }
  return false;
}

void StepMaker::prepareNotice(Rank &rank) {
  auto clash = [](const Step &a, const Step &b) {
    for (size_t i = 0; i < a.read.size(); ++i)
      if ((a.written[i] && (b.read[i] || b.written[i])) ||
          (a.read[i] && b.written[i]))
        return true;
    return false;
  };
  for (auto &stream : rank.streams)
    for (Step &step : stream) {
      step.noticedUntil.assign(rank.streams.size(), 0);
      for (size_t s = 0; s < rank.streams.size(); ++s) {
        if (&rank.streams[s] == &stream)
          continue;
        for (size_t i = 0; i < rank.streams[s].size(); ++i)
          if (clash(step, rank.streams[s][i]))
            step.noticedUntil[s] = 2 * (i + 1);
      }
    }
}

/// Cells of its own for each allocation.
void StepMaker::prepareApart(Rank &rank) {
  std::map<std::pair<uint32_t, uint32_t>, std::pair<uint64_t, uint64_t>> hulls;
  auto add = [&](const ByteRange &range) {
    if (range.allocation == 0)
      return;
    auto [it, isNew] =
        hulls.emplace(std::make_pair(range.segment, range.allocation),
                      std::make_pair(range.offset, range.offset + range.size));
    it->second.first = std::min(it->second.first, range.offset);
    it->second.second = std::max(it->second.second, range.offset + range.size);
  };
  for (const Command &command : rank.program->commands) {
    for (const Operand *operand : operandsOf(command))
      add(operand->range);
    add(command.source);
    add(command.target);
  }
  for (auto &[key, hull] : hulls) {
    rank.apart[key] = {rank.cells, hull.first};
    rank.cells += size_t((hull.second - hull.first) / unit);
  }
}

void StepMaker::prepareRank(Rank &rank, const Program &program,
                            uint32_t number) {
  rank.program = &program;
  rank.alias.resize(program.segments.size());
  std::iota(rank.alias.begin(), rank.alias.end(), 0);
  for (const Port &port : program.inputs)
    if (port.donatedTo >= 0)
      rank.alias[program.outputs[port.donatedTo].segment] = port.segment;
  rank.base.resize(program.segments.size());
  for (size_t i = 0; i < program.segments.size(); ++i) {
    rank.sizes.push_back(size_t(program.segments[i].size / unit));
    if (apart || rank.alias[i] == i) {
      rank.base[i] = rank.cells;
      rank.cells += rank.sizes[i];
    }
  }
  for (size_t i = 0; i < program.segments.size() && !apart; ++i)
    rank.base[i] = rank.base[rank.alias[i]];
  if (apart)
    prepareApart(rank);
  rank.streams.resize(program.streams);
  std::vector<uint32_t> records(program.events);
  for (const Command &command : program.commands) {
    Step &step = rank.streams[command.stream].emplace_back();
    step.command = &command;
    if (command.kind == CommandKind::Record)
      ++records[command.event];
    if (command.kind == CommandKind::Wait)
      step.records = records[command.event];
    prepareStep(rank, step, number);
  }
  prepareNotice(rank);
  rank.places = stateSize;
  rank.memory = stateSize + program.streams;
  stateSize += program.streams + rank.cells;
}

StepMaker::StepMaker(const std::vector<Program> &programs, bool apart)
    : apart(apart) {
  prepareUnit(programs);
  ranks.resize(programs.size());
  for (uint32_t r = 0; r < ranks.size(); ++r)
    prepareRank(ranks[r], programs[r], r);
}

std::vector<Rank>
fusion::rt::testing::makeSteps(const std::vector<Program> &programs,
                               bool apart) {
  return StepMaker(programs, apart).take();
}
