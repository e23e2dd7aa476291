//===- GroupViews.h - Groups that are views of their inputs -----*- C++ -*-===//
//
// A slice whose elements lie together in the input is no work: its bytes are
// the input's from some offset on.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_GROUPVIEWS_H
#define FUSION_ANALYSIS_GROUPVIEWS_H

#include "fusion/IR/FusionDialect.h"

#include <optional>

namespace fusion {

/// If each output of the group (of a launch: of its members) is a run of the
/// bytes of the input in its place, whatever the batch is: the bytes of the
/// input before it, by output. Not of a group that the function returns a value
/// of, whose bytes are the caller's.
std::optional<llvm::SmallVector<int64_t>> findViewOffsets(GroupOp group);

} // namespace fusion

#endif // FUSION_ANALYSIS_GROUPVIEWS_H
