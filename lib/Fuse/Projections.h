//===- Projections.h - Products that share their left side ------*- C++ -*-===//
//
// What MergeProjections decides on: the projections of one value, as sets that
// one product could compute, each with what a merge would save and cost. Looks
// only. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PROJECTIONS_H
#define FUSION_LIB_FUSE_PROJECTIONS_H

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/IR/Parameters.h"

namespace fusion {

/// One matmul or 1x1 convolution with known weights.
struct Projection {
  /// MatmulOp or ConvOp.
  mlir::Operation *op = nullptr;
  mlir::Value lhs, weights;
  /// A tensor of the width, or one element for each column; null: no bias.
  mlir::Value bias;
  /// The add of the bias of a matmul, or null.
  mlir::Operation *biasAdd = nullptr;
  /// One operand, the same op for each of the set: done before the slices.
  llvm::SmallVector<mlir::Operation *, 1> tail;
  /// Columns: the size of the result's last dimension.
  int64_t width = 0;
  /// Ops that do work, before this one in the block.
  int64_t position = 0;

  /// The value that the rest of the program reads.
  mlir::Value getResult() const;
};

/// Limits of a merge.
struct MergeLimits {
  /// Bytes that the weights of the module may grow by, for each merge.
  int64_t growth = 65536;
  /// Ops between one member and the next.
  int64_t distance = 64;
  /// Whether FuseHorizontal makes one call of equal ones, where the library
  /// computes these as a batch.
  bool batches = true;
};

/// What a merge is predicted to change, against the members one by one.
struct MergeCost {
  /// Bytes of results that must be copied out of the merged one, or that lose
  /// the kernel that wrote them while they were in cache; number of those.
  int64_t copyBytes = 0, copies = 0;
  /// Bytes that the weights grow by, as the old ones are read elsewhere too.
  int64_t growthBytes = 0;
  /// Bytes of the packed weights.
  int64_t weightBytes = 0;
  /// The merged product and its copies; the members in turn; the members side
  /// by side.
  LaunchAlternatives times;
  /// What of `times.fusedUs` are copies, and weights that leave a cache.
  double copyUs = 0, rereadUs = 0;
};

/// Projections that one product can compute, in program order.
struct ProjectionSet {
  llvm::SmallVector<Projection, 3> members;
  MergeCost cost;
  /// A `?` of the result is this times B; nullopt if it is no multiple.
  std::optional<int64_t> batchScale = 1;
  /// Why not; empty if it is merged.
  std::string refusal;

  int64_t getWidth() const;
  void print(llvm::raw_ostream &os) const;
};

/// A projection that shares its left side with others and can't be merged.
struct ProjectionRefusal {
  mlir::Operation *op;
  std::string reason;
};

struct ProjectionPlan {
  llvm::SmallVector<ProjectionSet, 0> sets;
  llvm::SmallVector<ProjectionRefusal, 0> refusals;
};

/// Decides about the projections of a block. Reads no weights: `reader` says
/// which are known. Near-linear in the number of ops.
ProjectionPlan planProjections(mlir::Block &block, const ConstantReader &reader,
                               const FusionLegality &legality,
                               const CostModel &model,
                               const MergeLimits &limits);

/// The weights, side by side, or nullopt and the reason (a file that can't be
/// read): `[.., K, width]`, or `[.., width, K]` if all members are transposed.
std::optional<TensorData> packWeights(const ProjectionSet &set,
                                      ConstantReader &reader,
                                      std::string *reason);

/// The biases one after the other; a member without one has -0.0 (0 for
/// integers), which changes no sum. A null tensor if none has one; nullopt and
/// the reason if one can't be read.
std::optional<TensorData> packBiases(const ProjectionSet &set,
                                     ConstantReader &reader,
                                     std::string *reason);

/// Whether all members read their weights transposed.
bool areAllTransposed(const ProjectionSet &set);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PROJECTIONS_H
