//===- SplitPlan.cpp - Where a group that is too large is cut -------------===//
//
// A part is a range of the body, in its order, with the cheap ops that it reads
// (broadcasts, iotas, widening casts: each part has its own). Of the cuts that
// leave two groups within the limits, the one that fewest values cross is
// taken, of those the one nearest the middle. Where there is none, the same
// among the cuts near the middle, and both sides are cut again. A group stays
// whole where one op alone needs as much.
//
//===----------------------------------------------------------------------===//
#include "SplitPlan.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

/// Ops that all the trials of one cut may look at, and the trials at least and
/// at most: cuts of groups of thousands of ops stay near-linear.
static constexpr size_t kTrialOps = 1 << 16, kLeastTrials = 8, kMostTrials = 64;
/// Percent of the registers estimated of a group that spills, though by its
/// estimate it would not, that its two parts should have at most.
static constexpr int64_t kSpillShare = 75;
/// Percent of what a group needs from which on a part needs as much.
static constexpr int64_t kSameShare = 90;

namespace {

class SplitPlanner {
public:
  SplitPlanner(GroupOp group, const FusionLegality &legality,
               const CostModel &model, KernelProbe *probe);

  SplitPlan run();

private:
  struct Range {
    size_t begin, end;
  };
  /// A range as a group.
  struct Trial {
    SplitPart part;
    GroupVerdict verdict;
    KernelResources resources;
    std::optional<GroupVerdict> exceeded;
  };
  struct Cut {
    size_t at;
    int64_t live;
  };

  void findReaders();
  void checkLimits(Trial &trial) const;
  bool escapes(Operation *op, Range range) const;
  Trial tryRange(Range range) const;
  double predict(const Trial &trial, Range range) const;
  SmallVector<Cut> getCuts(Range range) const;
  bool cut(Range range, const Trial &whole, SplitPlan &plan,
           SmallVectorImpl<Range> &worklist) const;

  GroupOp group;
  const FusionLegality &legality;
  const CostModel &model;
  KernelProbe *probe;
  /// Registers that a part should seem to need at most.
  int64_t mostRegisters;
  SmallVector<Operation *, 0> ops;
  llvm::DenseMap<Operation *, size_t> index;
  /// Whether parts have an op of their own instead of reading it.
  SmallVector<bool, 0> isRepeated;
  /// Index of the last op that reads each op, through repeated ones; the number
  /// of ops if the group yields it.
  SmallVector<size_t, 0> lastReader;
};

} // namespace

SplitPlanner::SplitPlanner(GroupOp group, const FusionLegality &legality,
                           const CostModel &model, KernelProbe *probe)
    : group(group), legality(legality), model(model), probe(probe),
      mostRegisters(model.getDevice().registersPerThread) {
  for (Operation &op : group.getBodyBlock()->without_terminator())
    if (getOpFamily(&op) != OpFamily::Source) {
      index[&op] = ops.size();
      ops.push_back(&op);
    }
  findReaders();
}

void SplitPlanner::findReaders() {
  lastReader.assign(ops.size(), 0);
  isRepeated.assign(ops.size(), false);
  llvm::DenseSet<Operation *> yielded;
  for (Value value : group.getYield().getValues())
    yielded.insert(value.getDefiningOp());
  for (size_t i = ops.size(); i-- > 0;) {
    Operation *op = ops[i];
    lastReader[i] = std::max(lastReader[i], i);
    if (yielded.contains(op))
      lastReader[i] = ops.size();
    else
      isRepeated[i] = isCheapToClone(op);
    size_t reader = isRepeated[i] ? lastReader[i] : i;
    for (Value operand : op->getOperands())
      if (auto it = index.find(operand.getDefiningOp()); it != index.end())
        lastReader[it->second] = std::max(lastReader[it->second], reader);
  }
}

bool SplitPlanner::escapes(Operation *op, Range range) const {
  size_t i = index.lookup(op);
  return !isRepeated[i] && lastReader[i] >= range.end;
}

SplitPlanner::Trial SplitPlanner::tryRange(Range range) const {
  Trial trial;
  // What the range computes, and behind it the repeated ops that it reads.
  llvm::SetVector<size_t> members;
  for (size_t i = range.begin; i < range.end; ++i)
    if (!isRepeated[i])
      members.insert(i);
  for (size_t at = 0; at < members.size(); ++at)
    for (Value operand : ops[members[at]]->getOperands())
      if (auto it = index.find(operand.getDefiningOp());
          it != index.end() && isRepeated[it->second])
        members.insert(it->second);
  SmallVector<size_t> order = members.takeVector();
  llvm::sort(order);
  for (size_t i : order)
    trial.part.ops.push_back(ops[i]);

  auto isRead = [&](Operation *op) { return escapes(op, range); };
  llvm::copy_if(trial.part.ops, std::back_inserter(trial.part.outputs), isRead);
  trial.verdict = legality.check(trial.part.ops, isRead);
  trial.part.kind = trial.verdict.kind;
  if (!trial.verdict.isLegal())
    return trial;
  trial.resources = estimateResources(trial.part.ops, trial.part.kind, isRead,
                                      legality, model.getDevice());
  checkLimits(trial);
  return trial;
}

void SplitPlanner::checkLimits(Trial &trial) const {
  trial.exceeded = checkDeviceLimits(trial.resources, model.getDevice());
  if (!trial.exceeded && trial.resources.registersPerThread > mostRegisters)
    trial.exceeded =
        GroupVerdict::refuse(FusionRule::RegistersThread, trial.resources.peak,
                             trial.resources.registersPerThread, mostRegisters);
}

double SplitPlanner::predict(const Trial &trial, Range range) const {
  return model.getMicroseconds(computeKernelWork(
      trial.part.ops, [&](Operation *op) { return escapes(op, range); },
      legality, model.getDevice()));
}

/// The cuts of a range with work on both sides, best first.
SmallVector<SplitPlanner::Cut> SplitPlanner::getCuts(Range range) const {
  auto isWork = [&](size_t i) {
    return !isRepeated[i] && getOpFamily(ops[i]) != OpFamily::View;
  };
  // The last reader of each value in the range, seen through repeated ops.
  size_t size = range.end - range.begin, firstWork = size, lastWork = 0;
  SmallVector<size_t> last(size);
  for (size_t i = size; i-- > 0;) {
    if (isWork(range.begin + i)) {
      firstWork = i;
      lastWork = std::max(lastWork, i);
    }
    last[i] = std::max(last[i], i);
    size_t reader = isRepeated[range.begin + i] ? last[i] : i;
    for (Value operand : ops[range.begin + i]->getOperands())
      if (auto it = index.find(operand.getDefiningOp());
          it != index.end() && it->second >= range.begin)
        last[it->second - range.begin] =
            std::max(last[it->second - range.begin], reader);
  }
  SmallVector<int64_t> change(size + 1);
  for (size_t i = 0; i < size; ++i)
    if (!isRepeated[range.begin + i]) {
      ++change[i];
      --change[last[i]];
    }
  SmallVector<Cut> cuts;
  int64_t live = 0;
  for (size_t i = 0; i + 1 < size; ++i) {
    live += change[i];
    if (i >= firstWork && i < lastWork)
      cuts.push_back({range.begin + i + 1, live});
  }
  size_t middle = range.begin + size / 2;
  auto getDistance = [&](size_t at) {
    return at > middle ? at - middle : middle - at;
  };
  llvm::sort(cuts, [&](const Cut &a, const Cut &b) {
    return std::tuple(a.live, getDistance(a.at), a.at) <
           std::tuple(b.live, getDistance(b.at), b.at);
  });
  return cuts;
}

bool SplitPlanner::cut(Range range, const Trial &whole, SplitPlan &plan,
                       SmallVectorImpl<Range> &worklist) const {
  size_t size = range.end - range.begin;
  SmallVector<Cut> cuts = getCuts(range);
  size_t trials = std::clamp(kTrialOps / size, kLeastTrials, kMostTrials);
  struct Choice {
    Cut cut;
    Trial first, second;
  };
  std::optional<Choice> fitting, halving, any;
  for (const Cut &each : cuts) {
    // A cut that does not meet the limits should leave parts that are much
    // smaller: such ones are near the middle.
    bool isNearMiddle =
        each.at - range.begin >= size / 4 && range.end - each.at >= size / 4;
    if (trials == 0 && (halving || !isNearMiddle))
      continue;
    trials -= trials > 0;
    Choice choice{each, tryRange({range.begin, each.at}), {}};
    if (!choice.first.verdict.isLegal())
      continue;
    choice.second = tryRange({each.at, range.end});
    if (!choice.second.verdict.isLegal())
      continue;
    if (!choice.first.exceeded && !choice.second.exceeded) {
      fitting = std::move(choice);
      break;
    }
    if (isNearMiddle && !halving)
      halving = std::move(choice);
    else if (!any)
      any = std::move(choice);
  }
  std::optional<Choice> &best = fitting ? fitting : halving ? halving : any;
  if (!best)
    return false;
  SplitCut done;
  done.limit = *whole.exceeded;
  done.at = ops[best->cut.at];
  done.live = best->cut.live;
  done.first = best->first.resources;
  done.second = best->second.resources;
  done.fusedUs = predict(whole, range);
  done.separateUs = predict(best->first, {range.begin, best->cut.at}) +
                    predict(best->second, {best->cut.at, range.end});
  plan.cuts.push_back(done);
  worklist.push_back({best->cut.at, range.end});
  worklist.push_back({range.begin, best->cut.at});
  return true;
}

SplitPlan SplitPlanner::run() {
  SplitPlan plan;
  if (ops.empty())
    return plan;
  SmallVector<Range> worklist{{0, ops.size()}};
  GroupVerdict exceeded;
  bool isWhole = true;
  while (!worklist.empty()) {
    Range range = worklist.pop_back_val();
    Trial trial = tryRange(range);
    if (isWhole) {
      // A group that no emitter takes is told elsewhere.
      if (!trial.verdict.isLegal())
        return plan;
      int64_t estimated = trial.resources.registersPerThread;
      trial.resources =
          estimateResources(group, legality, model.getDevice(), probe);
      trial.exceeded = checkDeviceLimits(trial.resources, model.getDevice());
      if (!trial.exceeded)
        return plan;
      // The estimate was wrong, and would be of the parts.
      if (trial.exceeded->rule == FusionRule::Spills)
        mostRegisters = std::min(mostRegisters, estimated * kSpillShare / 100);
      exceeded = *trial.exceeded;
      isWhole = false;
    }
    if (trial.exceeded) {
      bool isCut = cut(range, trial, plan, worklist);
      mostRegisters = model.getDevice().registersPerThread;
      if (isCut)
        continue;
      // What one op needs alone, no cut avoids: they would only cost.
      if (trial.exceeded->rule == exceeded.rule &&
          100 * trial.exceeded->value >= kSameShare * exceeded.value) {
        SplitPlan none;
        none.unmet.push_back(exceeded);
        return none;
      }
      plan.unmet.push_back(*trial.exceeded);
    }
    plan.parts.push_back(std::move(trial.part));
  }
  if (plan.parts.size() == 1)
    plan.parts.clear();
  return plan;
}

SplitPlan fusion::planSplit(GroupOp group, const FusionLegality &legality,
                            const CostModel &model, KernelProbe *probe) {
  return SplitPlanner(group, legality, model, probe).run();
}
