//===- RecordHorizontal.h - Horizontal fusion into the record ---*- C++ -*-===//
//
// What FuseHorizontal does for a FusionDecisions: it follows the launches that
// a plan asks for and writes its own decisions down. Does nothing without one.
// Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_RECORDHORIZONTAL_H
#define FUSION_LIB_FUSE_RECORDHORIZONTAL_H

#include "HorizontalPlan.h"
#include "fusion/Fuse/FusionDecisions.h"

namespace fusion {

class HorizontalRecorder {
public:
  HorizontalRecorder(FusionDecisions *decisions, const HorizontalGraph &graph);

  /// Checks the launches that the plan asks for, if it asks for any, and
  /// reports those that can't be had.
  void readPlan(mlir::MLIRContext *context, const HorizontalLimits &limits);
  /// Reports all launches that the plan asks for: none is made. Fails where
  /// that is an error.
  llvm::LogicalResult skipPlan(mlir::MLIRContext *context);
  /// What the plan asks for, or null.
  const RequestedLaunches *getRequest() const {
    return requested ? &*requested : nullptr;
  }

  /// Once it is known what is rewritten.
  void record(const HorizontalPlan &plan);
  /// After it. Fails if the plan can't be had and that is an error.
  llvm::LogicalResult finish(mlir::Block &block);

private:
  std::string findFault(llvm::ArrayRef<unsigned> launch,
                        const HorizontalLimits &limits) const;

  FusionDecisions *decisions;
  const HorizontalGraph &graph;
  /// By group of the record: its node.
  llvm::DenseMap<unsigned, unsigned> nodeOf;
  std::optional<RequestedLaunches> requested;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_RECORDHORIZONTAL_H
