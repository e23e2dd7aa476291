//===- BucketSearch.cpp - The size of buckets, by trial -------------------===//
//
// The fuse phase chooses a size before it knows its kernels. Here a copy of the
// module, in a context of its own so that nothing is told, is fused with a few
// sizes, and the schedule of each is predicted.
//
//===----------------------------------------------------------------------===//
#include "BucketSearch.h"

#include "fusion/Analysis/OverlapPlan.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

/// Ops that are fused for all trials together, and trials at most.
static constexpr size_t kTrialOps = 12000, kMaxTrials = 11;

/// The smallest size that is tried.
static constexpr uint64_t kLeastBytes = 1 << 20;

/// What share of the step another size must come below.
static constexpr double kNoticeable = 0.999;

/// What trials are about: gradients to be reduced.
static SmallVector<Operation *> findReductions(ModuleOp module) {
  SmallVector<Operation *> reductions;
  for (auto function : module.getOps<func::FuncOp>())
    for (Block &block : function.getBody())
      for (Operation &op : block)
        if (isa<AllReduceOp, ReduceScatterOp>(op) && op.getNumOperands() == 1)
          reductions.push_back(&op);
  return reductions;
}

static int64_t countBytes(Operation *reduction) {
  auto type = dyn_cast<RankedTensorType>(reduction->getOperand(0).getType());
  if (!type || !type.hasStaticShape())
    return 0;
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// The predicted step of a copy of the module with such buckets, in
/// microseconds; nullopt if it can't be had.
static std::optional<double> trySizes(ModuleOp module, BucketSizes sizes,
                                      CompileOptions options,
                                      const CostModel &costs) {
  OwningOpRef<ModuleOp> copy(module.clone());
  options.bucketBytes = sizes.bytes;
  options.firstBucketBytes = sizes.firstBytes;
  PassManager manager(module.getContext());
  buildPhase(manager, Phase::Fuse, options);
  if (options.overlap) {
    PrefetchAllGatherOptions prefetch;
    prefetch.budget = options.prefetchBudget;
    manager.addPass(createPrefetchAllGather(prefetch));
  }
  auto main = copy->lookupSymbol<func::FuncOp>("main");
  if (failed(manager.run(*copy)) || !main)
    return std::nullopt;
  CommModel comms(costs.getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(main, costs, comms);
  if (failed(prices))
    return std::nullopt;
  OverlapPlan plan = planOverlap(OverlapGraph(main, &*prices), *prices);
  return options.overlap ? std::min(plan.overlapped.stepUs, plan.serial.stepUs)
                         : plan.serial.stepUs;
}

/// Sizes to try for so many bytes of gradients, the likeliest first: shares of
/// them, with small buckets at both ends or without.
static SmallVector<BucketSizes> getCandidates(uint64_t bytes) {
  struct Halves {
    unsigned count;
    bool isEven;
  };
  SmallVector<BucketSizes> candidates;
  uint64_t whole = llvm::PowerOf2Ceil(bytes);
  for (auto [count, isEven] :
       {Halves{3, false}, Halves{0, true}, Halves{4, false}, Halves{1, true},
        Halves{2, false}, Halves{2, true}, Halves{1, false}, Halves{5, false},
        Halves{3, true}, Halves{0, false}, Halves{6, false}})
    if (uint64_t size = whole >> count; size >= kLeastBytes)
      candidates.push_back({size, isEven ? size : 0});
  return candidates;
}

BucketSizes fusion::searchBucketSizes(ModuleOp module,
                                      const CompileOptions &options) {
  BucketSizes given{options.bucketBytes, options.firstBucketBytes};
  if (given.bytes || given.firstBytes || !options.fuseBuckets)
    return given;
  SmallVector<Operation *> reductions = findReductions(module);
  uint64_t bytes = 0;
  size_t numOps = 0;
  for (Operation *reduction : reductions)
    bytes += countBytes(reduction);
  module.walk([&](Operation *) { ++numOps; });
  size_t trials = std::min(kMaxTrials, kTrialOps / numOps);
  if (bytes <= kLeastBytes || reductions.size() < 2 || trials == 0)
    return given;

  CompileOptions trial = options;
  trial.plan.clear();
  trial.emitPlan.clear();
  trial.why.clear();
  trial.planDigest = trial.verifyFusion = false;
  trial.probe = nullptr;
  // Whoever leaves out launches wants to compare the same backward pass.
  trial.fuseHorizontal = true;
  MLIRContext context(module.getContext()->getDialectRegistry(),
                      MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  std::string text;
  llvm::raw_string_ostream(text) << module;
  OwningOpRef<ModuleOp> copy = parseSourceString<ModuleOp>(text, &context);
  FailureOr<std::unique_ptr<CostModel>> costs =
      loadCostModel(&context, options.device, options.costModel);
  if (!copy || failed(costs) || !(*costs)->getDevice().comm)
    return given;
  std::optional<double> own = trySizes(*copy, given, trial, **costs);
  if (!own)
    return given;
  BucketSizes best = given;
  double bestUs = kNoticeable * *own;
  SmallVector<BucketSizes> candidates = getCandidates(bytes);
  if (candidates.size() > trials)
    candidates.resize(trials);
  for (BucketSizes sizes : candidates) {
    std::optional<double> us = trySizes(*copy, sizes, trial, **costs);
    if (us && *us < bestUs) {
      bestUs = *us;
      best = sizes;
    }
  }
  return best;
}
