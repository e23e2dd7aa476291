//===- GroupHash.h - Equal groups share a kernel ----------------*- C++ -*-===//
//
// A structural hash of a group: kind, ops with attributes and types, how values
// are wired, sizes as functions of the batch. Names and locations don't count.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_GROUPHASH_H
#define FUSION_LIB_CODEGEN_GROUPHASH_H

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/IR/FusionDialect.h"

namespace fusion::codegen {

/// The value whose bytes `value` has: a reshape between groups is a view.
mlir::Value getBuffer(mlir::Value value);

/// What the planner places starts at a multiple of this, in bytes.
constexpr int64_t kPlannedAlignment = 16;

/// A number of bytes that divides where `value` starts: less than
/// kPlannedAlignment for a view.
int64_t findAlignment(mlir::Value value);

/// The output of `group` that the caller wants in the bytes of its input
/// `input`: the argument behind the input is donated to that result. -1: none.
int64_t findDonatedOutput(GroupOp group, unsigned input);

llvm::hash_code hashGroup(GroupOp group, const BatchExtents &extents);

/// Whether one kernel computes both.
bool areEquivalent(GroupOp a, GroupOp b, const BatchExtents &extents);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_GROUPHASH_H
