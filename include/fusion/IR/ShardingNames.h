//===- ShardingNames.h - Attributes of what a mesh cuts ---------*- C++ -*-===//
//
// The names of discardable attributes on arguments and results of @main, which
// the dialect checks, the phase partition reads and the phase schedule gives to
// the program's ports.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_SHARDINGNAMES_H
#define FUSION_IR_SHARDINGNAMES_H

#include "llvm/ADT/StringRef.h"

namespace fusion {

/// For each dimension the list of mesh axes that cut it, major first.
inline constexpr llvm::StringLiteral kShardingAttr = "fusion.sharding";

/// The shape over all ranks, where a dimension was padded to be cut evenly.
inline constexpr llvm::StringLiteral kGlobalShapeAttr = "fusion.global_shape";

} // namespace fusion

#endif // FUSION_IR_SHARDINGNAMES_H
