//===- RewriteOrder.h - A function in a planned order -----------*- C++ -*-===//
//
// From a plan of what starts when to asynchronous regions and awaits. Private
// to lib/Schedule.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_REWRITEORDER_H
#define FUSION_LIB_SCHEDULE_REWRITEORDER_H

#include "fusion/Analysis/OverlapPlan.h"

namespace fusion {

/// Puts the nodes in the order of `items`, which has each of them once, and an
/// await for each one started and read outside of another's region. Returns the
/// regions by node.
std::vector<AsyncOp> rewriteOrder(mlir::func::FuncOp function,
                                  const OverlapGraph &graph,
                                  llvm::ArrayRef<OverlapItem> items);

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_REWRITEORDER_H
