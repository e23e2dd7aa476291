//===- Target.h - What a module is being compiled for -----------*- C++ -*-===//
//
// While a module is compiled it says for what, so that analyses of single ops
// (what a library computes, what an emitter takes) can ask.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_TARGET_H
#define FUSION_IR_TARGET_H

#include "mlir/IR/BuiltinOps.h"

namespace fusion {

/// Attributes of the module: "cuda" (nothing: cpu), and "fast" or "strict".
inline constexpr llvm::StringLiteral kTargetAttr = "fusion.target";
inline constexpr llvm::StringLiteral kFpAttr = "fusion.fp";
/// A unit attribute of the module: products and convolutions of f32 may round
/// their operands to tf32's 11 bits.
inline constexpr llvm::StringLiteral kTf32Attr = "fusion.allow_tf32";

/// The string attribute `name` of the module that `op` is in; empty without.
inline llvm::StringRef getModuleText(mlir::Operation *op,
                                     llvm::StringRef name) {
  while (op) {
    if (auto module = llvm::dyn_cast<mlir::ModuleOp>(op))
      if (auto text = module->getAttrOfType<mlir::StringAttr>(name))
        return text.getValue();
    op = op->getParentOp();
  }
  return "";
}

/// Whether `op` is compiled for a GPU.
inline bool isForCuda(mlir::Operation *op) {
  return getModuleText(op, kTargetAttr) == "cuda";
}

/// Whether results may differ within the tolerances by how ops are grouped.
inline bool isFast(mlir::Operation *op) {
  return getModuleText(op, kFpAttr) == "fast";
}

/// Whether contractions of f32 may be computed in tf32.
inline bool allowsTf32(mlir::Operation *op) {
  for (; op; op = op->getParentOp())
    if (llvm::isa<mlir::ModuleOp>(op) && op->hasAttr(kTf32Attr))
      return true;
  return false;
}

} // namespace fusion

#endif // FUSION_IR_TARGET_H
