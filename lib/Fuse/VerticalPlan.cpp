//===- VerticalPlan.cpp - Which producers join their consumers ------------===//
//
// Pairs are visited in a fixed order, in sweeps that state the preference:
// cheap ops join their readers, epilogues join contractions and pools, then
// ops around reductions and scatters, then loops. A pair is merged if the union
// of both groups is legal, the cost model predicts no loss, memory suffices and
// no path between them leads through other groups; a refused one is asked again
// only when one of its groups has grown. Each pair costs no more than the size
// limit of a group, so the whole is near-linear.
//
//===----------------------------------------------------------------------===//
#include "VerticalPlan.h"
#include "PeakMemory.h"
#include "PrologueCost.h"
#include "fusion/Analysis/KernelResources.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

/// Rounds over the pairs; later ones only see what earlier merges made legal.
static constexpr unsigned kMaxRounds = 3;

namespace {

class VerticalPlanner {
public:
  VerticalPlanner(const FuseGraph &graph, const FusionLegality &legality,
                  const CostModel &model, int64_t memoryLimit,
                  const RequestedGroups *requested)
      : graph(graph), legality(legality), model(model), requested(requested),
        groups(requested ? makeGroups(graph, *requested) : FuseGroups(graph)),
        memory(graph, legality, memoryLimit), works(graph.size()),
        traits(graph.size()), requestOf(graph.size()) {
    for (auto [node, info] : llvm::enumerate(graph.getNodes()))
      traits[groups.getGroup(node)] |= getTraits(info.family);
    if (requested)
      for (auto [i, group] : llvm::enumerate(requested->partition))
        if (group.fixed)
          requestOf[group.members.front()] = i;
  }

  VerticalPlan run();

private:
  /// What a group contains, as bits.
  enum Traits : unsigned { None = 0, Anchor = 1, Reduction = 2, Scatter = 4 };
  static unsigned getTraits(OpFamily family);

  /// A pair and the groups it was last refused for.
  struct Candidate {
    FusePair pair;
    bool tried = false, merged = false;
    std::pair<unsigned, unsigned> producerAt, consumerAt;
  };

  void collectCandidates();
  bool sweep(llvm::function_ref<bool(const Candidate &)> wanted,
             bool backward = false);
  bool tryFuse(Candidate &candidate);
  bool merge(unsigned producerGroup, unsigned consumerGroup, FusePair &pair);
  bool checkMerged(unsigned producerGroup, unsigned consumerGroup,
                   FusePair &pair);
  bool delaysCommunication(ArrayRef<unsigned> before, ArrayRef<unsigned> behind,
                           unsigned producerGroup, const FusePair &pair,
                           GroupVerdict &refusal);
  void visit(ArrayRef<unsigned> members,
             llvm::function_ref<void(ArrayRef<Operation *>,
                                     llvm::function_ref<bool(Operation *)>)>
                 use) const;
  GroupVerdict checkMembers(ArrayRef<unsigned> members,
                            KernelWork *work = nullptr) const;
  const KernelWork &getWork(unsigned group);
  static FuseGroups makeGroups(const FuseGraph &graph,
                               const RequestedGroups &requested);
  bool feedsReductionOnly(const Candidate &candidate) const;
  bool preparesRow(const Candidate &candidate) const;
  int64_t getTraffic(const FuseNode &producer, const FuseNode &consumer) const;
  /// A view or a clone that its reader did not take in. Nothing joins it: where
  /// it stands it is free, or serves other readers of the same op.
  bool isLoneClone(unsigned node) const {
    return graph[node].isClone &&
           groups.getMembers(groups.getGroup(node)).size() == 1;
  }
  unsigned getGroupTraits(unsigned node) const {
    return traits[groups.getGroup(node)];
  }

  const FuseGraph &graph;
  const FusionLegality &legality;
  const CostModel &model;
  const RequestedGroups *requested;
  FuseGroups groups;
  PeakMemory memory;
  /// By group, for the members that it had when last asked for.
  SmallVector<std::pair<unsigned, std::optional<KernelWork>>, 0> works;
  SmallVector<unsigned> traits;
  /// By group: which of those asked for it is, if a plan file fixed it.
  SmallVector<std::optional<unsigned>, 0> requestOf;
  SmallVector<Candidate, 0> candidates;
};

} // namespace

/// The groups asked for. One that computes a value again does not read it, but
/// what it is made from, which the edges of the graph don't say.
FuseGroups VerticalPlanner::makeGroups(const FuseGraph &graph,
                                       const RequestedGroups &requested) {
  using Edges = SmallVector<SmallVector<unsigned, 2>, 0>;
  struct Neighbours {
    Edges consumers, producers;
  };
  auto edges = std::make_shared<Neighbours>();
  for (const FuseNode &node : graph.getNodes()) {
    edges->consumers.push_back(llvm::to_vector<2>(node.getNeighbours(true)));
    edges->producers.push_back(llvm::to_vector<2>(node.getNeighbours(false)));
  }
  SmallVector<ArrayRef<unsigned>, 0> groups;
  for (const RequestedGroups::Group &group : requested.partition) {
    groups.push_back(group.members);
    auto isInside = [&](unsigned node) {
      return llvm::is_contained(group.members, node) ||
             llvm::is_contained(group.repeated, node);
    };
    for (unsigned node : group.repeated) {
      for (unsigned reader : graph[node].consumers)
        if (llvm::is_contained(group.members, reader)) {
          llvm::erase(edges->consumers[node], reader);
          llvm::erase(edges->producers[reader], node);
        }
      for (unsigned read : graph[node].producers)
        if (!isInside(read)) {
          edges->consumers[read].push_back(group.members.front());
          edges->producers[group.members.front()].push_back(read);
        }
    }
  }
  auto neighbours = [edges](unsigned node, bool forward) -> ArrayRef<unsigned> {
    return forward ? edges->consumers[node] : edges->producers[node];
  };
  return FuseGroups(neighbours, graph.size(), groups);
}

unsigned VerticalPlanner::getTraits(OpFamily family) {
  switch (family) {
  case OpFamily::Contraction:
  case OpFamily::Window:
    return Anchor;
  case OpFamily::Reduction:
    return Reduction;
  case OpFamily::Scatter:
    return Scatter;
  default:
    return None;
  }
}

void VerticalPlanner::collectCandidates() {
  for (unsigned consumer = 0; consumer < graph.size(); ++consumer) {
    if (graph[consumer].family == OpFamily::Outside)
      continue;
    // Later producers first: of two contractions under an add, the later one
    // has nothing left to wait for.
    for (unsigned producer : llvm::reverse(graph[consumer].producers)) {
      if (graph[producer].family == OpFamily::Outside)
        continue;
      Candidate candidate;
      candidate.pair = {producer,
                        consumer,
                        {},
                        getTraffic(graph[producer], graph[consumer]),
                        {}};
      candidates.push_back(candidate);
    }
  }
}

/// Steps from a value to the reductions that it is prepared for, at most.
static constexpr unsigned kMaxPreparation = 8;

/// Whether all that follows the consumer is prepared for reductions only, while
/// the producer's value is written anyway: the sum of squares of a gradient,
/// say. Behind the producer the squares would be written and read again; with
/// the reduction they are neither.
bool VerticalPlanner::feedsReductionOnly(const Candidate &candidate) const {
  SmallVector<unsigned, kMaxPreparation> seen{candidate.pair.consumer};
  bool found = false;
  for (unsigned at = 0; at < seen.size(); ++at) {
    const FuseNode &node = graph[seen[at]];
    if (node.escapes || node.family != OpFamily::Elementwise)
      return false;
    for (unsigned reader : node.consumers) {
      if (graph[reader].family == OpFamily::Reduction)
        found = true;
      else if (!llvm::is_contained(seen, reader)) {
        if (seen.size() == kMaxPreparation)
          return false;
        seen.push_back(reader);
      }
    }
  }
  const FuseNode &producer = graph[candidate.pair.producer];
  return found && (producer.escapes ||
                   llvm::any_of(producer.consumers, [&](unsigned reader) {
                     return !llvm::is_contained(seen, reader);
                   }));
}

/// Whether the consumer begins what is prepared for a reduction of rows, and
/// the library of the product in front of it would leave it to a kernel of its
/// own: the reduction reads the product as well as that kernel does, and need
/// not be given what that one would write.
bool VerticalPlanner::preparesRow(const Candidate &candidate) const {
  Operation *root = nullptr;
  for (unsigned member :
       groups.getMembers(groups.getGroup(candidate.pair.producer)))
    if (getTraits(graph[member].family) & Anchor)
      root = graph[member].op;
  if (!root || !isForCuda(root) || !findLibraryRule(root) ||
      classifyLibraryEpilogue(root, graph[candidate.pair.consumer].op,
                              graph[candidate.pair.producer].op->getResult(0),
                              /*hasBias=*/false,
                              /*hasAddend=*/false) != LibraryEpilogue::None)
    return false;
  auto isOfRows = [&](unsigned node) {
    Operation *op = graph[node].op;
    return graph[node].family == OpFamily::Reduction && getReducedRange(op) &&
           getReducedRange(op)->second ==
               cast<RankedTensorType>(op->getOperand(0).getType()).getRank();
  };
  SmallVector<unsigned, kMaxPreparation> seen{candidate.pair.consumer};
  for (unsigned at = 0; at < seen.size(); ++at) {
    if (graph[seen[at]].family != OpFamily::Elementwise)
      continue;
    for (unsigned reader : graph[seen[at]].consumers) {
      if (isOfRows(reader))
        return true;
      if (seen.size() < kMaxPreparation && !llvm::is_contained(seen, reader))
        seen.push_back(reader);
    }
  }
  return false;
}

int64_t VerticalPlanner::getTraffic(const FuseNode &producer,
                                    const FuseNode &consumer) const {
  int64_t bytes = legality.getByteSize(producer.op->getResult(0));
  // A value that others read too is still written.
  return producer.escapes || producer.consumers.size() > 1 ? bytes : 2 * bytes;
}

/// Calls `use` with the ops of a group, each once, and the question which of
/// them are read outside it.
void VerticalPlanner::visit(
    ArrayRef<unsigned> members,
    llvm::function_ref<void(ArrayRef<Operation *>,
                            llvm::function_ref<bool(Operation *)>)>
        use) const {
  SmallVector<Operation *> ops;
  llvm::SmallDenseMap<Operation *, unsigned, 16> nodeOf;
  for (unsigned member : members)
    if (nodeOf.try_emplace(graph[member].op, member).second)
      ops.push_back(graph[member].op);
  use(ops, [&](Operation *op) {
    const FuseNode &node = graph[nodeOf.lookup(op)];
    // A clone serves the group it is in, and another reader has its own.
    if (node.isClone)
      return false;
    return node.escapes || llvm::any_of(node.consumers, [&](unsigned consumer) {
             return !llvm::binary_search(members, consumer);
           });
  });
}

GroupVerdict VerticalPlanner::checkMembers(ArrayRef<unsigned> members,
                                           KernelWork *work) const {
  GroupVerdict verdict;
  visit(members, [&](auto ops, auto escapes) {
    verdict = legality.check(ops, escapes);
    if (work && verdict.isLegal())
      *work = computeKernelWork(ops, escapes, legality, model.getDevice());
  });
  return verdict;
}

const KernelWork &VerticalPlanner::getWork(unsigned group) {
  auto &[version, work] = works[group];
  if (!work || version != groups.getVersion(group)) {
    version = groups.getVersion(group);
    work.emplace();
    checkMembers(groups.getMembers(group), &*work);
  }
  return *work;
}

/// Whether the union of two groups is legal and pays; `pair` says why.
bool VerticalPlanner::checkMerged(unsigned producerGroup,
                                  unsigned consumerGroup, FusePair &pair) {
  ArrayRef<unsigned> first = groups.getMembers(producerGroup),
                     second = groups.getMembers(consumerGroup);
  // Clones of one op count once, so this bound is generous.
  int64_t size = first.size() + second.size();
  if (size > 4 * legality.getLimits().maxGroupOps) {
    pair.verdict = GroupVerdict::refuse(FusionRule::MaxGroupOps, nullptr, size,
                                        legality.getLimits().maxGroupOps);
    return false;
  }
  SmallVector<unsigned> all;
  std::merge(first.begin(), first.end(), second.begin(), second.end(),
             std::back_inserter(all));
  KernelWork merged;
  pair.verdict = checkMembers(all, &merged);
  if (!pair.verdict.isLegal()) {
    if (pair.verdict.rule == FusionRule::AnchorOperand)
      predictPrologue(graph, legality, model, getWork(producerGroup),
                      getWork(consumerGroup), pair);
    return false;
  }
  bool isFixed = requestOf[producerGroup] || requestOf[consumerGroup];
  if (isFixed && groups.hasDetour(producerGroup, consumerGroup)) {
    pair.verdict = GroupVerdict::refuse(FusionRule::Cycle, nullptr);
    return false;
  }
  FusionProfit profit = predictProfit(
      model, {getWork(producerGroup), getWork(consumerGroup)}, merged);
  pair.separateUs = profit.beforeUs;
  pair.fusedUs = profit.afterUs;
  if (!profit.refusal && !isFixed)
    return true;
  if (profit.refusal)
    pair.verdict = GroupVerdict::refuse(
        *profit.refusal, graph[pair.producer].op, profit.value, profit.limit);
  else
    visit(all, [&](auto ops, auto escapes) {
      KernelResources resources = estimateResources(
          ops, pair.verdict.kind, escapes, legality, model.getDevice());
      if (auto exceeded = checkDeviceLimits(resources, model.getDevice()))
        pair.verdict = *exceeded;
    });
  // The plan decided, whatever pays; what the planner would have said is kept.
  if (isFixed) {
    pair.own = pair.verdict.rule;
    pair.verdict = GroupVerdict::refuse(FusionRule::PlanFile, nullptr,
                                        pair.verdict.value, pair.verdict.limit);
  }
  return false;
}

bool VerticalPlanner::tryFuse(Candidate &candidate) {
  const FuseNode &producer = graph[candidate.pair.producer],
                 &consumer = graph[candidate.pair.consumer];
  unsigned producerGroup = groups.getGroup(candidate.pair.producer);
  unsigned consumerGroup = groups.getGroup(candidate.pair.consumer);
  if (producerGroup == consumerGroup)
    return false;
  std::pair producerAt(producerGroup, groups.getVersion(producerGroup));
  std::pair consumerAt(consumerGroup, groups.getVersion(consumerGroup));
  if (candidate.tried && candidate.producerAt == producerAt &&
      candidate.consumerAt == consumerAt)
    return false;
  candidate.tried = true;
  candidate.producerAt = producerAt;
  candidate.consumerAt = consumerAt;
  candidate.pair.separateUs = candidate.pair.fusedUs = 0;
  candidate.pair.own.reset();

  GroupVerdict &verdict = candidate.pair.verdict;
  if (!producer.isFusable() || !consumer.isFusable())
    verdict =
        GroupVerdict::refuse(FusionRule::NoEmitter,
                             producer.isFusable() ? consumer.op : producer.op);
  else if (producer.segment != consumer.segment)
    verdict = GroupVerdict::refuse(FusionRule::Barrier, nullptr);
  else if (checkMerged(producerGroup, consumerGroup, candidate.pair))
    candidate.merged = merge(producerGroup, consumerGroup, candidate.pair);
  return candidate.merged;
}

/// Whether a merge makes a communication of `behind` wait for more than it
/// saves, or all of them for one of `before`; then `refusal` says so.
bool VerticalPlanner::delaysCommunication(ArrayRef<unsigned> before,
                                          ArrayRef<unsigned> behind,
                                          unsigned producerGroup,
                                          const FusePair &pair,
                                          GroupVerdict &refusal) {
  auto communicates = [&](unsigned group) {
    return isa<CommunicationOpInterface>(graph[group].op);
  };
  if (llvm::any_of(before, communicates)) {
    refusal = GroupVerdict::refuse(FusionRule::ReadyTime, nullptr);
    return true;
  }
  if (!llvm::any_of(behind, communicates))
    return false;
  double delay = pair.fusedUs - model.getMicroseconds(getWork(producerGroup));
  for (unsigned group : before)
    if (graph[group].family != OpFamily::Outside)
      delay += model.getMicroseconds(getWork(group));
  double gain = pair.separateUs - pair.fusedUs;
  if (delay <= gain)
    return false;
  refusal = GroupVerdict::refuse(FusionRule::ReadyTime, nullptr,
                                 std::llround(1000 * delay),
                                 std::llround(1000 * gain));
  return true;
}

bool VerticalPlanner::merge(unsigned producerGroup, unsigned consumerGroup,
                            FusePair &pair) {
  if (std::optional<int64_t> peak = memory.merge(
          groups.getMembers(producerGroup), groups.getMembers(consumerGroup))) {
    pair.verdict = GroupVerdict::refuse(FusionRule::PeakMemory, nullptr, *peak,
                                        memory.getLimit());
    return false;
  }
  GroupVerdict refusal = GroupVerdict::refuse(FusionRule::Cycle, nullptr);
  auto keepsTimes = [&](ArrayRef<unsigned> before, ArrayRef<unsigned> behind) {
    return !delaysCommunication(before, behind, producerGroup, pair, refusal);
  };
  if (!groups.tryMerge(producerGroup, consumerGroup, keepsTimes)) {
    memory.undo();
    pair.verdict = refusal;
    return false;
  }
  traits[consumerGroup] |= traits[producerGroup];
  return true;
}

bool VerticalPlanner::sweep(llvm::function_ref<bool(const Candidate &)> wanted,
                            bool backward) {
  bool changed = false;
  auto visit = [&](Candidate &candidate) {
    if (!isLoneClone(candidate.pair.consumer) && wanted(candidate))
      changed |= tryFuse(candidate);
  };
  if (backward)
    llvm::for_each(llvm::reverse(candidates), visit);
  else
    llvm::for_each(candidates, visit);
  return changed;
}

VerticalPlan VerticalPlanner::run() {
  collectCandidates();
  // Clones first, the last reader first, so that chains of clones meet it.
  for (Candidate &candidate : llvm::reverse(candidates))
    if (graph[candidate.pair.producer].isClone &&
        !isLoneClone(candidate.pair.consumer))
      tryFuse(candidate);
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    bool changed = sweep([&](const Candidate &c) {
      return (getGroupTraits(c.pair.producer) & Anchor) &&
             !feedsReductionOnly(c) && !preparesRow(c);
    });
    changed |= sweep([&](const Candidate &c) {
      return (getGroupTraits(c.pair.producer) & (Reduction | Scatter)) &&
             !feedsReductionOnly(c);
    });
    changed |= sweep(
        [&](const Candidate &c) {
          return getGroupTraits(c.pair.consumer) & (Reduction | Scatter);
        },
        /*backward=*/true);
    changed |= sweep([](const Candidate &) { return true; });
    if (!changed)
      break;
  }

  VerticalPlan plan;
  llvm::DenseMap<unsigned, GroupVerdict> verdicts;
  for (unsigned group : groups.getOrder()) {
    ArrayRef<unsigned> members = groups.getMembers(group);
    std::optional<unsigned> request = requestOf[group];
    GroupVerdict verdict =
        request ? *requested->partition[*request].fixed : checkMembers(members);
    verdicts[group] = verdict;
    plan.groups.push_back(
        {llvm::to_vector(members), verdict.kind, request, {}});
  }
  for (Candidate &candidate : candidates) {
    FusePair pair = candidate.pair;
    unsigned group = groups.getGroup(pair.producer);
    bool together = group == groups.getGroup(pair.consumer);
    if (together)
      pair.verdict = verdicts[group];
    // Behind the product it is an epilogue.
    if (pair.verdict.rule == FusionRule::FusePrologue &&
        llvm::any_of(groups.getMembers(group), [&](unsigned member) {
          return graph[member].family == OpFamily::Contraction &&
                 member < pair.consumer;
        }))
      pair.verdict.rule = FusionRule::FuseEpilogue;
    // In front of the scatter it gives its updates.
    if (pair.verdict.rule == FusionRule::FuseScatterResult &&
        graph[pair.producer].family != OpFamily::Scatter)
      pair.verdict.rule = FusionRule::FuseScatterUpdates;
    if (together && !candidate.merged)
      pair.separateUs = pair.fusedUs = 0;
    // Views are free: the decision about one is none.
    if (graph[pair.producer].family == OpFamily::View ||
        (!together && !candidate.tried))
      continue;
    if (together && graph[pair.producer].isClone)
      pair.verdict.rule = FusionRule::CloneCheap;
    plan.pairs.push_back(pair);
  }
  return plan;
}

VerticalPlan fusion::planVertical(const FuseGraph &graph,
                                  const FusionLegality &legality,
                                  const CostModel &model, int64_t memoryLimit,
                                  const RequestedGroups *requested) {
  if (memoryLimit == 0)
    memoryLimit = model.getDevice().memoryBytes;
  VerticalPlan plan =
      VerticalPlanner(graph, legality, model, memoryLimit, requested).run();
  // A pair whose producer the plan computes again where it is read is together.
  SmallVector<unsigned> groupOf(requested ? graph.size() : 0);
  auto getRepeated = [&](const PlannedGroup &group) -> ArrayRef<unsigned> {
    if (!group.request)
      return {};
    return requested->partition[*group.request].repeated;
  };
  if (requested)
    for (auto [i, group] : llvm::enumerate(plan.groups))
      for (unsigned member : group.members)
        groupOf[member] = i;
  if (requested)
    for (FusePair &pair : plan.pairs) {
      const PlannedGroup &group = plan.groups[groupOf[pair.consumer]];
      if (llvm::is_contained(getRepeated(group), pair.producer))
        pair.verdict =
            GroupVerdict::accept(FusionRule::RecomputeCheap, group.kind);
    }
  recomputeCheap(graph, legality, model, requested, plan);
  for (PlannedGroup &group : plan.groups) {
    group.repeated.assign(getRepeated(group).begin(), getRepeated(group).end());
    llvm::append_range(group.members, group.repeated);
    llvm::sort(group.members);
  }
  return plan;
}

VerticalPlan fusion::planSeparate(const FuseGraph &graph,
                                  const FusionLegality &legality) {
  VerticalPlan plan;
  for (unsigned node = 0; node < graph.size(); ++node)
    plan.groups.push_back(
        {{node},
         legality.check(graph[node].op, [](Operation *) { return true; }).kind,
         std::nullopt,
         {}});
  return plan;
}

void VerticalPlan::print(llvm::raw_ostream &os, const FuseGraph &graph) const {
  for (auto [i, group] : llvm::enumerate(groups)) {
    os << "group " << i << ' ' << stringifyGroupKind(group.kind) << ':';
    for (unsigned member : group.members)
      os << ' ' << graph[member].op->getName() << '#' << member;
    os << '\n';
  }
  for (const FusePair &pair : pairs)
    os << graph[pair.producer].op->getName() << '#' << pair.producer << " -> "
       << graph[pair.consumer].op->getName() << '#' << pair.consumer << ": "
       << getFusionRuleInfo(pair.verdict.rule).id << '\n';
}
