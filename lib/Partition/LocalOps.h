//===- LocalOps.h - One rank's part of an op --------------------*- C++ -*-===//
//
// Builds what a rank computes of an op: the op itself on the rank's operands,
// with padding masked where it would reach a sum, and positions moved where the
// op looks at them.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PARTITION_LOCALOPS_H
#define FUSION_LIB_PARTITION_LOCALOPS_H

#include "Reshard.h"
#include "ShardingPlan.h"

namespace fusion {

/// Builds the local form of `op` at the builder's insertion point; its results
/// are set in `values`.
void buildLocalOp(mlir::OpBuilder &builder, mlir::Operation *op,
                  const OpPlan &plan, LocalValues &values, const Mesh &mesh);

} // namespace fusion

#endif // FUSION_LIB_PARTITION_LOCALOPS_H
