//===- KernelOrder.h - Kernels that communication can hide behind -*- C++ -*-=//
//
// The order in which kernels are offered to the schedule. A kernel whose
// results only a collective waits for may run later than the program says, and
// hide another collective meanwhile. Private to lib/Analysis.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_ANALYSIS_KERNELORDER_H
#define FUSION_LIB_ANALYSIS_KERNELORDER_H

#include "LiveBytes.h"

#include <optional>

namespace fusion {

/// Orders of a graph's nodes, each better than the one before if the schedule
/// says so.
class KernelOrder {
public:
  KernelOrder(const OverlapGraph &graph, const LiveBytes &live);

  llvm::ArrayRef<unsigned> get() const { return order; }
  void set(std::vector<unsigned> better) { order = std::move(better); }

  /// An order in which kernels come behind what the most exposed collective of
  /// `plan` waits for, as many as it takes; nullopt if none is left to try. No
  /// more memory is needed for that than the program needs somewhere.
  std::optional<std::vector<unsigned>> propose(const OverlapPlan &plan);

private:
  std::optional<std::vector<unsigned>> delayFor(unsigned comm,
                                                double exposedUs);
  int64_t getPeak(llvm::ArrayRef<unsigned> position,
                  const llvm::DenseSet<unsigned> &delayed,
                  unsigned anchor) const;

  const OverlapGraph &graph;
  const LiveBytes &live;
  std::vector<unsigned> order;
  /// By collective: the kernels that only it waits for, in program order.
  std::vector<llvm::SmallVector<unsigned, 1>> own;
  std::vector<bool> tried; ///< by collective
};

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_KERNELORDER_H
