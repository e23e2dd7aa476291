//===- BucketPlan.h - Which gradients share a reduction ---------*- C++ -*-===//
//
// The decision of BucketCollectives as data: the reductions of gradients with
// the moments at which they are ready, and the buckets that they go into.
// Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_BUCKETPLAN_H
#define FUSION_LIB_FUSE_BUCKETPLAN_H

#include "CommEstimate.h"
#include "FuseGraph.h"
#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// Attribute of a collective that holds gradients: the number of its bucket, in
/// the order in which buckets start.
inline constexpr llvm::StringLiteral kBucketAttr = "fusion.bucket";

struct BucketLimits {
  int64_t firstBytes = 1 << 20; ///< of the first bucket
  int64_t bucketBytes = 0;      ///< of the others; 0: what the model finds best
  int64_t tailBytes = 1 << 20;  ///< that buckets taper to; 0: they don't
};

/// A reduction of one tensor, or of a part of it.
struct GradientReduction {
  mlir::Operation *op;
  /// Reductions of one key may share a bucket.
  unsigned key = 0;
  int64_t bytes = 0;
  /// Elements [begin, end) of the tensor where it is reduced in parts; both 0
  /// where it is whole.
  int64_t begin = 0, end = 0;
  /// Number of the op behind which it may start (0: at the start of the block),
  /// and of the first op that reads its result; ops count from 1.
  unsigned ready = 0, reader = 0;
  double readyUs = 0;
};

/// Reductions that are one collective.
struct GradientBucket {
  llvm::SmallVector<unsigned> members; ///< as they become ready
  /// The attribute; none if all are scalars. A loss or a norm is no gradient,
  /// but may go with some.
  std::optional<int64_t> number;
  unsigned key = 0;
  int64_t bytes = 0;
  unsigned place = 0;  ///< number of the op that it stands behind
  unsigned reader = 0; ///< of the members' the first
  double readyUs = 0, startUs = 0, endUs = 0;
  double exposedUs = 0; ///< of it, behind the last gradient's computation
};

/// Why a reduction is in no bucket, or the first of one.
struct BucketRefusal {
  mlir::Operation *op;
  FusionRule rule;
  mlir::Operation *other = nullptr; ///< the bucket's last member
  int64_t value = 0, limit = 0;
};

struct BucketPlan {
  llvm::SmallVector<GradientReduction, 0> reductions;
  llvm::SmallVector<GradientBucket, 0> buckets; ///< in order of their starts
  /// Sums that other reductions are computed from, and those of them that go
  /// together: two or more that nothing reads in between.
  llvm::SmallVector<GradientReduction, 0> sums;
  llvm::SmallVector<GradientBucket, 0> sumBuckets;
  llvm::SmallVector<BucketRefusal, 0> refusals;
  /// The size that buckets of a key grow to, by key.
  llvm::SmallVector<int64_t> targetBytes;
  /// The block's ops; op number n is `ops[n - 1]`.
  llvm::SmallVector<mlir::Operation *, 0> ops;
  double computeUs = 0; ///< until the last gradient is there

  void print(llvm::raw_ostream &os) const;
};

/// Decides. A pure function of the block, the limits and the device: the same
/// on all ranks. Near-linear.
BucketPlan planBuckets(mlir::Block &block, const BucketLimits &limits,
                       const FusionLegality &legality, const CostModel &model);

} // namespace fusion

#endif // FUSION_LIB_FUSE_BUCKETPLAN_H
