//===- DecidingPass.h - What passes that decide have in common --*- C++ -*-===//
//
// Passes on functions that ask a cost model and write down what they decided.
// Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_DECIDINGPASS_H
#define FUSION_LIB_FUSE_DECIDINGPASS_H

#include "fusion/Analysis/GraphFingerprint.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Fuse/FusionDecisions.h"

namespace fusion {

/// `PassBase` is a generated base with the options `device` and `costModel`.
template <typename PassBase> class DecidingPass : public PricedPass<PassBase> {
public:
  using PricedPass<PassBase>::PricedPass;

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
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_DECIDINGPASS_H
