//===- HorizontalReasons.cpp - Why two groups are two launches ------------===//
//
// Reasons that no launch gave when it was offered a group: the two never met.
//
//===----------------------------------------------------------------------===//
#include "HorizontalLaunches.h"

using namespace mlir;
using namespace fusion;

/// Why two groups of one key never were offered to each other. `first` stands
/// before `second`.
static FusionRule classify(const HorizontalGraph &graph,
                           const HorizontalLaunches &launches, unsigned first,
                           unsigned second) {
  const HorizontalNode &a = graph[first], &b = graph[second];
  if (a.alone || b.alone)
    return a.alone ? *a.alone : *b.alone;
  if (a.segment != b.segment)
    return FusionRule::Barrier;
  unsigned from = launches.find(first), to = launches.find(second);
  if (launches.reaches(from, to) || launches.reaches(to, from))
    return FusionRule::HorizontalDependency;
  if (a.needs != b.needs || a.feeds != b.feeds)
    return a.bucket && b.bucket && a.bucket != b.bucket
               ? FusionRule::HorizontalBucket
               : FusionRule::ReadyTime;
  return FusionRule::HorizontalCycle;
}

void fusion::collectRefusals(const HorizontalGraph &graph,
                             const HorizontalLaunches &launches,
                             ArrayRef<LaunchRefusal> refusalOf,
                             HorizontalPlan &plan) {
  llvm::DenseMap<unsigned, unsigned> lastOfKey;
  llvm::DenseMap<unsigned, unsigned> lastOfLooseKey;
  llvm::DenseSet<unsigned> seenKeys;
  for (unsigned node = 0; node < graph.size(); ++node) {
    const HorizontalNode &info = graph[node];
    if (!info.group || !launches.isFirst(node))
      continue;
    LaunchRefusal refusal = refusalOf[node];
    // One that was too large for all others is no neighbour of any.
    bool isAlone = refusal.rule == FusionRule::HorizontalBalance;
    if (!isAlone) {
      auto [it, isNew] = lastOfKey.try_emplace(info.key, node);
      if (!isNew && !refusal)
        refusal = {it->second, classify(graph, launches, it->second, node)};
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
