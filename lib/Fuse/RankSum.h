//===- RankSum.h - The sum of what ranks have contributed -------*- C++ -*-===//
//
// The arithmetic of a reduction over ranks as elementwise ops, for the kernel
// that reads the result. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_RANKSUM_H
#define FUSION_LIB_FUSE_RANKSUM_H

#include "fusion/IR/FusionDialect.h"

namespace fusion {

/// What `fusion.all_reduce kind` makes of the ranks' tensors, at least two of
/// one static shape and type, in the order of the group: the same bits. Floats
/// are accumulated in f64 and rounded once, or in f32 where two numbers give
/// the same so; integers wrap, and their mean is divided towards zero.
/// Ops are created where the builder is, and added to `made`.
mlir::Value createRankSum(mlir::OpBuilder &builder, mlir::Location loc,
                          ReduceKind kind,
                          llvm::ArrayRef<mlir::Value> contributions,
                          llvm::SmallPtrSetImpl<mlir::Operation *> &made);

/// Lets ranks' parts of such sums be sums of parts: each `rank_slice` of a sum,
/// and a slice of what is in no rank's part, moves through the ops of `sums`,
/// which createRankSum made, to what they add. A rank then adds what it needs,
/// and nobody writes the sum. Ops that are erased are no longer in `sums`.
void sliceTerms(mlir::Block &block,
                llvm::SmallPtrSetImpl<mlir::Operation *> &sums);

} // namespace fusion

#endif // FUSION_LIB_FUSE_RANKSUM_H
