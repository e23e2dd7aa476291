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
      delayed(graph.size(), false), sent(graph.size(), false) {
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

/// The most bytes alive at once, with `kernels` at `anchor` and what follows
/// from them.
int64_t KernelOrder::getPeak(ArrayRef<unsigned> position,
                             ArrayRef<unsigned> kernels,
                             unsigned anchor) const {
  std::vector<NodeSpan> spans(graph.size());
  for (unsigned kernel : kernels)
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

std::vector<unsigned> KernelOrder::getPositions() const {
  std::vector<unsigned> position(order.size());
  for (auto [at, node] : llvm::enumerate(order))
    position[node] = at;
  return position;
}

KernelOrder::Need KernelOrder::findNeed(unsigned comm,
                                        ArrayRef<unsigned> position) const {
  Need need;
  need.has.resize(order.size());
  std::vector<unsigned> worklist{comm};
  while (!worklist.empty()) {
    unsigned node = worklist.back();
    worklist.pop_back();
    for (unsigned before : graph[node].before) {
      if (!graph[before].isComm)
        need.anchor = std::max(need.anchor, position[before]);
      if (need.has[before])
        continue;
      need.has[before] = true;
      worklist.push_back(before);
    }
  }
  return need;
}

std::vector<unsigned> KernelOrder::moveTo(unsigned anchor,
                                          ArrayRef<unsigned> kernels) const {
  std::vector<unsigned> result;
  std::vector<bool> isMoved(order.size());
  for (unsigned node : kernels)
    isMoved[node] = true;
  for (auto [at, node] : llvm::enumerate(order)) {
    if (!isMoved[node])
      result.push_back(node);
    if (at == anchor)
      llvm::append_range(result, kernels);
  }
  return result;
}

std::optional<std::vector<unsigned>> KernelOrder::delayFor(unsigned comm,
                                                           double exposedUs) {
  std::vector<unsigned> position = getPositions();
  auto [isNeeded, anchor] = findNeed(comm, position);
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
  std::vector<unsigned> later, trial;
  for (unsigned other : others) {
    if (us >= exposedUs)
      break;
    llvm::append_range(trial, own[other]);
    if (getPeak(position, trial, anchor) > peak) {
      trial.resize(trial.size() - own[other].size());
      continue;
    }
    later.push_back(other);
    for (unsigned node : own[other])
      us += graph[node].price.us;
  }
  if (later.empty())
    return std::nullopt;
  // The reduction of the last one hides behind nothing: the shortest.
  llvm::sort(later, [&](unsigned a, unsigned b) {
    return std::tuple(graph[b].price.us, a) < std::tuple(graph[a].price.us, b);
  });
  std::vector<unsigned> moved;
  for (unsigned other : later)
    llvm::append_range(moved, own[other]);
  return moveTo(anchor, moved);
}

std::optional<std::vector<unsigned>>
KernelOrder::sendEarlier(unsigned comm, double exposedUs) {
  std::vector<unsigned> position = getPositions();
  Need need = findNeed(comm, position);
  unsigned anchor = need.anchor;
  int64_t peak = getPeak(position, {}, anchor);
  std::vector<bool> isMoved(order.size());
  std::vector<unsigned> moved;
  double us = 0;
  // Whether what reads `node` comes behind `comm` anyhow.
  auto isReadLater = [&](unsigned node) {
    return llvm::all_of(graph[node].after, [&](unsigned reader) {
      if (isMoved[reader] || position[reader] > anchor)
        return true;
      return graph[reader].isComm &&
             llvm::any_of(graph[reader].before, [&](unsigned read) {
               return isMoved[read] || position[read] > anchor;
             });
    });
  };
  unsigned tries = 0;
  for (unsigned at = anchor;
       at-- > 0 && us < exposedUs && tries < kMaxOthers;) {
    unsigned node = order[at];
    const OverlapNode &kernel = graph[node];
    if (need.has[node] || kernel.isComm || kernel.isRegion ||
        kernel.isBarrier || isa<AwaitOp>(kernel.op) || !isReadLater(node))
      continue;
    ++tries;
    moved.push_back(node);
    if (getPeak(position, moved, anchor) > peak) {
      moved.pop_back();
      continue;
    }
    isMoved[node] = true;
    us += kernel.price.us;
  }
  if (us <= 0)
    return std::nullopt;
  std::reverse(moved.begin(), moved.end());
  return moveTo(anchor, moved);
}

/// The first of the collectives that are sent without a gap until `comm`.
static unsigned findHead(const OverlapPlan &plan, unsigned comm) {
  constexpr double kSameUs = 1e-3;
  unsigned head = comm;
  const Timeline &timeline = plan.overlapped;
  double since = timeline.spans[comm].beginUs;
  for (unsigned step = comm; step-- > 0;) {
    if (plan.steps[step].stream != plan.steps[comm].stream)
      continue;
    if (!plan.steps[step].isComm ||
        timeline.spans[step].endUs < since - kSameUs)
      break;
    since = timeline.spans[step].beginUs;
    head = step;
  }
  return head;
}

std::optional<std::vector<unsigned>>
KernelOrder::propose(const OverlapPlan &plan) {
  // By the step that is waited for, and by the first that it is sent behind.
  std::vector<double> exposed(plan.steps.size()), behind(plan.steps.size());
  for (const Exposure &exposure : plan.overlapped.exposures) {
    double us = exposure.endUs - exposure.beginUs;
    exposed[exposure.comm] += us;
    behind[findHead(plan, exposure.comm)] += us;
  }
  auto findMost = [&](ArrayRef<double> all, const std::vector<bool> &tried) {
    std::optional<unsigned> most;
    for (unsigned step = 0; step < all.size(); ++step)
      if (!tried[plan.nodeOf[step]] && all[step] > (most ? all[*most] : 0))
        most = step;
    return most;
  };
  while (std::optional<unsigned> step = findMost(exposed, delayed)) {
    unsigned comm = plan.nodeOf[*step];
    delayed[comm] = true;
    if (auto better = delayFor(comm, exposed[*step]))
      return better;
  }
  while (std::optional<unsigned> step = findMost(behind, sent)) {
    unsigned comm = plan.nodeOf[*step];
    sent[comm] = true;
    if (auto better = sendEarlier(comm, behind[*step]))
      return better;
  }
  return std::nullopt;
}
