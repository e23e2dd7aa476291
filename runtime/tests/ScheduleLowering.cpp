//===- ScheduleLowering.cpp - From tasks to commands ----------------------===//
//
// Does what the compiler does, in its own way and carelessly of cost. Events
// are recorded right behind a task or as late as possible, some are used again.
//
//===----------------------------------------------------------------------===//
#include "SchedulePlan.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::testing;

namespace {

class Lowering {
public:
  Lowering(Plan plan, Random &random)
      : random(random), program(std::move(plan.program)),
        tasks(std::move(plan.tasks)), buffers(std::move(plan.buffers)) {}
  Program run();

private:
  bool chance(size_t percent) { return pick(random, 100) < percent; }
  void findDependencies();
  void placeBuffers();
  void emit();
  Command commandOf(const Task &task) const;
  void waitFor(size_t source, size_t task);
  bool isKnown(uint32_t stream, size_t source) const {
    return clocks[stream][tasks[source].stream] >= positions[source];
  }
  bool touch(const Use &a, const Use &b) const;

  Random &random;
  Program program;
  std::vector<Task> tasks;
  std::vector<Buffer> buffers;
  std::vector<std::vector<size_t>> dependencies; ///< by task, sorted
  using Clock = std::vector<size_t>;
  std::vector<Clock> clocks;      ///< by stream
  std::vector<Clock> clocksAfter; ///< by task
  std::vector<size_t> positions;  ///< by task, from 1 in its stream
  std::vector<int64_t> eventOf;   ///< by task, recorded right behind it, or -1
  struct Item {
    size_t key; ///< 2 * task for what stands before or is it, + 1 behind it
    Command command;
  };
  std::vector<Item> items;
  struct LateEvent {
    uint32_t event;
    std::vector<std::pair<uint32_t, size_t>> waits; ///< stream, next position
  };
  std::vector<LateEvent> lateEvents;
};

} // namespace

bool Lowering::touch(const Use &a, const Use &b) const {
  auto memory = [&](const Use &use) {
    uint32_t segment = buffers[use.buffer].segment;
    // A donated input and its output are the same bytes.
    for (const Port &port : program.inputs)
      if (port.donatedTo >= 0 &&
          program.outputs[port.donatedTo].segment == segment)
        segment = port.segment;
    return segment == 0 ? SIZE_MAX - use.buffer : segment;
  };
  return memory(a) == memory(b) && a.first < b.first + b.count &&
         b.first < a.first + a.count;
}

void Lowering::findDependencies() {
  dependencies.resize(tasks.size());
  auto any = [&](const std::vector<Use> &a, const std::vector<Use> &b) {
    for (const Use &x : a)
      for (const Use &y : b)
        if (touch(x, y))
          return true;
    return false;
  };
  auto together = [](std::vector<Use> a, const std::vector<Use> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  for (size_t i = 0; i < tasks.size(); ++i) {
    auto written = together(tasks[i].writes, tasks[i].updates);
    auto read = together(tasks[i].reads, tasks[i].updates);
    for (const Use &use : together(read, tasks[i].writes)) {
      Buffer &buffer = buffers[use.buffer];
      buffer.firstTask = std::min(buffer.firstTask, i);
      buffer.lastTask = i;
    }
    for (size_t j = 0; j < i; ++j) {
      auto writtenBefore = together(tasks[j].writes, tasks[j].updates);
      auto readBefore = together(tasks[j].reads, tasks[j].updates);
      if (any(written, writtenBefore) || any(written, readBefore) ||
          any(read, writtenBefore))
        dependencies[i].push_back(j);
    }
  }
}

/// First fit into slots whose owner is dead in list order; the new owner's
/// tasks then depend on all the tasks of the old one.
void Lowering::placeBuffers() {
  struct Slot {
    uint64_t offset, units;
    size_t owner;
  };
  std::vector<Slot> slots;
  std::vector<size_t> order;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].segment == 0 && buffers[i].firstTask != SIZE_MAX)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(buffers[a].firstTask, a) <
           std::make_pair(buffers[b].firstTask, b);
  });
  auto users = [&](size_t buffer) {
    std::vector<size_t> list;
    for (size_t i = 0; i < tasks.size(); ++i)
      for (auto *uses : {&tasks[i].reads, &tasks[i].writes, &tasks[i].updates})
        for (const Use &use : *uses)
          if (use.buffer == buffer)
            list.push_back(i);
    return list;
  };
  uint64_t end = 0;
  for (size_t index : order) {
    Buffer &buffer = buffers[index];
    bool found = false;
    for (Slot &slot : slots) {
      if (slot.units < buffer.units ||
          buffers[slot.owner].lastTask >= buffer.firstTask || !chance(85))
        continue;
      for (size_t later : users(index))
        for (size_t earlier : users(slot.owner))
          dependencies[later].push_back(earlier);
      slot.owner = index;
      buffer.offset = slot.offset;
      found = true;
      break;
    }
    if (found)
      continue;
    end += pick(random, 2);
    buffer.offset = end;
    slots.push_back({end, buffer.units, index});
    end += buffer.units;
  }
  program.segments[0] = {SegmentKind::Private,
                         std::max<uint64_t>(end, 1) * kUnit, 64};
  program.peakBytes = program.segments[0].size;
  for (auto &list : dependencies) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

Command Lowering::commandOf(const Task &task) const {
  Command command;
  command.kind = task.kind;
  command.stream = task.stream;
  command.name = task.name;
  auto range = [&](const Use &use) {
    const Buffer &buffer = buffers[use.buffer];
    return ByteRange{buffer.segment, (buffer.offset + use.first) * kUnit,
                     use.count * kUnit,
                     buffer.segment == 0 ? uint32_t(use.buffer + 1) : 0};
  };
  if (task.kind == CommandKind::Copy) {
    command.source = range(task.reads[0]);
    command.target = range(task.writes[0]);
    command.copySize = {0, int64_t(command.source.size)};
    return command;
  }
  auto part = [&](const Use &use, bool inPlace) {
    CollectivePart part;
    part.shape = {{0, int64_t(use.count * kUnit / 4)}};
    part.inPlace = inPlace;
    return part;
  };
  if (task.kind == CommandKind::Collective) {
    command.collective.op = task.op;
    command.collective.axes = task.axes;
    for (size_t i = 0; i < task.reads.size(); ++i) {
      command.collective.parts.push_back(part(task.reads[i], false));
      command.operands.push_back({range(task.reads[i]), true, false});
      command.operands.push_back({range(task.writes[i]), false, true});
    }
    for (const Use &use : task.updates) {
      command.collective.parts.push_back(part(use, true));
      command.operands.push_back({range(use), true, true});
    }
    return command;
  }
  // A kernel of its own for each task.
  command.launch.kernel = uint32_t(&task - tasks.data());
  for (const Use &use : task.reads)
    command.launch.operands.push_back({range(use), true, false});
  for (const Use &use : task.updates)
    command.launch.operands.push_back({range(use), true, true});
  for (const Use &use : task.writes)
    command.launch.operands.push_back({range(use), false, true});
  command.launch.units = {0, 1};
  return command;
}

/// Makes `task`'s stream wait for `source`: by an event right behind the
/// source, or by one recorded now, behind all that its stream has so far.
void Lowering::waitFor(size_t source, size_t task) {
  uint32_t from = tasks[source].stream, to = tasks[task].stream;
  Command command;
  Clock clock = clocksAfter[source];
  auto record = [&](size_t key, uint32_t event) {
    command.kind = CommandKind::Record;
    command.stream = from;
    command.event = event;
    command.name = "event " + std::to_string(event);
    items.push_back({key, command});
  };
  if (eventOf[source] < 0 && chance(30)) {
    clock = clocks[from];
    // An event may be used again once all that waited for it are known to be
    // through: the task behind each wait is done.
    LateEvent *late = nullptr;
    for (LateEvent &each : lateEvents)
      if (std::all_of(each.waits.begin(), each.waits.end(), [&](auto &wait) {
            return clock[wait.first] >= wait.second;
          }))
        late = &each;
    if (!late || chance(30)) {
      lateEvents.push_back({program.events++, {}});
      late = &lateEvents.back();
    }
    record(2 * task, late->event);
    late->waits = {{to, positions[task]}};
    command.event = late->event;
  } else {
    if (eventOf[source] < 0) {
      eventOf[source] = program.events++;
      record(2 * source + 1, uint32_t(eventOf[source]));
    }
    command.event = uint32_t(eventOf[source]);
  }
  command.kind = CommandKind::Wait;
  command.stream = to;
  command.name = "event " + std::to_string(command.event);
  items.push_back({2 * task, command});
  for (size_t s = 0; s < clock.size(); ++s)
    clocks[to][s] = std::max(clocks[to][s], clock[s]);
}

void Lowering::emit() {
  program.streams = 1;
  for (const Task &task : tasks)
    program.streams = std::max(program.streams, task.stream + 1);
  clocks.assign(program.streams, Clock(program.streams));
  clocksAfter.resize(tasks.size());
  eventOf.assign(tasks.size(), -1);
  Clock counts(program.streams);
  for (const Task &task : tasks)
    positions.push_back(++counts[task.stream]);
  for (size_t i = 0; i < tasks.size(); ++i) {
    uint32_t stream = tasks[i].stream;
    for (size_t source : dependencies[i])
      if (!isKnown(stream, source)) {
        // The last task of that stream that is needed stands for the others.
        size_t last = source;
        for (size_t other : dependencies[i])
          if (tasks[other].stream == tasks[source].stream)
            last = other;
        waitFor(last, i);
      }
    items.push_back({2 * i, commandOf(tasks[i])});
    ++clocks[stream][stream];
    clocksAfter[i] = clocks[stream];
  }
  std::vector<std::pair<size_t, size_t>> order; // key, index
  for (size_t i = 0; i < items.size(); ++i)
    order.emplace_back(items[i].key, i);
  std::sort(order.begin(), order.end());
  for (const auto &[key, index] : order)
    program.commands.push_back(std::move(items[index].command));
}

Program Lowering::run() {
  findDependencies();
  placeBuffers();
  emit();
  return std::move(program);
}

Program fusion::rt::testing::lower(Plan plan, Random &random) {
  return Lowering(std::move(plan), random).run();
}
