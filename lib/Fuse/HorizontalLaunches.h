//===- HorizontalLaunches.h - Launches as a graph ---------------*- C++ -*-===//
//
// Which node is in which launch so far, and the order that launches have by
// what their members read. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_HORIZONTALLAUNCHES_H
#define FUSION_LIB_FUSE_HORIZONTALLAUNCHES_H

#include "GrowingLaunch.h"

namespace fusion {

/// A partition of the nodes. A launch is named after its first member.
class HorizontalLaunches {
public:
  /// Each node alone, but for the launches of `requested`, which may be null.
  HorizontalLaunches(const HorizontalGraph &graph,
                     const RequestedLaunches *requested);

  /// The launch of a node.
  unsigned find(unsigned node) const { return launchOf[node]; }
  bool isFirst(unsigned node) const { return launchOf[node] == node; }
  const PlannedLaunch &operator[](unsigned launch) const {
    return launches[launch];
  }
  llvm::ArrayRef<unsigned> getMembers(unsigned launch) const {
    return launches[launch].members;
  }

  /// Replaces the launches of `nodes` by `planned`, which holds no other nodes;
  /// the nodes that it leaves out are alone.
  void replace(llvm::ArrayRef<unsigned> nodes,
               llvm::MutableArrayRef<PlannedLaunch> planned);

  /// By launch: the longest path to it, over launches. In a cycle it is 0.
  llvm::SmallVector<unsigned> computeLevels(bool fromInputs) const;

  /// Launches in an order in which each comes after those it reads, as near to
  /// the place of its last member as that allows; nullopt if there is a cycle.
  std::optional<llvm::SmallVector<unsigned>> getOrder() const;

  /// Whether a path leads from one launch to another; false too where the
  /// search for one takes too long.
  bool reaches(unsigned fromLaunch, unsigned toLaunch) const;

  /// Moves the launches out, in that order; false if there is a cycle.
  bool take(HorizontalPlan &plan);

private:
  const HorizontalGraph &graph;
  /// Empty ones are parts of others.
  llvm::SmallVector<PlannedLaunch, 0> launches;
  llvm::SmallVector<unsigned> launchOf;
};

/// Says for each two neighbouring launches of one key why they are two, and
/// once for each two keys that differ in element types only. `refusalOf` has
/// what was refused, by node.
void collectRefusals(const HorizontalGraph &graph,
                     const HorizontalLaunches &launches,
                     llvm::ArrayRef<LaunchRefusal> refusalOf,
                     HorizontalPlan &plan);

} // namespace fusion

#endif // FUSION_LIB_FUSE_HORIZONTALLAUNCHES_H
