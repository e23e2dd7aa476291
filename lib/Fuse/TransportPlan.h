//===- TransportPlan.h - What carries which collective ----------*- C++ -*-===//
//
// The decision of ReduceInConsumers as data. NCCL's kernels carry anything, on
// multiprocessors that computation lacks meanwhile. Copy engines only move
// bytes: a reduction over them is a copy of every rank's tensor, and the sum is
// left to the kernel that reads it. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_TRANSPORTPLAN_H
#define FUSION_LIB_FUSE_TRANSPORTPLAN_H

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/FusionRules.h"

namespace fusion {

/// What the user asked for.
enum class TransportChoice { Auto, Nccl, Peer, Direct };

/// "auto", "nccl", "peer", "direct".
std::optional<TransportChoice> symbolizeTransport(llvm::StringRef name);

/// One collective of the block, in its order.
struct PlannedCollective {
  mlir::Operation *op;
  int64_t ranks = 1;
  /// Bytes of what it reduces or moves, and those that copies of all ranks'
  /// tensors take more than the result in place.
  int64_t bytes = 0, extraBytes = 0;
  /// Whether copy engines carry it; of a reduction: its readers add.
  bool usesPeer = false;
  /// Of a reduction that they would: its readers read the other ranks' tensors
  /// where they are, if the schedule finds that they can.
  bool isDirect = false;
  /// Predicted: by either transport alone, and what adding takes longer for it.
  double ncclUs = 0, peerUs = 0, sumUs = 0;
  /// If it is direct: the hand-shake that is left of it, and what the link
  /// takes for its reader.
  double handshakeUs = 0, readUs = 0;
  /// Why it can't be carried so, and the reader or so that is in the way.
  std::optional<FusionRule> refusal;
  mlir::Operation *other = nullptr;
  int64_t value = 0, limit = 0; ///< bytes of memory, or ranks
};

struct TransportPlan {
  llvm::SmallVector<PlannedCollective, 0> collectives;
  /// Whether collectives get their transport's name. Else the runtime chooses.
  bool isNamed = false;
  /// The step as predicted with everything over NCCL, with all that copy
  /// engines may carry on them, and as chosen; 0 where nothing was compared.
  double ncclStepUs = 0, peerStepUs = 0, stepUs = 0;
};

/// Whether `op` combines the tensors of ranks.
bool isRankReduction(mlir::Operation *op);

/// Whether elementwise ops and slices that nothing else reads lead from `op` to
/// a reduction, as from a gradient to the sum of its squares.
bool leadsToReduction(mlir::Operation *op);

/// Decides. A pure function of the block, the choice and the device: the same
/// on all ranks. `memoryLimit` in bytes, 0: the device's.
TransportPlan planTransports(mlir::Block &block, TransportChoice choice,
                             int64_t memoryLimit,
                             const FusionLegality &legality,
                             const CostModel &model);

} // namespace fusion

#endif // FUSION_LIB_FUSE_TRANSPORTPLAN_H
