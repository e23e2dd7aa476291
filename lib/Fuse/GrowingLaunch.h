//===- GrowingLaunch.h - A launch that grows member by member ---*- C++ -*-===//
//
// Whether one more group may join a launch: limits, aliases, what lives longer
// by it, and the cost model. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_GROWINGLAUNCH_H
#define FUSION_LIB_FUSE_GROWINGLAUNCH_H

#include "HorizontalPlan.h"

#include "llvm/ADT/DenseSet.h"

#include <queue>

namespace fusion {

/// Why a node did not join the launch before it; none if the rule is
/// FuseHorizontal.
struct LaunchRefusal {
  unsigned partner = 0;
  FusionRule rule = FusionRule::FuseHorizontal;
  int64_t value = 0, limit = 0;
  /// Where cost decided.
  std::optional<LaunchAlternatives> times = std::nullopt;

  explicit operator bool() const { return rule != FusionRule::FuseHorizontal; }
};

/// What all launches of a graph share.
struct LaunchBudget {
  LaunchBudget(const HorizontalGraph &graph, const HorizontalLimits &limits,
               const CostModel &model);

  const HorizontalGraph &graph;
  const HorizontalLimits &limits;
  const CostModel &model;
  /// Bytes that live longer for all launches together, and how many may.
  int64_t totalExtra = 0;
  int64_t extraBudget = std::numeric_limits<int64_t>::max();
  /// By value: the last launch that counted it.
  llvm::SmallVector<unsigned> stamp;
  unsigned numLaunches = 0;
};

class GrowingLaunch {
public:
  explicit GrowingLaunch(LaunchBudget &budget)
      : budget(budget), id(budget.numLaunches++) {}

  /// Adds a node behind all that are there, or says why not. After a refusal
  /// nothing may be added.
  LaunchRefusal tryAdd(unsigned node);

  /// What it has become. The budget does not count it yet.
  PlannedLaunch launch;

private:
  void add(unsigned node, int64_t extra, double waiting,
           const LaunchAlternatives &times);

  LaunchBudget &budget;
  unsigned id;
  /// Of each member, and of all in one launch if nothing waits for it.
  llvm::SmallVector<KernelWork> works;
  KernelWork together;
  int64_t numOperands = 0;
  /// Bytes of values that wait in the cache for the launch.
  double waiting = 0;
  llvm::DenseSet<mlir::Value> read, updated;
  /// Values whose last reader comes later than the last member so far, by that
  /// reader: they don't live longer yet.
  using Pending = std::pair<unsigned, int64_t>;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_GROWINGLAUNCH_H
