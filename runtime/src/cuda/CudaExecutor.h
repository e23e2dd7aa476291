//===- CudaExecutor.h - Runs programs on a GPU ------------------*- C++ -*-===//
//
// A run at one batch is one CUDA graph: the commands are captured once for each
// set of input and output addresses, and replayed. Buffers of the host are
// copied to and from the device around it. One class, a file for each of its
// concerns: CudaCode.cpp (kernels), CudaMemory.cpp (what is allocated),
// CudaCollectives.cpp (other ranks), CudaGraphs.cpp (commands, captures),
// CudaRuns.cpp (runs on a caller's buffers), CudaMeasure.cpp (times).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_CUDAEXECUTOR_H
#define FUSION_RUNTIME_CUDA_CUDAEXECUTOR_H

#include "Checked.h"
#include "DeviceCommunicator.h"
#include "Driver.h"
#include "Executor.h"
#include "GraphFills.h"
#include "LibraryCalls.h"
#include "Progress.h"
#include "Tuner.h"

#include <map>

namespace fusion::rt::cuda {

/// Segments start at multiples of this, in bytes.
constexpr uint64_t kSegmentAlignment = 256;
/// What kernels assume of the start of every segment.
constexpr uint64_t kPointerAlignment = 16;

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
  Status stepBound(int64_t batch, const void *const *inputs,
                   void *const *outputs) override;
  Status enqueue(int64_t batch, const void *const *inputs, void *const *outputs,
                 void *stream) override;
  /// A copy in the host's memory: for observers, between two commands.
  const void *address(const ByteRange &range) const override;
  Status measure(int64_t batch, int64_t count, Timings &timings) override;
  MemoryUse memory() const override {
    return {arenaSize, constantsSize,
            workspaceSize * streams.size() + stagingSize,
            groups.empty() ? 0 : options.deviceCommunicator->bytes()};
  }
  Counters counters() const override { return total; }
  std::vector<std::string> notes() const override { return said; }

private:
  Status openDevice();
  Status allocate();
  Status createStream(uint32_t index);
  Status connectRanks();
  Status shareOutputs(DeviceSetup &setup);
  Status loadKernels();
  Status loadPtx(const std::string &gpu);
  Expected<char *> allocateBytes(uint64_t size, const char *what);
  Expected<char *> stagingFor(uint32_t segment);
  Status checkMemory(uint64_t more);
  Expected<bool> isOnDevice(const Port &port, const void *pointer) const;
  bool isStopped() const { return options.stop && *options.stop; }
  /// Until `query` is no longer "not ready". A GPU that takes longer than
  /// allowed for `runs` runs, or when the caller wants to stop, is given up:
  /// what waits in the driver for it would never return.
  template <typename Query>
  Status waitUntil(Query query, const char *what, const std::string &op,
                   int64_t runs);
  Status waitFor(CUstream stream, const char *what, const std::string &op = {},
                 int64_t runs = 1);
  Status waitFor(CUevent event, const char *what, int64_t runs = 1);
  Status runAny(int64_t batch, const void *const *inputs, void *const *outputs,
                Observer *observer, bool isStep);
  Status runChecked(int64_t batch, const void *const *inputs,
                    void *const *outputs, Observer *observer, bool isStep);
  Status runObserved(int64_t batch, BatchPlan &plan, Observer &observer);
  Status enqueueChecked(int64_t batch, const void *const *inputs,
                        void *const *outputs, CUstream stream);
  /// Whether a caller captures `stream`.
  Expected<bool> isCaptured(CUstream stream) const;
  /// The commands on the bound buffers, for a caller's capture of `stream`.
  Status enqueueCaptured(int64_t batch, CUstream stream);

  Expected<BatchPlan *> planOf(int64_t batch);
  Expected<std::unique_ptr<CudaCall>> planCall(const Command &command,
                                               int64_t batch);
  std::unique_ptr<Tuner> makeTuner();
  void say(std::string note);
  Status growWorkspace(uint64_t size);
  /// Puts all commands on the streams, those of the first one on `first`.
  Status enqueueAll(int64_t batch, BatchPlan &plan, CUstream first);
  Status enqueueCommand(size_t index, int64_t batch, BatchPlan &plan,
                        CUstream first);
  Status enqueueCollective(size_t index, int64_t batch, CUstream stream);
  CollectiveRun runOf(size_t index, int64_t batch) const;
  /// Where launches read what direct moves do not copy.
  void findDirectReads();
  /// Copies what a direct move would have: for observers.
  Status bringDirect(size_t index, int64_t batch, CUstream stream);
  /// What others see of this rank while it waits for its device, from
  /// `command` on.
  void enterStep(uint32_t command);
  void leaveStep();
  /// Lets the device write the words of `options.progress`, if it can.
  void shareProgress();
  void unshareProgress();
  Status writeWord(CUdeviceptr word, uint32_t value, CUstream stream,
                   const std::string &op);
  Status tellProgress(size_t index, StreamProgress::State state,
                      CUstream stream);
  /// Whether all that comes next on `stream` waits for is one kernel, of the
  /// same capture: it may be launched while that ends.
  bool isBehindKernel(CUstream stream) const;
  /// `index`: of the command whose own launch it is; -1: of none.
  Status launch(const KernelLaunch &launch, int64_t batch, CUstream stream,
                const std::string &name, int64_t index = -1);
  /// The graph for the current addresses, or null.
  Graph *boundGraph(BatchPlan &plan);
  Expected<CUgraphExec> graphOf(int64_t batch, BatchPlan &plan);
  /// Until what `enqueue` put on a caller's stream is done: its graph and the
  /// memory it knows may then be given up.
  Status waitForEnqueued();
  Status captureInto(int64_t batch, BatchPlan &plan, Graph &graph);
  void count();
  void abandon();
  /// `status`, noted if the device does not recover from it.
  Status failed(Status status);
  /// The answer of a lost device, which is not asked again.
  static Status lostDevice();

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
  std::unique_ptr<GraphFills> fills; ///< null without calls of libraries
  std::vector<CUstream> streams;     ///< of the program
  std::vector<CUevent> events;       ///< of the program, then one a stream
  char *arena = nullptr, *constants = nullptr, *workspace = nullptr;
  std::vector<std::string> said; ///< notes for the user
  std::vector<Group> groups;     ///< of ranks; empty: no collectives
  uint32_t firstCollective = 0;
  /// By launch: operands that are read in another rank's memory, and where.
  std::map<size_t, std::vector<std::pair<size_t, char *>>> directReads;
  /// Nodes of the capture under way that are NCCL's.
  std::vector<CUgraphNode> foreignNodes;
  int64_t waitingIn = -1; ///< the command given to `enterStep`
  /// The host's pages with the words of progress, and where the device has
  /// `options.progress`; 0: it does not write them.
  char *sharedPages = nullptr;
  CUdeviceptr sharedProgress = 0;
  /// The workspace is one part of `workspaceSize` bytes a stream.
  uint64_t arenaSize = 0, constantsSize = 0, workspaceSize = 0, stagingSize = 0;
  std::vector<char *> staging;       ///< by segment, made when first needed
  std::vector<char *> stagingBlocks; ///< that those lie in
  std::vector<char *> segments;      ///< current base addresses
  /// Copies that observers see, by segment.
  mutable std::map<uint32_t, std::vector<char>> copies;
  int64_t lastBatch = 0; ///< of the run whose addresses are bound; 0: none
  std::unique_ptr<Tuner> tuner; ///< if the caller asked for it
  std::unique_ptr<CudaLibraries> libraries;
  std::map<int64_t, BatchPlan> plans;
  CUevent enqueued = nullptr; ///< the last run on a stream of the caller's
  /// A graph of a caller's knows the workspace: it stays until the end.
  bool isInCallersGraph = false;
  uint64_t uses = 0;
  /// The device failed, or does not answer: it is not asked again.
  bool isDead = false;
  Counters perRun, total;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_CUDAEXECUTOR_H
