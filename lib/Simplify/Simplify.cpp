//===- Simplify.cpp - The phase as a pipeline -----------------------------===//
//
// The order of the passes, and their registration by name.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fusion;

void fusion::buildSimplifyPipeline(OpPassManager &pm,
                                   const SimplifyOptions &options,
                                   const RewriteChecks &checks) {
  EvaluateConstantsOptions evaluate;
  evaluate.exactRewritesOnly = options.exactRewritesOnly;
  evaluate.parameterFolder = options.parameterFolder;
  FoldBatchNormOptions fold;
  fold.exactRewritesOnly = options.exactRewritesOnly;
  fold.parameterFolder = options.parameterFolder;
  RaiseIdiomsOptions raise;
  raise.exactRewritesOnly = options.exactRewritesOnly;
  PropagateLayoutOptions propagate;
  propagate.layout = options.layout;
  propagate.exactRewritesOnly = options.exactRewritesOnly;

  pm.addPass(createCanonicalize());
  // Weights that are computed from constants, before BatchNorms look at them.
  pm.addPass(createEvaluateConstants(evaluate));
  pm.addPass(createFoldBatchNorm(fold));
  pm.addPass(createCanonicalize());
  pm.addPass(createPropagateLayout(propagate));
  pm.addPass(createCanonicalize());
  // Moves between a convolution and a BatchNorm may be gone by now.
  fold.foldsOnly = true;
  pm.addPass(createFoldBatchNorm(fold));
  pm.addPass(createCanonicalize());
  // Constants that the layout transposed.
  pm.addPass(createEvaluateConstants(evaluate));
  pm.addPass(createCanonicalize());
  // Behind the layout: it moves transposes through primitives, not through
  // norms, and rows of channels come to lie last by it.
  checks.addBefore(pm);
  pm.addPass(createRaiseIdioms(raise));
  checks.addAfter(pm);
  // Scales that a named op takes in another shape, named ops of constants.
  pm.addPass(createCanonicalize());
  pm.addPass(createEvaluateConstants(evaluate));
  pm.addPass(createCanonicalize());
}

void fusion::registerSimplifyPipelines() {
  PassPipelineRegistration<SimplifyOptions>(
      "fusion-simplify",
      "The phase simplify: canonical forms, folded BatchNorms, evaluated "
      "constants, channels-last layout, named ops",
      [](OpPassManager &pm, const SimplifyOptions &options) {
        buildSimplifyPipeline(pm, options);
      });
}
