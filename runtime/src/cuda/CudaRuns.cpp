//===- CudaRuns.cpp - Runs on the buffers of a caller ---------------------===//
//
// Buffers of the device are used in place where they are aligned, all others
// are copied around the run. A run on the caller's own stream takes the
// device's only; where the caller captures that stream, the commands themselves
// become a part of its graph.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"
#include "Text.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

void CudaExecutor::count() {
  ++total.runs;
  total.launches += perRun.launches;
  total.tails += perRun.tails;
  total.calls += perRun.calls;
  total.copies += perRun.copies;
  total.records += perRun.records;
  total.waits += perRun.waits;
  total.collectives += perRun.collectives;
  total.bytesRead += perRun.bytesRead;
  total.bytesWritten += perRun.bytesWritten;
}

Status CudaExecutor::runObserved(int64_t batch, BatchPlan &plan,
                                 Observer &observer) {
  for (size_t i = 0; i < program.commands.size(); ++i) {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    observer.before(i);
    if (program.commands[i].kind == CommandKind::Collective)
      enterStep(uint32_t(i));
    FUSION_RT_TRY(enqueueCommand(i, batch, plan, streams.front()));
    for (CUstream each : streams)
      FUSION_RT_TRY(
          waitFor(each, "waiting for a command", program.commands[i].name));
    leaveStep();
    FUSION_RT_TRY(bringDirect(i, batch, streams.front()));
    observer.after(i);
  }
  return {};
}

const void *CudaExecutor::address(const ByteRange &range) const {
  if (isDead || range.size == 0)
    return nullptr;
  ContextScope scope(*driver, context);
  auto &copy = copies[range.segment];
  copy.resize(program.segments[range.segment].size);
  char *host = copy.data() + range.offset;
  if (driver->copyToHost(host, reinterpret_cast<CUdeviceptr>(addressOf(range)),
                         range.size, streams.front()) != kSuccess)
    return nullptr;
  // The commands have been waited for: this is the copy alone.
  CUresult copied;
  do
    copied = driver->streamQuery(streams.front());
  while (copied == kErrorNotReady);
  return copied == kSuccess ? host : nullptr;
}

Status CudaExecutor::runBound(int64_t batch, const void *const *inputs,
                              void *const *outputs, Observer *observer) {
  return runAny(batch, inputs, outputs, observer, /*isStep=*/false);
}

Status CudaExecutor::stepBound(int64_t batch, const void *const *inputs,
                               void *const *outputs) {
  if (!isDead && lastBatch != batch)
    return Status(Code::Usage, "a step goes on from a run at its batch, and "
                               "there was none");
  return runAny(batch, inputs, outputs, nullptr, /*isStep=*/true);
}

Status CudaExecutor::runAny(int64_t batch, const void *const *inputs,
                            void *const *outputs, Observer *observer,
                            bool isStep) {
  if (isDead)
    return lostDevice();
  if (isStopped())
    return Status(Code::Internal, "interrupted");
  ContextScope scope(*driver, context);
  lastBatch = 0;
  Status status = failed(runChecked(batch, inputs, outputs, observer, isStep));
  if (status.ok()) {
    lastBatch = batch;
    count();
  } else if (!isDead) {
    // The caller may free its buffers: nothing may still use them.
    for (CUstream stream : streams)
      if (!isDead)
        (void)waitFor(stream, "waiting for the run");
  }
  return status;
}

/// `isStep`: what is donated is there, and stays.
Status CudaExecutor::runChecked(int64_t batch, const void *const *inputs,
                                void *const *outputs, Observer *observer,
                                bool isStep) {
  auto plan = planOf(batch);
  if (!plan)
    return plan.status();
  CUstream stream = streams.front();
  // The arena is one: a run on a caller's stream ends before this one begins.
  FUSION_RT_TRY(waitForEnqueued());
  bool anyOnDevice = false;
  struct Result {
    void *caller;
    const Port *port;
    bool onDevice;
  };
  std::vector<Result> results;
  std::vector<bool> stays(program.outputs.size());
  for (const Port &port : program.inputs)
    if (isStep && port.donatedTo >= 0)
      stays[size_t(port.donatedTo)] = true;
  auto bind = [&](const Port &port, const void *data) -> Expected<bool> {
    auto onDevice = isOnDevice(port, data);
    if (!onDevice)
      return onDevice;
    anyOnDevice |= *onDevice;
    if (*onDevice &&
        reinterpret_cast<uintptr_t>(data) % kPointerAlignment == 0) {
      segments[port.segment] = static_cast<char *>(const_cast<void *>(data));
      return onDevice;
    }
    auto memory = stagingFor(port.segment);
    if (!memory)
      return memory.status();
    segments[port.segment] = *memory;
    return onDevice;
  };
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Port &port = program.outputs[i];
    auto onDevice = bind(port, outputs[i]);
    if (!onDevice)
      return onDevice.status();
    if (segments[port.segment] != outputs[i] && !stays[i])
      results.push_back({outputs[i], &port, *onDevice});
  }
  std::vector<bool> inputOnDevice(program.inputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Port &port = program.inputs[i];
    bool isDonated = port.donatedTo >= 0;
    auto onDevice =
        isDonated ? isOnDevice(port, inputs[i]) : bind(port, inputs[i]);
    if (!onDevice)
      return onDevice.status();
    inputOnDevice[i] = *onDevice;
    anyOnDevice |= *onDevice;
    if (isDonated)
      segments[port.segment] =
          segments[program.outputs[port.donatedTo].segment];
  }
  // Whatever fills or still reads the caller's device buffers, on a stream of
  // its own, comes first.
  if (anyOnDevice)
    FUSION_RT_TRY(
        driver->check(driver->contextSynchronize(), "waiting for the buffers"));
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Port &port = program.inputs[i];
    bool onDevice = inputOnDevice[i];
    uint64_t size = bytesOf(port, batch);
    if (size == 0 || segments[port.segment] == inputs[i] ||
        (isStep && port.donatedTo >= 0))
      continue;
    auto target = reinterpret_cast<CUdeviceptr>(segments[port.segment]);
    CUresult copied =
        onDevice
            ? driver->copyOnDevice(target,
                                   reinterpret_cast<CUdeviceptr>(inputs[i]),
                                   size, stream)
            : driver->copyToDevice(target, inputs[i], size, stream);
    FUSION_RT_TRY(driver->check(copied, "copying an input", port.tensor.name));
  }
  if (observer) {
    // The inputs are there before a command of any stream reads them.
    FUSION_RT_TRY(waitFor(stream, "waiting for the inputs"));
    FUSION_RT_TRY(runObserved(batch, **plan, *observer));
  } else {
    auto graph = graphOf(batch, **plan);
    if (!graph)
      return graph.status();
    enterStep(firstCollective);
    FUSION_RT_TRY(
        driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
  }
  // A copy to the host waits inside the driver, for as long as the run takes.
  if (!results.empty())
    FUSION_RT_TRY(waitFor(stream, "waiting for the run"));
  for (const Result &result : results) {
    uint64_t size = bytesOf(*result.port, batch);
    if (size == 0)
      continue;
    auto source = reinterpret_cast<CUdeviceptr>(segments[result.port->segment]);
    CUresult copied =
        result.onDevice
            ? driver->copyOnDevice(reinterpret_cast<CUdeviceptr>(result.caller),
                                   source, size, stream)
            : driver->copyToHost(result.caller, source, size, stream);
    FUSION_RT_TRY(
        driver->check(copied, "copying an output", result.port->tensor.name));
  }
  FUSION_RT_TRY(waitFor(stream, "waiting for the run"));
  leaveStep();
  return {};
}

Status CudaExecutor::enqueue(int64_t batch, const void *const *inputs,
                             void *const *outputs, void *stream) {
  if (isDead)
    return lostDevice();
  ContextScope scope(*driver, context);
  lastBatch = 0;
  FUSION_RT_TRY(failed(
      enqueueChecked(batch, inputs, outputs, static_cast<CUstream>(stream))));
  count();
  return {};
}

Expected<bool> CudaExecutor::isCaptured(CUstream stream) const {
  int capture = kNotCapturing;
  FUSION_RT_TRY(driver->check(driver->streamIsCapturing(stream, &capture),
                              "cuStreamIsCapturing"));
  if (capture == kCaptureInvalidated)
    return Status(Code::Usage, "the capture of the stream has failed before "
                               "this run; end it, and begin another one");
  return capture != kNotCapturing;
}

Status CudaExecutor::enqueueCaptured(int64_t batch, CUstream stream) {
  isInCallersGraph = true;
  // No event: it would be one of the capture, which nobody can wait for.
  return enqueueAll(batch, plans.at(batch), stream);
}

Status CudaExecutor::enqueueChecked(int64_t batch, const void *const *inputs,
                                    void *const *outputs, CUstream stream) {
  auto captured = isCaptured(stream);
  if (!captured)
    return captured.status();
  // Planning allocates, which a capture does not allow.
  if (*captured && !plans.count(batch))
    return Status(Code::Usage,
                  "the stream is captured, and the session was not prepared "
                  "for batch " +
                      std::to_string(batch) +
                      "; prepare it, or run it once, before the capture");
  auto plan = planOf(batch);
  if (!plan)
    return plan.status();
  auto bind = [&](const Port &port, const void *data) -> Status {
    if (bytesOf(port, batch) != 0 &&
        reinterpret_cast<uintptr_t>(data) % kPointerAlignment != 0)
      return Status(Code::Usage, "'" + escape(port.tensor.name) +
                                     "': its buffer must start at a multiple "
                                     "of 16 bytes to be used in place");
    segments[port.segment] = static_cast<char *>(const_cast<void *>(data));
    return {};
  };
  for (size_t i = 0; i < program.outputs.size(); ++i)
    FUSION_RT_TRY(bind(program.outputs[i], outputs[i]));
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Port &port = program.inputs[i];
    if (port.donatedTo >= 0 && inputs[i] != outputs[port.donatedTo])
      return Status(Code::Usage,
                    "'" + escape(port.tensor.name) +
                        "': a donated input must be the output's buffer");
    FUSION_RT_TRY(bind(port, inputs[i]));
  }
  // Addresses that a graph knows have been looked at.
  if (*captured || !boundGraph(**plan)) {
    auto require = [&](const Port &port, const void *data) -> Status {
      if (bytesOf(port, batch) == 0)
        return {};
      auto onDevice = isOnDevice(port, data);
      if (!onDevice)
        return onDevice.status();
      return *onDevice ? Status()
                       : Status(Code::Usage,
                                "'" + escape(port.tensor.name) +
                                    "': its buffer is the host's; a run on a "
                                    "stream takes buffers of the GPU only");
    };
    for (size_t i = 0; i < program.inputs.size(); ++i)
      FUSION_RT_TRY(require(program.inputs[i], inputs[i]));
    for (size_t i = 0; i < program.outputs.size(); ++i)
      FUSION_RT_TRY(require(program.outputs[i], outputs[i]));
  }
  if (*captured)
    return enqueueCaptured(batch, stream);
  auto graph = graphOf(batch, **plan);
  if (!graph)
    return graph.status();
  if (!enqueued)
    FUSION_RT_TRY(driver->check(
        driver->eventCreate(&enqueued, kEventDisableTiming), "cuEventCreate"));
  FUSION_RT_TRY(
      driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
  // Now, not when somebody waits: the caller may have destroyed its stream by
  // then, and other streams' work is none of this session's to wait for.
  return driver->check(driver->eventRecord(enqueued, stream), "cuEventRecord");
}
