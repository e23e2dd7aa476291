//===- KernelOrder.cpp - Kernels that communication can hide behind -------===//
//
// See KernelOrder.h. A large gradient that comes last, as that of an embedding
// does, is sent while nothing is left to compute; the weights' gradients just
// before it need not come before it.
//
//===----------------------------------------------------------------------===//
#include "KernelOrder.h"

#include "llvm/ADT/DenseSet.h"

#include <numeric>

using namespace mlir;
using namespace fusion;

/// Collectives whose kernels may be delayed for one.
static constexpr size_t kMaxOthers = 32;

KernelOrder::KernelOrder(const OverlapGraph &graph, const LiveBytes &live)
    : graph(graph), live(live), order(graph.size()), own(graph.size()),
      tried(graph.size(), false) {
  std::iota(order.begin(), order.end(), 0u);
  constexpr int64_t kNone = -1;
  std::vector<int64_t> owner(graph.size(), kNone);
  for (unsigned id = graph.size(); id-- > 0;) {
    const OverlapNode &node = graph[id];
    if (node.isComm) {
      owner[id] = id;
      continue;
    }
    if (node.isRegion || node.isBarrier || isa<AwaitOp>(node.op) ||
        node.after.empty() || node.isReturned)
      continue;
    int64_t first = owner[node.after.front()];
    if (first != kNone && llvm::all_of(node.after, [&](unsigned reader) {
          return owner[reader] == first;
        })) {
      owner[id] = first;
      own[first].push_back(id);
    }
  }
  for (auto &kernels : own)
    std::reverse(kernels.begin(), kernels.end());
}

/// The most bytes alive at once, with the kernels at `anchor` that only the
/// collectives of `delayed` wait for, and what follows from them.
int64_t KernelOrder::getPeak(ArrayRef<unsigned> position,
                             const llvm::DenseSet<unsigned> &delayed,
                             unsigned anchor) const {
  std::vector<NodeSpan> spans(graph.size());
  for (unsigned other : delayed)
    for (unsigned kernel : own[other])
      spans[kernel].begin = anchor;
  for (unsigned node = 0; node < graph.size(); ++node) {
    unsigned &place = spans[node].begin;
    place = std::max(place, position[node]);
    for (unsigned before : graph[node].before)
      place = std::max(place, spans[before].begin);
    spans[node].end = place;
  }
  return live.getPeak(spans);
}

std::optional<std::vector<unsigned>> KernelOrder::delayFor(unsigned comm,
                                                           double exposedUs) {
  std::vector<unsigned> position(order.size());
  for (auto [at, node] : llvm::enumerate(order))
    position[node] = at;
  // What `comm` needs, and the last kernel of it.
  std::vector<bool> isNeeded(order.size());
  std::vector<unsigned> worklist{comm};
  unsigned anchor = 0;
  while (!worklist.empty()) {
    unsigned node = worklist.back();
    worklist.pop_back();
    for (unsigned before : graph[node].before) {
      if (!graph[before].isComm)
        anchor = std::max(anchor, position[before]);
      if (isNeeded[before])
        continue;
      isNeeded[before] = true;
      worklist.push_back(before);
    }
  }
  // Gradients before it, the nearest first.
  std::vector<unsigned> others;
  for (unsigned other = 0; other < order.size(); ++other)
    if (!own[other].empty() && other != comm && !isNeeded[other] &&
        graph[other].price.us < graph[comm].price.us &&
        position[own[other].back()] < anchor)
      others.push_back(other);
  llvm::sort(others, [&](unsigned a, unsigned b) {
    return position[own[a].back()] > position[own[b].back()];
  });
  if (others.size() > kMaxOthers)
    others.resize(kMaxOthers);
  int64_t peak = getPeak(position, {}, anchor);
  double us = 0;
  std::vector<unsigned> delayed;
  llvm::DenseSet<unsigned> trial;
  for (unsigned other : others) {
    if (us >= exposedUs)
      break;
    trial.insert(other);
    if (getPeak(position, trial, anchor) > peak) {
      trial.erase(other);
      continue;
    }
    delayed.push_back(other);
    for (unsigned node : own[other])
      us += graph[node].price.us;
  }
  if (delayed.empty())
    return std::nullopt;
  // The reduction of the last one hides behind nothing: the shortest.
  llvm::sort(delayed, [&](unsigned a, unsigned b) {
    return std::tuple(graph[b].price.us, a) < std::tuple(graph[a].price.us, b);
  });
  std::vector<unsigned> moved, result;
  for (unsigned other : delayed)
    llvm::append_range(moved, own[other]);
  std::vector<bool> isMoved(order.size());
  for (unsigned node : moved)
    isMoved[node] = true;
  for (auto [at, node] : llvm::enumerate(order)) {
    if (!isMoved[node])
      result.push_back(node);
    if (at == anchor)
      llvm::append_range(result, moved);
  }
  return result;
}

std::optional<std::vector<unsigned>>
KernelOrder::propose(const OverlapPlan &plan) {
  std::vector<double> exposed(graph.size());
  for (const Exposure &exposure : plan.overlapped.exposures)
    exposed[plan.nodeOf[exposure.comm]] += exposure.endUs - exposure.beginUs;
  while (true) {
    unsigned most = 0;
    double us = 0;
    for (unsigned node = 0; node < graph.size(); ++node)
      if (!tried[node] && exposed[node] > us) {
        most = node;
        us = exposed[node];
      }
    if (us <= 0)
      return std::nullopt;
    tried[most] = true;
    if (auto better = delayFor(most, us))
      return better;
  }
}
