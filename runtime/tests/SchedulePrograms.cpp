//===- SchedulePrograms.cpp - Small correct programs ----------------------===//
//
// A shape lists tasks over buffers in an order in which they are right on one
// stream; lowering makes a program of them.
//
//===----------------------------------------------------------------------===//
#include "SchedulePlan.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::testing;

namespace {

class Maker {
public:
  explicit Maker(Random &random) : random(random) {}
  Program make();

private:
  // Shapes.
  void backward();
  void gathers();
  void sharded();
  void twoCommunicators();
  void anyGraph();

  size_t arena(uint64_t units) {
    buffers.push_back({units});
    return buffers.size() - 1;
  }
  size_t port(bool isInput, uint64_t units);
  /// An input and the output that takes its bytes over.
  std::pair<size_t, size_t> donated(uint64_t units);
  Use all(size_t buffer) const { return {buffer, 0, buffers[buffer].units}; }
  Task &launch(uint32_t stream, const std::string &name, std::vector<Use> reads,
               std::vector<Use> writes, std::vector<Use> updates = {});
  Task &collective(uint32_t stream, CollectiveOp op, const std::string &name,
                   std::vector<Use> reads, std::vector<Use> writes,
                   std::vector<Use> updates = {});
  bool chance(size_t percent) { return pick(random, 100) < percent; }

  Random &random;
  Program program;
  std::vector<Task> tasks;
  std::vector<Buffer> buffers;
  std::vector<uint32_t> group; ///< axes of two ranks
};

} // namespace

size_t Maker::port(bool isInput, uint64_t units) {
  Port port;
  port.segment = uint32_t(program.segments.size());
  std::vector<Port> &list = isInput ? program.inputs : program.outputs;
  port.tensor.name = (isInput ? "in" : "out") + std::to_string(list.size());
  port.tensor.shape = {{0, int64_t(units * kUnit / 4)}};
  list.push_back(port);
  program.segments.push_back(
      {isInput ? SegmentKind::Input : SegmentKind::Output, units * kUnit, 64});
  buffers.push_back({units, port.segment});
  return buffers.size() - 1;
}

std::pair<size_t, size_t> Maker::donated(uint64_t units) {
  size_t input = port(true, units), output = port(false, units);
  program.inputs.back().donatedTo = int32_t(program.outputs.size() - 1);
  return {input, output};
}

Task &Maker::launch(uint32_t stream, const std::string &name,
                    std::vector<Use> reads, std::vector<Use> writes,
                    std::vector<Use> updates) {
  Task task;
  task.stream = stream;
  task.name = name;
  task.reads = std::move(reads);
  task.writes = std::move(writes);
  task.updates = std::move(updates);
  tasks.push_back(task);
  return tasks.back();
}

Task &Maker::collective(uint32_t stream, CollectiveOp op,
                        const std::string &name, std::vector<Use> reads,
                        std::vector<Use> writes, std::vector<Use> updates) {
  Task &task = launch(stream, name, std::move(reads), std::move(writes),
                      std::move(updates));
  task.kind = CommandKind::Collective;
  task.op = op;
  task.axes = group;
  return task;
}

/// Gradients of some layers go into buckets, a bucket is reduced beside the
/// next layer's gradient, the update waits.
void Maker::backward() {
  size_t layers = 2 + pick(random, 2), perBucket = 1 + pick(random, 2);
  size_t delta = port(true, 1);
  std::vector<size_t> buckets;
  uint32_t stream = chance(90) ? 1 : 0;
  for (size_t i = 0; i < layers; ++i) {
    size_t slot = i % perBucket;
    if (slot == 0)
      buckets.push_back(arena(std::min(perBucket, layers - i)));
    std::vector<Use> writes = {{buckets.back(), slot, 1}};
    size_t next = arena(1);
    if (i + 1 < layers)
      writes.push_back(all(next));
    launch(0, "grad" + std::to_string(i), {all(delta)}, writes);
    delta = next;
    if (slot + 1 == perBucket || i + 1 == layers) {
      std::vector<Use> parts;
      for (size_t part = 0; part <= slot; ++part)
        parts.push_back({buckets.back(), part, 1});
      collective(stream, CollectiveOp::AllReduce,
                 "reduce" + std::to_string(buckets.size() - 1), {}, {}, parts);
    }
  }
  bool together = chance(40);
  std::vector<Use> read, update;
  for (size_t i = 0; i < buckets.size(); ++i) {
    auto [input, output] = donated(buffers[buckets[i]].units);
    read.push_back(all(buckets[i]));
    update.push_back(all(input));
    update.push_back(all(output));
    if (together && i + 1 < buckets.size())
      continue;
    launch(0, "update" + std::to_string(i), read, {}, update);
    read.clear();
    update.clear();
  }
}

/// Parameters are gathered on stream 2 while the layer before computes.
void Maker::gathers() {
  size_t layers = 2 + pick(random, 2);
  size_t depth = 1 + pick(random, 2); // gathers in front of the layer
  size_t x = port(true, 1);
  std::vector<size_t> full(layers), shards(layers);
  for (size_t i = 0; i < layers; ++i) {
    shards[i] = port(true, 1);
    full[i] = arena(2);
  }
  auto gather = [&](size_t i) {
    if (i < layers)
      collective(2, CollectiveOp::AllGather, "gather" + std::to_string(i),
                 {all(shards[i])}, {all(full[i])});
  };
  for (size_t i = 0; i < depth; ++i)
    gather(i);
  for (size_t i = 0; i < layers; ++i) {
    size_t y = i + 1 < layers ? arena(1) : port(false, 1);
    launch(0, "layer" + std::to_string(i), {all(x), all(full[i])}, {all(y)});
    x = y;
    gather(i + depth);
  }
}

/// A parameter in shards is gathered for the layer; the gradient is reduced and
/// scattered, the shard updated in place, and gathered again for the next use.
void Maker::sharded() {
  size_t x = port(true, 1);
  size_t count = 1 + pick(random, 2);
  for (size_t i = 0; i < count; ++i) {
    std::string number = std::to_string(i);
    size_t gradient = arena(2), shard = arena(1);
    std::vector<Use> used = {all(x)};
    bool updates = chance(60);
    auto [input, output] =
        updates ? donated(1) : std::make_pair(port(true, 1), SIZE_MAX);
    if (count == 1) {
      size_t whole = arena(2);
      collective(2, CollectiveOp::AllGather, "gather" + number, {all(input)},
                 {all(whole)});
      used.push_back(all(whole));
    }
    launch(0, "grad" + number, used, {all(gradient)});
    collective(1, CollectiveOp::ReduceScatter, "scatter" + number,
               {all(gradient)}, {all(shard)});
    if (updates) {
      if (chance(30))
        launch(0, "norm" + number, {all(input)}, {all(port(false, 1))});
      launch(0, "update" + number, {all(shard)}, {}, {all(input), all(output)});
      size_t whole = chance(50) ? port(false, 2) : arena(2);
      collective(2, CollectiveOp::AllGather, "again" + number, {all(output)},
                 {all(whole)});
      if (buffers[whole].segment == 0)
        launch(0, "use" + number, {all(whole)}, {all(port(false, 1))});
      continue;
    }
    size_t copied = arena(1);
    launch(chance(50) ? 1 : 0, "copy" + number, {all(shard)}, {all(copied)})
        .kind = CommandKind::Copy;
    launch(0, "clip" + number, {all(input)}, {all(port(false, 1))},
           {all(copied)});
  }
}

/// Activations are reduced on stream 0 over one communicator, gradients on
/// stream 1 over another of the same ranks.
void Maker::twoCommunicators() {
  size_t x = port(true, 1);
  std::vector<size_t> gradients;
  size_t layers = 2 + pick(random, 2);
  for (size_t i = 0; i < layers; ++i) {
    std::string number = std::to_string(i);
    size_t partial = arena(1), gradient = arena(1);
    launch(0, "layer" + number, {all(x)}, {all(partial), all(gradient)});
    collective(0, CollectiveOp::AllReduce, "sum" + number, {}, {},
               {all(partial)})
        .axes = {0};
    collective(1, CollectiveOp::AllReduce, "reduce" + number, {}, {},
               {all(gradient)})
        .axes = {0, 1};
    gradients.push_back(gradient);
    x = partial;
  }
  std::vector<Use> reads = {all(x)};
  for (size_t gradient : gradients)
    reads.push_back(all(gradient));
  launch(0, "end", reads, {all(port(false, 1))});
}

void Maker::anyGraph() {
  std::vector<size_t> values = {port(true, 1), port(true, 2)};
  size_t count = 4 + pick(random, 4);
  uint32_t streams = uint32_t(1 + pick(random, 3));
  std::vector<size_t> own; // arena
  for (size_t i = 0; i < count; ++i) {
    uint32_t stream = uint32_t(pick(random, streams));
    size_t input = values[pick(random, values.size())];
    std::string number = std::to_string(i);
    uint64_t units = buffers[input].units;
    size_t output = SIZE_MAX;
    switch (pick(random, 6)) {
    case 0:
      if (!own.empty()) {
        size_t target = own[pick(random, own.size())];
        collective(stream, CollectiveOp::AllReduce, "reduce" + number, {}, {},
                   {all(target)});
        break;
      }
      [[fallthrough]];
    case 1: {
      size_t other = values[pick(random, values.size())];
      output = arena(1 + pick(random, 2));
      launch(stream, "kernel" + number, {all(input), all(other)},
             {all(output)});
      break;
    }
    case 2:
      output = arena(units * 2);
      collective(stream, CollectiveOp::AllGather, "gather" + number,
                 {all(input)}, {all(output)});
      break;
    case 3:
      if (units % 2 == 0) {
        output = arena(units / 2);
        collective(stream, CollectiveOp::ReduceScatter, "scatter" + number,
                   {all(input)}, {all(output)});
        break;
      }
      [[fallthrough]];
    case 4:
      output = arena(units);
      launch(stream, "copy" + number, {all(input)}, {all(output)}).kind =
          CommandKind::Copy;
      break;
    default:
      if (own.empty())
        break;
      size_t target = own[pick(random, own.size())];
      if (target != input)
        launch(stream, "add" + number, {all(input)}, {}, {all(target)});
      break;
    }
    if (output == SIZE_MAX)
      continue;
    values.push_back(output);
    own.push_back(output);
  }
  std::vector<Use> reads;
  for (size_t value : values)
    if (chance(50) || value == values.back())
      reads.push_back(all(value));
  launch(0, "end", reads, {all(port(false, 1))});
}

Program Maker::make() {
  program.name = "program";
  program.mesh.name = "mesh";
  // Groups of two ranks, and of one.
  switch (pick(random, 3)) {
  case 0:
    program.mesh.axes = {{"a", 2}, {"b", 1}};
    group = {0};
    break;
  case 1:
    program.mesh.axes = {{"a", 2}, {"b", 1}};
    group = {0, 1};
    break;
  default:
    program.mesh.axes = {{"a", 1}, {"b", 2}};
    group = {1};
    break;
  }
  program.segments.push_back({});
  switch (pick(random, 5)) {
  case 0:
    backward();
    break;
  case 1:
    gathers();
    break;
  case 2:
    sharded();
    break;
  case 3:
    program.mesh.axes = {{"a", 2}, {"b", chance(10) ? 2 : 1}};
    twoCommunicators();
    break;
  default:
    anyGraph();
    break;
  }
  // Without overlap all is on one stream.
  if (chance(20))
    for (Task &task : tasks)
      task.stream = 0;
  return lower({std::move(program), std::move(tasks), std::move(buffers)},
               random);
}

Program fusion::rt::testing::makeProgram(Random &random) {
  return Maker(random).make();
}
