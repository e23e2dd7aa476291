//===- RecomputePlan.cpp - Cheap values computed where they are read ------===//
//
// A planned group writes a cheap value for groups behind it: if each of them
// can compute it again and the cost model says that this pays, none of them
// reads it and it is never written. Cheap ops that only this value is computed
// from come along: the widening cast in front of a product. A value is repeated
// only if neither what it then reads nor what reads it is, so the number of ops
// grows by no more than a few times the number of readers.
//
//===----------------------------------------------------------------------===//
#include "VerticalPlan.h"
#include "fusion/Analysis/KernelResources.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

/// Readers among which a value may be repeated: of many, the one write that is
/// saved is a small share.
static constexpr unsigned kMaxReaders = 8;

/// Ops that one repeated value may consist of.
static constexpr unsigned kMaxRepeated = 4;

namespace {

class RecomputePlanner {
public:
  RecomputePlanner(const FuseGraph &graph, const FusionLegality &legality,
                   const CostModel &model, const RequestedGroups *requested,
                   VerticalPlan &plan);

  void run();

private:
  using Members = SmallVector<unsigned>;
  /// What repeating one value changes.
  struct Change {
    /// Group -> its members then; empty ones vanish.
    SmallVector<std::pair<unsigned, Members>> groups;
  };

  bool isCandidate(unsigned node) const;
  SmallVector<unsigned> getClosure(unsigned node) const;
  /// Whether `node` is computed wherever it is read once `repeated` are.
  bool isComputedAgain(unsigned node, ArrayRef<unsigned> repeated) const {
    return isRepeated[node] || llvm::is_contained(repeated, node);
  }
  std::optional<Change> getChange(unsigned node) const;
  bool escapes(unsigned node, ArrayRef<unsigned> members,
               ArrayRef<unsigned> repeated) const;
  void visit(ArrayRef<unsigned> members, ArrayRef<unsigned> repeated,
             llvm::function_ref<void(ArrayRef<Operation *>,
                                     llvm::function_ref<bool(Operation *)>)>
                 use) const;
  void consider(unsigned node);
  void report(unsigned node, const FusionProfit &profit);

  const FuseGraph &graph;
  const FusionLegality &legality;
  const CostModel &model;
  VerticalPlan &plan;
  /// The group a node was planned in.
  SmallVector<unsigned, 0> groupOf;
  SmallVector<bool, 0> isRepeated;
  /// Pairs by producer.
  SmallVector<SmallVector<unsigned, 1>, 0> pairsOf;
};

} // namespace

RecomputePlanner::RecomputePlanner(const FuseGraph &graph,
                                   const FusionLegality &legality,
                                   const CostModel &model,
                                   const RequestedGroups *requested,
                                   VerticalPlan &plan)
    : graph(graph), legality(legality), model(model), plan(plan),
      groupOf(graph.size()), isRepeated(graph.size()), pairsOf(graph.size()) {
  for (auto [i, group] : llvm::enumerate(plan.groups))
    for (unsigned member : group.members)
      groupOf[member] = i;
  for (auto [i, pair] : llvm::enumerate(plan.pairs))
    pairsOf[pair.producer].push_back(i);
  if (requested)
    for (const RequestedGroups::Group &group : requested->partition)
      for (unsigned node : group.repeated)
        isRepeated[node] = true;
}

bool RecomputePlanner::isCandidate(unsigned node) const {
  const FuseNode &own = graph[node];
  if (own.isClone || own.escapes || isRepeated[node] ||
      !isCheapToRecompute(own.op))
    return false;
  // Clones are read and read through as if they were not there.
  for (unsigned member : getClosure(node))
    if (llvm::any_of(graph[member].producers,
                     [&](unsigned read) { return isRepeated[read]; }))
      return false;
  SmallVector<unsigned> readers = llvm::to_vector(own.consumers);
  while (!readers.empty()) {
    unsigned reader = readers.pop_back_val();
    if (isRepeated[reader])
      return false;
    if (graph[reader].isClone)
      llvm::append_range(readers, graph[reader].consumers);
  }
  return true;
}

/// The node and what comes along: the clones that it reads, and cheap ops of
/// its group that nothing else reads.
SmallVector<unsigned> RecomputePlanner::getClosure(unsigned node) const {
  llvm::SmallSetVector<unsigned, 8> closure;
  closure.insert(node);
  unsigned count = 1;
  auto isInside = [&](unsigned consumer) { return closure.contains(consumer); };
  for (unsigned at = 0; at < closure.size(); ++at)
    for (unsigned producer : graph[closure[at]].producers) {
      const FuseNode &own = graph[producer];
      if (own.isClone) {
        closure.insert(producer);
        continue;
      }
      if (count == kMaxRepeated || closure.contains(producer) || own.escapes ||
          isRepeated[producer] || groupOf[producer] != groupOf[node] ||
          !(isCheapToRecompute(own.op) || isa<BroadcastOp>(own.op)) ||
          !llvm::all_of(own.consumers, isInside))
        continue;
      closure.insert(producer);
      ++count;
    }
  return closure.takeVector();
}

std::optional<RecomputePlanner::Change>
RecomputePlanner::getChange(unsigned node) const {
  unsigned home = groupOf[node];
  llvm::SmallSetVector<unsigned, kMaxReaders> readers;
  bool isReadAtHome = false;
  for (unsigned consumer : graph[node].consumers) {
    unsigned group = groupOf[consumer];
    isReadAtHome |= group == home;
    // A view or clone that stands alone may serve several groups.
    if (group != home &&
        (!graph[consumer].isFusable() ||
         (graph[consumer].isClone && plan.groups[group].members.size() == 1)))
      return std::nullopt;
    if (group != home)
      readers.insert(group);
    if (readers.size() > kMaxReaders)
      return std::nullopt;
  }
  auto isFixed = [&](unsigned group) {
    return plan.groups[group].request.has_value();
  };
  if (readers.empty() || isFixed(home) || llvm::any_of(readers, isFixed))
    return std::nullopt;
  SmallVector<unsigned> closure = getClosure(node);
  Change change;
  for (unsigned reader : readers) {
    Members members = plan.groups[reader].members;
    llvm::append_range(members, closure);
    llvm::sort(members);
    members.erase(llvm::unique(members), members.end());
    change.groups.push_back({reader, std::move(members)});
  }
  Members rest = plan.groups[home].members;
  if (!isReadAtHome)
    llvm::erase_if(rest, [&](unsigned member) {
      return llvm::is_contained(closure, member);
    });
  change.groups.push_back({home, std::move(rest)});
  return change;
}

/// Whether a value is read outside a group of `members`, if each of `repeated`
/// is computed wherever it is read.
bool RecomputePlanner::escapes(unsigned node, ArrayRef<unsigned> members,
                               ArrayRef<unsigned> repeated) const {
  const FuseNode &own = graph[node];
  if (own.isClone || isComputedAgain(node, repeated))
    return false;
  if (own.escapes)
    return true;
  // What a repeated op reads must be there for each of its groups.
  return llvm::any_of(own.consumers, [&](unsigned consumer) {
    unsigned reader = consumer;
    while (graph[reader].isClone)
      reader = graph[reader].consumers.front();
    return isComputedAgain(reader, repeated) ||
           !llvm::binary_search(members, consumer);
  });
}

void RecomputePlanner::visit(
    ArrayRef<unsigned> members, ArrayRef<unsigned> repeated,
    llvm::function_ref<void(ArrayRef<Operation *>,
                            llvm::function_ref<bool(Operation *)>)>
        use) const {
  SmallVector<Operation *> ops;
  llvm::SmallDenseMap<Operation *, unsigned, 16> nodeOf;
  for (unsigned member : members)
    if (nodeOf.try_emplace(graph[member].op, member).second)
      ops.push_back(graph[member].op);
  use(ops, [&](Operation *op) {
    return escapes(nodeOf.lookup(op), members, repeated);
  });
}

void RecomputePlanner::report(unsigned node, const FusionProfit &profit) {
  for (unsigned index : pairsOf[node]) {
    FusePair pair = plan.pairs[index];
    // Readers in the value's own group keep what they were told.
    if (groupOf[pair.consumer] == groupOf[node])
      continue;
    pair.separateUs = profit.beforeUs;
    pair.fusedUs = profit.afterUs;
    if (!profit.refusal) {
      pair.verdict = GroupVerdict::accept(
          FusionRule::RecomputeCheap, plan.groups[groupOf[pair.consumer]].kind);
      pair.verdict.value = profit.value;
      pair.verdict.limit = profit.limit;
      plan.pairs[index] = pair;
    } else if (*profit.refusal == FusionRule::ComputeDensity) {
      // One more candidate: why the two are apart was told already.
      pair.verdict = GroupVerdict::refuse(*profit.refusal, graph[node].op,
                                          profit.value, profit.limit);
      plan.pairs.push_back(pair);
      return;
    }
  }
}

void RecomputePlanner::consider(unsigned node) {
  std::optional<Change> change = getChange(node);
  if (!change)
    return;
  SmallVector<unsigned> repeated = getClosure(node);
  SmallVector<KernelWork> before, after;
  SmallVector<GroupKind> kinds;
  for (auto &[group, members] : change->groups) {
    bool isLegal = true;
    kinds.push_back(GroupKind::Loop);
    if (!members.empty())
      visit(members, repeated, [&](auto ops, auto isRead) {
        GroupVerdict verdict = legality.check(ops, isRead);
        // A group that will be cut writes what its parts share.
        isLegal =
            verdict.isLegal() &&
            !checkDeviceLimits(estimateResources(ops, verdict.kind, isRead,
                                                 legality, model.getDevice()),
                               model.getDevice());
        kinds.back() = verdict.kind;
        if (isLegal)
          after.push_back(
              computeKernelWork(ops, isRead, legality, model.getDevice()));
      });
    if (!isLegal)
      return;
    visit(plan.groups[group].members, {}, [&](auto ops, auto isRead) {
      before.push_back(
          computeKernelWork(ops, isRead, legality, model.getDevice()));
    });
  }
  FusionProfit profit = predictProfit(model, before, after);
  // What only moves arithmetic from one kernel to another is no gain.
  auto getBytes = [](ArrayRef<KernelWork> works) {
    double sum = 0;
    for (const KernelWork &work : works)
      sum += work.getBytes();
    return sum;
  };
  if (!profit.refusal && (profit.afterUs >= profit.beforeUs ||
                          getBytes(after) >= getBytes(before)))
    profit.refusal = FusionRule::NoGain;
  report(node, profit);
  if (profit.refusal)
    return;
  for (unsigned member : repeated)
    isRepeated[member] = !graph[member].isClone;
  for (auto [i, entry] : llvm::enumerate(change->groups)) {
    PlannedGroup &group = plan.groups[entry.first];
    group.members = std::move(entry.second);
    group.kind = kinds[i];
  }
}

void RecomputePlanner::run() {
  for (unsigned node = 0; node < graph.size(); ++node)
    if (isCandidate(node))
      consider(node);
  llvm::erase_if(plan.groups, [](const PlannedGroup &group) {
    return group.members.empty();
  });
}

void fusion::recomputeCheap(const FuseGraph &graph,
                            const FusionLegality &legality,
                            const CostModel &model,
                            const RequestedGroups *requested,
                            VerticalPlan &plan) {
  RecomputePlanner(graph, legality, model, requested, plan).run();
}
