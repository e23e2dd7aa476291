//===- PricedPass.h - Passes that ask a cost model --------------*- C++ -*-===//
#ifndef FUSION_ANALYSIS_PRICEDPASS_H
#define FUSION_ANALYSIS_PRICEDPASS_H

#include "fusion/Analysis/CostModel.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace fusion {

/// `PassBase` is a generated base with the options `device` and `costModel`. A
/// device or model that is not there fails the pass with an error before it
/// runs.
template <typename PassBase> class PricedPass : public PassBase {
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
  /// Shared by the copies of the pass, which run on functions side by side.
  std::shared_ptr<CostModel> model;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_PRICEDPASS_H
