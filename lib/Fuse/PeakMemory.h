//===- PeakMemory.h - Bytes that are live along the program -----*- C++ -*-===//
//
// A profile of intermediate bytes over the nodes of a graph, kept up to date as
// groups merge: a merged group runs where its consumer stood, so what its
// producer reads lives longer, and what it wrote for the consumer is gone.
// Estimates for the decision; the memory plan proves the real peak. Private to
// lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PEAKMEMORY_H
#define FUSION_LIB_FUSE_PEAKMEMORY_H

#include "FuseGraph.h"

namespace fusion {

class PeakMemory {
public:
  /// `limit` in bytes; 0: none.
  PeakMemory(const FuseGraph &graph, const FusionLegality &legality,
             int64_t limit);

  /// Whether any order of the program could exceed the limit at all.
  bool isTight() const { return tight; }
  int64_t getLimit() const { return limit; }

  /// The peak while the two groups (members, ascending) and what is between
  /// them run, if they were merged; nullopt if that raises no peak above the
  /// limit. A merge that is answered so is taken as done. Logarithmic for a
  /// member.
  std::optional<int64_t> merge(llvm::ArrayRef<unsigned> producer,
                               llvm::ArrayRef<unsigned> consumer);

  /// Takes back the last merge, if it was taken as done.
  void undo();

private:
  struct Interval {
    unsigned begin, end;
  };
  struct Change {
    unsigned node;
    Interval before;
    bool wasLive;
  };
  void add(Interval interval, int64_t bytes);
  int64_t getPeak(Interval interval) const;
  void set(unsigned node, Interval interval, bool isLive);

  const FuseGraph &graph;
  int64_t limit;
  bool tight = false;
  llvm::SmallVector<int64_t, 0> bytes;
  llvm::SmallVector<Interval, 0> lives;
  llvm::SmallVector<bool, 0> live;
  /// Where the group of each node runs.
  llvm::SmallVector<unsigned, 0> runsAt;
  /// What the last merge changed.
  llvm::SmallVector<Change> changes;
  llvm::SmallVector<std::pair<unsigned, unsigned>> moved;
  /// A segment tree: bytes added to all of a segment, and the peak within it.
  size_t leaves = 1;
  llvm::SmallVector<int64_t, 0> added, peak;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_PEAKMEMORY_H
