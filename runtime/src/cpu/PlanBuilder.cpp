//===- PlanBuilder.cpp - Flattens a program for one batch size ------------===//
//
// A call with a tail is cut along its output's leading dimension when the whole
// output would not stay in the cache until the tail reads it; each part is one
// primitive step followed by one kernel step.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Mesh.h"
#include "Plan.h"
#include "Text.h"
#include "Threads.h"

#include <algorithm>
#include <optional>

using namespace fusion::rt;

/// Outputs up to this many bytes are computed whole before their tail runs:
/// they stay in a second-level cache (1-2 MiB on current cores) beside weights.
static constexpr uint64_t kTailBytes = 256 << 10;

/// Calls of fewer multiply-adds run on one thread: they take about as long as
/// waking the others (a few microseconds).
static constexpr double kParallelMacs = 1 << 17;

/// Threads that share the members of one call, at most.
static constexpr int64_t kMaxSideBySide = 64;

namespace fusion::rt {

class PlanBuilder {
public:
  PlanBuilder(const ModuleView &view, Library &library,
              const std::vector<KernelFunction> &kernels,
              const std::vector<char *> &segments,
              const std::vector<Group> &groups, uint32_t rank, int64_t batch)
      : program(view.module.program), library(library), kernels(kernels),
        segments(segments), groups(groups), rank(rank), batch(batch),
        recorded(program.events), plan(std::make_unique<Plan>()) {}

  Expected<std::unique_ptr<Plan>> build();

private:
  Status addCall(const Command &command);
  Status addMembers(const Command &command);
  void addCollective(const Command &each);
  void addEvent(const Command &each);
  void splitStreams();
  Status addPrimitive(const Command &command, const Operand *operands,
                      int64_t from, int64_t rows);
  void addKernel(const KernelLaunch &launch, int64_t begin, int64_t end);
  void addCopy(const ByteRange &target, uint64_t targetOffset,
               const ByteRange &source, uint64_t sourceOffset, uint64_t size);
  void addFill(const LibraryCall &call, const Operand *operands);

  double multiplyAdds(const LibraryCall &call, int64_t rows) const;
  Step &addStep(Step::Kind kind);
  void addSlot(const ByteRange &range, uint64_t extra = 0);
  /// A slot for `bytes` that are needed only within one command.
  void addTemporarySlot(uint64_t bytes);
  void bindMemory(const dnnl::memory &memory, const ByteRange &range,
                  uint64_t extra = 0);

  bool isBound(uint32_t segment) const {
    SegmentKind kind = program.segments[segment].kind;
    return kind == SegmentKind::Input || kind == SegmentKind::Output;
  }

  const Program &program;
  Library &library;
  const std::vector<KernelFunction> &kernels;
  const std::vector<char *> &segments;
  const std::vector<Group> &groups;
  uint32_t rank;
  int64_t batch;
  std::vector<int64_t> recorded; ///< by event, so far in list order
  std::unique_ptr<Plan> plan;
  uint64_t temporaryBytes = 0;
  /// Whether two ranges begin at the same byte, donated ones included.
  bool startTogether(const ByteRange &a, const ByteRange &b) const;

  /// Where the next call's scratchpad and temporary start: behind those of
  /// the members that run beside it.
  uint64_t scratchpadStart = 0, temporaryStart = 0;
  uint32_t command = 0;
  bool isFirst = true;
};

} // namespace fusion::rt

Step &PlanBuilder::addStep(Step::Kind kind) {
  Step step;
  step.kind = kind;
  step.command = command;
  step.startsCommand = isFirst;
  step.slot = uint32_t(plan->slots.size());
  isFirst = false;
  plan->steps.push_back(step);
  return plan->steps.back();
}

void PlanBuilder::addSlot(const ByteRange &range, uint64_t extra) {
  uint64_t offset = range.offset + extra;
  if (isBound(range.segment))
    plan->slotPatches.push_back(
        {uint32_t(plan->slots.size()), range.segment, offset});
  char *base = segments[range.segment];
  plan->slots.push_back(base ? base + offset : nullptr);
}

/// Operands of one member of a call.
static size_t operandCount(const LibraryCall &call) {
  return call.op == LibraryOp::AvgPool ? 2 : 3 + call.hasBias + call.hasAddend;
}

void PlanBuilder::addTemporarySlot(uint64_t bytes) {
  temporaryBytes = std::max(temporaryBytes, temporaryStart + bytes);
  plan->temporarySlots.push_back(
      {uint32_t(plan->slots.size()), temporaryStart});
  plan->slots.push_back(nullptr);
}

bool PlanBuilder::startTogether(const ByteRange &a, const ByteRange &b) const {
  auto donated = [&](uint32_t segment) {
    for (const Port &port : program.inputs)
      if (port.donatedTo >= 0 &&
          program.outputs[size_t(port.donatedTo)].segment == segment)
        return port.segment;
    return segment;
  };
  return a.offset == b.offset && donated(a.segment) == donated(b.segment);
}

void PlanBuilder::bindMemory(const dnnl::memory &memory, const ByteRange &range,
                             uint64_t extra) {
  uint64_t offset = range.offset + extra;
  if (isBound(range.segment))
    plan->memoryPatches.push_back({memory.get(), range.segment, offset});
  else
    memory.set_data_handle(segments[range.segment] + offset);
}

void PlanBuilder::addKernel(const KernelLaunch &launch, int64_t begin,
                            int64_t end) {
  if (begin >= end)
    return;
  Step &step = addStep(Step::Kernel);
  step.function = kernels[launch.kernel];
  step.begin = begin;
  step.end = end;
  step.grain = launch.grain;
  step.isTail = program.commands[command].kind == CommandKind::Call;
  for (const Operand &operand : launch.operands)
    addSlot(operand.range);
}

void PlanBuilder::addCopy(const ByteRange &target, uint64_t targetOffset,
                          const ByteRange &source, uint64_t sourceOffset,
                          uint64_t size) {
  if (size == 0)
    return;
  Step &step = addStep(Step::Copy);
  step.end = int64_t(size);
  addSlot(target, targetOffset);
  addSlot(source, sourceOffset);
}

void PlanBuilder::addFill(const LibraryCall &call, const Operand *operands) {
  addStep(Step::Fill);
  addSlot(operands[operandCount(call) - 1].range);
  if (call.hasBias)
    addSlot(operands[2].range);
  if (call.hasAddend)
    addSlot(operands[2 + call.hasBias].range);
}

/// Multiply-adds (additions of a pool) of `rows` leading rows of a call.
double PlanBuilder::multiplyAdds(const LibraryCall &call, int64_t rows) const {
  auto product = [&](const std::vector<Affine> &shape, size_t from) {
    double result = 1;
    for (size_t i = from; i < shape.size(); ++i)
      result *= double(*evaluate(shape[i], batch));
    return result;
  };
  double outputs = product(call.outputShape, rows < 0 ? 0 : 1);
  if (rows >= 0)
    outputs *= double(rows);
  switch (call.op) {
  case LibraryOp::Conv:
    return outputs * product(call.weightShape, 1);
  case LibraryOp::ConvTranspose: {
    double inputs = product(call.inputShape, rows < 0 ? 0 : 1);
    return inputs * (rows < 0 ? 1 : double(rows)) *
           product(call.weightShape, 1);
  }
  case LibraryOp::MatMul:
    return outputs *
           double(*evaluate(
               call.inputShape[call.inputShape.size() - 1 - call.transposeLhs],
               batch));
  case LibraryOp::AvgPool:
    for (int64_t size : call.window)
      outputs *= double(size);
    return outputs;
  case LibraryOp::Attention: // refused when the module is verified
  case LibraryOp::AttentionGrad:
    break;
  }
  return outputs;
}

/// `operands` are those of one member of the call.
Status PlanBuilder::addPrimitive(const Command &command,
                                 const Operand *operands, int64_t from,
                                 int64_t rows) {
  const LibraryCall &call = command.call;
  const ByteRange &output = operands[operandCount(call) - 1].range;
  bool isPool = call.op == LibraryOp::AvgPool;
  // Byte distance of one leading row in an operand of this shape.
  auto rowBytes = [&](const std::vector<Affine> &shape) -> uint64_t {
    int64_t count = *evaluate(shape[0], batch);
    return count ? *byteCount(shape, call.dtype, batch) / uint64_t(count) : 0;
  };
  uint64_t outputOffset = uint64_t(from) * rowBytes(call.outputShape);
  // A matmul's operand that is broadcast along the leading dimension stays.
  bool moves = call.op != LibraryOp::MatMul ||
               (call.inputShape.size() == call.outputShape.size() &&
                evaluate(call.inputShape[0], batch) ==
                    evaluate(call.outputShape[0], batch));
  uint64_t inputOffset = moves ? uint64_t(from) * rowBytes(call.inputShape) : 0;
  uint64_t weightOffset = 0;
  if (call.op == LibraryOp::MatMul && rows >= 0 &&
      call.weightShape.size() == call.outputShape.size() &&
      evaluate(call.weightShape[0], batch) ==
          evaluate(call.outputShape[0], batch))
    weightOffset = uint64_t(from) * rowBytes(call.weightShape);

  // Where the output's own bytes hold the addend, the call writes elsewhere,
  // and its result is added to them.
  uint64_t outputBytes = rows < 0
                             ? *byteCount(call.outputShape, call.dtype, batch)
                             : uint64_t(rows) * rowBytes(call.outputShape);
  const ByteRange *addend =
      call.hasAddend ? &operands[2 + call.hasBias].range : nullptr;
  bool inPlace = addend && startTogether(*addend, output);

  const void *constantWeights = nullptr;
  if (!isPool) {
    const ByteRange &weights = operands[1].range;
    if (program.segments[weights.segment].kind == SegmentKind::Const)
      constantWeights =
          segments[weights.segment] + weights.offset + weightOffset;
  }
  bool oneThread = multiplyAdds(call, rows) < kParallelMacs;
  std::optional<ThreadCountScope> scope;
  if (oneThread)
    scope.emplace(1);
  auto prepared =
      library.prepare(call, command.name, batch, rows, constantWeights);
  if (!prepared)
    return prepared.status();
  plan->calls.push_back(std::make_unique<PreparedCall>(std::move(*prepared)));
  PreparedCall &owned = *plan->calls.back();
  bindMemory(owned.input, operands[0].range, inputOffset);
  if (!isPool && !constantWeights)
    bindMemory(owned.plainWeights, operands[1].range, weightOffset);
  if (call.hasBias)
    bindMemory(owned.bias, operands[2].range);
  if (inPlace)
    plan->temporaryMemories.push_back({owned.output.get(), temporaryStart});
  else
    bindMemory(owned.output, output, outputOffset);
  owned.scratchpadOffset = scratchpadStart;
  if (owned.scratchpad)
    plan->scratchpadBytes = std::max<uint64_t>(
        plan->scratchpadBytes,
        scratchpadStart + owned.scratchpad.get_desc().get_size());
  if (owned.reorder) {
    auto list = std::make_unique<std::vector<dnnl_exec_arg_t>>();
    list->push_back({DNNL_ARG_FROM, owned.plainWeights.get()});
    list->push_back({DNNL_ARG_TO, owned.weights.get()});
    Step &step = addStep(Step::Primitive);
    step.primitive = owned.reorder.get();
    step.arguments = list->data();
    step.argumentCount = 2;
    step.oneThread = oneThread;
    plan->argumentLists.push_back(std::move(list));
  }
  Step &step = addStep(Step::Primitive);
  step.primitive = owned.primitive.get();
  step.arguments = owned.arguments.data();
  step.argumentCount = uint32_t(owned.arguments.size());
  step.oneThread = oneThread;
  if (addend) {
    Step &add = addStep(Step::Add);
    add.end = int64_t(outputBytes / elementSize(call.dtype));
    add.oneThread = oneThread;
    addSlot(output, outputOffset);
    if (inPlace)
      addTemporarySlot(outputBytes);
    else
      addSlot(*addend, outputOffset);
  }
  return {};
}

/// All members of a call, on their whole outputs. Those that are too small to
/// be worth a second thread each are spread over the threads if there is enough
/// to do together; every member computes what it would compute alone.
Status PlanBuilder::addMembers(const Command &command) {
  const LibraryCall &call = command.call;
  double work = multiplyAdds(call, -1);
  bool sideBySide =
      work < kParallelMacs && work * double(call.members) >= kParallelMacs;
  size_t step = 0;
  if (sideBySide) {
    library.reserveStreams(size_t(std::min(call.members, kMaxSideBySide)));
    step = plan->steps.size();
    addStep(Step::Members).begin = int64_t(plan->memberStarts.size());
  }
  auto roundUp = [](uint64_t size) { return (size + 63) & ~uint64_t(63); };
  for (int64_t i = 0; i < call.members; ++i) {
    if (sideBySide)
      plan->memberStarts.push_back(uint32_t(plan->steps.size()));
    size_t saved = plan->temporarySlots.size();
    FUSION_RT_TRY(addPrimitive(
        command, &command.operands[size_t(i) * operandCount(call)], 0, -1));
    if (!sideBySide)
      continue;
    if (const dnnl::memory &scratchpad = plan->calls.back()->scratchpad)
      scratchpadStart += roundUp(scratchpad.get_desc().get_size());
    if (plan->temporarySlots.size() > saved)
      temporaryStart +=
          roundUp(*byteCount(call.outputShape, call.dtype, batch));
  }
  scratchpadStart = temporaryStart = 0;
  if (sideBySide) {
    plan->memberStarts.push_back(uint32_t(plan->steps.size()));
    plan->steps[step].end = int64_t(plan->memberStarts.size());
  }
  return {};
}

Status PlanBuilder::addCall(const Command &command) {
  const LibraryCall &call = command.call;
  uint64_t outputBytes = *byteCount(call.outputShape, call.dtype, batch);
  if (outputBytes == 0)
    return {};
  int64_t units = command.hasTail ? *evaluate(command.launch.units, batch) : 0;
  // Nothing is contracted: the result is bias plus addend.
  bool isEmpty = *elementCount(call.inputShape, batch) == 0 ||
                 (call.op != LibraryOp::AvgPool &&
                  *elementCount(call.weightShape, batch) == 0);
  if (isEmpty || call.members > 1) {
    if (isEmpty)
      for (int64_t i = 0; i < call.members; ++i)
        addFill(call, &command.operands[size_t(i) * operandCount(call)]);
    else
      FUSION_RT_TRY(addMembers(command));
    addKernel(command.launch, 0, units);
    return {};
  }
  int64_t rows = *evaluate(call.outputShape[0], batch);
  // The rows of a plain matrix product are one problem; cutting it would give
  // up its blocking.
  bool canCut = command.hasTail && rows > 1 && outputBytes > kTailBytes &&
                (call.op != LibraryOp::MatMul ||
                 (call.outputShape.size() > 2 &&
                  call.weightShape.size() == call.outputShape.size() &&
                  evaluate(call.weightShape[0], batch) == rows));
  if (!canCut) {
    FUSION_RT_TRY(addPrimitive(command, command.operands.data(), 0, -1));
    addKernel(command.launch, 0, units);
    return {};
  }
  int64_t block = std::max<int64_t>(
      1, int64_t(kTailBytes / (outputBytes / uint64_t(rows))));
  for (int64_t from = 0; from < rows; from += block) {
    int64_t count = std::min(block, rows - from);
    FUSION_RT_TRY(addPrimitive(command, command.operands.data(), from, count));
    addKernel(command.launch, from * (units / rows),
              (from + count) * (units / rows));
  }
  return {};
}

void PlanBuilder::addCollective(const Command &each) {
  const CollectiveCall &call = each.collective;
  // Ranks of a CPU have what they read in their own memory.
  if (call.op == CollectiveOp::Release)
    return;
  bool isPosition = call.op == CollectiveOp::AxisIndex;
  Step &step = addStep(isPosition ? Step::Position : Step::Collective);
  if (isPosition) {
    step.begin = positionOn(program.mesh, call.axes, rank);
  } else {
    step.begin = int64_t(plan->collectives.size());
    CollectiveRun run;
    run.call = &call;
    run.group = groupIndex(groups, each);
    run.command = command;
    for (const CollectivePart &part : call.parts) {
      PartBuffer buffer;
      buffer.dtype = part.dtype;
      for (Affine dim : part.shape)
        buffer.shape.push_back(*evaluate(dim, batch));
      run.parts.push_back(std::move(buffer));
    }
    plan->collectives.push_back(std::move(run));
  }
  for (const Operand &operand : each.operands)
    addSlot(operand.range);
}

/// A wait is for the last record before it in list order.
void PlanBuilder::addEvent(const Command &each) {
  if (program.streams == 1)
    return;
  bool records = each.kind == CommandKind::Record;
  Step &step = addStep(records ? Step::Record : Step::Wait);
  step.begin = each.event;
  step.end = records ? ++recorded[each.event] : recorded[each.event];
}

void PlanBuilder::splitStreams() {
  if (program.streams == 1)
    return;
  plan->streamSteps.resize(program.streams);
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    auto &runs =
        plan->streamSteps[program.commands[plan->steps[i].command].stream];
    if (!runs.empty() && runs.back().second == i)
      runs.back().second = i + 1;
    else
      runs.emplace_back(i, i + 1);
  }
}

Expected<std::unique_ptr<Plan>> PlanBuilder::build() {
  plan->batch = batch;
  plan->program = &program;
  plan->hooks = findHooks();
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &each = program.commands[i];
    command = uint32_t(i);
    isFirst = true;
    switch (each.kind) {
    case CommandKind::Launch:
      addKernel(each.launch, 0, *evaluate(each.launch.units, batch));
      break;
    case CommandKind::Call:
      if (each.stream != 0)
        return Status(Code::Rejected,
                      "command '" + escape(each.name) +
                          "': library calls of the CPU run on stream 0",
                      each.name);
      FUSION_RT_TRY(addCall(each));
      break;
    case CommandKind::Copy:
      addCopy(each.target, 0, each.source, 0,
              uint64_t(*evaluate(each.copySize, batch)));
      break;
    case CommandKind::Collective:
      addCollective(each);
      break;
    case CommandKind::Record:
    case CommandKind::Wait:
      addEvent(each);
      break;
    }
  }
  splitStreams();
  plan->temporaryOffset = (plan->scratchpadBytes + 63) & ~uint64_t(63);
  if (temporaryBytes)
    plan->scratchpadBytes = plan->temporaryOffset + temporaryBytes;
  return std::move(plan);
}

Expected<std::unique_ptr<Plan>>
fusion::rt::makePlan(const ModuleView &view, Library &library,
                     const std::vector<KernelFunction> &kernels,
                     const std::vector<char *> &segments,
                     const std::vector<Group> &groups, uint32_t rank,
                     int64_t batch) {
  return PlanBuilder(view, library, kernels, segments, groups, rank, batch)
      .build();
}
