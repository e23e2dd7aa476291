//===- BucketSearch.h - The size of buckets, by trial -----------*- C++ -*-===//
//
// Which size of buckets gives a short predicted step in little memory, asked of
// the fuse phase itself. Private to lib/Pipelines.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PIPELINES_BUCKETSEARCH_H
#define FUSION_LIB_PIPELINES_BUCKETSEARCH_H

#include "fusion/Pipelines/Compile.h"

namespace fusion {

/// Bytes that buckets grow to, and of the first and the last one, and those
/// that buckets of gathers grow to; 0: what the fuse phase chooses by itself.
struct BucketSizes {
  uint64_t bytes = 0, firstBytes = 0;
  uint64_t gatherBytes = 0;
  bool shareClip = true; ///< ranks square parts of gradients
};

/// The sizes for `module`, which is to be fused next. Those of the options,
/// where they say any or the module is too large for trials. A function of the
/// module and the options alone, but not of a plan: the one that is written and
/// the one that is read are of the same buckets. The module is not changed.
BucketSizes searchBucketSizes(mlir::ModuleOp module,
                              const CompileOptions &options);

} // namespace fusion

#endif // FUSION_LIB_PIPELINES_BUCKETSEARCH_H
