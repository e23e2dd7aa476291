//===- BreakGroup.cpp - A wrong pass, to be found -------------------------===//
//
// Replaces the n-th op of one name inside groups by an op of another name with
// the same operands: what --verify-fusion must find. A plugin; it knows no
// class of the dialect.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {
struct BreakGroup : PassWrapper<BreakGroup, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BreakGroup)

  BreakGroup() = default;
  BreakGroup(const BreakGroup &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "test-break-group"; }
  StringRef getDescription() const override {
    return "Replace an op inside a group by another";
  }

  void runOnOperation() override {
    SmallVector<Operation *> found;
    getOperation().walk([&](Operation *op) {
      if (op->getName().getStringRef() == from &&
          op->getParentOp()->getName().getStringRef() == "fusion.group")
        found.push_back(op);
    });
    if (found.size() <= number)
      return;
    Operation *op = found[number];
    OperationState state(op->getLoc(), to, op->getOperands(),
                         op->getResultTypes());
    OpBuilder builder(op);
    op->replaceAllUsesWith(builder.create(state));
    op->erase();
  }

  Option<std::string> from{*this, "from", llvm::cl::desc("name to replace")};
  Option<std::string> to{*this, "to", llvm::cl::desc("name to put there")};
  Option<unsigned> number{*this, "number", llvm::cl::desc("which, from 0"),
                          llvm::cl::init(0)};
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "BreakGroup", LLVM_VERSION_STRING,
          [] { PassRegistration<BreakGroup>(); }};
}
