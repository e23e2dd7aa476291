//===- FusePipeline.cpp - The fuse phase ----------------------------------===//
//
// What runs in which order. The certificate is always on: it costs one more
// walk.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fusion;

void fusion::buildFusePipeline(OpPassManager &manager,
                               const FuseOptions &options, KernelProbe *probe) {
  manager.addNestedPass<func::FuncOp>(createDecomposeNamed());
  // New products, not groups: the certificate starts from them.
  if (!llvm::is_contained(options.noFuse, "projections")) {
    MergeProjectionsOptions projections;
    projections.parameterFolder = options.parameterFolder;
    manager.addPass(createMergeProjections(projections));
  }
  OpPassManager &functions = manager.nest<func::FuncOp>();
  functions.addPass(createRecordFusionCertificate());
  FuseVerticalOptions vertical;
  vertical.maxOps = options.maxOps;
  vertical.maxInputs = options.maxInputs;
  vertical.device = options.device;
  vertical.costModel = options.costModel;
  vertical.memoryLimit = options.memoryLimit;
  vertical.separate = llvm::is_contained(options.noFuse, "vertical");
  functions.addPass(createFuseVertical(vertical));
  SplitGroupsOptions split;
  split.device = options.device;
  split.costModel = options.costModel;
  functions.addPass(createSplitGroups(split, probe));
  if (!llvm::is_contained(options.noFuse, "horizontal")) {
    FuseHorizontalOptions horizontal;
    horizontal.maxMembers = options.maxMembers;
    horizontal.memoryLimit = options.memoryLimit;
    horizontal.device = options.device;
    horizontal.costModel = options.costModel;
    functions.addPass(createFuseHorizontal(horizontal));
  }
  functions.addPass(createVerifyFusionCertificate());
}

void fusion::registerFusePipeline() {
  PassPipelineRegistration<FuseOptions>(
      "fusion-fuse",
      "The fuse phase: every op into a group, producers with consumers",
      [](OpPassManager &manager, const FuseOptions &options) {
        buildFusePipeline(manager, options);
      });
}
