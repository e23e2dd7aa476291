//===- HorizontalPlan.cpp - Which groups share a launch -------------------===//
//
// Two rounds over the graph of launches so far, by level from the inputs and by
// level from the results. Launches of one level can't depend on each other, so
// any of them may be merged and the graph stays acyclic; within a level and a
// key, members are taken in program order while the limits and the cost rule
// allow. What no level holds is then offered to the few launches of its key
// before it, with a bounded search for a path between the two. Near-linear.
//
//===----------------------------------------------------------------------===//
#include "HorizontalPlan.h"
#include "FuseGraph.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>
#include <queue>

using namespace mlir;
using namespace fusion;

/// Edges that the search for a dependency, for a remark, may follow.
static constexpr unsigned kMaxSearchSteps = 4096;

/// Readers of one member that are looked at for what would wait with them.
static constexpr unsigned kMaxReaders = 16;

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
        refusalOf(graph.size()), stamp(graph.getNumValues(), ~0u) {
    if (limits.memoryLimit > 0)
      extraBudget = std::max<int64_t>(0, limits.memoryLimit - computePeak());
    for (unsigned node = 0; node < graph.size(); ++node) {
      clusters.emplace_back().members = {node};
      clusterOf.push_back(node);
    }
    if (!requested)
      return;
    for (ArrayRef<unsigned> launch : requested->launches) {
      for (unsigned node : launch) {
        clusters[node].members.clear();
        clusterOf[node] = launch.front();
      }
      clusters[launch.front()].members.assign(launch.begin(), launch.end());
    }
  }

  HorizontalPlan run();

private:
  struct Refusal {
    unsigned partner = 0;
    FusionRule rule = FusionRule::FuseHorizontal;
    int64_t value = 0, limit = 0;
    std::optional<LaunchAlternatives> times;
    explicit operator bool() const {
      return rule != FusionRule::FuseHorizontal;
    }
  };
  /// A launch that grows member by member.
  struct Chunk;

  void mergeLevels(bool fromInputs);
  void joinAcrossLevels();
  bool tryJoin(unsigned first, unsigned second, FuseGroups &launches);
  SmallVector<unsigned> computeLevels(bool fromInputs) const;
  SmallVector<unsigned> getOrder() const;
  void packPool(SmallVector<unsigned> pool, unsigned numClusters);
  void dropDwarfs(SmallVectorImpl<unsigned> &pool);
  int64_t computePeak() const;
  void setCluster(unsigned cluster, PlannedLaunch launch) {
    totalExtra += launch.extraBytes - clusters[cluster].extraBytes;
    clusters[cluster] = std::move(launch);
  }
  /// Microseconds that the node takes, its launch aside.
  double getExecutionUs(unsigned node) const {
    return std::max(0.0, model.getMicroseconds(graph[node].work) -
                             model.getDevice().launchGapUs);
  }
  bool isCandidate(unsigned node) const {
    return graph[node].group && !graph[node].alone &&
           !(requested && requested->isFixed[node]);
  }
  void collectRefusals(HorizontalPlan &plan);
  FusionRule classify(unsigned first, unsigned second) const;
  bool reaches(unsigned fromCluster, unsigned toCluster) const;

  const HorizontalGraph &graph;
  const HorizontalLimits &limits;
  const CostModel &model;
  const RequestedLaunches *requested;
  /// Empty ones were merged into others.
  SmallVector<PlannedLaunch, 0> clusters;
  SmallVector<unsigned> clusterOf;
  /// Why the node did not join the launch before it.
  SmallVector<Refusal, 0> refusalOf;
  /// The last chunk that counted a value.
  SmallVector<unsigned> stamp;
  unsigned numChunks = 0;
  /// Bytes that live longer for all launches together, and how many may.
  int64_t totalExtra = 0;
  int64_t extraBudget = std::numeric_limits<int64_t>::max();
};

struct HorizontalPlanner::Chunk {
  explicit Chunk(HorizontalPlanner &planner)
      : planner(planner), id(planner.numChunks++) {}

  /// Adds a node behind all that are there, or says why not.
  Refusal tryAdd(unsigned node);

  HorizontalPlanner &planner;
  unsigned id;
  PlannedLaunch launch;

private:
  void add(unsigned node, int64_t extra, double waiting,
           const LaunchAlternatives &times);

  /// Of each member, and of all in one launch if nothing waits for it.
  SmallVector<KernelWork> works;
  KernelWork together;
  int64_t numOperands = 0;
  /// Bytes of values that wait in the cache for the launch.
  double waiting = 0;
  llvm::DenseSet<Value> read, updated;
  /// Values whose last reader comes later than the last member so far, by that
  /// reader: they don't live longer yet.
  using Pending = std::pair<unsigned, int64_t>;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
};

} // namespace

HorizontalPlanner::Refusal HorizontalPlanner::Chunk::tryAdd(unsigned id) {
  const HorizontalNode &node = planner.graph[id];
  const HorizontalLimits &limits = planner.limits;
  if (launch.members.empty()) {
    add(id, 0, 0, {});
    return {};
  }
  unsigned partner = launch.members.back();
  auto refuse = [&](FusionRule rule, double value, double limit) {
    return Refusal{partner, rule, static_cast<int64_t>(value),
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
  // until there. A refused node ends the chunk, so nothing is put back.
  int64_t extra = launch.extraBytes;
  double newWaiting = waiting;
  const DeviceModel &device = planner.model.getDevice();
  for (; !pending.empty() && pending.top().first < id; pending.pop()) {
    int64_t bytes = pending.top().second;
    if (llvm::AddOverflow(extra, bytes, extra))
      extra = std::numeric_limits<int64_t>::max();
    if (bytes <= device.cacheBytes)
      newWaiting += bytes;
  }
  if (extra > limits.maxExtraBytes)
    return refuse(FusionRule::HorizontalMemory, extra, limits.maxExtraBytes);
  if (extra > planner.extraBudget - planner.totalExtra)
    return refuse(FusionRule::HorizontalMemory, planner.totalExtra + extra,
                  planner.extraBudget);
  works.push_back(node.work);
  KernelWork fused = together;
  fused += node.work;
  fused.rereadBytes += node.nearBytes;
  addSpills(fused, newWaiting, device);
  LaunchAlternatives times = compareLaunches(planner.model, works, fused);
  works.pop_back();
  if (times.choice == LaunchChoice::Fused) {
    add(id, extra, newWaiting, times);
    return {};
  }
  Refusal refusal = times.choice == LaunchChoice::Streams
                        ? refuse(FusionRule::HorizontalStreams,
                                 1000 * times.streamsUs, 1000 * times.fusedUs)
                        : refuse(FusionRule::HorizontalProfit,
                                 1000 * times.fusedUs, 1000 * times.serialUs);
  refusal.times = times;
  return refusal;
}

void HorizontalPlanner::Chunk::add(unsigned node, int64_t extra,
                                   double newWaiting,
                                   const LaunchAlternatives &times) {
  const HorizontalNode &added = planner.graph[node];
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
    if (planner.stamp[value] == id)
      return;
    planner.stamp[value] = id;
    const HorizontalValue &info = planner.graph.getValue(value);
    pending.push({info.lastUse, info.bytes});
  };
  llvm::for_each(added.values, addValue);
  // Readers wait for the last member too, with all else that they read.
  for (unsigned reader :
       ArrayRef<unsigned>(added.consumers).take_front(kMaxReaders))
    for (unsigned value : planner.graph[reader].values)
      if (planner.graph.getValue(value).producer != reader)
        addValue(value);
}

/// Bytes of intermediates that are alive at once, at least. Results of the
/// function are not among them.
int64_t HorizontalPlanner::computePeak() const {
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

/// Longest path to each launch, over launches. A member of a cycle keeps 0.
SmallVector<unsigned> HorizontalPlanner::computeLevels(bool fromInputs) const {
  SmallVector<unsigned> level(clusters.size()), waiting(clusters.size());
  auto forEachEdge = [&](unsigned cluster, bool forward, auto visit) {
    for (unsigned member : clusters[cluster].members)
      for (unsigned node :
           forward ? graph[member].consumers : graph[member].producers)
        visit(clusterOf[node]);
  };
  SmallVector<unsigned> ready;
  for (unsigned cluster = 0; cluster < clusters.size(); ++cluster) {
    forEachEdge(cluster, !fromInputs, [&](unsigned) { ++waiting[cluster]; });
    if (!clusters[cluster].members.empty() && waiting[cluster] == 0)
      ready.push_back(cluster);
  }
  while (!ready.empty()) {
    unsigned cluster = ready.pop_back_val();
    forEachEdge(cluster, fromInputs, [&](unsigned next) {
      level[next] = std::max(level[next], level[cluster] + 1);
      if (--waiting[next] == 0)
        ready.push_back(next);
    });
  }
  return level;
}

/// Launches in an order in which each comes after those it reads, as near to
/// the place of its last member as that allows. Incomplete if there is a cycle.
SmallVector<unsigned> HorizontalPlanner::getOrder() const {
  SmallVector<unsigned> waiting(clusters.size()), order;
  using Entry = std::pair<unsigned, unsigned>; // last member, cluster
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto push = [&](unsigned cluster) {
    ready.push({clusters[cluster].members.back(), cluster});
  };
  for (unsigned cluster = 0; cluster < clusters.size(); ++cluster) {
    for (unsigned member : clusters[cluster].members)
      waiting[cluster] += graph[member].producers.size();
    if (!clusters[cluster].members.empty() && waiting[cluster] == 0)
      push(cluster);
  }
  while (!ready.empty()) {
    unsigned cluster = ready.top().second;
    ready.pop();
    order.push_back(cluster);
    for (unsigned member : clusters[cluster].members)
      for (unsigned consumer : graph[member].consumers)
        if (--waiting[clusterOf[consumer]] == 0)
          push(clusterOf[consumer]);
  }
  return order;
}

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
        static_cast<int64_t>(100 * kMaxDwarf), std::nullopt};
  }
  llvm::erase_if(pool, [&](unsigned node) { return dropped.contains(node); });
}

/// Makes launches of independent nodes of one key, which are in `numClusters`
/// clusters now. The clusters stay where that gives no fewer launches.
void HorizontalPlanner::packPool(SmallVector<unsigned> pool,
                                 unsigned numClusters) {
  SmallVector<unsigned> all(pool);
  SmallVector<Refusal> before =
      llvm::map_to_vector(all, [&](unsigned node) { return refusalOf[node]; });
  for (unsigned node : all)
    refusalOf[node] = Refusal();
  dropDwarfs(pool);
  // The pool's launches are packed anew.
  int64_t totalBefore = totalExtra;
  llvm::SmallDenseSet<unsigned> old;
  for (unsigned node : all)
    if (old.insert(clusterOf[node]).second)
      totalExtra -= clusters[clusterOf[node]].extraBytes;
  SmallVector<PlannedLaunch, 0> packed;
  size_t covered = 0;
  while (covered < pool.size()) {
    Chunk chunk(*this);
    for (; covered < pool.size(); ++covered)
      if (Refusal refusal = chunk.tryAdd(pool[covered])) {
        refusalOf[pool[covered]] = refusal;
        break;
      }
    totalExtra += chunk.launch.extraBytes;
    packed.push_back(std::move(chunk.launch));
  }
  if (packed.size() + (all.size() - pool.size()) >= numClusters) {
    // As many as before. Of single nodes the new reasons are true as well.
    totalExtra = totalBefore;
    if (numClusters < all.size())
      for (auto [node, refusal] : llvm::zip(all, before))
        refusalOf[node] = refusal;
    return;
  }
  for (unsigned node : all)
    clusters[clusterOf[node]] = PlannedLaunch();
  for (unsigned node : all) {
    clusters[node].members = {node};
    clusterOf[node] = node;
  }
  for (PlannedLaunch &launch : packed) {
    unsigned cluster = launch.members.front();
    for (unsigned member : launch.members) {
      clusters[member].members.clear();
      clusterOf[member] = cluster;
    }
    clusters[cluster] = std::move(launch);
  }
}

/// One round: launches of equal level and key become fewer.
void HorizontalPlanner::mergeLevels(bool fromInputs) {
  SmallVector<unsigned> level = computeLevels(fromInputs);
  using Bucket = std::tuple<unsigned, unsigned, unsigned, unsigned, unsigned>;
  struct Pool {
    SmallVector<unsigned> nodes;
    unsigned numClusters = 0;
  };
  std::map<Bucket, Pool> pools;
  for (unsigned node = 0; node < graph.size(); ++node) {
    if (!isCandidate(node))
      continue;
    const HorizontalNode &info = graph[node];
    unsigned cluster = clusterOf[node];
    Pool &pool =
        pools[{info.key, level[cluster], info.segment, info.needs, info.feeds}];
    pool.nodes.push_back(node);
    pool.numClusters += clusters[cluster].members.front() == node;
  }
  for (auto &[bucket, pool] : pools)
    if (pool.numClusters > 1)
      packPool(std::move(pool.nodes), pool.numClusters);
}

/// Merges two launches of one key if limits, cost and paths allow.
bool HorizontalPlanner::tryJoin(unsigned first, unsigned second,
                                FuseGroups &launches) {
  ArrayRef<unsigned> a = clusters[first].members, b = clusters[second].members;
  int64_t count = a.size() + b.size();
  Refusal &refusal = refusalOf[second];
  if (count > limits.maxMembers) {
    if (!refusal)
      refusal = {first, FusionRule::MaxMembers, count, limits.maxMembers,
                 std::nullopt};
    return false;
  }
  SmallVector<unsigned> all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  Chunk chunk(*this);
  for (unsigned node : all)
    if (Refusal why = chunk.tryAdd(node)) {
      if (!refusal)
        refusal = {first, why.rule, why.value, why.limit, why.times};
      return false;
    }
  if (!launches.tryMergeIndependent(first, second))
    return false;
  for (unsigned node : b)
    clusterOf[node] = first;
  setCluster(second, PlannedLaunch());
  setCluster(first, std::move(chunk.launch));
  return true;
}

void HorizontalPlanner::joinAcrossLevels() {
  SmallVector<ArrayRef<unsigned>> groups;
  for (unsigned cluster : getOrder())
    groups.push_back(clusters[cluster].members);
  auto neighbours = [&](unsigned node, bool forward) -> ArrayRef<unsigned> {
    return forward ? graph[node].consumers : graph[node].producers;
  };
  FuseGroups launches(neighbours, graph.size(), groups);
  using Bucket = std::tuple<unsigned, unsigned, unsigned, unsigned>;
  std::map<Bucket, SmallVector<unsigned>> open;
  for (unsigned node = 0; node < graph.size(); ++node) {
    const HorizontalNode &info = graph[node];
    if (!isCandidate(node) || clusterOf[node] != node ||
        refusalOf[node].rule == FusionRule::HorizontalBalance)
      continue;
    SmallVector<unsigned> &recent =
        open[{info.key, info.segment, info.needs, info.feeds}];
    if (llvm::any_of(llvm::reverse(recent), [&](unsigned other) {
          return tryJoin(other, node, launches);
        }))
      continue;
    recent.push_back(node);
    if (recent.size() > kMaxOpenLaunches)
      recent.erase(recent.begin());
  }
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

/// Whether a path leads from one launch to another; false too where the search
/// for one takes too long.
bool HorizontalPlanner::reaches(unsigned fromCluster,
                                unsigned toCluster) const {
  SmallVector<unsigned> worklist(clusters[fromCluster].members);
  unsigned last = clusters[toCluster].members.back();
  llvm::DenseSet<unsigned> seen;
  unsigned steps = 0;
  while (!worklist.empty())
    for (unsigned next : graph[worklist.pop_back_val()].consumers) {
      if (clusterOf[next] == toCluster)
        return true;
      if (++steps > kMaxSearchSteps)
        return false;
      if (next < last && seen.insert(next).second)
        worklist.push_back(next);
    }
  return false;
}

/// Why two groups of one key never were in one bucket. `first` stands before
/// `second`.
FusionRule HorizontalPlanner::classify(unsigned first, unsigned second) const {
  const HorizontalNode &a = graph[first], &b = graph[second];
  if (a.alone || b.alone)
    return a.alone ? *a.alone : *b.alone;
  if (a.segment != b.segment)
    return FusionRule::Barrier;
  unsigned from = clusterOf[first], to = clusterOf[second];
  if (reaches(from, to) || reaches(to, from))
    return FusionRule::HorizontalDependency;
  if (a.needs != b.needs || a.feeds != b.feeds)
    return FusionRule::ReadyTime;
  return FusionRule::HorizontalCycle;
}

/// Says for each two neighbouring launches of one key why they are two, and
/// once for each two keys that differ in element types only.
void HorizontalPlanner::collectRefusals(HorizontalPlan &plan) {
  llvm::DenseMap<unsigned, unsigned> lastOfKey;
  llvm::DenseMap<unsigned, unsigned> lastOfLooseKey;
  llvm::DenseSet<unsigned> seenKeys;
  for (unsigned node = 0; node < graph.size(); ++node) {
    const HorizontalNode &info = graph[node];
    if (!info.group || clusters[clusterOf[node]].members.front() != node)
      continue;
    Refusal refusal = refusalOf[node];
    // One that was too large for all others is no neighbour of any.
    bool isAlone = refusal.rule == FusionRule::HorizontalBalance;
    if (!isAlone) {
      auto [it, isNew] = lastOfKey.try_emplace(info.key, node);
      if (!isNew && !refusal)
        refusal = {it->second, classify(it->second, node), 0, 0, std::nullopt};
      it->second = node;
    }
    if (refusal)
      plan.refusals.push_back({refusal.partner, node, refusal.rule,
                               refusal.value, refusal.limit, refusal.times});
    if (!seenKeys.insert(info.key).second)
      continue;
    auto [loose, first] = lastOfLooseKey.try_emplace(info.looseKey, node);
    if (!first)
      plan.refusals.push_back({loose->second, node, FusionRule::HorizontalDtype,
                               0, 0, std::nullopt});
    loose->second = node;
  }
}

HorizontalPlan HorizontalPlanner::run() {
  mergeLevels(/*fromInputs=*/true);
  mergeLevels(/*fromInputs=*/false);
  joinAcrossLevels();
  HorizontalPlan plan;
  collectRefusals(plan);
  SmallVector<unsigned> order = getOrder();
  unsigned numClusters = llvm::count_if(
      clusters, [](auto &cluster) { return !cluster.members.empty(); });
  plan.isAcyclic = order.size() == numClusters;
  for (unsigned cluster : order)
    plan.launches.push_back(std::move(clusters[cluster]));
  return plan;
}

HorizontalPlan fusion::planHorizontal(const HorizontalGraph &graph,
                                      const HorizontalLimits &limits,
                                      const CostModel &model,
                                      const RequestedLaunches *requested) {
  return HorizontalPlanner(graph, limits, model, requested).run();
}

bool fusion::isAcyclic(const HorizontalGraph &graph,
                       const RequestedLaunches &requested) {
  SmallVector<unsigned> launchOf(graph.size()), waiting(graph.size()), ready;
  for (unsigned node = 0; node < graph.size(); ++node)
    launchOf[node] = node;
  for (ArrayRef<unsigned> launch : requested.launches)
    for (unsigned node : launch)
      launchOf[node] = launch.front();
  SmallVector<SmallVector<unsigned, 1>, 0> members(graph.size());
  for (unsigned node = 0; node < graph.size(); ++node) {
    members[launchOf[node]].push_back(node);
    waiting[launchOf[node]] += graph[node].producers.size();
  }
  for (unsigned launch = 0; launch < graph.size(); ++launch)
    if (!members[launch].empty() && waiting[launch] == 0)
      ready.push_back(launch);
  size_t done = 0;
  while (!ready.empty()) {
    unsigned launch = ready.pop_back_val();
    done += members[launch].size();
    for (unsigned node : members[launch])
      for (unsigned reader : graph[node].consumers)
        if (--waiting[launchOf[reader]] == 0)
          ready.push_back(launchOf[reader]);
  }
  return done == graph.size();
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
