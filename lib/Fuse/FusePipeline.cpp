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
                               const FuseOptions &options, KernelProbe *probe,
                               const RewriteChecks &checks) {
  // What is decided is recorded only for those who read it.
  bool isTracked = !options.plan.empty() || !options.emitPlan.empty() ||
                   options.planDigest || options.keepOriginal ||
                   !options.why.empty();
  if (isTracked) {
    TrackDecisionsOptions track;
    track.plan = options.plan;
    track.strict = options.planStrict;
    track.device = options.device;
    track.launches = !llvm::is_contained(options.noFuse, "horizontal");
    track.keepOriginal = options.keepOriginal;
    manager.addPass(createTrackDecisions(track));
  }
  manager.addNestedPass<func::FuncOp>(createDecomposeNamed());
  // Ahead of what cuts reductions, and of the certificate: collectives change.
  if (!llvm::is_contained(options.noFuse, "buckets")) {
    ExchangeLookupsOptions lookups;
    lookups.device = options.device;
    lookups.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createExchangeLookups(lookups));
    GatherUpdatesOptions updates;
    updates.device = options.device;
    updates.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createGatherUpdates(updates));
    BucketCollectivesOptions buckets;
    buckets.firstBytes = buckets.tail = options.firstBucketBytes;
    buckets.bucketBytes = options.bucketBytes;
    buckets.device = options.device;
    buckets.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createBucketCollectives(buckets));
  }
  if (!llvm::is_contained(options.noFuse, "clip")) {
    FuseClipOptions clip;
    clip.share = !llvm::is_contained(options.noFuse, "clip-shares");
    clip.device = options.device;
    clip.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createFuseClip(clip));
  }
  if (!llvm::is_contained(options.noFuse, "chunks")) {
    ChunkGathersOptions chunks;
    chunks.transport = options.transport;
    chunks.device = options.device;
    chunks.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createChunkGathers(chunks));
  }
  if (!llvm::is_contained(options.noFuse, "buckets")) {
    BucketGathersOptions gathers;
    gathers.bucketBytes = options.gatherBytes;
    gathers.device = options.device;
    gathers.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createBucketGathers(gathers));
  }
  // Behind what joins and places reductions, ahead of what fuses their readers.
  ReduceInConsumersOptions transports;
  transports.transport = options.transport;
  transports.memoryLimit = options.memoryLimit;
  transports.device = options.device;
  transports.costModel = options.costModel;
  manager.addNestedPass<func::FuncOp>(createReduceInConsumers(transports));
  if (!llvm::is_contained(options.noFuse, "gradients") &&
      !llvm::is_contained(options.noFuse, "vertical")) {
    FuseGradientsOptions gradients;
    gradients.device = options.device;
    gradients.costModel = options.costModel;
    manager.addNestedPass<func::FuncOp>(createFuseGradients(gradients));
  }
  SplitReductionsOptions reductions;
  reductions.device = options.device;
  manager.addNestedPass<func::FuncOp>(createSplitReductions(reductions));
  // New products, not groups: the certificate starts from them, and the pass
  // has a proof of its own.
  if (!llvm::is_contained(options.noFuse, "projections")) {
    MergeProjectionsOptions projections;
    projections.parameterFolder = options.parameterFolder;
    projections.device = options.device;
    projections.costModel = options.costModel;
    projections.batches = !llvm::is_contained(options.noFuse, "horizontal");
    checks.addBefore(manager);
    manager.addPass(createMergeProjections(projections));
    checks.addAfter(manager);
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
  if (!options.emitPlan.empty() || options.planDigest) {
    WritePlanOptions write;
    write.file = options.emitPlan;
    write.device = options.device;
    write.costModel = options.costModel;
    write.digest = options.planDigest;
    manager.addPass(createWritePlan(write));
  }
  if (!options.why.empty()) {
    ExplainPairOptions explain;
    explain.pair = options.why;
    manager.addPass(createExplainPair(explain));
  }
  manager.addNestedPass<func::FuncOp>(createDropOrder());
}

void fusion::registerFusePipeline() {
  PassPipelineRegistration<FuseOptions>(
      "fusion-fuse",
      "The fuse phase: every op into a group, producers with consumers",
      [](OpPassManager &manager, const FuseOptions &options) {
        buildFusePipeline(manager, options);
      });
}
