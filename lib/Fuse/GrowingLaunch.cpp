//===- GrowingLaunch.cpp - A launch that grows member by member -----------===//
//
// A member costs no more than its operands and those of a few of its readers.
//
//===----------------------------------------------------------------------===//
#include "GrowingLaunch.h"

using namespace mlir;
using namespace fusion;

/// Readers of one member that are looked at for what would wait with them.
static constexpr unsigned kMaxReaders = 16;

/// Bytes of intermediates that are alive at once, at least. Results of the
/// function are not among them.
static int64_t computePeak(const HorizontalGraph &graph) {
  SmallVector<int64_t> change(graph.size() + 1);
  for (unsigned node = 0; node < graph.size(); ++node)
    for (unsigned value : graph[node].values) {
      const HorizontalValue &info = graph.getValue(value);
      if (info.producer != node || info.lastUse == HorizontalValue::kNeverDies)
        continue;
      change[node] += info.bytes;
      change[info.lastUse + 1] -= info.bytes;
    }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}

LaunchBudget::LaunchBudget(const HorizontalGraph &graph,
                           const HorizontalLimits &limits,
                           const CostModel &model)
    : graph(graph), limits(limits), model(model),
      stamp(graph.getNumValues(), ~0u) {
  if (limits.memoryLimit > 0)
    extraBudget = std::max<int64_t>(0, limits.memoryLimit - computePeak(graph));
}

LaunchRefusal GrowingLaunch::tryAdd(unsigned index) {
  const HorizontalNode &node = budget.graph[index];
  const HorizontalLimits &limits = budget.limits;
  if (launch.members.empty()) {
    add(index, 0, 0, {});
    return {};
  }
  unsigned partner = launch.members.back();
  auto refuse = [&](FusionRule rule, double value, double limit) {
    return LaunchRefusal{partner, rule, static_cast<int64_t>(value),
                         static_cast<int64_t>(limit), std::nullopt};
  };
  int64_t count = launch.members.size() + 1;
  if (count > limits.maxMembers)
    return refuse(FusionRule::MaxMembers, count, limits.maxMembers);
  if (numOperands + node.numOperands > limits.maxOperands)
    return refuse(FusionRule::MaxOperands, numOperands + node.numOperands,
                  limits.maxOperands);
  auto isIn = [](const llvm::DenseSet<Value> &set) {
    return [&set](Value value) { return set.contains(value); };
  };
  if (llvm::any_of(node.updates, isIn(read)) ||
      llvm::any_of(node.reads, isIn(updated)))
    return refuse(FusionRule::HorizontalAlias, 0, 0);
  // All members run where the last one stands: values that died before live
  // until there. A refused node ends the launch, so nothing is put back.
  int64_t extra = launch.extraBytes;
  double newWaiting = waiting;
  const DeviceModel &device = budget.model.getDevice();
  for (; !pending.empty() && pending.top().first < index; pending.pop()) {
    int64_t bytes = pending.top().second;
    if (llvm::AddOverflow(extra, bytes, extra))
      extra = std::numeric_limits<int64_t>::max();
    if (bytes <= device.cacheBytes)
      newWaiting += bytes;
  }
  if (extra > limits.maxExtraBytes)
    return refuse(FusionRule::HorizontalMemory, extra, limits.maxExtraBytes);
  if (extra > budget.extraBudget - budget.totalExtra)
    return refuse(FusionRule::HorizontalMemory, budget.totalExtra + extra,
                  budget.extraBudget);
  works.push_back(node.work);
  KernelWork fused = together;
  fused += node.work;
  fused.rereadBytes += node.nearBytes;
  addSpills(fused, newWaiting, device);
  LaunchAlternatives times = compareLaunches(budget.model, works, fused);
  works.pop_back();
  if (times.choice == LaunchChoice::Fused) {
    add(index, extra, newWaiting, times);
    return {};
  }
  LaunchRefusal refusal =
      times.choice == LaunchChoice::Streams
          ? refuse(FusionRule::HorizontalStreams, 1000 * times.streamsUs,
                   1000 * times.fusedUs)
          : refuse(FusionRule::HorizontalProfit, 1000 * times.fusedUs,
                   1000 * times.serialUs);
  refusal.times = times;
  return refusal;
}

void GrowingLaunch::add(unsigned node, int64_t extra, double newWaiting,
                        const LaunchAlternatives &times) {
  const HorizontalNode &added = budget.graph[node];
  launch.members.push_back(node);
  launch.extraBytes = extra;
  launch.times = times;
  waiting = newWaiting;
  works.push_back(added.work);
  together += added.work;
  together.rereadBytes += added.nearBytes;
  numOperands += added.numOperands;
  read.insert(added.reads.begin(), added.reads.end());
  updated.insert(added.updates.begin(), added.updates.end());
  auto addValue = [&](unsigned value) {
    if (budget.stamp[value] == id)
      return;
    budget.stamp[value] = id;
    const HorizontalValue &info = budget.graph.getValue(value);
    pending.push({info.lastUse, info.bytes});
  };
  llvm::for_each(added.values, addValue);
  // Readers wait for the last member too, with all else that they read.
  for (unsigned reader :
       ArrayRef<unsigned>(added.consumers).take_front(kMaxReaders))
    for (unsigned value : budget.graph[reader].values)
      if (budget.graph.getValue(value).producer != reader)
        addValue(value);
}
