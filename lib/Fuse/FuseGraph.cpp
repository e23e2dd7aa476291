//===- FuseGraph.cpp - A function's ops as nodes and groups ---------------===//
//
// Nodes are made from the last op to the first, so that each op knows its
// readers and can be split into one clone a reader. The order of groups is kept
// valid by every merge, in the way of Pearce and Kelly's dynamic topological
// sort ("A dynamic topological sort algorithm for directed acyclic graphs",
// 2007): only groups between the two merged ones are looked at.
//
//===----------------------------------------------------------------------===//
#include "FuseGraph.h"
#include "fusion/Support/SeededBugs.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

/// Clones behind clones: a long chain of cheap ops must not be repeated as a
/// whole for each of its readers.
static constexpr unsigned kMaxCloneDepth = 4;

/// Edges that one search for a path may follow.
static constexpr unsigned kMaxSearchSteps = 4096;

//===----------------------------------------------------------------------===//
// FuseGraph
//===----------------------------------------------------------------------===//

namespace {

/// What is known of an op from the ops behind it.
struct Readers {
  SmallVector<unsigned, 2> nodes;
  bool escapes = false;
};

} // namespace

/// The values that an op reads, those of its regions included.
static llvm::SetVector<Value> getReadValues(Operation *op) {
  llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
  if (op->getNumRegions() > 0 && !op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    getUsedValuesDefinedAbove(op->getRegions(), values);
  return values;
}

bool fusion::isScheduleBarrier(Operation *op) {
  return !isMemoryEffectFree(op) && !isa<CommunicationOpInterface>(op);
}

FuseGraph::FuseGraph(Block &block) {
  llvm::DenseMap<Operation *, unsigned> segments;
  unsigned segment = 0;
  for (Operation &op : block) {
    // The op with effects is in no segment with anything it could be fused
    // with.
    segments[&op] = segment;
    if (isScheduleBarrier(&op))
      segments[&op] = ++segment;
  }

  llvm::DenseMap<Operation *, Readers> readers;
  SmallVector<unsigned> cloneDepth;
  auto addNode = [&](Operation *op, ArrayRef<unsigned> consumers, bool isClone,
                     bool escapes) {
    unsigned id = nodes.size();
    nodes.push_back({op,
                     getOpFamily(op),
                     segments[op],
                     isClone,
                     escapes,
                     {},
                     llvm::to_vector<2>(consumers),
                     {},
                     {}});
    cloneDepth.push_back(isClone ? cloneDepth[consumers.front()] + 1 : 0);
    llvm::SmallPtrSet<Operation *, 4> seen;
    for (Value value : getReadValues(op))
      if (Operation *producer = value.getDefiningOp())
        if (seen.insert(producer).second)
          readers[producer].nodes.push_back(id);
  };

  for (Operation &op : llvm::reverse(block)) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands())
        if (Operation *producer = value.getDefiningOp())
          readers[producer].escapes = true;
      continue;
    }
    OpFamily family = getOpFamily(&op);
    ungroupedWork |= family != OpFamily::Source && family != OpFamily::View &&
                     family != OpFamily::Outside;
    auto it = readers.find(&op);
    Readers own = it == readers.end() ? Readers() : std::move(it->second);
    if (family == OpFamily::Source)
      continue;
    if (family == OpFamily::View) {
      // Outside groups a reshape is a view: whoever reads it there reads its
      // operand.
      Operation *producer = op.getOperand(0).getDefiningOp();
      if (!producer)
        continue;
      readers[producer].escapes |= own.escapes;
      for (unsigned consumer : own.nodes)
        addNode(&op, consumer, true, false);
      continue;
    }
    bool pure = isMemoryEffectFree(&op);
    if (pure && own.nodes.empty() && !own.escapes)
      continue;
    bool cloneable = isCheapToClone(&op) && !own.escapes &&
                     own.nodes.size() > 1 &&
                     llvm::all_of(own.nodes, [&](unsigned reader) {
                       return cloneDepth[reader] < kMaxCloneDepth;
                     });
    if (cloneable)
      for (unsigned consumer : own.nodes)
        addNode(&op, consumer, true, false);
    else
      addNode(&op, own.nodes, false, own.escapes);
  }

  // From last-first to program order.
  unsigned last = nodes.size() - 1;
  std::reverse(nodes.begin(), nodes.end());
  for (auto [id, node] : llvm::enumerate(nodes)) {
    for (unsigned &consumer : node.consumers)
      consumer = last - consumer;
    llvm::sort(node.consumers);
    for (unsigned consumer : node.consumers)
      nodes[consumer].producers.push_back(id);
  }
  orderEffects();
}

/// Ops with effects keep their order.
void FuseGraph::orderEffects() {
  std::optional<unsigned> last;
  for (unsigned id = 0; id < nodes.size(); ++id) {
    FuseNode &node = nodes[id];
    if (isMemoryEffectFree(node.op))
      continue;
    node.before.assign(node.producers.begin(), node.producers.end());
    node.behind.assign(node.consumers.begin(), node.consumers.end());
    if (last) {
      node.before.push_back(*last);
      nodes[*last].behind.push_back(id);
    }
    last = id;
  }
}

//===----------------------------------------------------------------------===//
// FuseGroups
//===----------------------------------------------------------------------===//

FuseGroups::FuseGroups(Neighbours neighbours, unsigned numNodes,
                       ArrayRef<ArrayRef<unsigned>> groups)
    : neighbours(std::move(neighbours)), groupOf(numNodes), members(numNodes),
      position(numNodes), version(numNodes) {
  for (auto [i, group] : llvm::enumerate(groups)) {
    unsigned id = group.front();
    position[id] = i;
    members[id].assign(group.begin(), group.end());
    for (unsigned node : group)
      groupOf[node] = id;
  }
}

/// The edges of a fuse graph.
static FuseGroups::Neighbours getNeighbours(const FuseGraph &graph) {
  return [&graph](unsigned node, bool forward) -> ArrayRef<unsigned> {
    return graph[node].getNeighbours(forward);
  };
}

FuseGroups::FuseGroups(const FuseGraph &graph,
                       ArrayRef<ArrayRef<unsigned>> groups)
    : FuseGroups(getNeighbours(graph), graph.size(), groups) {}

FuseGroups::FuseGroups(const FuseGraph &graph)
    : neighbours(getNeighbours(graph)) {
  for (unsigned node = 0; node < graph.size(); ++node) {
    groupOf.push_back(node);
    members.push_back({node});
    position.push_back(node);
    version.push_back(0);
  }
}

/// A bounded walk over groups between two positions.
struct FuseGroups::Search {
  FuseGroups &groups;
  unsigned steps = 0;
  bool found = false;

  /// Groups reached from `start` against or along the edges, in positions
  /// strictly between `low` and `high`, `start` not among them. `direct` may be
  /// reached from `start` itself unless the two are to be independent; from any
  /// other group it sets `found`.
  SmallVector<unsigned> run(unsigned start, unsigned direct, bool independent,
                            bool forward, int64_t low, int64_t high) {
    SmallVector<unsigned> reached, worklist{start};
    llvm::DenseSet<unsigned> seen;
    while (!worklist.empty() && !found && steps <= kMaxSearchSteps) {
      unsigned group = worklist.pop_back_val();
      for (unsigned member : groups.members[group]) {
        for (unsigned neighbour : groups.neighbours(member, forward)) {
          if (++steps > kMaxSearchSteps)
            return reached;
          unsigned next = groups.groupOf[neighbour];
          if (next == group || next == start)
            continue;
          if (next == direct) {
            found |= independent || (!seededBug(6) && group != start);
            continue;
          }
          int64_t at = groups.position[next];
          if (at <= low || at >= high || !seen.insert(next).second)
            continue;
          reached.push_back(next);
          worklist.push_back(next);
        }
      }
    }
    return reached;
  }
};

bool FuseGroups::findPosition(unsigned producerGroup, unsigned consumerGroup,
                              bool independent, int64_t &merged,
                              Accept accept) {
  int64_t low = position[producerGroup], high = position[consumerGroup];
  Search search{*this};
  SmallVector<unsigned> behind = search.run(
      producerGroup, consumerGroup, independent, /*forward=*/true, low, high);
  if (search.found)
    return false;
  if (search.steps <= kMaxSearchSteps && behind.empty()) {
    merged = high;
    return true;
  }
  bool complete = search.steps <= kMaxSearchSteps;
  Search back{*this};
  SmallVector<unsigned> before = back.run(
      consumerGroup, producerGroup, independent, /*forward=*/false, low, high);
  if (back.found)
    return false;
  if (back.steps <= kMaxSearchSteps && before.empty()) {
    merged = low;
    return !accept || accept({}, behind);
  }
  if (!complete || back.steps > kMaxSearchSteps)
    return false;
  if (accept && !accept(before, behind))
    return false;
  // What the consumer waits for moves before the merged group, what waits for
  // the producer behind it; all into the positions that they have now.
  auto byPosition = [&](unsigned a, unsigned b) {
    return position[a] < position[b];
  };
  llvm::sort(before, byPosition);
  llvm::sort(behind, byPosition);
  SmallVector<int64_t> free{low, high};
  for (unsigned group : before)
    free.push_back(position[group]);
  for (unsigned group : behind)
    free.push_back(position[group]);
  llvm::sort(free);
  for (auto [i, group] : llvm::enumerate(before))
    position[group] = free[i];
  merged = free[before.size()];
  for (auto [i, group] : llvm::enumerate(behind))
    position[group] = free[before.size() + 2 + i];
  return true;
}

void FuseGroups::moveMembers(unsigned from, unsigned to, int64_t merged) {
  SmallVector<unsigned, 1> all;
  std::merge(members[from].begin(), members[from].end(), members[to].begin(),
             members[to].end(), std::back_inserter(all));
  for (unsigned node : members[from])
    groupOf[node] = to;
  members[from].clear();
  members[to] = std::move(all);
  position[to] = merged;
  ++version[to];
}

bool FuseGroups::hasDetour(unsigned producerGroup, unsigned consumerGroup) {
  Search search{*this};
  search.run(producerGroup, consumerGroup, /*independent=*/false,
             /*forward=*/true, position[producerGroup],
             position[consumerGroup]);
  return search.found || search.steps > kMaxSearchSteps;
}

bool FuseGroups::tryMerge(unsigned producerGroup, unsigned consumerGroup,
                          Accept accept) {
  int64_t merged;
  if (!findPosition(producerGroup, consumerGroup, /*independent=*/false, merged,
                    accept))
    return false;
  moveMembers(producerGroup, consumerGroup, merged);
  return true;
}

bool FuseGroups::tryMergeIndependent(unsigned first, unsigned second) {
  unsigned early = first, late = second;
  if (position[early] > position[late])
    std::swap(early, late);
  int64_t merged;
  if (!findPosition(early, late, /*independent=*/true, merged))
    return false;
  moveMembers(second, first, merged);
  return true;
}

SmallVector<unsigned> FuseGroups::getOrder() const {
  SmallVector<unsigned> order;
  for (unsigned group = 0; group < members.size(); ++group)
    if (!members[group].empty())
      order.push_back(group);
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return position[a] < position[b]; });
  return order;
}
