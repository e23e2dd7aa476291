//===- ReplaceDivision.cpp - A pass in a plugin ---------------------------===//
//
// Divisions by a constant power of two become multiplications by its inverse,
// which is exact: the same bits, at a fraction of the cost. Every other
// division stays, and a remark says why. docs/tutorial-first-pass.md explains
// the file line by line.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace {

/// A division that can be replaced: its divisor's constant and the inverse.
struct Replacement {
  fusion::DivOp division;
  fusion::ConstantOp divisor;
  llvm::APFloat inverse;
};

/// The constant that gives a divisor, perhaps through a broadcast, or null.
fusion::ConstantOp findConstant(Value divisor) {
  if (auto broadcast = divisor.getDefiningOp<fusion::BroadcastOp>())
    divisor = broadcast.getInput();
  return divisor.getDefiningOp<fusion::ConstantOp>();
}

/// What to do with a division; or, in `reason`, why nothing.
std::optional<Replacement> decide(fusion::DivOp division, StringRef &reason) {
  fusion::ConstantOp constant = findConstant(division.getRhs());
  DenseFPElementsAttr values;
  if (!constant || !matchPattern(constant.getResult(), m_Constant(&values)) ||
      !values.isSplat()) {
    reason = "the divisor is not one floating-point constant";
    return std::nullopt;
  }
  llvm::APFloat divisor = values.getSplatValue<llvm::APFloat>();
  llvm::APFloat inverse(divisor.getSemantics());
  if (!divisor.getExactInverse(&inverse)) {
    reason = "the divisor has no exact inverse: it is no power of two";
    return std::nullopt;
  }
  return Replacement{division, constant, inverse};
}

void rewrite(Replacement &replacement) {
  fusion::DivOp division = replacement.division;
  OpBuilder builder(division);
  // A new constant, since others may read the old one.
  auto type = cast<ShapedType>(replacement.divisor.getResult().getType());
  Operation *factor = builder.clone(*replacement.divisor);
  factor->setAttr("value", DenseElementsAttr::get(type, replacement.inverse));
  // The same broadcast, if there is one, of the new constant.
  if (auto broadcast = division.getRhs().getDefiningOp<fusion::BroadcastOp>()) {
    IRMapping mapping;
    mapping.map(broadcast.getInput(), factor->getResult(0));
    factor = builder.clone(*broadcast, mapping);
  }
  auto product = fusion::MulOp::create(builder, division.getLoc(),
                                       division.getLhs(), factor->getResult(0));
  division.replaceAllUsesWith(product.getResult());
  division.erase();
}

struct ReplaceDivision
    : PassWrapper<ReplaceDivision, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReplaceDivision)

  StringRef getArgument() const override { return "example-replace-division"; }
  StringRef getDescription() const override {
    return "Replace divisions by a power of two by exact multiplications";
  }

  void runOnOperation() override {
    SmallVector<Replacement> replacements;
    getOperation().walk([&](fusion::DivOp division) {
      auto options =
          remark::RemarkOpts::name("replace-division").category("example");
      StringRef reason;
      if (std::optional<Replacement> found = decide(division, reason)) {
        replacements.push_back(*found);
        remark::passed(division.getLoc(), options)
            << remark::add("multiplied by the inverse");
      } else {
        remark::missed(division.getLoc(), options)
            << remark::reason("{0}", reason);
      }
    });
    for (Replacement &replacement : replacements)
      rewrite(replacement);
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK
    __attribute__((visibility("default"))) PassPluginLibraryInfo
    mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ReplaceDivision", LLVM_VERSION_STRING,
          [] { PassRegistration<ReplaceDivision>(); }};
}
