//===- Plan.h - A program flattened for one batch size ----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_PLAN_H
#define FUSION_RUNTIME_CPU_PLAN_H

#include "Communicator.h"
#include "Executor.h"
#include "Hooks.h"
#include "Library.h"
#include "NativeCode.h"
#include "Progress.h"
#include "Streams.h"

namespace fusion::rt {

/// One thing the CPU does. A command is one or several consecutive steps.
struct Step {
  /// Members: the steps behind it are those of small independent calls, which
  /// threads may share.
  /// Record and Wait are only in programs of several streams.
  enum Kind : uint8_t {
    Kernel,
    Primitive,
    Copy,
    Add,
    Fill,
    Members,
    Collective,
    Position,
    Record,
    Wait
  } kind;
  bool startsCommand = false; ///< the first step of its command
  bool isTail = false;        ///< a kernel that is a call's epilogue
  uint32_t command = 0;
  /// Kernel: its buffers start here. Copy: target, source. Add: output, addend.
  /// Fill: output, bias, addend. Collective: the operands. Position: output.
  uint32_t slot = 0;
  uint32_t argumentCount = 0; ///< Primitive
  bool oneThread = false;     ///< Primitive, Add: too small to share
  KernelFunction function = nullptr;
  /// Kernel: units. Copy: bytes, Add: elements in end. Members: positions in
  /// `memberStarts`; the last of them is where the steps end. Collective: index
  /// into `collectives` in begin. Position: the value in begin. Record, Wait:
  /// the event in begin; Wait: how often it has been recorded in end.
  int64_t begin = 0, end = 0, grain = 1;
  dnnl_primitive_t primitive = nullptr;
  const dnnl_exec_arg_t *arguments = nullptr;
};

/// What runs a plan's steps.
struct PlanContext {
  const Library &library;
  int threads;
  Observer *observer;
  const volatile std::sig_atomic_t *stop; ///< see `SessionOptions`
  Streams *streams;                       ///< of programs with several
  Communicator *communicator;             ///< of programs with a mesh
  RankProgress *progress;                 ///< or null
};

/// The steps of a program at one batch, with resolved addresses. Only inputs
/// and outputs move between runs; `bind` patches what refers to them.
class Plan {
public:
  int64_t batch = 1;
  /// Of library calls, followed by results whose own bytes hold an addend.
  uint64_t scratchpadBytes = 0;

  /// Points everything at the given segment bases.
  void bind(const std::vector<char *> &segments);
  void setScratchpad(void *memory);
  /// Runs all steps: in list order on this thread, which is a legal order of
  /// the streams, or each stream on its own thread.
  Status execute(const PlanContext &context);

private:
  friend class PlanBuilder;

  /// Runs steps [begin, end) on up to `threads` threads.
  Status executeSteps(const PlanContext &context, size_t begin, size_t end,
                      int threads);
  Status runCollective(const Step &step, const PlanContext &context);
  /// Runs one step; returns a oneDNN status.
  dnnl_status_t runStep(const Step &step, dnnl_stream_t stream, int threads);
  /// Runs the members behind a step on several threads.
  dnnl_status_t runMembers(const Step &step, const Library &library,
                           int threads);
  void fill(const Step &step);

  struct SlotPatch {
    uint32_t slot;
    uint32_t segment;
    uint64_t offset;
  };
  struct MemoryPatch {
    dnnl_memory_t memory;
    uint32_t segment;
    uint64_t offset;
  };

  std::vector<Step> steps;
  std::vector<void *> slots;
  /// Slots of bytes behind the scratchpad, with their offset there.
  std::vector<std::pair<uint32_t, uint64_t>> temporarySlots;
  /// Memories of library calls there, likewise.
  std::vector<std::pair<dnnl_memory_t, uint64_t>> temporaryMemories;
  uint64_t temporaryOffset = 0;
  std::vector<uint32_t> memberStarts; ///< steps
  std::vector<CollectiveRun> collectives;
  /// By stream, if there are several: its runs of steps.
  std::vector<std::vector<std::pair<size_t, size_t>>> streamSteps;
  std::vector<SlotPatch> slotPatches;
  std::vector<MemoryPatch> memoryPatches;
  std::vector<char *> bound; ///< the bases at the last `bind`
  /// Keeps primitives, memories and argument lists alive.
  std::vector<std::unique_ptr<PreparedCall>> calls;
  std::vector<std::unique_ptr<std::vector<dnnl_exec_arg_t>>> argumentLists;
  const Program *program = nullptr;
  Hooks hooks;
};

/// Flattens the module's program at `batch`. `segments` are the bases of all
/// segments but inputs and outputs; `groups` are those of `rank`.
Expected<std::unique_ptr<Plan>>
makePlan(const ModuleView &view, Library &library,
         const std::vector<KernelFunction> &kernels,
         const std::vector<char *> &segments, const std::vector<Group> &groups,
         uint32_t rank, int64_t batch);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_PLAN_H
