//===- BuildGroup.h - One group from ops of a graph -------------*- C++ -*-===//
//
// What the rewrites that form groups share. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_BUILDGROUP_H
#define FUSION_LIB_FUSE_BUILDGROUP_H

#include "fusion/IR/FusionDialect.h"
#include "mlir/IR/IRMapping.h"

namespace fusion {

/// The value outside groups that `value` has become. `values` maps those of
/// the old body that are computed anew; a view of one is made on the way, and
/// all else stays what it is: an argument, a constant or a parameter.
mlir::Value getOutside(mlir::Value value, mlir::IRMapping &values,
                       mlir::OpBuilder &builder);

/// Builds the group of `body`, ops in program order, that gives the results of
/// `outputs`, which are some of them, and maps these in `values`. A contraction
/// or pool opens its group, and all that it reads comes from outside; other
/// splat constants are cloned inside.
GroupOp buildGroup(llvm::ArrayRef<mlir::Operation *> body,
                   llvm::ArrayRef<mlir::Operation *> outputs, GroupKind kind,
                   mlir::IRMapping &values, mlir::OpBuilder &builder);

} // namespace fusion

#endif // FUSION_LIB_FUSE_BUILDGROUP_H
