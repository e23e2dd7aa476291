//===- SelectFirst.cpp - A pass in a plugin -------------------------------===//
//
// select(c, f(x), f(y)) becomes f(select(c, x, y)): the same bits, and f is
// computed once. Where the two functions differ, or somebody else reads a
// value, the choice stays, and a remark says why. docs/tutorial-first-pass.md
// explains the file line by line.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {

/// A choice between two values of one function.
struct Choice {
  fusion::SelectOp select;
  Operation *onTrue, *onFalse;
};

/// What to do with a select; or, in `reason`, why nothing.
std::optional<Choice> decide(fusion::SelectOp select, StringRef &reason) {
  Operation *onTrue = select.getOnTrue().getDefiningOp();
  Operation *onFalse = select.getOnFalse().getDefiningOp();
  auto isFunction = [](Operation *op) {
    return op && isa<fusion::ElementwiseOpInterface>(op) &&
           op->getNumOperands() == 1;
  };
  if (!isFunction(onTrue) || !isFunction(onFalse) ||
      onTrue->getName() != onFalse->getName() ||
      onTrue->getAttrDictionary() != onFalse->getAttrDictionary() ||
      onTrue->getOperandTypes() != onFalse->getOperandTypes()) {
    reason = "the two values are not of one function";
    return std::nullopt;
  }
  if (!onTrue->hasOneUse() || !onFalse->hasOneUse()) {
    reason = "a value has another reader";
    return std::nullopt;
  }
  return Choice{select, onTrue, onFalse};
}

/// Returns the new select.
fusion::SelectOp rewrite(const Choice &choice) {
  fusion::SelectOp select = choice.select;
  OpBuilder builder(select);
  auto operand = fusion::SelectOp::create(
      builder, select.getLoc(), select.getCondition(),
      choice.onTrue->getOperand(0), choice.onFalse->getOperand(0));
  IRMapping mapping;
  mapping.map(choice.onTrue->getOperand(0), operand.getResult());
  Operation *function = builder.clone(*choice.onTrue, mapping);
  select.replaceAllUsesWith(function->getResult(0));
  select.erase();
  choice.onTrue->erase();
  choice.onFalse->erase();
  return operand;
}

struct SelectFirst : PassWrapper<SelectFirst, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SelectFirst)

  StringRef getArgument() const override { return "example-select-first"; }
  StringRef getDescription() const override {
    return "Choose between operands and compute a function once";
  }

  void runOnOperation() override {
    SmallVector<fusion::SelectOp> selects;
    getOperation().walk(
        [&](fusion::SelectOp select) { selects.push_back(select); });
    auto options = remark::RemarkOpts::name("select-first").category("example");
    for (fusion::SelectOp select : selects) {
      StringRef reason;
      std::optional<Choice> choice = decide(select, reason);
      if (!choice)
        remark::missed(select.getLoc(), options)
            << remark::reason("{0}", reason);
      // What is chosen from now may be values of one function again.
      while (choice) {
        remark::passed(select.getLoc(), options)
            << remark::add("the function is computed once");
        select = rewrite(*choice);
        choice = decide(select, reason);
      }
    }
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "SelectFirst", LLVM_VERSION_STRING,
          [] { PassRegistration<SelectFirst>(); }};
}
