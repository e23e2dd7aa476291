//===- RecordHorizontal.cpp - Horizontal fusion into the record -----------===//
//
// From nodes of the horizontal graph, which are groups of the IR, to groups of
// the record and back.
//
//===----------------------------------------------------------------------===//
#include "RecordHorizontal.h"

using namespace mlir;
using namespace fusion;

/// Launches dropped one by one for being in a cycle; then all.
static constexpr unsigned kMaxCycleRounds = 8;

HorizontalRecorder::HorizontalRecorder(FusionDecisions *decisions,
                                       const HorizontalGraph &graph)
    : decisions(decisions), graph(graph) {
  if (!decisions)
    return;
  for (unsigned node = 0; node < graph.size(); ++node)
    if (graph[node].group)
      if (std::optional<unsigned> group =
              decisions->findGroup(graph[node].group))
        nodeOf[*group] = node;
}

/// Why nodes make no launch; empty if they do, cycles aside.
std::string
HorizontalRecorder::findFault(ArrayRef<unsigned> launch,
                              const HorizontalLimits &limits) const {
  auto say = [](FusionRule rule, int64_t value = 0, int64_t limit = 0) {
    const FusionRuleInfo &info = getFusionRuleInfo(rule);
    std::string text = info.text.str() + " (" + info.id.str();
    if (limit)
      text +=
          ", " + std::to_string(value) + " against " + std::to_string(limit);
    return text + ")";
  };
  const HorizontalNode &first = graph[launch.front()];
  int64_t operands = 0;
  llvm::DenseSet<Value> read, updated;
  for (unsigned node : launch) {
    const HorizontalNode &own = graph[node];
    if (own.alone)
      return say(*own.alone);
    if (own.segment != first.segment)
      return say(FusionRule::Barrier);
    if (own.key != first.key)
      return own.looseKey == first.looseKey
                 ? say(FusionRule::HorizontalDtype)
                 : std::string("its groups have different ops or attributes");
    if (own.needs != first.needs || own.feeds != first.feeds)
      return say(own.bucket && first.bucket && own.bucket != first.bucket
                     ? FusionRule::HorizontalBucket
                     : FusionRule::ReadyTime);
    operands += own.numOperands;
    // Of two members neither updates in place what the other reads.
    if (llvm::any_of(own.updates, [&](Value v) { return read.contains(v); }) ||
        llvm::any_of(own.reads, [&](Value v) { return updated.contains(v); }))
      return say(FusionRule::HorizontalAlias);
    read.insert(own.reads.begin(), own.reads.end());
    updated.insert(own.updates.begin(), own.updates.end());
  }
  if (operands > limits.maxOperands)
    return say(FusionRule::MaxOperands, operands, limits.maxOperands);
  return "";
}

void HorizontalRecorder::readPlan(MLIRContext *context,
                                  const HorizontalLimits &limits) {
  if (!decisions || !decisions->plan)
    return;
  requested.emplace();
  requested->isFixed.assign(graph.size(), false);
  for (auto &[group, node] : nodeOf)
    requested->isFixed[node] = decisions->groups[group].planLine != 0;
  SmallVector<unsigned> lineOf;
  auto refuse = [&](ArrayRef<unsigned> launch, unsigned line,
                    const Twine &why) {
    decisions->report(context, line,
                      "the launch of this group can't be had: " + why +
                          "; the planner decides about its members");
    for (unsigned node : launch)
      requested->isFixed[node] = false;
  };
  for (ArrayRef<unsigned> groups : decisions->requestedLaunches) {
    SmallVector<unsigned> nodes;
    for (unsigned group : groups)
      if (auto it = nodeOf.find(group); it != nodeOf.end())
        nodes.push_back(it->second);
    unsigned line = decisions->groups[groups.front()].planLine;
    // A member that was cut is no group any more; a launch of one is none.
    if (nodes.size() != groups.size() || nodes.size() < 2) {
      refuse(nodes, line, "a launch needs two members or more, all there");
      continue;
    }
    llvm::sort(nodes);
    std::string fault = findFault(nodes, limits);
    if (!fault.empty()) {
      refuse(nodes, line, fault);
      continue;
    }
    requested->launches.push_back(std::move(nodes));
    lineOf.push_back(line);
  }
  // The last launches give way to those before them.
  for (unsigned round = 0; !isAcyclic(graph, *requested); ++round)
    do {
      refuse(requested->launches.back(), lineOf.back(),
             getFusionRuleInfo(FusionRule::HorizontalDependency).text + " (" +
                 getFusionRuleInfo(FusionRule::HorizontalDependency).id + ")");
      requested->launches.pop_back();
      lineOf.pop_back();
    } while (round >= kMaxCycleRounds && !requested->launches.empty());
}

LogicalResult HorizontalRecorder::skipPlan(MLIRContext *context) {
  if (!decisions)
    return success();
  for (ArrayRef<unsigned> groups : decisions->requestedLaunches)
    decisions->report(context, decisions->groups[groups.front()].planLine,
                      "the launch of this group can't be had: the function has "
                      "a horizontal group already, and then no launch is "
                      "added");
  return failure(decisions->hasFailed);
}

void HorizontalRecorder::record(const HorizontalPlan &plan) {
  if (!decisions)
    return;
  decisions->hasLaunches = true;
  auto getGroup = [&](unsigned node) {
    return graph[node].group ? decisions->findGroup(graph[node].group)
                             : std::nullopt;
  };
  for (const PlannedLaunch &launch : plan.launches) {
    if (launch.members.size() < 2)
      continue;
    DecidedLaunch decided;
    decided.rule = FusionRule::FuseHorizontal;
    if (double saved = launch.getSavedUs(); saved > 0)
      decided.savedUs = saved;
    for (unsigned node : launch.members)
      if (std::optional<unsigned> group = getGroup(node))
        decided.groups.push_back(*group);
    decisions->launches.push_back(std::move(decided));
  }
  for (const HorizontalRefusal &refusal : plan.refusals) {
    std::optional<unsigned> first = getGroup(refusal.first),
                            second = getGroup(refusal.second);
    if (!first || !second)
      continue;
    // The planner did not ask about groups that the plan keeps as they are.
    bool isFixed = requested && (requested->isFixed[refusal.first] ||
                                 requested->isFixed[refusal.second]);
    DecidedLaunch apart;
    apart.groups = {*first, *second};
    apart.rule = isFixed ? FusionRule::PlanFile : refusal.rule;
    apart.value = refusal.value;
    apart.limit = refusal.limit;
    decisions->apart.push_back(std::move(apart));
  }
}

LogicalResult HorizontalRecorder::finish(Block &block) {
  if (!decisions)
    return success();
  decisions->recordLayout(block);
  return failure(decisions->hasFailed);
}
