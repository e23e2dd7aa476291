//===- CpuExecutor.cpp - Runs programs on the CPU -------------------------===//
//
// At each batch size the program is flattened once into a vector of steps with
// resolved addresses; a run walks that vector. List order is a legal order of
// the streams (proved at load), so record and wait need no step.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Communicator.h"
#include "Executor.h"
#include "HostMemory.h"
#include "Mesh.h"
#include "NativeCode.h"
#include "Plan.h"
#include "Text.h"
#include "Threads.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace fusion::rt;

namespace {

struct FreeDeleter {
  void operator()(void *memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, FreeDeleter>;

class CpuExecutor final : public Executor {
public:
  CpuExecutor(const ModuleView &view, const SessionOptions &options)
      : view(view), program(view.module.program), limit(options.memoryLimit),
        threads(options.threads > 0 ? options.threads : availableThreads()),
        stop(options.stop), communicator(options.communicator),
        progress(options.progress) {}

  Status initialize();
  Status prepare(int64_t batch) override;
  Status run(int64_t batch, void *const *bases, Observer *observer) override;
  const void *address(const ByteRange &range) const override;
  MemoryUse memory() const override;
  Counters counters() const override { return total; }

private:
  Status connectRanks();
  Status allocateArena();
  Status growScratchpad(uint64_t size);

  const ModuleView &view;
  const Program &program;
  uint64_t limit;
  int threads;
  const volatile std::sig_atomic_t *stop;
  std::shared_ptr<Communicator> communicator;
  RankProgress *progress;
  std::vector<Group> groups;
  std::unique_ptr<Streams> streams;
  std::unique_ptr<NativeCode> code;
  std::unique_ptr<Library> library;
  Buffer arena, scratchpad;
  uint64_t arenaSize = 0, scratchpadSize = 0;
  /// Base addresses by segment; inputs and outputs are those of the last run.
  std::vector<char *> segments;
  std::map<int64_t, std::unique_ptr<Plan>> plans;
  Plan *current = nullptr;
  Counters perRun, total;
};

} // namespace

Status CpuExecutor::allocateArena() {
  uint64_t size = 0;
  std::vector<uint64_t> offsets(program.segments.size());
  for (size_t i = 0; i < program.segments.size(); ++i) {
    const Segment &segment = program.segments[i];
    if (segment.kind != SegmentKind::Private &&
        segment.kind != SegmentKind::Peer &&
        segment.kind != SegmentKind::Pinned)
      continue;
    auto start = checkedAlign(size, std::max<uint64_t>(segment.alignment, 64));
    auto end = start ? checkedAdd(*start, segment.size) : std::nullopt;
    if (!end)
      return Status(Code::Resources, "memory: segment sizes wrap 64 bits");
    offsets[i] = *start;
    size = *end;
  }
  auto rounded = checkedAlign(size, 4096);
  if (!rounded)
    return Status(Code::Resources, "memory: segment sizes wrap 64 bits");
  FUSION_RT_TRY(checkMemoryLimit(program, size, limit));
  if (uint64_t host = hostMemoryLimit(); host != 0 && size > host)
    return outOfMemory(program, size,
                       "this process can have " + bytesText(host) +
                           " by the machine's memory and its control groups; "
                           "compile for a smaller batch");
  segments.assign(program.segments.size(), nullptr);
  arenaSize = size;
  if (size != 0) {
    arena.reset(std::aligned_alloc(4096, *rounded));
    if (!arena)
      return outOfMemory(program, size,
                         "the system gives no more; free memory, raise the "
                         "process's limits or compile for a smaller batch");
  }
  for (size_t i = 0; i < program.segments.size(); ++i) {
    SegmentKind kind = program.segments[i].kind;
    if (kind == SegmentKind::Const)
      segments[i] =
          const_cast<char *>(reinterpret_cast<const char *>(view.constants));
    else if (kind != SegmentKind::Input && kind != SegmentKind::Output)
      segments[i] = static_cast<char *>(arena.get()) + offsets[i];
  }
  return {};
}

Status CpuExecutor::connectRanks() {
  uint32_t ranks = rankCount(program.mesh);
  if (ranks > 1 && !communicator)
    return Status(Code::Usage, "the module is for " + std::to_string(ranks) +
                                   " ranks; run it with --ranks " +
                                   std::to_string(ranks));
  if (communicator && communicator->size() != ranks)
    return Status(Code::Usage, "the module is for " + std::to_string(ranks) +
                                   " ranks, the job has " +
                                   std::to_string(communicator->size()) +
                                   "; give --ranks " + std::to_string(ranks));
  groups = groupsOf(program, communicator ? communicator->rank() : 0);
  if (program.streams > 1)
    streams = std::make_unique<Streams>(program.streams, program.events);
  if (groups.empty())
    return {};
  if (!communicator) // a mesh of one rank
    communicator = makeHostCommunicator(0, 1, nullptr, nullptr, 0);
  return communicator->connect(groups);
}

Status CpuExecutor::initialize() {
  FUSION_RT_TRY(allocateArena());
  FUSION_RT_TRY(connectRanks());
  auto loaded = NativeCode::load(view.module);
  if (!loaded)
    return loaded.status();
  code = std::move(*loaded);
  try {
    library = std::make_unique<Library>();
  } catch (const dnnl::error &error) {
    return Status(error.status == dnnl_out_of_memory ? Code::Resources
                                                     : Code::Environment,
                  std::string("oneDNN can't start: ") + error.what());
  }
  perRun = countCommands(program);
  return prepare(program.maxBatch);
}

Status CpuExecutor::growScratchpad(uint64_t size) {
  if (size <= scratchpadSize)
    return {};
  Buffer larger(std::aligned_alloc(4096, (size + 4095) & ~uint64_t(4095)));
  if (!larger)
    return Status(Code::Resources, "out of memory for a library's scratchpad");
  scratchpad = std::move(larger);
  scratchpadSize = size;
  for (auto &[batch, plan] : plans)
    plan->setScratchpad(scratchpad.get());
  return {};
}

Status CpuExecutor::prepare(int64_t batch) {
  if (plans.count(batch))
    return {};
  ThreadCountScope scope(threads);
  auto plan = makePlan(view, *library, code->kernels(), segments, groups,
                       communicator ? communicator->rank() : 0, batch);
  if (!plan)
    return plan.status();
  FUSION_RT_TRY(
      checkMemoryLimit(program,
                       arenaSize + library->packedBytes() +
                           std::max(scratchpadSize, (*plan)->scratchpadBytes),
                       limit));
  FUSION_RT_TRY(growScratchpad((*plan)->scratchpadBytes));
  (*plan)->setScratchpad(scratchpad.get());
  plans[batch] = std::move(*plan);
  return {};
}

Status CpuExecutor::run(int64_t batch, void *const *bases, Observer *observer) {
  if (!current || current->batch != batch) {
    FUSION_RT_TRY(prepare(batch));
    current = plans[batch].get();
  }
  for (const Port &port : program.inputs)
    segments[port.segment] = static_cast<char *>(bases[port.segment]);
  for (const Port &port : program.outputs)
    segments[port.segment] = static_cast<char *>(bases[port.segment]);
  ThreadCountScope scope(threads);
  current->bind(segments);
  FUSION_RT_TRY(
      current->execute({*library, threads, observer, stop, streams.get(),
                        communicator.get(), progress}));
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
  return {};
}

const void *CpuExecutor::address(const ByteRange &range) const {
  return segments[range.segment] + range.offset;
}

MemoryUse CpuExecutor::memory() const {
  return {arenaSize, library->packedBytes(), scratchpadSize,
          communicator ? communicator->counts().stagingBytes : 0};
}

Expected<std::unique_ptr<Executor>>
fusion::rt::makeCpuExecutor(const ModuleView &module,
                            const SessionOptions &options) {
  auto executor = std::make_unique<CpuExecutor>(module, options);
  FUSION_RT_TRY(executor->initialize());
  return std::unique_ptr<Executor>(std::move(executor));
}
