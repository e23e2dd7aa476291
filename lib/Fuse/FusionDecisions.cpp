//===- FusionDecisions.cpp - What the fuse phase decided ------------------===//
//
// Bookkeeping: from ops of the IR to entries of the record, and from the record
// to a plan.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/FusionDecisions.h"
#include "PlanFile.h"

using namespace mlir;
using namespace fusion;

void FusionDecisions::report(MLIRContext *context, unsigned line,
                             const Twine &message) {
  Location at = FileLineColLoc::get(context, planFile->path, line, 1);
  if (isStrict) {
    hasFailed = true;
    mlir::emitError(at) << message;
  } else {
    mlir::emitWarning(at) << message;
  }
}

std::optional<unsigned> FusionDecisions::findGroup(Operation *op) const {
  auto it = bound.find(op);
  if (it == bound.end())
    return std::nullopt;
  return it->second;
}

void FusionDecisions::dropGroup(Operation *op) {
  auto it = bound.find(op);
  if (it == bound.end())
    return;
  groups[it->second].members.clear();
  bound.erase(it);
}

SmallVector<unsigned> FusionDecisions::getBodyOrder(unsigned group) const {
  SmallVector<unsigned> order(groups[group].members);
  // What a library computes, or a pool, opens its group.
  if (groups[group].kind == GroupKind::Contraction)
    return order;
  auto anchor = llvm::find_if(order, [&](unsigned op) {
    return ops[op].family == OpFamily::Contraction ||
           ops[op].family == OpFamily::Window;
  });
  if (anchor != order.end())
    std::rotate(order.begin(), anchor, std::next(anchor));
  return order;
}

void FusionDecisions::recordLayout(Block &block) {
  layout.clear();
  for (Operation &op : block.without_terminator()) {
    Entry entry;
    if (std::optional<unsigned> group = findGroup(&op)) {
      entry.groups.push_back(*group);
    } else if (auto outside = boundOutside.find(&op);
               outside != boundOutside.end()) {
      entry.outside = outside->second;
    } else if (auto launch = dyn_cast<GroupOp>(op);
               launch && launch.getKind() == GroupKind::Horizontal) {
      entry.isLaunch = true;
      for (auto member : launch.getBodyBlock()->getOps<GroupOp>())
        if (std::optional<unsigned> group = findGroup(member))
          entry.groups.push_back(*group);
    } else {
      continue;
    }
    layout.push_back(std::move(entry));
  }
}

static PlanLine makeLine(const DecidedGroup &group, const OpTable &ops) {
  PlanLine line;
  line.kind = stringifyGroupKind(group.kind).str();
  if (group.rule) {
    const FusionRuleInfo &info = getFusionRuleInfo(*group.rule);
    line.rule = info.id.str();
    line.reason =
        (group.members.size() == 1 && info.rule != FusionRule::FuseGradient
             ? "alone: "
             : "") +
        info.text.str();
  } else {
    line.reason = "alone: no op that could be fused reads it or is read by it";
  }
  line.savedBytes = group.savedBytes;
  line.predictedUs = group.predictedUs;
  line.unfusedUs = group.unfusedUs;
  for (unsigned op : group.members) {
    std::string name = ops.getLocationName(op);
    line.members.push_back(
        {0, ops.getId(op) + (name.empty() ? "" : " " + name)});
  }
  return line;
}

FunctionPlan FusionDecisions::makePlan(StringRef function) const {
  FunctionPlan result;
  result.function = function.str();
  result.graph = ops.getGraphHash().str();
  // A launch is found again by its first group.
  llvm::DenseMap<unsigned, const DecidedLaunch *> launchOf;
  for (const DecidedLaunch &launch : launches)
    for (unsigned group : launch.groups)
      launchOf[group] = &launch;
  // Of an op that several groups compute, the first one writes it for others,
  // if none says so.
  llvm::DenseMap<unsigned, unsigned> firstOf;
  for (const Entry &entry : layout)
    for (unsigned group : entry.groups)
      for (unsigned op : groups[group].members)
        firstOf.try_emplace(op, group);
  auto makeLine = [&](unsigned group) {
    PlanLine line = ::makeLine(groups[group], ops);
    for (unsigned op : groups[group].outputs)
      if (op != DecidedGroup::kNoOp && firstOf.lookup(op) != group)
        line.writes.push_back({0, ops.getId(op)});
    return line;
  };
  for (const Entry &entry : layout) {
    PlanLine line;
    if (entry.outside) {
      std::string name = ops.getLocationName(*entry.outside);
      line.kind = "outside";
      line.reason = "never in a group: it has effects or is one already";
      line.members.push_back(
          {0, ops.getId(*entry.outside) + (name.empty() ? "" : " " + name)});
    } else if (!entry.isLaunch) {
      line = makeLine(entry.groups.front());
    } else {
      line.kind = stringifyGroupKind(GroupKind::Horizontal).str();
      if (entry.groups.empty())
        continue;
      auto launch = launchOf.find(entry.groups.front());
      if (launch != launchOf.end()) {
        const FusionRuleInfo &info = getFusionRuleInfo(launch->second->rule);
        line.rule = info.id.str();
        line.reason = info.text.str();
        line.predictedUs = launch->second->predictedUs;
        line.unfusedUs = launch->second->unfusedUs;
      }
      for (unsigned group : entry.groups)
        line.groups.push_back(makeLine(group));
    }
    result.groups.push_back(std::move(line));
  }
  return result;
}
