//===- Plan.cpp - Executes a flattened program ----------------------------===//
//
// The hot path: no allocation, no look-up, one branch a step.
//
//===----------------------------------------------------------------------===//
#include "Plan.h"
#include "Checked.h"
#include "CommandText.h"
#include "Text.h"
#include "Threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace fusion::rt;

void Plan::bind(const std::vector<char *> &segments) {
  if (bound == segments)
    return;
  for (const SlotPatch &patch : slotPatches)
    slots[patch.slot] = segments[patch.segment] + patch.offset;
  for (const MemoryPatch &patch : memoryPatches)
    dnnl_memory_set_data_handle(patch.memory,
                                segments[patch.segment] + patch.offset);
  bound = segments;
}

void Plan::setScratchpad(void *memory) {
  char *bytes = static_cast<char *>(memory);
  for (auto [slot, offset] : temporarySlots)
    slots[slot] = bytes + temporaryOffset + offset;
  for (auto [memory, offset] : temporaryMemories)
    dnnl_memory_set_data_handle(memory, bytes + temporaryOffset + offset);
  for (auto &call : calls)
    if (call->scratchpad)
      call->scratchpad.set_data_handle(bytes + call->scratchpadOffset);
}

/// A kernel: output[i] += addend[i]; buffers are output, addend.
static void addInPlace(void *const *buffers, int64_t, int64_t begin,
                       int64_t end) {
  typedef float Vector __attribute__((vector_size(32), aligned(4)));
  float *output = static_cast<float *>(buffers[0]);
  const float *addend = static_cast<const float *>(buffers[1]);
  int64_t i = begin;
  for (; i + 8 <= end; i += 8)
    *reinterpret_cast<Vector *>(output + i) +=
        *reinterpret_cast<const Vector *>(addend + i);
  for (; i < end; ++i)
    output[i] += addend[i];
}

/// Output = bias + addend (each optional) where nothing is contracted.
void Plan::fill(const Step &step) {
  const LibraryCall &call = program->commands[step.command].call;
  float *output = static_cast<float *>(slots[step.slot]);
  const float *bias =
      call.hasBias ? static_cast<float *>(slots[step.slot + 1]) : nullptr;
  const float *addend =
      call.hasAddend ? static_cast<float *>(slots[step.slot + 1 + call.hasBias])
                     : nullptr;
  uint64_t count = *elementCount(call.outputShape, batch);
  // The bias runs along the columns of a matmul and the channels of a conv.
  bool isMatMul = call.op == LibraryOp::MatMul;
  Affine channelDim = isMatMul ? call.outputShape.back() : call.outputShape[1];
  uint64_t channels = uint64_t(*evaluate(channelDim, batch));
  uint64_t inner = 1;
  if (!isMatMul && !call.channelsLast)
    for (size_t i = 2; i < call.outputShape.size(); ++i)
      inner *= uint64_t(*evaluate(call.outputShape[i], batch));
  for (uint64_t i = 0; i < count; ++i) {
    float value = bias ? bias[i / inner % channels] : 0.0f;
    output[i] = addend ? value + addend[i] : value;
  }
}

dnnl_status_t Plan::runStep(const Step &step, dnnl_stream_t stream,
                            int threads) {
  auto name = [&] { return program->commands[step.command].name.c_str(); };
  switch (step.kind) {
  case Step::Kernel:
    if (hooks.onLaunch)
      hooks.onLaunch(name(), step.begin, step.end, step.isTail);
    runUnits(step.function, &slots[step.slot], batch, step.begin, step.end,
             step.grain, threads);
    return dnnl_success;
  case Step::Primitive: {
    if (hooks.onCall)
      hooks.onCall(name());
    ThreadCountScope scope(step.oneThread ? 1 : threads);
    return dnnl_primitive_execute(step.primitive, stream,
                                  int(step.argumentCount), step.arguments);
  }
  case Step::Copy:
    if (hooks.onCopy)
      hooks.onCopy(name(), step.end);
    std::memcpy(slots[step.slot], slots[step.slot + 1], size_t(step.end));
    return dnnl_success;
  case Step::Add:
    runUnits(addInPlace, &slots[step.slot], batch, 0, step.end,
             /*grain=*/1 << 14, step.oneThread ? 1 : threads);
    return dnnl_success;
  case Step::Fill:
    fill(step);
    return dnnl_success;
  case Step::Position:
    *static_cast<int64_t *>(slots[step.slot]) = step.begin;
    return dnnl_success;
  case Step::Members:
  case Step::Collective:
  case Step::Record:
  case Step::Wait:
    return dnnl_success;
  }
  return dnnl_success;
}

dnnl_status_t Plan::runMembers(const Step &step, const Library &library,
                               int threads) {
  struct Run {
    Plan &plan;
    const Library &library;
    const uint32_t *starts;
    std::atomic<int> status;
  } run{*this, library, &memberStarts[size_t(step.begin)], {dnnl_success}};
  auto task = [](void *data, int64_t member, int thread) {
    Run &run = *static_cast<Run *>(data);
    for (uint32_t i = run.starts[member]; i < run.starts[member + 1]; ++i) {
      dnnl_status_t status = run.plan.runStep(
          run.plan.steps[i], run.library.stream(size_t(thread)), 1);
      if (status != dnnl_success)
        run.status = int(status);
    }
  };
  runTasks(task, &run, step.end - step.begin - 1,
           std::min(threads, int(library.streamCount())));
  return dnnl_status_t(run.status.load());
}

Status Plan::runCollective(const Step &step, const PlanContext &context) {
  CollectiveRun &run = collectives[size_t(step.begin)];
  uint32_t slot = step.slot;
  for (size_t i = 0; i < run.parts.size(); ++i) {
    PartBuffer &part = run.parts[i];
    part.input = static_cast<char *>(slots[slot++]);
    part.output = run.call->parts[i].inPlace
                      ? const_cast<char *>(part.input)
                      : static_cast<char *>(slots[slot++]);
  }
  const Command &command = program->commands[step.command];
  if (hooks.onCollective)
    hooks.onCollective(command.name.c_str());
  StreamProgress *progress =
      context.progress ? &context.progress->stream(command.stream) : nullptr;
  if (progress)
    progress->enter(step.command, StreamProgress::Collective);
  Status status = context.communicator->run(run);
  if (status.ok())
    return {};
  if (progress)
    progress->enter(step.command, StreamProgress::Running);
  return Status(status.code(),
                commandText(*program, step.command) + " (" +
                    collectiveName(command.collective.op) +
                    "): " + status.message(),
                command.name, status.rank());
}

Status Plan::execute(const PlanContext &context) {
  if (streamSteps.empty() ||
      (context.observer && context.observer->needsOrder()))
    return executeSteps(context, 0, steps.size(), context.threads);
  return context.streams->run([&](uint32_t stream) -> Status {
    // The library and its pool of threads belong to stream 0.
    for (auto [begin, end] : streamSteps[stream])
      FUSION_RT_TRY(
          executeSteps(context, begin, end, stream == 0 ? context.threads : 1));
    return {};
  });
}

Status Plan::executeSteps(const PlanContext &context, size_t begin, size_t end,
                          int threads) {
  const Library &library = context.library;
  Observer *observer = context.observer;
  dnnl_stream_t stream = library.stream();
  static const volatile std::sig_atomic_t never = 0;
  const volatile std::sig_atomic_t *stop = context.stop ? context.stop : &never;
  bool ordered = streamSteps.empty() || (observer && observer->needsOrder());
  for (size_t i = begin; i < end; ++i) {
    const Step &step = steps[i];
    if (__builtin_expect(*stop != 0, 0))
      return Status(Code::Internal, "interrupted");
    if (observer && step.startsCommand)
      observer->before(step.command);
    dnnl_status_t status = dnnl_success;
    if (step.kind == Step::Collective) {
      FUSION_RT_TRY(runCollective(step, context));
    } else if (step.kind == Step::Record) {
      if (!ordered)
        context.streams->record(uint32_t(step.begin));
    } else if (step.kind == Step::Wait) {
      if (!ordered)
        FUSION_RT_TRY(context.streams->wait(uint32_t(step.begin),
                                            uint32_t(step.end), stop));
    } else if (step.kind == Step::Members && threads > 1) {
      status = runMembers(step, library, threads);
      i = memberStarts[size_t(step.end - 1)] - 1;
    } else {
      status = runStep(step, stream, threads);
    }
    if (__builtin_expect(status != dnnl_success, 0)) {
      const std::string &name = program->commands[step.command].name;
      return Status(status == dnnl_out_of_memory ? Code::Resources
                                                 : Code::Internal,
                    "command '" + escape(name) + "': oneDNN failed, status " +
                        std::to_string(int(status)),
                    name);
    }
    if (observer && (i + 1 == steps.size() || steps[i + 1].startsCommand))
      observer->after(step.command);
    if (context.progress)
      context.progress->stream(program->commands[step.command].stream)
          .enter(step.command, StreamProgress::Running);
  }
  return {};
}
