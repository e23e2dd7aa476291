//===- ScheduleExplorer.cpp - Every interleaving of a program -------------===//
//
// A state is the place of each stream and the symbols in memory; the search is
// depth first.
//
// The reduction is that of a persistent set with one step: a begin or end of a
// command whose cells meet no remaining command of the rank's other streams
// (one of the two writing) commutes with all that can still come, can't be
// disabled and disables nothing. Records and waits touch no memory and only
// ever let others go on: they are always such steps.
//
//===----------------------------------------------------------------------===//
#include "ScheduleExplorer.h"
#include "ScheduleSteps.h"

#include <algorithm>
#include <unordered_set>

using namespace fusion::rt;
using namespace fusion::rt::testing;

const char *fusion::rt::testing::name(Harm harm) {
  const char *names[] = {"none",     "race",     "unwritten",
                         "mismatch", "deadlock", "diverges"};
  return names[int(harm)];
}

namespace {

constexpr uint64_t kMostStates = 4000000;

/// Of each rank: by stream twice the commands that are done, plus one if the
/// next has begun; then its cells.
using State = std::vector<uint64_t>;

struct Move {
  uint32_t rank, stream;
};

class Explorer {
public:
  Explorer(const std::vector<Program> &programs, bool reduce, bool apart)
      : reduce(reduce), ranks(makeSteps(programs, apart)) {}
  Exploration run();

private:
  bool isDone(const State &state, const Move &at) const {
    return state[ranks[at.rank].places + at.stream] / 2 ==
           ranks[at.rank].streams[at.stream].size();
  }
  bool hasBegun(const State &state, const Move &at) const {
    return state[ranks[at.rank].places + at.stream] % 2;
  }
  const Step &stepOf(const State &state, const Move &at) const {
    return ranks[at.rank]
        .streams[at.stream][state[ranks[at.rank].places + at.stream] / 2];
  }
  bool isEnabled(const State &state, const Move &at) const;
  bool isUnnoticed(const State &state, const Move &at) const;
  bool isUnnoticedByRank(const State &state, const Move &at) const;
  void visit(State state);
  void apply(State &state, const Move &at);
  void begin(State &state, const Move &at);
  void end(State &state, const Move &at);
  void meet(State &state, const Move &at);
  void finish(const State &state);
  void harm(Harm kind, const std::string &what);
  bool isOver() const { return result.harm != Harm::None || !result.complete; }

  bool reduce;
  std::vector<Rank> ranks;
  std::unordered_set<uint64_t> visited;
  std::vector<std::pair<Move, uint64_t>> path; ///< with the stream's place
  bool hasOutputs = false;
  Exploration result;
};

} // namespace

void Explorer::harm(Harm kind, const std::string &what) {
  result.harm = kind;
  result.outputs.clear();
  result.what = what + "\n";
  for (const auto &[at, place] : path) {
    const Command &command =
        *ranks[at.rank].streams[at.stream][place / 2].command;
    result.what += "  rank " + std::to_string(at.rank) + " stream " +
                   std::to_string(at.stream) +
                   (command.kind == CommandKind::Record ? " records "
                    : command.kind == CommandKind::Wait ? " passes "
                    : place % 2                         ? " ends "
                                                        : " begins ") +
                   command.name + "\n";
  }
}

bool Explorer::isEnabled(const State &state, const Move &at) const {
  if (isDone(state, at))
    return false;
  const Step &step = stepOf(state, at);
  const Rank &rank = ranks[at.rank];
  if (step.command->kind == CommandKind::Wait) {
    uint32_t done = 0;
    for (size_t s = 0; s < rank.streams.size(); ++s)
      for (size_t i = 0; i < state[rank.places + s] / 2; ++i) {
        const Command &other = *rank.streams[s][i].command;
        done += other.kind == CommandKind::Record &&
                other.event == step.command->event;
      }
    return done >= step.records;
  }
  if (!step.meets || !hasBegun(state, at))
    return true;
  // The whole group is here, on the same communicator.
  return std::all_of(step.group.begin(), step.group.end(), [&](uint32_t r) {
    Move there{r, at.stream};
    return at.stream < ranks[r].streams.size() && !isDone(state, there) &&
           hasBegun(state, there) && stepOf(state, there).meets &&
           stepOf(state, there).command->collective.axes ==
               step.command->collective.axes;
  });
}

bool Explorer::isUnnoticedByRank(const State &state, const Move &at) const {
  const Step &step = stepOf(state, at);
  for (size_t s = 0; s < ranks[at.rank].streams.size(); ++s)
    if (state[ranks[at.rank].places + s] < step.noticedUntil[s])
      return false;
  return true;
}

bool Explorer::isUnnoticed(const State &state, const Move &at) const {
  const Step &step = stepOf(state, at);
  if (!step.meets || !hasBegun(state, at))
    return isUnnoticedByRank(state, at);
  return std::all_of(step.group.begin(), step.group.end(), [&](uint32_t r) {
    return isUnnoticedByRank(state, {r, at.stream});
  });
}

void Explorer::begin(State &state, const Move &at) {
  const Rank &rank = ranks[at.rank];
  const Step &step = stepOf(state, at);
  std::string who =
      "rank " + std::to_string(at.rank) + " '" + step.command->name + "'";
  if (step.clashes)
    return harm(Harm::Race, who + " writes over its own operands");
  for (uint32_t s = 0; s < rank.streams.size(); ++s) {
    Move other{at.rank, s};
    if (s == at.stream || isDone(state, other) || !hasBegun(state, other))
      continue;
    const Step &running = stepOf(state, other);
    for (size_t i = 0; i < rank.cells; ++i)
      if ((step.written[i] && (running.read[i] || running.written[i])) ||
          (step.read[i] && running.written[i]))
        return harm(Harm::Race, who + " meets '" + running.command->name +
                                    "' at cell " + std::to_string(i));
  }
  for (size_t i = 0; i < rank.cells; ++i)
    if (step.read[i] && state[rank.memory + i] == 0)
      return harm(Harm::Unwritten, who + " reads cell " + std::to_string(i) +
                                       ", which nothing wrote");
  ++state[rank.places + at.stream];
}

void Explorer::end(State &state, const Move &at) {
  const Rank &rank = ranks[at.rank];
  const Step &step = stepOf(state, at);
  uint64_t *memory = state.data() + rank.memory;
  if (step.command->kind == CommandKind::Copy) {
    const Cells &from = step.phases[0].operands[0];
    std::copy_n(memory + from.first, from.count,
                memory + step.phases[0].operands[1].first);
  } else {
    for (const Phase &phase : step.phases) {
      uint64_t value = phase.seed;
      for (const Cells &cells : phase.operands)
        for (size_t i = 0; cells.reads && i < cells.count; ++i)
          value = mix(value, memory[cells.first + i]);
      for (size_t k = 0; k < phase.operands.size(); ++k) {
        const Cells &cells = phase.operands[k];
        for (size_t i = 0; cells.writes && i < cells.count; ++i)
          memory[cells.first + i] = mix(mix(value, k), i);
      }
    }
  }
  ++state[rank.places + at.stream];
}

/// The end of a collective, for its group.
void Explorer::meet(State &state, const Move &at) {
  const Step &mine = stepOf(state, at);
  const CollectiveCall &call = mine.command->collective;
  // Part by part the inputs of all members, before any is written over.
  std::vector<std::vector<const uint64_t *>> inputs;
  State before = state;
  auto place = [&](const Step &step, size_t part, bool output) {
    size_t operand = 0;
    for (size_t i = 0; i < part; ++i)
      operand += step.command->collective.parts[i].inPlace ? 1 : 2;
    bool inPlace = step.command->collective.parts[part].inPlace;
    return step.phases[0].operands[operand + (output && !inPlace)];
  };
  for (uint32_t r : mine.group) {
    const Step &step = stepOf(state, {r, at.stream});
    const CollectiveCall &other = step.command->collective;
    bool fits = other.op == call.op && other.reduction == call.reduction &&
                other.dim == call.dim && other.splitDim == call.splitDim &&
                other.concatDim == call.concatDim && other.root == call.root &&
                other.sources == call.sources &&
                other.targets == call.targets &&
                other.parts.size() == call.parts.size();
    for (size_t p = 0; fits && p < call.parts.size(); ++p)
      fits = place(step, p, false).count == place(mine, p, false).count &&
             place(step, p, true).count == place(mine, p, true).count &&
             other.parts[p].dtype == call.parts[p].dtype;
    if (!fits)
      return harm(Harm::Mismatch, "'" + mine.command->name + "' meets '" +
                                      step.command->name + "' of rank " +
                                      std::to_string(r));
  }
  for (size_t p = 0; p < call.parts.size(); ++p) {
    size_t in = place(mine, p, false).count, out = place(mine, p, true).count;
    size_t size = mine.group.size();
    if (call.op == CollectiveOp::AllGather       ? out != in * size
        : call.op == CollectiveOp::ReduceScatter ? in != out * size
                                                 : in != out)
      return harm(Harm::Mismatch, "'" + mine.command->name +
                                      "' has operands for a group of another "
                                      "size");
  }
  uint64_t kind =
      mix(mix(uint64_t(call.op), uint64_t(call.reduction)), uint64_t(call.dim));
  for (size_t p = 0; p < call.parts.size(); ++p) {
    bool leading = std::all_of(
        call.parts[p].shape.begin(),
        call.parts[p].shape.begin() +
            std::min(call.parts[p].shape.size(), size_t(call.dim)),
        [](Affine size) { return size.scale == 0 && size.base == 1; });
    auto input = [&](size_t member, size_t cell) {
      uint32_t r = mine.group[member];
      return before[ranks[r].memory +
                    place(stepOf(before, {r, at.stream}), p, false).first +
                    cell];
    };
    auto combined = [&](size_t cell) {
      uint64_t value = kind;
      for (size_t m = 0; m < mine.group.size(); ++m)
        value = mix(value, input(m, cell));
      return value;
    };
    size_t count = place(mine, p, false).count;
    uint64_t everything = kind;
    for (size_t i = 0; i < count; ++i)
      everything = mix(everything, combined(i));
    for (size_t m = 0; m < mine.group.size(); ++m) {
      uint32_t r = mine.group[m];
      Cells target = place(stepOf(before, {r, at.stream}), p, true);
      for (size_t i = 0; i < target.count; ++i) {
        uint64_t value = 0;
        if (call.op == CollectiveOp::AllReduce)
          value = combined(i);
        else if (call.op == CollectiveOp::AllGather && leading)
          value = input(i / count, i % count);
        else if (call.op == CollectiveOp::ReduceScatter && leading)
          value = combined(m * target.count + i);
        else
          value = mix(mix(everything, m), i);
        state[ranks[r].memory + target.first + i] = value;
      }
    }
  }
  for (uint32_t r : mine.group)
    ++state[ranks[r].places + at.stream];
}

void Explorer::apply(State &state, const Move &at) {
  const Step &step = stepOf(state, at);
  bool isSync = step.command->kind == CommandKind::Record ||
                step.command->kind == CommandKind::Wait;
  path.push_back({at, state[ranks[at.rank].places + at.stream]});
  if (isSync)
    state[ranks[at.rank].places + at.stream] += 2;
  else if (!hasBegun(state, at))
    begin(state, at);
  else if (step.meets)
    meet(state, at);
  else
    end(state, at);
}

void Explorer::finish(const State &state) {
  std::vector<uint64_t> outputs;
  for (const Rank &rank : ranks)
    for (const Port &port : rank.program->outputs) {
      size_t first = rank.memory + rank.base[port.segment];
      size_t count = rank.sizes[port.segment];
      outputs.insert(outputs.end(), state.begin() + first,
                     state.begin() + first + count);
    }
  if (std::count(outputs.begin(), outputs.end(), 0))
    return harm(Harm::Unwritten, "an output is not written");
  if (hasOutputs && outputs != result.outputs)
    return harm(Harm::Diverges, "the outputs differ from those of another "
                                "order");
  hasOutputs = true;
  result.outputs = std::move(outputs);
}

void Explorer::visit(State state) {
  size_t depth = path.size();
  std::vector<Move> moves;
  bool again = true;
  while (again) {
    again = false;
    moves.clear();
    for (uint32_t r = 0; r < ranks.size() && !again; ++r)
      for (uint32_t s = 0; s < ranks[r].streams.size() && !again; ++s) {
        Move at{r, s};
        if (!isEnabled(state, at))
          continue;
        if (reduce && isUnnoticed(state, at)) {
          apply(state, at);
          if (isOver())
            return;
          again = true;
          continue;
        }
        // A collective ends once, not once a member.
        const Step &step = stepOf(state, at);
        if (step.meets && hasBegun(state, at) && step.group[0] != r)
          continue;
        moves.push_back(at);
      }
  }
  uint64_t key = 0;
  for (uint64_t word : state)
    key = mix(key, word);
  if (visited.insert(key).second) {
    if (++result.states > kMostStates)
      result.complete = false;
    for (size_t i = 0; i < moves.size() && !isOver(); ++i) {
      size_t here = path.size();
      State after = state;
      apply(after, moves[i]);
      if (!isOver())
        visit(std::move(after));
      path.resize(here);
    }
    if (moves.empty() && !isOver()) {
      std::string stuck;
      for (uint32_t r = 0; r < ranks.size(); ++r)
        for (uint32_t s = 0; s < ranks[r].streams.size(); ++s)
          if (!isDone(state, {r, s}))
            stuck += " rank " + std::to_string(r) + " '" +
                     stepOf(state, {r, s}).command->name + "'";
      if (!stuck.empty())
        harm(Harm::Deadlock, "stuck:" + stuck);
      else
        finish(state);
    }
  }
  path.resize(depth);
}

Exploration Explorer::run() {
  State start(ranks.back().memory + ranks.back().cells);
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const Program &program = *ranks[r].program;
    auto fill = [&](uint32_t segment, uint64_t seed) {
      for (size_t i = 0; i < ranks[r].sizes[segment]; ++i)
        start[ranks[r].memory + ranks[r].base[segment] + i] = mix(seed, i);
    };
    for (uint32_t i = 0; i < program.inputs.size(); ++i)
      fill(program.inputs[i].segment, mix(mix(5, r), i));
    for (uint32_t i = 0; i < program.segments.size(); ++i)
      if (program.segments[i].kind == SegmentKind::Const)
        fill(i, 6);
  }
  visit(std::move(start));
  return std::move(result);
}

Exploration fusion::rt::testing::explore(const std::vector<Program> &ranks,
                                         bool reduce) {
  return Explorer(ranks, reduce, /*apart=*/false).run();
}

Exploration fusion::rt::testing::meaningOf(const Program &program,
                                           uint32_t ranks) {
  Program inOrder = program;
  inOrder.streams = 1;
  inOrder.commands.clear();
  for (const Command &command : program.commands)
    if (command.kind != CommandKind::Record &&
        command.kind != CommandKind::Wait) {
      inOrder.commands.push_back(command);
      inOrder.commands.back().stream = 0;
    }
  return Explorer(std::vector<Program>(ranks, inOrder), /*reduce=*/true,
                  /*apart=*/true)
      .run();
}
