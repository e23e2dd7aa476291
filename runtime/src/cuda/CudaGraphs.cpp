//===- CudaGraphs.cpp - Commands, captured once and replayed --------------===//
//
// Puts a program's commands on streams, and keeps the graphs that come of it:
// one for each batch and set of addresses, up to a limit.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Graphs that are kept for a batch: one a set of addresses.
static constexpr size_t kGraphsOfBatch = 16;
/// From CUDA 12.3 on, graphs know of launches before the end of the last one.
static constexpr int kEarlyLaunchVersion = 12030;

bool CudaExecutor::isBehindKernel(CUstream stream) const {
  if (driver->version < kEarlyLaunchVersion)
    return false;
  int capture = kNotCapturing, type = kNodeKernel + 1;
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode *nodes = nullptr;
  size_t count = 0;
  // Another library's kernel says nothing of when its results are there for a
  // launch before its end.
  return driver->streamCaptureInfo(stream, &capture, &id, &graph, &nodes,
                                   &count) == kSuccess &&
         capture == kCapturing && count == 1 &&
         driver->graphNodeType(nodes[0], &type) == kSuccess &&
         type == kNodeKernel &&
         std::find(foreignNodes.begin(), foreignNodes.end(), nodes[0]) ==
             foreignNodes.end();
}

Status CudaExecutor::launch(const KernelLaunch &launch, int64_t batch,
                            CUstream stream, const std::string &name,
                            int64_t index) {
  int64_t units = launch.units.scale * batch + launch.units.base;
  int64_t blocks = (units + launch.grain - 1) / launch.grain;
  if (blocks <= 0)
    return {};
  std::vector<char *> operands;
  operands.reserve(launch.operands.size() + 1);
  for (const Operand &operand : launch.operands)
    operands.push_back(addressOf(operand.range));
  if (auto direct = directReads.find(size_t(index));
      direct != directReads.end())
    for (const auto &[operand, address] : direct->second)
      operands[operand] = address;
  if (operands.empty())
    operands.push_back(nullptr);
  void *parameters[] = {operands.data(), &batch};
  const Kernel &kernel = view.module.kernels[launch.kernel];
  CUlaunchAttribute early{};
  early.id = kLaunchEarly;
  early.flag = 1;
  CUlaunchConfig config{unsigned(blocks), 1,      1, kernel.threads, 1, 1, 0,
                        stream,           &early, 0};
  config.attributeCount = kernel.waits && isBehindKernel(stream);
  return driver->check(driver->launchKernelEx(&config, functions[launch.kernel],
                                              parameters, nullptr),
                       "cuLaunchKernelEx", name);
}

Status CudaExecutor::enqueueCommand(size_t index, int64_t batch,
                                    BatchPlan &plan, CUstream first) {
  const Command &command = program.commands[index];
  CUstream stream = command.stream == 0 ? first : streams[command.stream];
  switch (command.kind) {
  case CommandKind::Launch:
    return launch(command.launch, batch, stream, command.name, int64_t(index));
  case CommandKind::Call: {
    if (!plan.calls[index]) {
      KernelLaunch fallback = command.fallback;
      fallback.operands = command.operands;
      FUSION_RT_TRY(launch(fallback, batch, stream, command.name));
      return command.hasTail
                 ? launch(command.launch, batch, stream, command.name)
                 : Status();
    }
    std::vector<void *> operands;
    for (const Operand &operand : command.operands)
      operands.push_back(addressOf(operand.range));
    // Calls of two streams may run side by side.
    char *scratch =
        workspace ? workspace + command.stream * workspaceSize : nullptr;
    if (Status status =
            plan.calls[index]->enqueue(stream, operands.data(), scratch);
        !status.ok())
      return Status(status.code(), status.message(), command.name);
    return command.hasTail ? launch(command.launch, batch, stream, command.name)
                           : Status();
  }
  case CommandKind::Copy: {
    int64_t size = command.copySize.scale * batch + command.copySize.base;
    if (size == 0)
      return {};
    return driver->check(
        driver->copyOnDevice(
            reinterpret_cast<CUdeviceptr>(addressOf(command.target)),
            reinterpret_cast<CUdeviceptr>(addressOf(command.source)),
            size_t(size), stream),
        "cuMemcpyDtoDAsync", command.name);
  }
  case CommandKind::Record:
    return driver->check(driver->eventRecord(events[command.event], stream),
                         "cuEventRecord", command.name);
  case CommandKind::Wait:
    return driver->check(
        driver->streamWaitEvent(stream, events[command.event], 0),
        "cuStreamWaitEvent", command.name);
  case CommandKind::Collective:
    return enqueueCollective(index, batch, stream);
  }
  return Status(Code::Internal, "a command that a GPU can't run", command.name);
}

Status CudaExecutor::enqueueAll(int64_t batch, BatchPlan &plan,
                                CUstream first) {
  foreignNodes.clear();
  // All streams begin with the first one, and end in it.
  CUevent *joins = events.data() + program.events;
  if (streams.size() > 1)
    FUSION_RT_TRY(
        driver->check(driver->eventRecord(joins[0], first), "cuEventRecord"));
  for (size_t i = 1; i < streams.size(); ++i)
    FUSION_RT_TRY(driver->check(
        driver->streamWaitEvent(streams[i], joins[0], 0), "cuStreamWaitEvent"));
  for (size_t i = 0; i < program.commands.size(); ++i)
    FUSION_RT_TRY(enqueueCommand(i, batch, plan, first));
  for (size_t i = 1; i < streams.size(); ++i) {
    FUSION_RT_TRY(driver->check(driver->eventRecord(joins[i], streams[i]),
                                "cuEventRecord"));
    FUSION_RT_TRY(driver->check(driver->streamWaitEvent(first, joins[i], 0),
                                "cuStreamWaitEvent"));
  }
  return {};
}

Status CudaExecutor::captureInto(int64_t batch, BatchPlan &plan, Graph &graph) {
  FUSION_RT_TRY(driver->check(
      driver->streamBeginCapture(streams.front(), kCaptureThreadLocal),
      "cuStreamBeginCapture"));
  Status enqueued = enqueueAll(batch, plan, streams.front());
  CUgraph captured = nullptr;
  CUresult ended = driver->streamEndCapture(streams.front(), &captured);
  if (!enqueued.ok()) {
    if (captured)
      driver->graphDestroy(captured);
    return enqueued;
  }
  FUSION_RT_TRY(driver->check(ended, "cuStreamEndCapture"));
  if (fills) {
    Status replaced = fills->replaceIn(captured);
    if (!replaced.ok()) {
      driver->graphDestroy(captured);
      return replaced;
    }
  }
  CUresult result = kSuccess;
  if (graph.executable) {
    CUgraphExecUpdateResultInfo info{};
    // What NCCL keeps for a graph belongs to the one that it was made with.
    if (!groups.empty() || driver->graphExecUpdate(graph.executable, captured,
                                                   &info) != kSuccess) {
      driver->graphExecDestroy(graph.executable);
      graph.executable = nullptr;
    }
  }
  if (!graph.executable)
    result = driver->graphInstantiate(&graph.executable, captured, 0);
  driver->graphDestroy(captured);
  FUSION_RT_TRY(driver->check(result, "cuGraphInstantiateWithFlags"));
  return driver->check(driver->graphUpload(graph.executable, streams.front()),
                       "cuGraphUpload");
}

Graph *CudaExecutor::boundGraph(BatchPlan &plan) {
  auto isBound = [&](const Graph &graph) {
    for (const auto *ports : {&program.inputs, &program.outputs})
      for (const Port &port : *ports)
        if (graph.bases[port.segment] != segments[port.segment])
          return false;
    return true;
  };
  for (Graph &graph : plan.graphs)
    if (isBound(graph))
      return &graph;
  return nullptr;
}

Expected<CUgraphExec> CudaExecutor::graphOf(int64_t batch, BatchPlan &plan) {
  Graph *chosen = boundGraph(plan);
  if (!chosen) {
    if (plan.graphs.size() < kGraphsOfBatch) {
      plan.graphs.emplace_back();
      chosen = &plan.graphs.back();
    } else {
      FUSION_RT_TRY(waitForEnqueued());
      chosen = &*std::min_element(
          plan.graphs.begin(), plan.graphs.end(),
          [](const Graph &a, const Graph &b) { return a.lastUse < b.lastUse; });
    }
    Status captured = captureInto(batch, plan, *chosen);
    if (!captured.ok()) {
      if (chosen->executable)
        driver->graphExecDestroy(chosen->executable);
      plan.graphs.erase(plan.graphs.begin() + (chosen - plan.graphs.data()));
      return captured;
    }
    chosen->bases = segments;
  }
  chosen->lastUse = ++uses;
  return chosen->executable;
}
