//===- RecordVertical.cpp - Vertical fusion into the record ---------------===//
//
// From nodes of the fuse graph, of which a cheap op has one for each reader, to
// ops of the table.
//
//===----------------------------------------------------------------------===//
#include "RecordVertical.h"

using namespace mlir;
using namespace fusion;

/// A plan may ask for groups larger than the planner would make, up to what
/// code generation takes in reasonable time.
static GroupLimits getPlanLimits(const CostModel &model) {
  GroupLimits limits;
  limits.maxOps = limits.maxLoads = std::numeric_limits<int64_t>::max();
  limits.maxInputs = 512;
  limits.maxGroupOps = 1024;
  limits.compileBudget = 4096;
  limits.argumentBytes = model.getDevice().parameterBytes;
  return limits;
}

VerticalRecorder::VerticalRecorder(FusionDecisions *decisions, Block &block,
                                   const FuseGraph &graph)
    : decisions(decisions), block(block), graph(graph) {
  if (!decisions)
    return;
  decisions->ops = OpTable(block);
  if (decisions->keepOriginal)
    decisions->original = cast<func::FuncOp>(block.getParentOp()->clone());
  recordReaders();
  if (graph.hasUngroupedWork())
    return;
  // Nothing will be done: what is there stays.
  for (Operation &op : block.without_terminator())
    if (getOpFamily(&op) == OpFamily::Outside)
      decisions->bindOutside(&op, *decisions->ops.find(&op));
  decisions->recordLayout(block);
  if (decisions->plan &&
      llvm::any_of(decisions->plan->groups,
                   [](const PlanLine &line) { return line.kind != "outside"; }))
    decisions->report(block.getParentOp()->getContext(), decisions->plan->line,
                      "the function has no op left that is in no group: the "
                      "plan is not used");
}

void VerticalRecorder::recordReaders() {
  decisions->readers.resize(decisions->ops.size());
  for (unsigned node = 0; node < graph.size(); ++node)
    for (unsigned reader : graph[node].consumers) {
      while (graph[reader].family == OpFamily::View)
        reader = graph[reader].consumers.front();
      decisions->readers[getOp(node)].push_back(getOp(reader));
    }
  for (auto &readers : decisions->readers) {
    llvm::sort(readers);
    readers.erase(llvm::unique(readers), readers.end());
  }
}

LogicalResult VerticalRecorder::readPlan(FunctionOpInterface function,
                                         const CostModel &model,
                                         bool separate) {
  if (!decisions || !decisions->plan)
    return success();
  if (graph.size() == 0) {
    if (!decisions->plan->groups.empty())
      decisions->report(function.getContext(), decisions->plan->line,
                        "no op of the function is read: the plan is not used");
    return failure(decisions->hasFailed);
  }
  if (separate)
    return function.emitError("a plan and no vertical fusion at once: leave "
                              "out one of the two");
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, getPlanLimits(model));
  if (failed(legality))
    return failure();
  replayed = replayPlan(*decisions, graph, *legality);
  return failure(decisions->hasFailed);
}

void VerticalRecorder::recordPairs(const VerticalPlan &plan) {
  if (!decisions)
    return;
  decisions->hasGroups = true;
  for (const FusePair &pair : plan.pairs) {
    unsigned reader = pair.consumer;
    while (graph[reader].family == OpFamily::View)
      reader = graph[reader].consumers.front();
    DecidedPair decided;
    decided.producer = getOp(pair.producer);
    decided.consumer = getOp(reader);
    decided.rule = pair.verdict.rule;
    decided.value = pair.verdict.value;
    decided.limit = pair.verdict.limit;
    decided.bytes = pair.bytes;
    decided.separateUs = pair.separateUs;
    decided.fusedUs = pair.fusedUs;
    decided.own = pair.own;
    if (pair.verdict.at && !pair.verdict.isLegal())
      decided.at = decisions->ops.find(pair.verdict.at);
    unsigned index = decisions->pairs.size();
    decisions->pairs.push_back(decided);
    if (pair.verdict.isLegal()) {
      savedBytes[{decided.producer, decided.consumer}] = pair.bytes;
      continue;
    }
    for (unsigned op : {decided.producer, decided.consumer}) {
      auto [it, isNew] = refusalOf.try_emplace(op, index);
      if (!isNew && decisions->pairs[it->second].bytes < pair.bytes)
        it->second = index;
    }
  }
}

FusionRule fusion::getJoiningRule(GroupKind kind) {
  switch (kind) {
  case GroupKind::Library:
  case GroupKind::Contraction:
  case GroupKind::Window:
    return FusionRule::FuseEpilogue;
  case GroupKind::RowReduce:
    return FusionRule::FuseRowReduce;
  case GroupKind::ColumnReduce:
    return FusionRule::FuseColumnReduce;
  case GroupKind::Scatter:
    return FusionRule::FuseScatterUpdates;
  default:
    return FusionRule::FuseLoop;
  }
}

void VerticalRecorder::recordGroup(const PlannedGroup &planned,
                                   const FormedGroup &formed) {
  if (!decisions)
    return;
  const OpTable &ops = decisions->ops;
  // A gradient's group was formed before: it is an op of the table.
  bool isGradient = isGradientGroup(formed.body.front());
  if (!isGradient && (!isa<GroupOp>(formed.op) ||
                      getOpFamily(formed.body.front()) == OpFamily::Outside))
    return decisions->bindOutside(formed.op, *ops.find(formed.body.front()));
  DecidedGroup group;
  group.kind = isGradient ? GroupKind::Library : planned.kind;
  for (Operation *op : formed.body)
    if (getOpFamily(op) != OpFamily::View)
      group.members.push_back(*ops.find(op));
  for (Operation *op : formed.outputs)
    group.outputs.push_back(*ops.find(op));
  if (isGradient) {
    group.outputs = {group.members.front()};
    group.rule = FusionRule::FuseGradient;
  } else if (group.members.size() > 1) {
    group.rule = getJoiningRule(planned.kind);
    for (unsigned op : group.members)
      for (unsigned reader : decisions->readers[op])
        if (llvm::binary_search(group.members, reader))
          group.savedBytes += savedBytes.lookup({op, reader});
  } else if (auto it = refusalOf.find(group.members.front());
             it != refusalOf.end()) {
    const DecidedPair &pair = decisions->pairs[it->second];
    // An op stays alone for the same reason with a plan that says so.
    group.rule = pair.own && !getFusionRuleInfo(*pair.own).accepts ? *pair.own
                                                                   : pair.rule;
  }
  unsigned index = decisions->groups.size();
  if (planned.request) {
    const PlanLine *line = replayed->lines[*planned.request];
    group.planLine = line->line;
    // Of several reasons why it stays alone, the one that the plan knew of.
    if (group.members.size() == 1) {
      if (const FusionRuleInfo *info = findFusionRule(line->rule);
          info && !info->accepts)
        group.rule = info->rule;
      else if (line->rule.empty() && !line->reason.empty())
        group.rule.reset();
    }
    groupOfLine[line] = index;
  }
  decisions->bindGroup(formed.op, index);
  decisions->groups.push_back(std::move(group));
}

/// Turns the launches of the plan into lists of groups.
void VerticalRecorder::requestLaunches() {
  for (const PlanLine &line : decisions->plan->groups) {
    if (!line.isHorizontal())
      continue;
    SmallVector<unsigned> members;
    for (const PlanLine &member : line.groups)
      if (auto it = groupOfLine.find(&member); it != groupOfLine.end())
        members.push_back(it->second);
    if (members.size() == line.groups.size()) {
      decisions->requestedLaunches.push_back(std::move(members));
      continue;
    }
    // Those that can be had are free for whatever launch the planner finds.
    for (unsigned group : members)
      decisions->groups[group].planLine = 0;
    decisions->report(block.getParentOp()->getContext(), line.line,
                      "the launch can't be had: " +
                          Twine(line.groups.size() - members.size()) + " of " +
                          Twine(line.groups.size()) +
                          " members can't; the planner decides about it");
  }
}

LogicalResult VerticalRecorder::finish() {
  if (!decisions)
    return success();
  if (replayed)
    requestLaunches();
  decisions->recordLayout(block);
  return failure(decisions->hasFailed);
}
