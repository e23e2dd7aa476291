//===- Passes.h - Passes of the simplify phase ---------------- -*- C++ -*-===//
//
// Canonical forms, folded BatchNorms, evaluated constants, channels-last
// layout: what every later phase may assume of a graph.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_SIMPLIFY_PASSES_H
#define FUSION_SIMPLIFY_PASSES_H

#include "fusion/Analysis/RewriteLog.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace fusion {

/// Layout that convolutions and pools get.
enum class LayoutPolicy {
  Keep, ///< As in the model.
  NHWC  ///< Channels last.
};

#define GEN_PASS_DECL
#include "fusion/Simplify/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fusion/Simplify/Passes.h.inc"

/// Options of the phase.
struct SimplifyOptions : public mlir::PassPipelineOptions<SimplifyOptions> {
  Option<bool> exactRewritesOnly{
      *this, "exact-rewrites-only",
      llvm::cl::desc("Leave out every rewrite that changes values"),
      llvm::cl::init(false)};
  Option<LayoutPolicy> layout{
      *this, "layout", llvm::cl::desc("Layout of convolutions and pools"),
      llvm::cl::init(LayoutPolicy::NHWC),
      llvm::cl::values(
          clEnumValN(LayoutPolicy::NHWC, "nhwc", "channels last"),
          clEnumValN(LayoutPolicy::Keep, "keep", "as in the model"))};
  Option<std::string> parameterFolder{
      *this, "parameter-folder",
      llvm::cl::desc("Folder that parameters' files are relative to (default: "
                     "the module's own)"),
      llvm::cl::init("")};
};

/// Adds the passes of the phase, in order, to a pass manager on a module.
/// `checks` are put around the passes that declare what they replace.
void buildSimplifyPipeline(mlir::OpPassManager &pm,
                           const SimplifyOptions &options,
                           const RewriteChecks &checks = {});

/// Registers the pipeline `fusion-simplify`. The passes themselves register
/// through the generated registerSimplifyPasses.
void registerSimplifyPipelines();

/// Exact rewrites of arithmetic: identities, reciprocals of powers of two,
/// clamps, casts that lose nothing.
void populateArithmeticPatterns(mlir::RewritePatternSet &patterns);

/// Exact rewrites of data movement: merged, dropped or moved to where fewer
/// elements are touched.
void populateStructuralPatterns(mlir::RewritePatternSet &patterns);

} // namespace fusion

#endif // FUSION_SIMPLIFY_PASSES_H
