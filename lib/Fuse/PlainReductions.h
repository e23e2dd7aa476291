//===- PlainReductions.h - Reductions over ranks, made plain ----*- C++ -*-===//
//
// What is done to reductions of gradients before they are put into buckets.
// Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PLAINREDUCTIONS_H
#define FUSION_LIB_FUSE_PLAINREDUCTIONS_H

#include "mlir/IR/Block.h"

namespace fusion {

/// In the ops of `block`: sums that all readers divide by the number of ranks
/// become means, where that number is a power of two; reductions of zeros are
/// gone; of two reductions of one value the second is. Casts, reshapes and
/// transposes of what was reduced stand in front of their first reader;
/// numbers that follow from reduced numbers, behind the last reduction.
void simplifyReductions(mlir::Block &block);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PLAINREDUCTIONS_H
