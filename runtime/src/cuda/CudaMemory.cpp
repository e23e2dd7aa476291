//===- CudaMemory.cpp - Memory of a GPU -----------------------------------===//
//
// The arena, the weights, workspaces of libraries, and stand-ins for buffers of
// the host. Everything is asked for against the limit and what the GPU has free
// before it is taken.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"
#include "Text.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Allocations that are smaller share one of these.
static constexpr uint64_t kDriverBlock = 2 << 20;

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
  // What other ranks may open has a block of the driver's for itself.
  uint64_t blocks = options.deviceCommunicator ? kDriverBlock : 1;
  CUresult result =
      driver->memAlloc(&pointer, (size + blocks - 1) / blocks * blocks);
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
    FUSION_RT_TRY(waitFor(streams.front(), "waiting for the weights"));
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
  if (workspace && isInCallersGraph) {
    stagingBlocks.push_back(workspace);
    stagingSize += workspaceSize * streams.size();
  } else if (workspace) {
    driver->memFree(reinterpret_cast<CUdeviceptr>(workspace));
  }
  workspace = *memory;
  workspaceSize = size;
  return {};
}

Expected<char *> CudaExecutor::stagingFor(uint32_t segment) {
  if (staging[segment])
    return staging[segment];
  // All outputs in one piece: equal ones lie at equal distances, which lets a
  // library compute them at once.
  std::vector<uint32_t> together{segment};
  if (program.segments[segment].kind == SegmentKind::Output) {
    together.clear();
    for (const Port &port : program.outputs)
      together.push_back(port.segment);
  }
  uint64_t size = 0;
  for (uint32_t each : together) {
    auto end =
        checkedAdd(size, std::max<uint64_t>(program.segments[each].size, 1));
    auto next = end ? checkedAlign(*end, kSegmentAlignment) : std::nullopt;
    if (!next)
      return Status(Code::Resources, "memory: output sizes wrap 64 bits");
    size = *next;
  }
  FUSION_RT_TRY(checkMemory(size));
  auto memory = allocateBytes(size, "an input or output");
  if (!memory)
    return memory;
  stagingBlocks.push_back(*memory);
  stagingSize += size;
  char *next = *memory;
  for (uint32_t each : together) {
    staging[each] = next;
    next += *checkedAlign(std::max<uint64_t>(program.segments[each].size, 1),
                          kSegmentAlignment);
  }
  return staging[segment];
}

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
