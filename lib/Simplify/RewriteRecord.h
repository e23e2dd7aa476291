//===- RewriteRecord.h - What was rewritten, and said about it --*- C++ -*-===//
//
// The module carries the list of rewrites that changed values, and each
// decision of a pass is a remark of the category `fusion`.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SIMPLIFY_REWRITERECORD_H
#define FUSION_LIB_SIMPLIFY_REWRITERECORD_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

namespace fusion {

/// Module attribute with the rewrites that changed values: an array of strings
/// `<rule> x<count>`, in order of first use.
inline constexpr llvm::StringLiteral kRewritesAttr = "fusion.rewrites";

/// Adds `count` applications of `rule` to the module's record.
void recordRewrites(mlir::ModuleOp module, llvm::StringRef rule, int64_t count);

/// Name and category of the remarks of a rule.
inline mlir::remark::RemarkOpts getRemarkOpts(llvm::StringRef rule) {
  return mlir::remark::RemarkOpts::name(rule).category("fusion");
}

} // namespace fusion

#endif // FUSION_LIB_SIMPLIFY_REWRITERECORD_H
