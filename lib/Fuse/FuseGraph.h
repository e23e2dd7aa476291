//===- FuseGraph.h - A function's ops as nodes and groups -------*- C++ -*-===//
//
// What the decision works on: one node for each op that does work, one for each
// reader of an op that is cheap to repeat, and the groups that nodes are in.
// The IR stays untouched until the decision is made. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_FUSEGRAPH_H
#define FUSION_LIB_FUSE_FUSEGRAPH_H

#include "fusion/Analysis/FusionLegality.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>

namespace fusion {

struct FuseNode {
  mlir::Operation *op;
  OpFamily family;
  /// Number of barriers before it: groups don't reach across them.
  unsigned segment;
  /// The op is repeated for its one consumer (`consumers[0]`).
  bool isClone;
  /// A value of the op is returned, or read by what isn't a node.
  bool escapes;
  /// Nodes it reads and is read by; in program order, each once.
  llvm::SmallVector<unsigned, 2> producers, consumers;
  /// Of an op with effects: the same, and the one with effects before or behind
  /// it. Empty for others.
  llvm::SmallVector<unsigned, 0> before, behind;

  /// What has to come before the op (or behind it).
  llvm::ArrayRef<unsigned> getNeighbours(bool forward) const {
    if (forward)
      return behind.empty() ? llvm::ArrayRef<unsigned>(consumers) : behind;
    return before.empty() ? llvm::ArrayRef<unsigned>(producers) : before;
  }
  /// Whether the op may share a group.
  bool isFusable() const {
    return family != OpFamily::Opaque && family != OpFamily::Outside;
  }
};

/// Whether nothing may be moved across the op: it has effects, and they are not
/// just that it talks to other ranks.
bool isScheduleBarrier(mlir::Operation *op);

/// The nodes of a function, in program order: producers have smaller indices.
/// Constants, parameters and reshapes of them are no nodes, nor are ops that
/// nothing reads.
class FuseGraph {
public:
  explicit FuseGraph(mlir::Block &block);

  llvm::ArrayRef<FuseNode> getNodes() const { return nodes; }
  const FuseNode &operator[](unsigned node) const { return nodes[node]; }
  unsigned size() const { return nodes.size(); }

  /// Whether some op of the block does work and is in no group yet, be it one
  /// that nothing reads.
  bool hasUngroupedWork() const { return ungroupedWork; }

private:
  void orderEffects();

  llvm::SmallVector<FuseNode, 0> nodes;
  bool ungroupedWork = false;
};

/// A partition of the nodes into groups, and an order of the groups in which
/// each comes after those it reads.
class FuseGroups {
public:
  /// Nodes that read a node (forward), or that it reads.
  using Neighbours =
      std::function<llvm::ArrayRef<unsigned>(unsigned node, bool forward)>;

  /// Every node in a group of its own.
  explicit FuseGroups(const FuseGraph &graph);
  /// As below, of the graph's nodes.
  FuseGroups(const FuseGraph &graph,
             llvm::ArrayRef<llvm::ArrayRef<unsigned>> groups);
  /// The given groups, in an order in which each comes after those it reads. A
  /// group is known by its first node.
  FuseGroups(Neighbours neighbours, unsigned numNodes,
             llvm::ArrayRef<llvm::ArrayRef<unsigned>> groups);

  unsigned getGroup(unsigned node) const { return groupOf[node]; }
  /// Members, ascending.
  llvm::ArrayRef<unsigned> getMembers(unsigned group) const {
    return members[group];
  }
  /// Rank of a group in the order; unique.
  int64_t getPosition(unsigned group) const { return position[group]; }
  /// How often the group has grown.
  unsigned getVersion(unsigned group) const { return version[group]; }

  /// Whether a merge may move groups: `before` come before the merged group, as
  /// far as they stood behind its producer, `behind` come behind it, as far as
  /// they stood before its consumer. Asked where there are some of these.
  using Accept = llvm::function_ref<bool(llvm::ArrayRef<unsigned> before,
                                         llvm::ArrayRef<unsigned> behind)>;

  /// Merges the groups of a producer and a consumer and returns true, or leaves
  /// both alone if a path between them leads through other groups. The search
  /// for one is bounded: where it runs out of steps the answer is false too.
  bool tryMerge(unsigned producerGroup, unsigned consumerGroup,
                Accept accept = nullptr);

  /// Merges `second` into `first` and returns true, or leaves both alone if a
  /// path leads from one to the other, or the search runs out of steps.
  bool tryMergeIndependent(unsigned first, unsigned second);

  /// Whether a path between the two leads through other groups, or the bounded
  /// search for one ends without an answer.
  bool hasDetour(unsigned producerGroup, unsigned consumerGroup);

  /// Groups that have members, in order.
  llvm::SmallVector<unsigned> getOrder() const;

private:
  struct Search;
  bool findPosition(unsigned producerGroup, unsigned consumerGroup,
                    bool independent, int64_t &merged, Accept accept = nullptr);
  void moveMembers(unsigned from, unsigned to, int64_t merged);

  Neighbours neighbours;
  llvm::SmallVector<unsigned> groupOf;
  llvm::SmallVector<llvm::SmallVector<unsigned, 1>, 0> members;
  llvm::SmallVector<int64_t> position;
  llvm::SmallVector<unsigned> version;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_FUSEGRAPH_H
