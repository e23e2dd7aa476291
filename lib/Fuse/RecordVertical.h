//===- RecordVertical.h - Vertical fusion into the record -------*- C++ -*-===//
//
// What FuseVertical does for a FusionDecisions: it follows the plan in it and
// writes its own decisions down. Does nothing without one. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_RECORDVERTICAL_H
#define FUSION_LIB_FUSE_RECORDVERTICAL_H

#include "PlanReplay.h"

namespace fusion {

/// The rule by which ops are together in a group of a kind.
FusionRule getJoiningRule(GroupKind kind);

class VerticalRecorder {
public:
  /// Writes down the ops of `block`, from which `graph` was made.
  VerticalRecorder(FusionDecisions *decisions, mlir::Block &block,
                   const FuseGraph &graph);

  /// Matches the plan, if there is one. Fails if that is an error: in strict
  /// mode, or if `separate` asks for the opposite.
  llvm::LogicalResult readPlan(mlir::FunctionOpInterface function,
                               const CostModel &model, bool separate);
  /// What the plan asks for, or null.
  const RequestedGroups *getRequest() const {
    return replayed ? &replayed->groups : nullptr;
  }

  /// Before the rewrite, while the ops exist.
  void recordPairs(const VerticalPlan &plan);
  void recordGroup(const PlannedGroup &planned, const FormedGroup &formed);
  /// After it.
  llvm::LogicalResult finish();

private:
  void recordReaders();
  void requestLaunches();
  unsigned getOp(unsigned node) const {
    return *decisions->ops.find(graph[node].op);
  }

  FusionDecisions *decisions;
  mlir::Block &block;
  const FuseGraph &graph;
  std::optional<ReplayedPlan> replayed;
  /// By op: the refused pair with the most bytes at stake.
  llvm::DenseMap<unsigned, unsigned> refusalOf;
  /// By pair of ops: bytes that fusing it saves.
  llvm::DenseMap<std::pair<unsigned, unsigned>, int64_t> savedBytes;
  /// By line of the plan: the group that it has become.
  llvm::DenseMap<const PlanLine *, unsigned> groupOfLine;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_RECORDVERTICAL_H
