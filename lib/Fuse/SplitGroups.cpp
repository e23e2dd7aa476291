//===- SplitGroups.cpp - Cuts groups that are too large -------------------===//
//
// The thin pass around the decision (SplitPlan.cpp): rewrites a group into its
// parts, and says what was cut and why. With a probe the parts are compiled in
// turn, and cut again where the real numbers ask for it.
//
//===----------------------------------------------------------------------===//
#include "BuildGroup.h"
#include "DecidingPass.h"
#include "RecordVertical.h"
#include "SplitPlan.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_SPLITGROUPS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Times that the parts of a group are compiled and cut again.
static constexpr unsigned kMaxRounds = 8;

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

namespace {

/// Replaces one group by its parts.
class GroupSplitter {
public:
  explicit GroupSplitter(GroupOp group) : group(group), builder(group) {
    for (auto [argument, input] :
         llvm::zip(group.getBodyBlock()->getArguments(), group.getInputs()))
      values.map(argument, input);
  }

  /// The groups that the parts have become.
  SmallVector<GroupOp> run(ArrayRef<SplitPart> parts);

private:
  GroupOp form(const SplitPart &part);

  GroupOp group;
  OpBuilder builder;
  /// Values of the old body -> values outside groups.
  IRMapping values;
};

} // namespace

/// Parts and groups behind them may view one value alike: one view serves all.
static void unifyViews(Value value, Block *block) {
  SmallVector<ReshapeOp> views;
  for (Operation *user : value.getUsers())
    if (auto view = dyn_cast<ReshapeOp>(user);
        view && view->getBlock() == block)
      views.push_back(view);
  if (views.size() < 2)
    return;
  llvm::sort(views, [](ReshapeOp a, ReshapeOp b) {
    return a != b && a->isBeforeInBlock(b);
  });
  llvm::DenseMap<Type, ReshapeOp> firstOf;
  for (ReshapeOp view : views) {
    auto [it, isNew] = firstOf.try_emplace(view.getResult().getType(), view);
    if (isNew)
      continue;
    view.getResult().replaceAllUsesWith(it->second.getResult());
    view.erase();
  }
}

GroupOp GroupSplitter::form(const SplitPart &part) {
  // A reshape of what is outside is a view there.
  llvm::SetVector<Operation *> body;
  for (Operation *op : part.ops)
    if (!isa<ReshapeOp>(op) || body.contains(op->getOperand(0).getDefiningOp()))
      body.insert(op);
  SmallVector<Operation *> outputs;
  llvm::copy_if(part.outputs, std::back_inserter(outputs),
                [&](Operation *op) { return body.contains(op); });
  return buildGroup(body.getArrayRef(), outputs, part.kind, values, builder);
}

SmallVector<GroupOp> GroupSplitter::run(ArrayRef<SplitPart> parts) {
  SmallVector<GroupOp> made;
  for (const SplitPart &part : parts)
    made.push_back(form(part));
  for (auto [value, result] :
       llvm::zip(group.getYield().getValues(), group.getOutputs()))
    result.replaceAllUsesWith(getOutside(value, values, builder));
  Block *block = group->getBlock();
  SmallVector<Value> inputs(group.getInputs());
  group.erase();
  // What is a view itself may go with that of another.
  for (Value input : inputs)
    if (!input.getDefiningOp<ReshapeOp>())
      unifyViews(input, block);
  for (GroupOp part : made)
    for (Value output : part.getOutputs())
      unifyViews(output, block);
  return made;
}

namespace {

/// Writes down what was cut.
class SplitRecorder {
public:
  explicit SplitRecorder(FusionDecisions &decisions) : decisions(decisions) {
    for (auto [i, pair] : llvm::enumerate(decisions.pairs))
      pairsOf[pair.producer].push_back(i);
  }

  /// What the parts of a group are to the record, which knows its ops by their
  /// order; empty if it doesn't know the group. While the group is there.
  SmallVector<DecidedGroup, 0> record(GroupOp group, const SplitPlan &plan);

private:
  void recordPairs(GroupOp group, const SplitPlan &plan,
                   MutableArrayRef<DecidedGroup> parts);

  FusionDecisions &decisions;
  llvm::DenseMap<unsigned, SmallVector<unsigned, 1>> pairsOf;
  /// Ops of the group at hand, by the record's index and back.
  llvm::DenseMap<Operation *, unsigned> indexOf;
  llvm::DenseMap<unsigned, Operation *> opOf;
};

} // namespace

SmallVector<DecidedGroup, 0> SplitRecorder::record(GroupOp group,
                                                   const SplitPlan &plan) {
  SmallVector<DecidedGroup, 0> parts;
  std::optional<unsigned> index = decisions.findGroup(group);
  if (!index)
    return parts;
  SmallVector<Operation *> body;
  for (Operation &op : group.getBodyBlock()->without_terminator())
    if (OpFamily family = getOpFamily(&op);
        family != OpFamily::Source && family != OpFamily::View)
      body.push_back(&op);
  SmallVector<unsigned> order = decisions.getBodyOrder(*index);
  // Some other pass changed it: it is no decided group any more.
  if (order.size() != body.size())
    return parts;
  indexOf.clear();
  opOf.clear();
  for (auto [op, index] : llvm::zip_equal(body, order)) {
    indexOf[op] = index;
    opOf[index] = op;
  }
  for (const SplitPart &part : plan.parts) {
    DecidedGroup &decided = parts.emplace_back();
    decided.kind = part.kind;
    for (Operation *op : part.ops)
      if (auto it = indexOf.find(op); it != indexOf.end())
        decided.members.push_back(it->second);
    llvm::sort(decided.members);
    decided.rule = decided.members.size() > 1 ? getJoiningRule(part.kind)
                                              : plan.cuts.front().limit.rule;
    for (Operation *op : part.outputs) {
      auto it = indexOf.find(op);
      decided.outputs.push_back(it == indexOf.end() ? DecidedGroup::kNoOp
                                                    : it->second);
    }
  }
  recordPairs(group, plan, parts);
  const DecidedGroup &whole = decisions.groups[*index];
  if (whole.planLine) {
    const GroupVerdict &limit = plan.cuts.front().limit;
    const FusionRuleInfo &info = getFusionRuleInfo(limit.rule);
    decisions.report(group.getContext(), whole.planLine,
                     "the group can't be had whole, it is cut in " +
                         Twine(parts.size()) + ": " + info.text + " (" +
                         info.id + ", " + Twine(limit.value) + " against " +
                         Twine(limit.limit) + ")");
  }
  decisions.dropGroup(group);
  return parts;
}

/// Pairs of the group that are in no part together are apart by the first cut
/// between the two; those that are save what they saved before.
void SplitRecorder::recordPairs(GroupOp group, const SplitPlan &plan,
                                MutableArrayRef<DecidedGroup> parts) {
  llvm::DenseMap<Operation *, unsigned> position;
  for (auto [i, op] : llvm::enumerate(*group.getBodyBlock()))
    position[&op] = i;
  // Of several copies of a cheap op the last one counts, as in whole groups.
  llvm::DenseMap<std::pair<unsigned, unsigned>, int64_t> saved;
  for (auto [producer, op] : opOf)
    for (unsigned index : pairsOf.lookup(producer)) {
      DecidedPair &pair = decisions.pairs[index];
      auto consumer = opOf.find(pair.consumer);
      if (consumer == opOf.end() || !getFusionRuleInfo(pair.rule).accepts)
        continue;
      int64_t &before = saved[{pair.producer, pair.consumer}];
      bool isApart = true;
      for (DecidedGroup &part : parts)
        if (llvm::binary_search(part.members, pair.producer) &&
            llvm::binary_search(part.members, pair.consumer)) {
          part.savedBytes += pair.bytes - before;
          isApart = false;
        }
      if (!isApart) {
        before = pair.bytes;
        continue;
      }
      for (const SplitCut &cut : plan.cuts) {
        if (position[cut.at] <= position[op] ||
            position[cut.at] > position[consumer->second])
          continue;
        auto at = indexOf.find(cut.at);
        pair.rule = cut.limit.rule;
        pair.value = cut.limit.value;
        pair.limit = cut.limit.limit;
        pair.separateUs = cut.separateUs;
        pair.fusedUs = cut.fusedUs;
        pair.cut =
            DecidedCut{at == indexOf.end() ? DecidedGroup::kNoOp : at->second,
                       cut.live,
                       cut.first.registersPerThread,
                       cut.second.registersPerThread,
                       cut.first.registersPerUnit,
                       cut.second.registersPerUnit};
        break;
      }
    }
}

//===----------------------------------------------------------------------===//
// Reporting
//===----------------------------------------------------------------------===//

static std::string formatUs(double microseconds) {
  return llvm::formatv("{0:f2}", microseconds).str();
}

static void emitDecisions(GroupOp group, const SplitPlan &plan) {
  if (!group.getContext()->getRemarkEngine())
    return;
  for (const SplitCut &cut : plan.cuts) {
    const FusionRuleInfo &info = getFusionRuleInfo(cut.limit.rule);
    remark::missed(cut.at->getLoc(),
                   remark::RemarkOpts::name(info.id).category("fusion"))
        << remark::reason("{0}", info.text)
        << remark::metric("kind", stringifyGroupKind(group.getKind()))
        << remark::metric("value", cut.limit.value)
        << remark::metric("limit", cut.limit.limit)
        << remark::metric("split_at", cut.at->getName().getStringRef())
        << remark::metric("live", cut.live)
        << remark::metric("first_unit", cut.first.registersPerUnit)
        << remark::metric("first_thread", cut.first.registersPerThread)
        << remark::metric("second_unit", cut.second.registersPerUnit)
        << remark::metric("second_thread", cut.second.registersPerThread)
        << remark::metric("us_fused", formatUs(cut.fusedUs))
        << remark::metric("us_unfused", formatUs(cut.separateUs));
  }
  for (const GroupVerdict &verdict : plan.unmet) {
    const FusionRuleInfo &info = getFusionRuleInfo(verdict.rule);
    remark::failed(group.getLoc(),
                   remark::RemarkOpts::name(info.id).category("fusion"))
        << remark::reason("{0}, and it has no cut", info.text)
        << remark::metric("kind", stringifyGroupKind(group.getKind()))
        << remark::metric("value", verdict.value)
        << remark::metric("limit", verdict.limit);
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct SplitGroups : DecidingPass<fusion::impl::SplitGroupsBase<SplitGroups>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override {
    for (unsigned round = 0; round < (probe ? kMaxRounds : 1); ++round) {
      FailureOr<bool> changed = splitOnce(function, block);
      if (failed(changed))
        return failure();
      if (!*changed)
        break;
    }
    return success();
  }

  KernelProbe *probe = nullptr;

private:
  FailureOr<bool> splitOnce(FunctionOpInterface function, Block &block) {
    constexpr int64_t any = std::numeric_limits<int64_t>::max();
    FailureOr<FusionLegality> legality = FusionLegality::create(
        function, GroupLimits{any, any, any, any, any, any});
    if (failed(legality))
      return failure();
    SmallVector<std::pair<GroupOp, SplitPlan>, 0> plans;
    for (auto group : block.getOps<GroupOp>()) {
      if (group.getKind() == GroupKind::Horizontal || group.getKernelAttr())
        continue;
      SplitPlan plan = planSplit(group, *legality, *model, probe);
      emitDecisions(group, plan);
      if (!plan.parts.empty())
        plans.push_back({group, std::move(plan)});
    }
    FusionDecisions *decisions = findDecisions();
    std::optional<SplitRecorder> recorder;
    if (decisions && !plans.empty())
      recorder.emplace(*decisions);
    for (auto &[group, plan] : plans) {
      SmallVector<DecidedGroup, 0> parts;
      if (recorder)
        parts = recorder->record(group, plan);
      SmallVector<GroupOp> made = GroupSplitter(group).run(plan.parts);
      for (auto [op, part] : llvm::zip(made, parts)) {
        decisions->bindGroup(op, decisions->groups.size());
        decisions->groups.push_back(std::move(part));
      }
    }
    if (decisions && !plans.empty()) {
      decisions->recordLayout(block);
      if (decisions->hasFailed)
        return failure();
    }
    return !plans.empty();
  }
};

} // namespace

std::unique_ptr<Pass> fusion::createSplitGroups(SplitGroupsOptions options,
                                                KernelProbe *probe) {
  auto pass = std::make_unique<SplitGroups>(std::move(options));
  pass->probe = probe;
  return pass;
}
