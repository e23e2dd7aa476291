//===- CountOps.cpp - A pass in a plugin ----------------------------------===//
//
// The smallest useful plugin: a pass that remarks, for each function, how many
// ops of the fusion dialect are elementwise. It changes nothing. Load it with
//   fusion-opt --load-pass-plugin=CountOps.so --remarks-filter=example
//     --pass-pipeline="builtin.module(func.func(example-count-ops))" model.mlir
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
struct CountOps : PassWrapper<CountOps, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountOps)

  StringRef getArgument() const override { return "example-count-ops"; }
  StringRef getDescription() const override {
    return "Remark how many ops of each function are elementwise";
  }

  void runOnOperation() override {
    int64_t all = 0, elementwise = 0;
    getOperation().walk([&](Operation *op) {
      if (!isa_and_nonnull<fusion::FusionDialect>(op->getDialect()))
        return;
      ++all;
      if (isa<fusion::ElementwiseOpInterface>(op))
        ++elementwise;
    });
    remark::analysis(getOperation().getLoc(),
                     remark::RemarkOpts::name("count-ops").category("example"))
        << remark::metric("elementwise", elementwise)
        << remark::metric("ops", all);
    markAllAnalysesPreserved();
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "CountOps", LLVM_VERSION_STRING,
          [] { PassRegistration<CountOps>(); }};
}
