//===- GraphFills.cpp - Small fills of a graph, by kernels ----------------===//
#include "GraphFills.h"

#include <algorithm>
#include <vector>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// A thread a word, in steps of the launch.
static const char *const kPtx = R"(//
.version 7.0
.target sm_70
.address_size 64
.visible .entry fusion_fill(.param .u64 words, .param .u64 count, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %thread, %block, %threads, %blocks, %step, %word;
  .reg .b64 %base, %most, %at, %wide, %address;
  ld.param.u64 %base, [words];
  ld.param.u64 %most, [count];
  ld.param.u32 %word, [value];
  cvta.to.global.u64 %base, %base;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %blocks, %nctaid.x;
  mad.lo.u32 %thread, %block, %threads, %thread;
  cvt.u64.u32 %at, %thread;
  mul.lo.u32 %step, %threads, %blocks;
  cvt.u64.u32 %wide, %step;
NEXT:
  setp.ge.u64 %p, %at, %most;
  @%p bra LEAVE;
  shl.b64 %address, %at, 2;
  add.s64 %address, %base, %address;
  st.global.u32 [%address], %word;
  add.s64 %at, %at, %wide;
  bra NEXT;
LEAVE:
  ret;
}
)";

static constexpr unsigned kThreads = 128, kMostBlocks = 32;
static constexpr uint64_t kWord = 4;

std::unique_ptr<GraphFills> GraphFills::load(const Driver &driver) {
  if (!driver.graphNodes || !driver.graphFill || !driver.graphBefore ||
      !driver.graphAfter || !driver.graphAddKernel || !driver.graphAddEdges ||
      !driver.graphDestroyNode)
    return nullptr;
  std::unique_ptr<GraphFills> fills(new GraphFills(driver));
  if (!fills->code.load(kPtx, "fusion_fill", "the kernel that fills").ok())
    return nullptr;
  return fills;
}

/// The nodes that `list` gives for `of`; false if it can't.
template <typename ListT, typename OfT>
static bool listNodes(ListT list, OfT of, std::vector<CUgraphNode> &nodes) {
  size_t count = 0;
  if (list(of, nullptr, &count) != kSuccess)
    return false;
  nodes.resize(count);
  return count == 0 || list(of, nodes.data(), &count) == kSuccess;
}

/// The word of which a fill of whole words consists, by its elements' size.
static uint32_t repeat(uint32_t value, unsigned elementSize) {
  return elementSize == 1   ? (value & 0xff) * 0x01010101u
         : elementSize == 2 ? (value & 0xffff) * 0x00010001u
                            : value;
}

Status GraphFills::replace(CUgraph graph, CUgraphNode node) const {
  CUmemsetNodeParams fill{};
  std::vector<CUgraphNode> before, after;
  if (driver.graphFill(node, &fill) != kSuccess || fill.height != 1 ||
      fill.width > kMostBytes)
    return {};
  uint64_t bytes = uint64_t(fill.width) * fill.elementSize;
  // Edges that say more than "behind" can't be listed.
  if (bytes == 0 || bytes > kMostBytes || bytes % kWord != 0 ||
      fill.target % kWord != 0 ||
      !listNodes(driver.graphBefore, node, before) ||
      !listNodes(driver.graphAfter, node, after))
    return {};
  uint64_t count = bytes / kWord;
  uint32_t word = repeat(fill.value, fill.elementSize);
  void *parameters[] = {&fill.target, &count, &word};
  CUkernelNodeParams kernel{};
  kernel.function = code.get();
  kernel.gridX = unsigned(
      std::min<uint64_t>((count + kThreads - 1) / kThreads, kMostBlocks));
  kernel.gridY = kernel.gridZ = kernel.blockY = kernel.blockZ = 1;
  kernel.blockX = kThreads;
  kernel.parameters = parameters;
  CUgraphNode made = nullptr;
  FUSION_RT_TRY(driver.check(driver.graphAddKernel(&made, graph, before.data(),
                                                   before.size(), &kernel),
                             "cuGraphAddKernelNode"));
  std::vector<CUgraphNode> from(after.size(), made);
  if (!after.empty())
    FUSION_RT_TRY(driver.check(
        driver.graphAddEdges(graph, from.data(), after.data(), after.size()),
        "cuGraphAddDependencies"));
  return driver.check(driver.graphDestroyNode(node), "cuGraphDestroyNode");
}

Status GraphFills::replaceIn(CUgraph graph) const {
  std::vector<CUgraphNode> nodes;
  if (!listNodes(driver.graphNodes, graph, nodes))
    return {};
  for (CUgraphNode node : nodes) {
    int type = kNodeKernel;
    if (driver.graphNodeType(node, &type) == kSuccess && type == kNodeFill)
      FUSION_RT_TRY(replace(graph, node));
  }
  return {};
}
