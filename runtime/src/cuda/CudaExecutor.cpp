//===- CudaExecutor.cpp - Runs programs on a GPU --------------------------===//
//
// A run at one batch is one CUDA graph: the commands are captured once for each
// set of input and output addresses, and replayed. Buffers of the host are
// copied to and from the device around it. Long: device and memory, graphs and
// runs are three parts that share the addresses bound by a run.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Driver.h"
#include "Executor.h"
#include "LibraryCalls.h"
#include "Text.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Segments start at multiples of this, in bytes.
static constexpr uint64_t kSegmentAlignment = 256;
/// What kernels assume of the start of every segment.
static constexpr uint64_t kPointerAlignment = 16;
/// Graphs that are kept for a batch: one a set of addresses.
static constexpr size_t kGraphsOfBatch = 16;
/// How long the replays between two events take at least, if 100 do: an
/// event's own time is a microsecond.
static constexpr double kBatchMicros = 2000;

namespace {

/// Makes the device's context current, for a scope.
class ContextScope {
public:
  ContextScope(const Driver &driver, CUcontext context) : driver(driver) {
    pushed = driver.contextPush(context) == kSuccess;
  }
  ~ContextScope() {
    CUcontext ignored;
    if (pushed)
      driver.contextPop(&ignored);
  }
  ContextScope(const ContextScope &) = delete;

private:
  const Driver &driver;
  bool pushed;
};

/// A run at one batch with its buffers at fixed addresses.
struct Graph {
  std::vector<char *> bases; ///< of inputs and outputs, by segment
  CUgraphExec executable = nullptr;
  uint64_t lastUse = 0;
};

/// What is made once for a batch.
struct BatchPlan {
  std::vector<std::unique_ptr<CudaCall>> calls; ///< by command; null: none
  std::vector<Graph> graphs;
};

class CudaExecutor final : public Executor {
public:
  CudaExecutor(const ModuleView &view, const SessionOptions &options)
      : view(view), program(view.module.program), options(options) {}
  ~CudaExecutor() override;

  Status initialize();
  Status prepare(int64_t batch) override;
  Status run(int64_t, void *const *, Observer *) override {
    return Status(Code::Internal, "a GPU takes the caller's buffers itself");
  }
  bool bindsBuffers() const override { return true; }
  Status runBound(int64_t batch, const void *const *inputs,
                  void *const *outputs, Observer *observer) override;
  Status enqueue(int64_t batch, const void *const *inputs, void *const *outputs,
                 void *stream) override;
  /// A copy in the host's memory: for observers, between two commands.
  const void *address(const ByteRange &range) const override;
  Status measure(int64_t batch, int64_t count, Timings &timings) override;
  MemoryUse memory() const override {
    return {arenaSize, constantsSize,
            workspaceSize * streams.size() + stagingSize};
  }
  Counters counters() const override { return total; }

private:
  Status openDevice();
  Status allocate();
  Status loadKernels();
  Expected<char *> allocateBytes(uint64_t size, const char *what);
  Expected<char *> stagingFor(uint32_t segment);
  Status checkMemory(uint64_t more);
  Expected<bool> isOnDevice(const Port &port, const void *pointer) const;
  bool isStopped() const { return options.stop && *options.stop; }
  Status runChecked(int64_t batch, const void *const *inputs,
                    void *const *outputs, Observer *observer);
  Status runObserved(int64_t batch, BatchPlan &plan, Observer &observer);
  Status enqueueChecked(int64_t batch, const void *const *inputs,
                        void *const *outputs, CUstream stream);

  Expected<BatchPlan *> planOf(int64_t batch);
  Status growWorkspace(uint64_t size);
  /// Puts all commands on the streams.
  Status enqueueAll(int64_t batch, BatchPlan &plan);
  Status enqueueCommand(size_t index, int64_t batch, BatchPlan &plan);
  Status launch(const KernelLaunch &launch, int64_t batch, CUstream stream,
                const std::string &name);
  /// The graph for the current addresses, or null.
  Graph *boundGraph(BatchPlan &plan);
  Expected<CUgraphExec> graphOf(int64_t batch, BatchPlan &plan);
  /// Until what `enqueue` put on a caller's stream is done: its graph and the
  /// memory it knows may then be given up.
  Status waitForEnqueued();
  Status captureInto(int64_t batch, BatchPlan &plan, Graph &graph);
  void count();
  /// After an error that the device does not recover from.
  Status failed(Status status);

  char *addressOf(const ByteRange &range) const {
    return segments[range.segment] + range.offset;
  }
  uint64_t bytesOf(const Port &port, int64_t batch) const {
    return *byteCount(port.tensor.shape, port.tensor.dtype, batch);
  }

  const ModuleView &view;
  const Program &program;
  SessionOptions options;
  const Driver *driver = nullptr;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule code = nullptr;
  std::vector<CUfunction> functions;
  std::vector<CUstream> streams; ///< of the program
  std::vector<CUevent> events;   ///< of the program, then one a stream
  char *arena = nullptr, *constants = nullptr, *workspace = nullptr;
  /// The workspace is one part of `workspaceSize` bytes a stream.
  uint64_t arenaSize = 0, constantsSize = 0, workspaceSize = 0, stagingSize = 0;
  std::vector<char *> staging;  ///< by segment, made when first needed
  std::vector<char *> segments; ///< current base addresses
  /// Copies that observers see, by segment.
  mutable std::map<uint32_t, std::vector<char>> copies;
  int64_t lastBatch = 0; ///< of the run whose addresses are bound; 0: none
  std::unique_ptr<CudaLibraries> libraries;
  std::map<int64_t, BatchPlan> plans;
  CUevent enqueued = nullptr; ///< the last run on a stream of the caller's
  uint64_t uses = 0;
  bool isDead = false;
  Counters perRun, total;
};

} // namespace

CudaExecutor::~CudaExecutor() {
  if (!context)
    return;
  // A dead context answers every call with its error, and some hang: the end
  // of the process frees what it had. The libraries' plans stay with it.
  if (isDead) {
    for (auto &[batch, plan] : plans)
      for (auto &call : plan.calls)
        (void)call.release();
    (void)libraries.release();
    return;
  }
  {
    ContextScope scope(*driver, context);
    // Runs that are under way use the code and the memory.
    if (!streams.empty())
      driver->streamSynchronize(streams.front());
    if (enqueued) {
      driver->eventSynchronize(enqueued);
      driver->eventDestroy(enqueued);
    }
    for (auto &[batch, plan] : plans)
      for (Graph &graph : plan.graphs)
        if (graph.executable)
          driver->graphExecDestroy(graph.executable);
    plans.clear();
    libraries.reset();
    for (CUevent event : events)
      driver->eventDestroy(event);
    for (CUstream stream : streams)
      driver->streamDestroy(stream);
    if (code)
      driver->moduleUnload(code);
    staging.push_back(arena);
    staging.push_back(constants);
    staging.push_back(workspace);
    for (char *memory : staging)
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

Status CudaExecutor::loadKernels() {
  const Module &module = view.module;
  if (module.kernels.empty())
    return {};
  int major = 0, minor = 0;
  FUSION_RT_TRY(
      driver->check(driver->deviceGetAttribute(&major, kAttributeMajor, device),
                    "cuDeviceGetAttribute"));
  FUSION_RT_TRY(
      driver->check(driver->deviceGetAttribute(&minor, kAttributeMinor, device),
                    "cuDeviceGetAttribute"));
  int wanted = std::atoi(module.target.c_str() + std::strlen("cuda:sm_"));
  int have = major * 10 + minor;
  char name[256] = "";
  driver->deviceGetName(name, sizeof(name), device);
  std::string what =
      "'" + std::string(name) + "' (sm_" + std::to_string(have) + ")";
  if (have < wanted)
    return Status(Code::Environment, "the module is for " + module.target +
                                         ", the GPU is an older " + what +
                                         "; compile with --target=cuda:sm_" +
                                         std::to_string(have));
  // Machine code runs on its own generation; for a later one the driver
  // compiles the PTX.
  bool fits = !module.deviceCode.empty() && have / 10 == wanted / 10;
  CUresult result;
  if (fits) {
    result = driver->moduleLoad(&code, module.deviceCode.data(), 0, nullptr,
                                nullptr);
    fits = result != kErrorNoBinary;
    if (fits)
      FUSION_RT_TRY(driver->check(result, "cuModuleLoadDataEx"));
  }
  if (!fits) {
    std::string text(module.ptx.begin(), module.ptx.end());
    std::vector<char> log(8192);
    int keys[] = {5, 6}; // error log buffer, its size
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    result = driver->moduleLoad(&code, text.c_str(), 2, keys, values);
    if (result == kErrorPtxVersion)
      return Status(Code::Environment,
                    "the module's PTX is newer than the driver, which supports "
                    "CUDA " +
                        versionText(driver->version) +
                        "; update the driver, or compile with a ptxas for " +
                        what);
    if (result != kSuccess)
      return Status(Code::Environment,
                    "the driver can't compile the module's PTX for " + what +
                        ": " + driver->describe(result) + ": " +
                        escape(log.data(), 1000) +
                        "; update the driver, or compile for this GPU");
  }
  for (const Kernel &kernel : module.kernels) {
    CUfunction function = nullptr;
    result = driver->moduleGetFunction(&function, code, kernel.symbol.c_str());
    if (result != kSuccess)
      return Status(Code::Rejected, "the device code has no kernel '" +
                                        escape(kernel.symbol) +
                                        "'; compile the model again");
    functions.push_back(function);
  }
  return {};
}

/// Before anything is allocated: the limit, and what the device has.
Status CudaExecutor::checkMemory(uint64_t more) {
  FUSION_RT_TRY(
      checkMemoryLimit(program, memory().total() + more, options.memoryLimit));
  size_t free = 0, all = 0;
  FUSION_RT_TRY(driver->check(driver->memGetInfo(&free, &all), "cuMemGetInfo"));
  if (more > free)
    return outOfMemory(program, memory().total() + more,
                       "the GPU has " + bytesText(free) + " free of " +
                           bytesText(all) +
                           "; free memory, or compile for a smaller batch");
  return {};
}

Expected<char *> CudaExecutor::allocateBytes(uint64_t size, const char *what) {
  CUdeviceptr pointer = 0;
  CUresult result = driver->memAlloc(&pointer, size);
  if (result == kErrorOutOfMemory)
    return outOfMemory(program, memory().total() + size,
                       std::string("the GPU gives no ") + bytesText(size) +
                           " for " + what +
                           "; free memory, or compile for a smaller batch");
  FUSION_RT_TRY(driver->check(result, "cuMemAlloc"));
  return reinterpret_cast<char *>(pointer);
}

Status CudaExecutor::allocate() {
  uint64_t size = 0, constSize = 0;
  std::vector<uint64_t> offsets(program.segments.size());
  for (size_t i = 0; i < program.segments.size(); ++i) {
    const Segment &segment = program.segments[i];
    if (segment.kind == SegmentKind::Const)
      constSize = segment.size;
    if (segment.kind != SegmentKind::Private &&
        segment.kind != SegmentKind::Peer &&
        segment.kind != SegmentKind::Pinned)
      continue;
    auto start = checkedAlign(
        size, std::max<uint64_t>(segment.alignment, kSegmentAlignment));
    auto end = start ? checkedAdd(*start, segment.size) : std::nullopt;
    if (!end)
      return Status(Code::Resources, "memory: segment sizes wrap 64 bits");
    offsets[i] = *start;
    size = *end;
  }
  auto both = checkedAdd(size, constSize);
  if (!both)
    return Status(Code::Resources, "memory: segment sizes wrap 64 bits");
  FUSION_RT_TRY(checkMemory(*both));
  if (size != 0) {
    auto memory = allocateBytes(size, "intermediates");
    if (!memory)
      return memory.status();
    arena = *memory;
    arenaSize = size;
  }
  if (constSize != 0) {
    auto memory = allocateBytes(constSize, "weights");
    if (!memory)
      return memory.status();
    constants = *memory;
    constantsSize = constSize;
    FUSION_RT_TRY(driver->check(
        driver->copyToDevice(reinterpret_cast<CUdeviceptr>(constants),
                             view.constants, constSize, streams.front()),
        "cuMemcpyHtoDAsync"));
    FUSION_RT_TRY(driver->check(driver->streamSynchronize(streams.front()),
                                "cuStreamSynchronize"));
  }
  segments.assign(program.segments.size(), nullptr);
  staging.assign(program.segments.size(), nullptr);
  for (size_t i = 0; i < program.segments.size(); ++i) {
    SegmentKind kind = program.segments[i].kind;
    if (kind == SegmentKind::Const)
      segments[i] = constants;
    else if (kind != SegmentKind::Input && kind != SegmentKind::Output)
      segments[i] = arena + offsets[i];
  }
  return {};
}

Status CudaExecutor::initialize() {
  FUSION_RT_TRY(openDevice());
  ContextScope scope(*driver, context);
  FUSION_RT_TRY(loadKernels());
  for (uint32_t i = 0; i < program.streams; ++i) {
    CUstream stream = nullptr;
    FUSION_RT_TRY(driver->check(
        driver->streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
    streams.push_back(stream);
  }
  for (uint64_t i = 0; i < uint64_t(program.events) + program.streams; ++i) {
    CUevent event = nullptr;
    FUSION_RT_TRY(driver->check(
        driver->eventCreate(&event, kEventDisableTiming), "cuEventCreate"));
    events.push_back(event);
  }
  FUSION_RT_TRY(allocate());
  perRun = countCommands(program);
  auto plan = planOf(program.maxBatch);
  return plan ? Status() : plan.status();
}

Status CudaExecutor::prepare(int64_t batch) {
  ContextScope scope(*driver, context);
  auto plan = planOf(batch);
  return plan ? Status() : plan.status();
}

Status CudaExecutor::growWorkspace(uint64_t size) {
  if (size <= workspaceSize)
    return {};
  size = (size + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  auto all = checkedMul<uint64_t>(size, streams.size());
  if (!all)
    return Status(Code::Resources, "memory: workspaces wrap 64 bits");
  FUSION_RT_TRY(checkMemory(*all));
  FUSION_RT_TRY(waitForEnqueued());
  auto memory = allocateBytes(*all, "a library's workspace");
  if (!memory)
    return memory.status();
  // Graphs that know the old one are made again.
  for (auto &[batch, plan] : plans) {
    for (Graph &graph : plan.graphs)
      driver->graphExecDestroy(graph.executable);
    plan.graphs.clear();
  }
  if (workspace)
    driver->memFree(reinterpret_cast<CUdeviceptr>(workspace));
  workspace = *memory;
  workspaceSize = size;
  return {};
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
    if (!libraries) {
      auto opened = CudaLibraries::open(*driver);
      if (!opened)
        return opened.status();
      libraries = std::move(*opened);
    }
    auto call = libraries->plan(command.call, batch);
    if (!call)
      return Status(call.status().code(), call.status().message(),
                    command.name);
    size = std::max(size, (*call)->workspace());
    plan.calls[i] = std::move(*call);
  }
  FUSION_RT_TRY(growWorkspace(size));
  return &(plans[batch] = std::move(plan));
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

Status CudaExecutor::launch(const KernelLaunch &launch, int64_t batch,
                            CUstream stream, const std::string &name) {
  int64_t units = launch.units.scale * batch + launch.units.base;
  int64_t blocks = (units + launch.grain - 1) / launch.grain;
  if (blocks <= 0)
    return {};
  std::vector<char *> operands;
  operands.reserve(launch.operands.size() + 1);
  for (const Operand &operand : launch.operands)
    operands.push_back(addressOf(operand.range));
  if (operands.empty())
    operands.push_back(nullptr);
  void *parameters[] = {operands.data(), &batch};
  return driver->check(
      driver->launchKernel(functions[launch.kernel], unsigned(blocks), 1, 1,
                           view.module.kernels[launch.kernel].threads, 1, 1, 0,
                           stream, parameters, nullptr),
      "cuLaunchKernel", name);
}

Status CudaExecutor::enqueueCommand(size_t index, int64_t batch,
                                    BatchPlan &plan) {
  const Command &command = program.commands[index];
  CUstream stream = streams[command.stream];
  switch (command.kind) {
  case CommandKind::Launch:
    return launch(command.launch, batch, stream, command.name);
  case CommandKind::Call: {
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
    break;
  }
  return Status(Code::Internal, "a command that a GPU can't run", command.name);
}

Status CudaExecutor::enqueueAll(int64_t batch, BatchPlan &plan) {
  // All streams begin with the first one, and end in it.
  CUevent *joins = events.data() + program.events;
  FUSION_RT_TRY(driver->check(driver->eventRecord(joins[0], streams[0]),
                              "cuEventRecord"));
  for (size_t i = 1; i < streams.size(); ++i)
    FUSION_RT_TRY(driver->check(
        driver->streamWaitEvent(streams[i], joins[0], 0), "cuStreamWaitEvent"));
  for (size_t i = 0; i < program.commands.size(); ++i)
    FUSION_RT_TRY(enqueueCommand(i, batch, plan));
  for (size_t i = 1; i < streams.size(); ++i) {
    FUSION_RT_TRY(driver->check(driver->eventRecord(joins[i], streams[i]),
                                "cuEventRecord"));
    FUSION_RT_TRY(driver->check(
        driver->streamWaitEvent(streams[0], joins[i], 0), "cuStreamWaitEvent"));
  }
  return {};
}

Status CudaExecutor::captureInto(int64_t batch, BatchPlan &plan, Graph &graph) {
  FUSION_RT_TRY(driver->check(
      driver->streamBeginCapture(streams.front(), kCaptureThreadLocal),
      "cuStreamBeginCapture"));
  Status enqueued = enqueueAll(batch, plan);
  CUgraph captured = nullptr;
  CUresult ended = driver->streamEndCapture(streams.front(), &captured);
  if (!enqueued.ok()) {
    if (captured)
      driver->graphDestroy(captured);
    return enqueued;
  }
  FUSION_RT_TRY(driver->check(ended, "cuStreamEndCapture"));
  CUresult result = kSuccess;
  if (graph.executable) {
    CUgraphExecUpdateResultInfo info{};
    if (driver->graphExecUpdate(graph.executable, captured, &info) !=
        kSuccess) {
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

Status CudaExecutor::waitForEnqueued() {
  return enqueued ? driver->check(driver->eventSynchronize(enqueued),
                                  "waiting for a run on another stream")
                  : Status();
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

void CudaExecutor::count() {
  ++total.runs;
  total.launches += perRun.launches;
  total.tails += perRun.tails;
  total.calls += perRun.calls;
  total.copies += perRun.copies;
  total.records += perRun.records;
  total.waits += perRun.waits;
  total.bytesRead += perRun.bytesRead;
  total.bytesWritten += perRun.bytesWritten;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Expected<bool> CudaExecutor::isOnDevice(const Port &port,
                                        const void *pointer) const {
  auto address = reinterpret_cast<CUdeviceptr>(pointer);
  unsigned type = 0;
  if (!pointer ||
      driver->pointerGetAttribute(&type, kPointerMemoryType, address) !=
          kSuccess ||
      type != kMemoryTypeDevice)
    return false;
  int ordinal = options.device;
  if (driver->pointerGetAttribute(&ordinal, kPointerDevice, address) ==
          kSuccess &&
      ordinal != options.device)
    return Status(Code::Usage,
                  "'" + escape(port.tensor.name) + "': its buffer is on GPU " +
                      std::to_string(ordinal) + ", the session is on GPU " +
                      std::to_string(options.device));
  return true;
}

Expected<char *> CudaExecutor::stagingFor(uint32_t segment) {
  if (staging[segment])
    return staging[segment];
  uint64_t size = std::max<uint64_t>(program.segments[segment].size, 1);
  FUSION_RT_TRY(checkMemory(size));
  auto memory = allocateBytes(size, "an input or output");
  if (!memory)
    return memory;
  staging[segment] = *memory;
  stagingSize += size;
  return *memory;
}

static Status lostDevice() {
  return Status(Code::PeerFailed,
                "the GPU failed in an earlier run; start a new process");
}

Status CudaExecutor::runObserved(int64_t batch, BatchPlan &plan,
                                 Observer &observer) {
  for (size_t i = 0; i < program.commands.size(); ++i) {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    observer.before(i);
    FUSION_RT_TRY(enqueueCommand(i, batch, plan));
    for (CUstream each : streams)
      FUSION_RT_TRY(driver->check(driver->streamSynchronize(each),
                                  "cuStreamSynchronize",
                                  program.commands[i].name));
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
                         range.size, streams.front()) != kSuccess ||
      driver->streamSynchronize(streams.front()) != kSuccess)
    return nullptr;
  return host;
}

Status CudaExecutor::measure(int64_t batch, int64_t count, Timings &timings) {
  if (isDead)
    return lostDevice();
  if (lastBatch != batch)
    return Status(Code::Internal, "measured before a run at this batch");
  ContextScope scope(*driver, context);
  auto plan = planOf(batch);
  if (!plan)
    return plan.status();
  auto graph = graphOf(batch, **plan);
  if (!graph)
    return failed(graph.status());
  CUstream stream = streams.front();
  struct Events {
    ~Events() {
      for (CUevent event : pair)
        if (event && !isDead)
          driver.eventDestroy(event);
    }
    const Driver &driver;
    bool &isDead;
    CUevent pair[2] = {nullptr, nullptr};
  } events{*driver, isDead};
  for (CUevent &event : events.pair)
    FUSION_RT_TRY(
        failed(driver->check(driver->eventCreate(&event, 0), "cuEventCreate")));
  auto now = [] {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  // Microseconds that one of `replays` took, by events around all of them.
  auto time = [&](int64_t replays, double &micros) -> Status {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    FUSION_RT_TRY(driver->check(driver->eventRecord(events.pair[0], stream),
                                "cuEventRecord"));
    for (int64_t i = 0; i < replays; ++i)
      FUSION_RT_TRY(
          driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
    FUSION_RT_TRY(driver->check(driver->eventRecord(events.pair[1], stream),
                                "cuEventRecord"));
    FUSION_RT_TRY(driver->check(driver->eventSynchronize(events.pair[1]),
                                "waiting for the run"));
    float millis = 0;
    FUSION_RT_TRY(driver->check(
        driver->eventElapsedTime(&millis, events.pair[0], events.pair[1]),
        "cuEventElapsedTime"));
    micros = double(millis) * 1000 / double(replays);
    return {};
  };
  double each = 0;
  for (int i = 0; i < 3; ++i)
    FUSION_RT_TRY(failed(time(10, each)));
  int64_t replays =
      std::clamp<int64_t>(int64_t(kBatchMicros / std::max(each, 1.0)), 1, 100);
  timings = {};
  timings.replays = replays;
  for (int64_t i = 0; i < count; ++i) {
    FUSION_RT_TRY(failed(time(replays, each)));
    timings.device.push_back(each);
    double start = now();
    FUSION_RT_TRY(failed(
        driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch")));
    FUSION_RT_TRY(failed(driver->check(driver->streamSynchronize(stream),
                                       "waiting for the run")));
    timings.wall.push_back(now() - start);
  }
  return {};
}

Status CudaExecutor::runBound(int64_t batch, const void *const *inputs,
                              void *const *outputs, Observer *observer) {
  if (isDead)
    return lostDevice();
  if (isStopped())
    return Status(Code::Internal, "interrupted");
  ContextScope scope(*driver, context);
  lastBatch = 0;
  Status status = failed(runChecked(batch, inputs, outputs, observer));
  if (status.ok()) {
    lastBatch = batch;
    count();
  } else if (!isDead) {
    // The caller may free its buffers: nothing may still use them.
    for (CUstream stream : streams)
      driver->streamSynchronize(stream);
  }
  return status;
}

Status CudaExecutor::runChecked(int64_t batch, const void *const *inputs,
                                void *const *outputs, Observer *observer) {
  auto plan = planOf(batch);
  if (!plan)
    return plan.status();
  CUstream stream = streams.front();
  // The arena is one: a run on a caller's stream ends before this one begins.
  if (enqueued)
    FUSION_RT_TRY(driver->check(driver->streamWaitEvent(stream, enqueued, 0),
                                "cuStreamWaitEvent"));
  bool anyOnDevice = false;
  struct Result {
    void *caller;
    const Port *port;
    bool onDevice;
  };
  std::vector<Result> results;
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
    if (segments[port.segment] != outputs[i])
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
    if (size == 0 || segments[port.segment] == inputs[i])
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
    FUSION_RT_TRY(driver->check(driver->streamSynchronize(stream),
                                "waiting for the inputs"));
    FUSION_RT_TRY(runObserved(batch, **plan, *observer));
  } else {
    auto graph = graphOf(batch, **plan);
    if (!graph)
      return graph.status();
    FUSION_RT_TRY(
        driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
  }
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
    FUSION_RT_TRY(failed(
        driver->check(copied, "copying an output", result.port->tensor.name)));
  }
  return driver->check(driver->streamSynchronize(stream),
                       "waiting for the run");
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

Status CudaExecutor::enqueueChecked(int64_t batch, const void *const *inputs,
                                    void *const *outputs, CUstream stream) {
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
  if (!boundGraph(**plan)) {
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
  auto graph = graphOf(batch, **plan);
  if (!graph)
    return graph.status();
  if (!enqueued)
    FUSION_RT_TRY(driver->check(
        driver->eventCreate(&enqueued, kEventDisableTiming), "cuEventCreate"));
  FUSION_RT_TRY(
      driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
  return driver->check(driver->eventRecord(enqueued, stream), "cuEventRecord");
}

Expected<std::unique_ptr<Executor>>
fusion::rt::makeCudaExecutor(const ModuleView &module,
                             const SessionOptions &options) {
  auto executor = std::make_unique<CudaExecutor>(module, options);
  FUSION_RT_TRY(executor->initialize());
  return std::unique_ptr<Executor>(std::move(executor));
}
