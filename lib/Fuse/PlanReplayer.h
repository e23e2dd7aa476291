//===- PlanReplayer.h - A plan's lines on their way to groups ---*- C++ -*-===//
//
// What PlanReplay.cpp (which line gets which op) and ReplayOrder.cpp (cycles
// and order) work on. Private to the two.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PLANREPLAYER_H
#define FUSION_LIB_FUSE_PLANREPLAYER_H

#include "PlanReplay.h"

#include "llvm/ADT/DenseSet.h"

namespace fusion {

class PlanReplay {
public:
  PlanReplay(FusionDecisions &decisions, const FuseGraph &graph,
             const FusionLegality &legality)
      : decisions(decisions), ops(decisions.ops), graph(graph),
        legality(legality), opOf(graph.size()), nodesOf(ops.size()),
        linesOf(graph.size()) {
    for (auto [node, info] : llvm::enumerate(graph.getNodes())) {
      opOf[node] = *ops.find(info.op);
      nodesOf[opOf[node]].push_back(node);
    }
  }

  ReplayedPlan run();

private:
  /// A group of the plan that stands for itself or in a launch.
  struct Line {
    const PlanLine *source = nullptr;
    llvm::SmallVector<unsigned> ops;
    llvm::DenseSet<unsigned> listed, written;
    /// Ascending.
    llvm::SmallVector<unsigned, 1> nodes;
    GroupVerdict verdict;
    bool isDropped = false;
  };
  /// Nodes by group, and which groups read which: a partition for a search.
  struct Quotient {
    llvm::SmallVector<llvm::SmallVector<unsigned, 1>, 0> members;
    /// Groups that read a group, or that it reads; repeated as edges are.
    llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 0> readers, producers;
  };

  void collectLines();
  llvm::Expected<unsigned> lookup(const PlanMember &member) const;
  void claim(Line &line);
  bool isWhole(const Line &line, unsigned op) const;
  std::string findFault(unsigned op, const Line &line) const;
  bool isCheap(unsigned op) const {
    return !nodesOf[op].empty() && graph[nodesOf[op].front()].isClone;
  }
  bool isRepeated(unsigned node) const { return linesOf[node].size() > 1; }
  void assignNodes();
  bool dropBadRepeats(bool all);
  /// Whether a line is a cheap op in a group of its own.
  bool isLoneCheap(const Line &line) const {
    return !line.isDropped && line.ops.size() == 1 && isCheap(line.ops.front());
  }
  bool checkLines(bool lone);
  std::string checkLine(unsigned index);
  bool escapes(unsigned node, unsigned line) const;
  bool dropCycles();
  bool isOpen(unsigned op) const;
  void reportUnclaimed();
  ReplayedPlan order();
  void drop(Line &line, const llvm::Twine &why, unsigned at = 0);
  void release(unsigned index);

  /// The groups as they are now. Lines come first, then nodes in none; a line
  /// for which `isWhole` is false counts as its nodes.
  Quotient makeQuotient(llvm::function_ref<bool(const Line &)> isWhole) const;

  FusionDecisions &decisions;
  const OpTable &ops;
  const FuseGraph &graph;
  const FusionLegality &legality;
  llvm::SmallVector<unsigned> opOf;
  llvm::SmallVector<llvm::SmallVector<unsigned, 1>, 0> nodesOf;
  /// By node: the lines that it is in. The first one has it as a member and
  /// writes it for those that it isn't in; the others compute it again.
  llvm::SmallVector<llvm::SmallVector<unsigned, 1>, 0> linesOf;
  llvm::SmallVector<Line, 0> lines;
  /// By op that isn't cheap: the lines that claimed it.
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned, 1>> claimedBy;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_PLANREPLAYER_H
