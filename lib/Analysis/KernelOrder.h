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
  void set(std::vector<unsigned> better) {
    order = std::move(better);
    sent.assign(order.size(), false);
  }

  /// An order in which kernels come behind what the most exposed collective of
  /// `plan` waits for, as many as it takes; nullopt if none is left to try. No
  /// more memory is needed for that than the program needs somewhere.
  std::optional<std::vector<unsigned>> propose(const OverlapPlan &plan);

private:
  /// What a collective needs, and where its last kernel is.
  struct Need {
    std::vector<bool> has;
    unsigned anchor = 0;
  };
  Need findNeed(unsigned comm, llvm::ArrayRef<unsigned> position) const;
  std::vector<unsigned> getPositions() const;
  /// The order with kernels behind the one at `anchor`.
  std::vector<unsigned> moveTo(unsigned anchor,
                               llvm::ArrayRef<unsigned> kernels) const;
  /// All that other collectives wait for comes later.
  std::optional<std::vector<unsigned>> delayFor(unsigned comm,
                                                double exposedUs);
  /// The kernels just before `comm` that it does not need come behind it.
  std::optional<std::vector<unsigned>> sendEarlier(unsigned comm,
                                                   double exposedUs);
  int64_t getPeak(llvm::ArrayRef<unsigned> position,
                  llvm::ArrayRef<unsigned> kernels, unsigned anchor) const;

  const OverlapGraph &graph;
  const LiveBytes &live;
  std::vector<unsigned> order;
  /// By collective: the kernels that only it waits for, in program order.
  std::vector<llvm::SmallVector<unsigned, 1>> own;
  std::vector<bool> delayed, sent; ///< by collective: whether it was tried
};

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_KERNELORDER_H
