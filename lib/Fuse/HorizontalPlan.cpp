//===- HorizontalPlan.cpp - Which groups share a launch -------------------===//
//
// Two rounds over the graph of launches so far, by level from the inputs and by
// level from the results. Launches of one level can't depend on each other, so
// any of them may be merged and the graph stays acyclic; within a level and a
// key, members are taken in program order while a launch takes them
// (GrowingLaunch.h). What no level holds is then offered to the few launches of
// its key before it, with a bounded search for a path between the two.
// Near-linear.
//
//===----------------------------------------------------------------------===//
#include "FuseGraph.h"
#include "HorizontalLaunches.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace fusion;

/// Launches of one key that a later one is offered to.
static constexpr unsigned kMaxOpenLaunches = 4;

/// Launch gaps that a member must take to fill the device alone.
static constexpr double kFullGaps = 16;

/// A member that fills the device does at most this times the work of all the
/// others.
static constexpr double kMaxDwarf = 8;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

namespace {

class HorizontalPlanner {
public:
  HorizontalPlanner(const HorizontalGraph &graph,
                    const HorizontalLimits &limits, const CostModel &model,
                    const RequestedLaunches *requested)
      : graph(graph), limits(limits), model(model), requested(requested),
        launches(graph, requested), budget(graph, limits, model),
        refusalOf(graph.size()) {}

  HorizontalPlan run();

private:
  void mergeLevels(bool fromInputs);
  void joinAcrossLevels();
  bool tryJoin(unsigned first, unsigned second, FuseGroups &groups);
  void packPool(SmallVector<unsigned> pool, unsigned numLaunches);
  void dropDwarfs(SmallVectorImpl<unsigned> &pool);
  /// Microseconds that the node takes, its launch aside.
  double getExecutionUs(unsigned node) const {
    return std::max(0.0, model.getMicroseconds(graph[node].work) -
                             model.getDevice().launchGapUs);
  }
  bool isCandidate(unsigned node) const {
    return graph[node].group && !graph[node].alone &&
           !(requested && requested->isFixed[node]);
  }

  const HorizontalGraph &graph;
  const HorizontalLimits &limits;
  const CostModel &model;
  const RequestedLaunches *requested;
  HorizontalLaunches launches;
  LaunchBudget budget;
  /// Why the node did not join the launch before it.
  SmallVector<LaunchRefusal, 0> refusalOf;
};

} // namespace

/// Takes out members that fill the device and would leave the others a sliver
/// of it.
void HorizontalPlanner::dropDwarfs(SmallVectorImpl<unsigned> &pool) {
  SmallVector<unsigned> bySize(pool.begin(), pool.end());
  llvm::DenseMap<unsigned, double> times;
  for (unsigned node : pool)
    times[node] = getExecutionUs(node);
  auto timeOf = [&](unsigned node) { return times.lookup(node); };
  llvm::sort(bySize, [&](unsigned a, unsigned b) {
    return std::pair(timeOf(b), a) < std::pair(timeOf(a), b);
  });
  double rest = 0;
  for (unsigned node : pool)
    rest += timeOf(node);
  llvm::SmallDenseSet<unsigned> dropped;
  for (size_t i = 0; i + 1 < bySize.size(); ++i) {
    double time = timeOf(bySize[i]);
    rest -= time;
    if (time <= kFullGaps * model.getDevice().launchGapUs ||
        time <= kMaxDwarf * rest)
      break;
    dropped.insert(bySize[i]);
    double percent = 100 * time / std::max(rest, 1e-3);
    refusalOf[bySize[i]] = {
        bySize[i + 1], FusionRule::HorizontalBalance,
        static_cast<int64_t>(std::min(std::round(percent), 1e15)),
        static_cast<int64_t>(100 * kMaxDwarf)};
  }
  llvm::erase_if(pool, [&](unsigned node) { return dropped.contains(node); });
}

/// Makes launches of independent nodes of one key, which are in `numLaunches`
/// now. Those stay where that gives no fewer.
void HorizontalPlanner::packPool(SmallVector<unsigned> pool,
                                 unsigned numLaunches) {
  SmallVector<unsigned> all(pool);
  SmallVector<LaunchRefusal> before =
      llvm::map_to_vector(all, [&](unsigned node) { return refusalOf[node]; });
  for (unsigned node : all)
    refusalOf[node] = LaunchRefusal();
  dropDwarfs(pool);
  // The pool's launches are packed anew.
  int64_t totalBefore = budget.totalExtra;
  llvm::SmallDenseSet<unsigned> old;
  for (unsigned node : all)
    if (unsigned launch = launches.find(node); old.insert(launch).second)
      budget.totalExtra -= launches[launch].extraBytes;
  SmallVector<PlannedLaunch, 0> packed;
  size_t covered = 0;
  while (covered < pool.size()) {
    GrowingLaunch growing(budget);
    for (; covered < pool.size(); ++covered)
      if (LaunchRefusal refusal = growing.tryAdd(pool[covered])) {
        refusalOf[pool[covered]] = refusal;
        break;
      }
    budget.totalExtra += growing.launch.extraBytes;
    packed.push_back(std::move(growing.launch));
  }
  if (packed.size() + (all.size() - pool.size()) < numLaunches) {
    launches.replace(all, packed);
    return;
  }
  // As many as before. Of single nodes the new reasons are true as well.
  budget.totalExtra = totalBefore;
  if (numLaunches < all.size())
    for (auto [node, refusal] : llvm::zip(all, before))
      refusalOf[node] = refusal;
}

/// One round: launches of equal level and key become fewer.
void HorizontalPlanner::mergeLevels(bool fromInputs) {
  SmallVector<unsigned> level = launches.computeLevels(fromInputs);
  using Bucket = std::tuple<unsigned, unsigned, unsigned, unsigned, unsigned>;
  struct Pool {
    SmallVector<unsigned> nodes;
    unsigned numLaunches = 0;
  };
  std::map<Bucket, Pool> pools;
  for (unsigned node = 0; node < graph.size(); ++node) {
    if (!isCandidate(node))
      continue;
    const HorizontalNode &info = graph[node];
    Pool &pool = pools[{info.key, level[launches.find(node)], info.segment,
                        info.needs, info.feeds}];
    pool.nodes.push_back(node);
    pool.numLaunches += launches.isFirst(node);
  }
  for (auto &[bucket, pool] : pools)
    if (pool.numLaunches > 1)
      packPool(std::move(pool.nodes), pool.numLaunches);
}

/// Merges two launches of one key if limits, cost and paths allow. `groups` are
/// the launches for the search of paths.
bool HorizontalPlanner::tryJoin(unsigned first, unsigned second,
                                FuseGroups &groups) {
  ArrayRef<unsigned> a = launches.getMembers(first),
                     b = launches.getMembers(second);
  int64_t count = a.size() + b.size();
  LaunchRefusal &refusal = refusalOf[second];
  if (count > limits.maxMembers) {
    if (!refusal)
      refusal = {first, FusionRule::MaxMembers, count, limits.maxMembers};
    return false;
  }
  SmallVector<unsigned> all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  GrowingLaunch growing(budget);
  for (unsigned node : all)
    if (LaunchRefusal why = growing.tryAdd(node)) {
      if (!refusal) {
        refusal = why;
        refusal.partner = first;
      }
      return false;
    }
  if (!groups.tryMergeIndependent(first, second))
    return false;
  budget.totalExtra += growing.launch.extraBytes - launches[first].extraBytes -
                       launches[second].extraBytes;
  launches.replace(all, growing.launch);
  return true;
}

void HorizontalPlanner::joinAcrossLevels() {
  std::optional<SmallVector<unsigned>> order = launches.getOrder();
  // A cycle is a defect of the rounds before, which run() tells of.
  if (!order)
    return;
  SmallVector<ArrayRef<unsigned>> members;
  for (unsigned launch : *order)
    members.push_back(launches.getMembers(launch));
  auto neighbours = [&](unsigned node, bool forward) -> ArrayRef<unsigned> {
    return forward ? graph[node].consumers : graph[node].producers;
  };
  FuseGroups groups(neighbours, graph.size(), members);
  using Bucket = std::tuple<unsigned, unsigned, unsigned, unsigned>;
  std::map<Bucket, SmallVector<unsigned>> open;
  for (unsigned node = 0; node < graph.size(); ++node) {
    const HorizontalNode &info = graph[node];
    if (!isCandidate(node) || !launches.isFirst(node) ||
        refusalOf[node].rule == FusionRule::HorizontalBalance)
      continue;
    SmallVector<unsigned> &recent =
        open[{info.key, info.segment, info.needs, info.feeds}];
    if (llvm::any_of(llvm::reverse(recent), [&](unsigned other) {
          return tryJoin(other, node, groups);
        }))
      continue;
    recent.push_back(node);
    if (recent.size() > kMaxOpenLaunches)
      recent.erase(recent.begin());
  }
}

HorizontalPlan HorizontalPlanner::run() {
  mergeLevels(/*fromInputs=*/true);
  mergeLevels(/*fromInputs=*/false);
  joinAcrossLevels();
  HorizontalPlan plan;
  collectRefusals(graph, launches, refusalOf, plan);
  plan.isAcyclic = launches.take(plan);
  return plan;
}

HorizontalPlan fusion::planHorizontal(const HorizontalGraph &graph,
                                      const HorizontalLimits &limits,
                                      const CostModel &model,
                                      const RequestedLaunches *requested) {
  return HorizontalPlanner(graph, limits, model, requested).run();
}

bool HorizontalPlan::hasLaunches() const {
  return llvm::any_of(launches, [](const PlannedLaunch &launch) {
    return launch.members.size() > 1;
  });
}

void HorizontalPlan::print(llvm::raw_ostream &os,
                           const HorizontalGraph &graph) const {
  for (const PlannedLaunch &launch : launches) {
    if (launch.members.size() < 2)
      continue;
    os << "launch of " << describeBody(graph[launch.members.front()].group)
       << ':';
    for (unsigned member : launch.members)
      os << " #" << member;
    os << " saves " << launch.getSavedUs() << " us\n";
  }
  for (const HorizontalRefusal &refusal : refusals)
    os << '#' << refusal.first << " | #" << refusal.second << ": "
       << getFusionRuleInfo(refusal.rule).id << '\n';
}
