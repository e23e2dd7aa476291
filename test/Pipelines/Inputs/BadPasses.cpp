//===- BadPasses.cpp - Passes that fail, crash or round differently -------===//
//
// What a plugin's author may get wrong, for the tools to name. Knows no class
// of the dialect.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CostModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
struct FailSilently : PassWrapper<FailSilently, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailSilently)
  StringRef getArgument() const override { return "test-fail-silently"; }
  StringRef getDescription() const override { return "Fail and say nothing"; }
  void runOnOperation() override { signalPassFailure(); }
};

struct FailLoudly : PassWrapper<FailLoudly, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailLoudly)
  StringRef getArgument() const override { return "test-fail-loudly"; }
  StringRef getDescription() const override { return "Fail and say why"; }
  void runOnOperation() override {
    getOperation().emitError("not to my taste");
    signalPassFailure();
  }
};

struct Crash : PassWrapper<Crash, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Crash)
  StringRef getArgument() const override { return "test-crash"; }
  StringRef getDescription() const override { return "Read through null"; }
  void runOnOperation() override {
    volatile int *nothing = nullptr;
    (void)*nothing;
  }
};

/// x / y becomes x * (1 / y), which rounds twice.
struct Approximate : PassWrapper<Approximate, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Approximate)
  StringRef getArgument() const override { return "test-approximate"; }
  StringRef getDescription() const override { return "Multiply by inverses"; }
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (op->getName().getStringRef() != "fusion.div")
        return;
      OpBuilder builder(op);
      auto create = [&](StringRef name, ValueRange operands) {
        OperationState state(op->getLoc(), name, operands,
                             op->getResultTypes());
        return builder.create(state);
      };
      Operation *inverse = create("fusion.reciprocal", op->getOperand(1));
      op->replaceAllUsesWith(
          create("fusion.mul", {op->getOperand(0), inverse->getResult(0)}));
      op->erase();
    });
  }
};

/// Each kernel takes a millisecond.
struct Constant : fusion::CostModel {
  using CostModel::CostModel;
  double getMicroseconds(const fusion::KernelWork &) const override {
    return 1000;
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "BadPasses", LLVM_VERSION_STRING, [] {
            fusion::registerCostModel("test-constant", [](auto device) {
              return std::make_unique<Constant>(std::move(device));
            });
            PassRegistration<FailSilently>();
            PassRegistration<FailLoudly>();
            PassRegistration<Crash>();
            PassRegistration<Approximate>();
          }};
}
