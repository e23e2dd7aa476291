//===- HorizontalLaunches.cpp - Launches as a graph -----------------------===//
//
// Walks over nodes and their edges, each linear in those but the search, which
// is bounded.
//
//===----------------------------------------------------------------------===//
#include "HorizontalLaunches.h"

using namespace mlir;
using namespace fusion;

/// Edges that the search for a dependency, for a remark, may follow.
static constexpr unsigned kMaxSearchSteps = 4096;

HorizontalLaunches::HorizontalLaunches(const HorizontalGraph &graph,
                                       const RequestedLaunches *requested)
    : graph(graph) {
  for (unsigned node = 0; node < graph.size(); ++node) {
    launches.emplace_back().members = {node};
    launchOf.push_back(node);
  }
  if (!requested)
    return;
  for (ArrayRef<unsigned> nodes : requested->launches) {
    for (unsigned node : nodes) {
      launches[node].members.clear();
      launchOf[node] = nodes.front();
    }
    launches[nodes.front()].members.assign(nodes.begin(), nodes.end());
  }
}

void HorizontalLaunches::replace(ArrayRef<unsigned> nodes,
                                 MutableArrayRef<PlannedLaunch> planned) {
  for (unsigned node : nodes)
    launches[launchOf[node]] = PlannedLaunch();
  for (unsigned node : nodes) {
    launches[node].members = {node};
    launchOf[node] = node;
  }
  for (PlannedLaunch &launch : planned) {
    unsigned first = launch.members.front();
    for (unsigned member : launch.members) {
      launches[member].members.clear();
      launchOf[member] = first;
    }
    launches[first] = std::move(launch);
  }
}

SmallVector<unsigned> HorizontalLaunches::computeLevels(bool fromInputs) const {
  SmallVector<unsigned> level(launches.size()), waiting(launches.size());
  auto forEachEdge = [&](unsigned launch, bool forward, auto visit) {
    for (unsigned member : launches[launch].members)
      for (unsigned node :
           forward ? graph[member].consumers : graph[member].producers)
        visit(launchOf[node]);
  };
  SmallVector<unsigned> ready;
  for (unsigned launch = 0; launch < launches.size(); ++launch) {
    forEachEdge(launch, !fromInputs, [&](unsigned) { ++waiting[launch]; });
    if (!launches[launch].members.empty() && waiting[launch] == 0)
      ready.push_back(launch);
  }
  while (!ready.empty()) {
    unsigned launch = ready.pop_back_val();
    forEachEdge(launch, fromInputs, [&](unsigned next) {
      level[next] = std::max(level[next], level[launch] + 1);
      if (--waiting[next] == 0)
        ready.push_back(next);
    });
  }
  return level;
}

std::optional<SmallVector<unsigned>> HorizontalLaunches::getOrder() const {
  SmallVector<unsigned> waiting(launches.size()), order;
  using Entry = std::pair<unsigned, unsigned>; // last member, launch
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto push = [&](unsigned launch) {
    ready.push({launches[launch].members.back(), launch});
  };
  for (unsigned launch = 0; launch < launches.size(); ++launch) {
    for (unsigned member : launches[launch].members)
      waiting[launch] += graph[member].producers.size();
    if (!launches[launch].members.empty() && waiting[launch] == 0)
      push(launch);
  }
  while (!ready.empty()) {
    unsigned launch = ready.top().second;
    ready.pop();
    order.push_back(launch);
    for (unsigned member : launches[launch].members)
      for (unsigned consumer : graph[member].consumers)
        if (--waiting[launchOf[consumer]] == 0)
          push(launchOf[consumer]);
  }
  size_t count = llvm::count_if(
      launches, [](auto &launch) { return !launch.members.empty(); });
  if (order.size() < count)
    return std::nullopt;
  return order;
}

bool HorizontalLaunches::reaches(unsigned fromLaunch, unsigned toLaunch) const {
  SmallVector<unsigned> worklist(launches[fromLaunch].members);
  unsigned last = launches[toLaunch].members.back();
  llvm::DenseSet<unsigned> seen;
  unsigned steps = 0;
  while (!worklist.empty())
    for (unsigned next : graph[worklist.pop_back_val()].consumers) {
      if (launchOf[next] == toLaunch)
        return true;
      if (++steps > kMaxSearchSteps)
        return false;
      if (next < last && seen.insert(next).second)
        worklist.push_back(next);
    }
  return false;
}

bool HorizontalLaunches::take(HorizontalPlan &plan) {
  std::optional<SmallVector<unsigned>> order = getOrder();
  if (!order)
    return false;
  for (unsigned launch : *order)
    plan.launches.push_back(std::move(launches[launch]));
  return true;
}

bool fusion::isAcyclic(const HorizontalGraph &graph,
                       const RequestedLaunches &requested) {
  return HorizontalLaunches(graph, &requested).getOrder().has_value();
}
