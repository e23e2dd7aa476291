//===- DecidingPass.h - What passes that decide have in common --*- C++ -*-===//
//
// Passes on functions that ask a cost model and write down what they decided.
// Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_DECIDINGPASS_H
#define FUSION_LIB_FUSE_DECIDINGPASS_H

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/GraphFingerprint.h"
#include "fusion/Fuse/FusionDecisions.h"

namespace fusion {

/// `PassBase` is a generated base with the options `device` and `costModel`.
template <typename PassBase> class DecidingPass : public PassBase {
public:
  using PassBase::PassBase;

  llvm::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::FailureOr<std::unique_ptr<CostModel>> loaded =
        loadCostModel(context, this->device, this->costModel);
    if (failed(loaded))
      return mlir::failure();
    model = std::move(*loaded);
    return mlir::success();
  }

protected:
  /// Decides on the graph of a function.
  virtual llvm::LogicalResult decide(mlir::FunctionOpInterface function,
                                     mlir::Block &block) = 0;

  void runOnOperation() final {
    this->template markAnalysesPreserved<GraphFingerprint>();
    mlir::FunctionOpInterface function = this->getOperation();
    if (function.isExternal())
      return;
    if (!llvm::hasSingleElement(function.getFunctionBody())) {
      function.emitError("fusion works on a graph: the function has more than "
                         "one block; inline or simplify it first");
      return this->signalPassFailure();
    }
    if (failed(decide(function, function.getFunctionBody().front())))
      this->signalPassFailure();
  }

  /// The record to write to, or null.
  FusionDecisions *findDecisions() {
    auto record = this->template getCachedParentAnalysis<FusionRecord>(
        this->getOperation()->getParentOp());
    return record ? record->get().find(this->getOperation()) : nullptr;
  }

  /// Shared by the copies of the pass, which run on functions side by side.
  std::shared_ptr<CostModel> model;
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_DECIDINGPASS_H
