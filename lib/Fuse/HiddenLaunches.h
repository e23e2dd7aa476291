//===- HiddenLaunches.h - Launches beside communication ---------*- C++ -*-===//
//
// Horizontal fusion as the whole step sees it: what a launch saves shows only
// where nothing else is waited for. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_HIDDENLAUNCHES_H
#define FUSION_LIB_FUSE_HIDDENLAUNCHES_H

#include "HorizontalPlan.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fusion {

/// Rewrites the function, from whose block `graph` was made, into the launches
/// of `plan`, as formHorizontal does. Where more communication is exposed by
/// that than without any launch, members of launches that run while a
/// collective is waited for are left apart, in `plan` too: as many as fill what
/// is exposed more. The predicted step gets longer by what the collectives are
/// slowed and 1 % at most, and is no longer than without any launch. Fails with
/// an error where sizes are no functions of the batch.
llvm::LogicalResult
formLaunches(mlir::FunctionOpInterface function, const HorizontalGraph &graph,
             const HorizontalLimits &limits, const CostModel &model,
             const RequestedLaunches *requested, HorizontalPlan &plan);

} // namespace fusion

#endif // FUSION_LIB_FUSE_HIDDENLAUNCHES_H
