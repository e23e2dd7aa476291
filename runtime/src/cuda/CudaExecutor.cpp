//===- CudaExecutor.cpp - Runs programs on a GPU --------------------------===//
//
// The life of an executor: what is opened and made once, and given back. See
// the header for where the rest is.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"

#include "Text.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// A dead context answers every call with its error, and some hang: the end of
/// the process frees what it had. The libraries' plans stay with it.
void CudaExecutor::abandon() {
  for (auto &[batch, plan] : plans)
    for (auto &call : plan.calls)
      (void)call.release();
  (void)libraries.release();
  if (!options.deviceCommunicator)
    return;
  // Other ranks' devices wait for this one, and this one for theirs.
  options.deviceCommunicator->abort();
  static std::vector<std::shared_ptr<DeviceCommunicator>> kept;
  kept.push_back(std::move(options.deviceCommunicator));
}

CudaExecutor::~CudaExecutor() {
  if (!context)
    return;
  if (isDead) {
    abandon();
    return;
  }
  {
    ContextScope scope(*driver, context);
    // Runs that are under way use the code and the memory.
    if (!streams.empty())
      (void)waitFor(streams.front(), "waiting for the last run");
    if (!isDead)
      (void)waitForEnqueued();
    if (isDead) {
      abandon();
      return;
    }
    if (enqueued)
      driver->eventDestroy(enqueued);
    for (auto &[batch, plan] : plans)
      for (Graph &graph : plan.graphs)
        if (graph.executable)
          driver->graphExecDestroy(graph.executable);
    plans.clear();
    // NCCL keeps what a graph knows until that is gone.
    options.deviceCommunicator.reset();
    libraries.reset();
    unshareProgress();
    for (CUevent event : events)
      driver->eventDestroy(event);
    for (CUstream stream : streams)
      driver->streamDestroy(stream);
    fills.reset();
    if (code)
      driver->moduleUnload(code);
    stagingBlocks.push_back(arena);
    stagingBlocks.push_back(constants);
    stagingBlocks.push_back(workspace);
    for (char *memory : stagingBlocks)
      if (memory)
        driver->memFree(reinterpret_cast<CUdeviceptr>(memory));
  }
  driver->primaryContextRelease(device);
}

Status CudaExecutor::failed(Status status) {
  if (status.code() == Code::PeerFailed)
    isDead = true;
  return status;
}

Status CudaExecutor::lostDevice() {
  return Status(Code::PeerFailed,
                "the GPU failed, or did not answer, in an earlier run; start a "
                "new process");
}

Status CudaExecutor::openDevice() {
  auto opened = Driver::open();
  if (!opened)
    return opened.status();
  driver = *opened;
  int count = 0;
  FUSION_RT_TRY(
      driver->check(driver->deviceGetCount(&count), "cuDeviceGetCount"));
  if (options.device < 0 || options.device >= count)
    return Status(Code::Usage, "there is no GPU " +
                                   std::to_string(options.device) +
                                   ", the driver shows " +
                                   std::to_string(count) + ", from 0 on");
  FUSION_RT_TRY(
      driver->check(driver->deviceGet(&device, options.device), "cuDeviceGet"));
  CUcontext made = nullptr;
  FUSION_RT_TRY(driver->check(driver->primaryContextRetain(&made, device),
                              "cuDevicePrimaryCtxRetain"));
  context = made;
  return {};
}

Status CudaExecutor::initialize() {
  FUSION_RT_TRY(openDevice());
  ContextScope scope(*driver, context);
  FUSION_RT_TRY(loadKernels());
  // Those that are captured with libraries' kernels.
  if (std::any_of(program.commands.begin(), program.commands.end(),
                  [](const Command &command) {
                    return command.kind == CommandKind::Call;
                  }))
    fills = GraphFills::load(*driver);
  for (uint32_t i = 0; i < program.streams; ++i)
    FUSION_RT_TRY(createStream(i));
  for (uint64_t i = 0; i < uint64_t(program.events) + program.streams; ++i) {
    CUevent event = nullptr;
    FUSION_RT_TRY(driver->check(
        driver->eventCreate(&event, kEventDisableTiming), "cuEventCreate"));
    events.push_back(event);
  }
  FUSION_RT_TRY(allocate());
  FUSION_RT_TRY(connectRanks());
  perRun = countCommands(program);
  auto plan = planOf(program.maxBatch);
  return plan ? Status() : plan.status();
}

Status CudaExecutor::prepare(int64_t batch) {
  ContextScope scope(*driver, context);
  auto plan = planOf(batch);
  return plan ? Status() : plan.status();
}

std::unique_ptr<Tuner> CudaExecutor::makeTuner() {
  char name[256] = "";
  driver->deviceGetName(name, sizeof(name), device);
  TunerHost host;
  host.stream = streams.front();
  host.device = name;
  host.allocate = [this](uint64_t size) -> Expected<char *> {
    FUSION_RT_TRY(checkMemory(size));
    return allocateBytes(size, "operands of calls that are timed");
  };
  host.free = [this](char *memory) {
    driver->memFree(reinterpret_cast<CUdeviceptr>(memory));
  };
  host.wait = [this](CUstream stream) {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    return failed(waitFor(stream, "waiting for calls that are timed"));
  };
  return std::make_unique<Tuner>(*driver, std::move(host));
}

void CudaExecutor::say(std::string note) {
  if (std::find(said.begin(), said.end(), note) == said.end())
    said.push_back(std::move(note));
}

Expected<std::unique_ptr<CudaCall>>
CudaExecutor::planCall(const Command &command, int64_t batch) {
  if (!libraries) {
    if (options.autotune)
      tuner = makeTuner();
    auto opened = CudaLibraries::open(*driver, tuner.get());
    if (!opened)
      return opened.status();
    libraries = std::move(*opened);
  }
  // Segments start at multiples of 16 bytes.
  bool isAligned =
      std::all_of(command.operands.begin(), command.operands.end(),
                  [](const Operand &each) {
                    return each.range.offset % kPointerAlignment == 0;
                  });
  return libraries->plan(command.call, batch, isAligned);
}

Expected<BatchPlan *> CudaExecutor::planOf(int64_t batch) {
  auto known = plans.find(batch);
  if (known != plans.end())
    return &known->second;
  BatchPlan plan;
  plan.calls.resize(program.commands.size());
  uint64_t size = 0;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    if (command.kind != CommandKind::Call)
      continue;
    auto call = planCall(command, batch);
    if (call) {
      size = std::max(size, (*call)->workspace());
      plan.calls[i] = std::move(*call);
      continue;
    }
    const Status &status = call.status();
    // A library that is missing, or lacks the call; not one without memory.
    bool isLacking =
        status.code() == Code::Environment || status.code() == Code::Rejected;
    if (!isLacking || !command.hasFallback)
      return Status(status.code(), status.message(), command.name);
    say("'" + escape(command.name) +
        "' runs as a plain kernel, which is slow: " + status.message());
  }
  if (tuner) {
    tuner->save();
    for (std::string &note : tuner->takeNotes())
      say(std::move(note));
  }
  FUSION_RT_TRY(growWorkspace(size));
  return &(plans[batch] = std::move(plan));
}

Expected<std::unique_ptr<Executor>>
fusion::rt::makeCudaExecutor(const ModuleView &module,
                             const SessionOptions &options) {
  auto executor = std::make_unique<CudaExecutor>(module, options);
  FUSION_RT_TRY(executor->initialize());
  return std::unique_ptr<Executor>(std::move(executor));
}
