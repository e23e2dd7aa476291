//===- BucketSearch.cpp - The size of buckets, by trial -------------------===//
//
// The fuse phase chooses a size before it knows its kernels. Here a copy of the
// module, in a context of its own so that nothing is told, is fused with a few
// sizes, and the schedule of each is predicted. Of those that take hardly
// longer than the fastest, the one counts that needs the least memory: larger
// buckets let products share launches, for which gradients and what they are
// computed from wait. Where some of the step is exposed then, sizes for gathers
// of parameters are tried likewise.
//
//===----------------------------------------------------------------------===//
#include "BucketSearch.h"

#include "fusion/Analysis/OverlapPlan.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

/// Ops that are fused for all trials together, and trials at most. A module of
/// more ops has one, up to those of the second limit.
static constexpr size_t kTrialOps = 12000, kMostOps = 30000, kMaxTrials = 11;

/// And of buckets of gathers, however many ops there are.
static constexpr size_t kGatherTrials = 2;

/// The smallest size that is tried.
static constexpr uint64_t kLeastBytes = 1 << 20;

/// Buckets of gathers are tried where so much of the step is exposed.
static constexpr double kExposed = 0.02;

/// How much longer than the shortest a step may be for less memory, and how
/// many bytes more than the fewest are not worth a longer step.
static constexpr double kMostUs = 1.005, kMostBytes = 1.01;

/// What share of the step another size than the fuse phase's own must come
/// below, where neither takes noticeably less memory.
static constexpr double kNoticeable = 0.999;

namespace {

/// The predicted schedule with some sizes.
struct Trial {
  BucketSizes sizes;
  double us = 0;        ///< of the step
  int64_t bytes = 0;    ///< of intermediate values alive at once
  double exposedUs = 0; ///< of it, in which something is sent and no more
  bool isClipShared = false;
};

} // namespace

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

/// Of what is reduced, or put together by a gather.
static int64_t countBytes(Operation *collective) {
  Value value = isa<AllGatherOp>(collective) ? collective->getResult(0)
                                             : collective->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape())
    return 0;
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// The predicted schedule of a copy of the module with such buckets; nullopt if
/// it can't be had.
static std::optional<Trial> trySizes(ModuleOp module, BucketSizes sizes,
                                     CompileOptions options,
                                     const CostModel &costs) {
  OwningOpRef<ModuleOp> copy(module.clone());
  options.bucketBytes = sizes.bytes;
  options.firstBucketBytes = sizes.firstBytes;
  options.gatherBytes = sizes.gatherBytes;
  PassManager manager(module.getContext());
  buildPhase(manager, Phase::Fuse, options);
  if (options.overlap) {
    PrefetchAllGatherOptions prefetch;
    prefetch.budget = options.prefetchBudget;
    prefetch.memoryLimit = getDecisionLimit(options);
    prefetch.device = options.device;
    prefetch.costModel = options.costModel;
    manager.addPass(createPrefetchAllGather(prefetch));
  }
  auto main = copy->lookupSymbol<func::FuncOp>("main");
  if (failed(manager.run(*copy)) || !main)
    return std::nullopt;
  // Other ranks' parts are those of gathered rows.
  bool isClipShared = main.walk([](RankSliceOp slice) {
                            return slice.getShift() == 0
                                       ? WalkResult::interrupt()
                                       : WalkResult::advance();
                          })
                          .wasInterrupted();
  CommModel comms(costs.getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(main, costs, comms);
  if (failed(prices))
    return std::nullopt;
  OverlapPlan plan = planOverlap(OverlapGraph(main, &*prices), *prices);
  const Timeline &timeline = options.overlap ? plan.getTimeline() : plan.serial;
  return Trial{sizes, timeline.stepUs,
               options.overlap ? plan.getPeakBytes() : plan.serialBytes,
               timeline.exposedUs, isClipShared};
}

/// Of the trials whose step is about as short as the shortest, those that take
/// about as little memory as any of them; of these the fastest, or the first of
/// all if it is hardly slower.
static const Trial &choose(ArrayRef<Trial> trials) {
  double leastUs = INFINITY;
  for (const Trial &trial : trials)
    leastUs = std::min(leastUs, trial.us);
  auto isFast = [&](const Trial &trial) {
    return trial.us <= kMostUs * leastUs;
  };
  int64_t leastBytes = std::numeric_limits<int64_t>::max();
  for (const Trial &trial : trials)
    if (isFast(trial))
      leastBytes = std::min(leastBytes, trial.bytes);
  const Trial *best = nullptr;
  for (const Trial &trial : trials)
    if (isFast(trial) && trial.bytes <= kMostBytes * leastBytes &&
        (!best ||
         trial.us < (best == &trials.front() ? kNoticeable : 1) * best->us))
      best = &trial;
  return *best;
}

/// Whether ranks should share the squares of a clip, by one more trial of what
/// was chosen: without that.
static bool checkShares(ModuleOp module, ModuleOp copy, const Trial &shared,
                        CompileOptions options, const CostModel &costs) {
  options.shareClip = false;
  std::optional<Trial> whole = trySizes(copy, shared.sizes, options, costs);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!whole || !main)
    return true;
  bool isShorter = shared.us < whole->us;
  auto format = [](double us) { return llvm::formatv("{0:f2}", us).str(); };
  auto remarkOptions = remark::RemarkOpts::name("clip-share-step")
                           .category("fusion")
                           .function(main.getSymName());
  auto remark = isShorter ? remark::passed(main.getLoc(), remarkOptions)
                          : remark::missed(main.getLoc(), remarkOptions);
  remark << remark::add("by trial: the step with gradients' squares shared by "
                        "ranks, and whole on each")
         << remark::metric("us_shared", format(shared.us))
         << remark::metric("us_whole", format(whole->us));
  return isShorter;
}

static void tell(ModuleOp module, ArrayRef<Trial> trials, const Trial &best) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return;
  const Trial &fastest = *llvm::min_element(
      trials, [](const Trial &a, const Trial &b) { return a.us < b.us; });
  auto format = [](double us) { return llvm::formatv("{0:f2}", us).str(); };
  remark::passed(main.getLoc(), remark::RemarkOpts::name("bucket-size")
                                    .category("fusion")
                                    .function(main.getSymName()))
      << remark::add("by trial of {0} sizes: a step of {1} us and {2} bytes "
                     "alive at once; the fastest has {3} us and {4} bytes",
                     trials.size(), format(best.us), best.bytes,
                     format(fastest.us), fastest.bytes)
      << remark::metric("Trials", int64_t(trials.size()))
      << remark::metric("SizeLimit", int64_t(best.sizes.bytes))
      << remark::metric("GatherLimit", int64_t(best.sizes.gatherBytes))
      << remark::metric("us_step", format(best.us))
      << remark::metric("PeakBytes", best.bytes)
      << remark::metric("us_fastest", format(fastest.us))
      << remark::metric("PeakBytesOfFastest", fastest.bytes);
}

/// Sizes to try for so many bytes of gradients, the likeliest first: shares of
/// them, with small buckets at both ends or without. Few even ones serve best
/// where nothing is exposed, more of them where links are slow; for a large
/// module that is all that is tried.
static SmallVector<BucketSizes> getCandidates(uint64_t bytes) {
  struct Halves {
    unsigned count;
    bool isEven;
  };
  SmallVector<BucketSizes> candidates;
  uint64_t whole = llvm::PowerOf2Ceil(bytes);
  for (auto [count, isEven] :
       {Halves{1, true}, Halves{3, true}, Halves{3, false}, Halves{2, true},
        Halves{4, false}, Halves{0, true}, Halves{2, false}, Halves{1, false},
        Halves{5, false}, Halves{0, false}, Halves{6, false}})
    if (uint64_t size = whole >> count; size >= kLeastBytes)
      candidates.push_back({size, isEven ? size : 0, true});
  return candidates;
}

/// Bytes of the parameters that are gathered, each once.
static uint64_t countGatheredBytes(ModuleOp module) {
  llvm::SmallPtrSet<Value, 32> gathered;
  uint64_t bytes = 0;
  for (auto function : module.getOps<func::FuncOp>())
    for (Block &block : function.getBody())
      for (auto gather : block.getOps<AllGatherOp>())
        if (gather->getNumOperands() == 1 &&
            isa<BlockArgument>(gather.getInputs()[0]) &&
            gathered.insert(gather.getInputs()[0]).second)
          bytes += countBytes(gather);
  return bytes;
}

/// Sizes that buckets of gathers may grow to, from large to small while the
/// step gets shorter: what starting them takes is the less, and what the first
/// ones wait for the more, the larger they are.
static void tryGathers(ModuleOp module, const CompileOptions &options,
                       const CostModel &costs, size_t numTrials,
                       SmallVectorImpl<Trial> &trials) {
  constexpr unsigned kFirstHalves = 3, kMostHalves = 6;
  const Trial best = choose(trials);
  uint64_t whole = llvm::PowerOf2Ceil(countGatheredBytes(module));
  if (best.exposedUs < kExposed * best.us)
    return;
  double leastUs = INFINITY;
  for (unsigned halves = kFirstHalves; halves <= kMostHalves; ++halves) {
    BucketSizes sizes = best.sizes;
    sizes.gatherBytes = whole >> halves;
    if (numTrials-- == 0 || sizes.gatherBytes < kLeastBytes)
      return;
    std::optional<Trial> trial = trySizes(module, sizes, options, costs);
    if (!trial || trial->us > leastUs)
      return;
    leastUs = trial->us;
    trials.push_back(*trial);
  }
}

BucketSizes fusion::searchBucketSizes(ModuleOp module,
                                      const CompileOptions &options) {
  BucketSizes given{options.bucketBytes, options.firstBucketBytes,
                    options.gatherBytes, options.shareClip};
  if (given.bytes || given.firstBytes || !options.fuseBuckets)
    return given;
  SmallVector<Operation *> reductions = findReductions(module);
  uint64_t bytes = 0;
  size_t numOps = 0;
  for (Operation *reduction : reductions)
    bytes += countBytes(reduction);
  module.walk([&](Operation *) { ++numOps; });
  size_t numTrials = std::min(kMaxTrials, kTrialOps / numOps);
  if (numOps <= kMostOps)
    numTrials = std::max<size_t>(numTrials, 1);
  if (bytes <= kLeastBytes || reductions.size() < 2 || numTrials == 0)
    return given;

  CompileOptions tried = options;
  tried.plan.clear();
  tried.emitPlan.clear();
  tried.why.clear();
  tried.planDigest = tried.verifyFusion = false;
  tried.probe = nullptr;
  // Whoever leaves out launches wants to compare the same backward pass.
  tried.fuseHorizontal = true;
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
  SmallVector<BucketSizes> candidates{given};
  candidates.append(getCandidates(bytes));
  if (candidates.size() > numTrials + 1)
    candidates.resize(numTrials + 1);
  SmallVector<Trial> trials;
  for (BucketSizes sizes : candidates) {
    std::optional<Trial> trial = trySizes(*copy, sizes, tried, **costs);
    if (trial)
      trials.push_back(*trial);
    else if (trials.empty())
      return given;
  }
  tryGathers(*copy, tried, **costs, std::max<size_t>(numTrials, kGatherTrials),
             trials);
  Trial best = choose(trials);
  best.sizes.shareClip = options.shareClip;
  tell(module, trials, best);
  BucketSizes sizes = best.sizes;
  if (best.isClipShared)
    sizes.shareClip = checkShares(module, *copy, best, tried, **costs);
  return sizes;
}
