//===- PrefetchAllGather.cpp - Gathers as early as memory allows ----------===//
//
// Positions are the ops that are no views. A gather that starts in front of
// position q keeps its bytes until its last reader; the sum at every position
// stays within the budget. First come the readers' own positions, which the
// budget must hold, then each gather, in the order of need, goes back while it
// fits. The bytes are planned as the arena will be, in a region of their own.
//
// A budget that is not given is tried on copies of the function: from what the
// readers need to all gathered values kept until their last reader, so that
// none is gathered twice. The least whose predicted step is about as short as
// the shortest is taken. Links send in the order in which they are asked: where
// the first kernels wait for a collective of a few computed values, as rows
// that are looked up, gathers of what is read later are tried behind it too.
//
//===----------------------------------------------------------------------===//
#include "ArenaPlan.h"
#include "CommandOrder.h"
#include "PrefetchPlan.h"
#include "RewriteOrder.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/OverlapPlan.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {
#define GEN_PASS_DEF_PREFETCHALLGATHER
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// How much longer than the shortest a step may be for a smaller budget.
static constexpr double kMostUs = 1.005;

/// Doublings of the least budget that are tried, at most.
static constexpr unsigned kMostDoublings = 4;

namespace {

struct PrefetchPlan {
  std::vector<Gather> gathers; ///< in the order of need
  /// Collectives that gathers of what is read later start behind.
  SmallVector<unsigned> first;
  int64_t neededBytes = 0; ///< without any prefetching
  unsigned needed = 0;     ///< a node that needs them
  int64_t peakBytes = 0;   ///< at any position
  int64_t ringBytes = 0;   ///< of the region that holds them
};

/// A function whose gathers have their places within a budget, not yet
/// rewritten. Gathers that are made again are in it.
struct Placed {
  std::unique_ptr<OverlapGraph> graph;
  PrefetchPlan plan;
  int64_t numRepeats = 0;
};

/// How early gathers start.
struct Earliness {
  int64_t budget = 0;
  bool inTurn = false; ///< behind collectives that are read before
};

/// The predicted schedule with some of it.
struct Trial {
  Earliness earliness;
  double us = 0;     ///< of the step
  int64_t bytes = 0; ///< of intermediate values alive at once
};

} // namespace

/// The gathers of parameters and other values that are there early. Those of
/// another collective's result, or for one, those the function returns,
/// those that bring the gradients of a bucket, and those in chunks, which start
/// at once, are not ours.
static std::vector<Gather> findGathers(const OverlapGraph &graph,
                                       const FusionLegality &legality) {
  std::vector<Gather> gathers;
  int64_t barrier = -1;
  for (unsigned id = 0; id < graph.size(); ++id) {
    const OverlapNode &node = graph[id];
    if (node.isBarrier)
      barrier = id;
    auto isReturned = [](Operation *op) {
      SmallVector<Operation *> stack{op};
      while (!stack.empty())
        for (Operation *user : stack.pop_back_val()->getUsers())
          if (user->hasTrait<OpTrait::IsTerminator>())
            return true;
          else if (OverlapGraph::isLazy(user))
            stack.push_back(user);
      return false;
    };
    if (!isa<AllGatherOp>(node.op) || node.op->hasAttr(kBucketAttr) ||
        node.op->hasAttr(kChunkAttr) || node.after.empty() ||
        isReturned(node.op) ||
        llvm::any_of(llvm::concat<const unsigned>(node.before, node.after),
                     [&](unsigned other) {
                       return graph[other].isComm || graph[other].isRegion;
                     }))
      continue;
    Gather gather;
    gather.node = id;
    for (Value result : node.op->getResults()) {
      gather.sizes.push_back(legality.getByteSize(result));
      gather.bytes +=
          llvm::alignTo(gather.sizes.back(), getAlignment(gather.sizes.back()));
    }
    gather.ready = barrier + 1;
    for (unsigned other : node.before)
      gather.ready = std::max(gather.ready, other + 1);
    gather.first = node.after.front();
    gather.last = node.after.back();
    gathers.push_back(std::move(gather));
  }
  // Of equal need, in program order: the same on every rank.
  llvm::stable_sort(gathers, [](const Gather &a, const Gather &b) {
    return a.first < b.first;
  });
  return gathers;
}

/// Collectives for which nothing of their size is sent before, and that are
/// read ahead of some gathers, which get their turn. What another collective
/// makes is awaited first, where this one would start.
static SmallVector<unsigned> findFirst(const OverlapGraph &graph,
                                       const FusionLegality &legality,
                                       std::vector<Gather> &gathers) {
  llvm::DenseSet<unsigned> isGather;
  for (const Gather &gather : gathers)
    isGather.insert(gather.node);
  SmallVector<unsigned> first;
  std::vector<int64_t> most(graph.size()); // of a collective that it needs
  for (unsigned id = 0; id < graph.size(); ++id) {
    const OverlapNode &node = graph[id];
    int64_t bytes = 0;
    if (node.isComm)
      for (Value result : node.op->getResults())
        bytes += legality.getByteSize(result);
    bool isPlaced = node.isRegion || node.isBarrier;
    bool isAwaiting = false;
    for (unsigned other : node.before) {
      most[id] = std::max(most[id], most[other]);
      isAwaiting |= graph[other].isComm || graph[other].isRegion;
    }
    if (node.isComm && !isPlaced && !isAwaiting && most[id] < bytes &&
        !node.after.empty() && !node.isChained && !isGather.contains(id) &&
        !node.op->hasAttr(kBucketAttr)) {
      bool isAhead = false;
      for (Gather &gather : gathers) {
        if (gather.first <= node.after.front())
          continue;
        gather.turn = std::max(gather.turn, id + 1);
        isAhead = true;
      }
      if (isAhead)
        first.push_back(id);
    }
    most[id] = isPlaced ? INT64_MAX : std::max(most[id], bytes);
  }
  return first;
}

/// Sets when each gather starts, and returns the most bytes at any position.
static int64_t issueWithin(std::vector<Gather> &gathers, unsigned numNodes,
                           Earliness earliness) {
  std::vector<int64_t> live(numNodes);
  for (Gather &gather : gathers)
    for (unsigned i = gather.issue = gather.first; i <= gather.last; ++i)
      live[i] += gather.bytes;
  unsigned previous = 0;
  for (Gather &gather : gathers) {
    unsigned least = std::max(gather.ready, previous);
    if (earliness.inTurn)
      least = std::max(least, gather.turn);
    while (gather.issue > least &&
           live[gather.issue - 1] + gather.bytes <= earliness.budget)
      live[--gather.issue] += gather.bytes;
    previous = gather.issue;
  }
  return live.empty() ? 0 : *llvm::max_element(live);
}

/// Bytes of a region that holds the gathered values.
static int64_t planRing(ArrayRef<Gather> gathers) {
  std::vector<Lifetime> buffers;
  SmallVector<SmallVector<int64_t>> sets;
  for (const Gather &gather : gathers) {
    SmallVector<int64_t> set;
    for (int64_t size : gather.sizes) {
      set.push_back(buffers.size());
      buffers.push_back({gather.issue, gather.last, size, -1});
    }
    if (set.size() > 1)
      sets.push_back(std::move(set));
  }
  return planArena(buffers, sets);
}

/// The most bytes of gathered values that one op reads.
static int64_t findMostRead(const OverlapGraph &graph,
                            ArrayRef<Gather> gathers) {
  std::vector<int64_t> read(graph.size());
  for (const Gather &gather : gathers)
    for (unsigned reader : graph[gather.node].after)
      read[reader] += gather.bytes;
  return read.empty() ? 0 : *llvm::max_element(read);
}

/// Where values of unequal sizes leave gaps, less is issued early, until the
/// region fits.
static PrefetchPlan planPrefetch(const OverlapGraph &graph,
                                 const FusionLegality &legality,
                                 Earliness earliness) {
  PrefetchPlan plan;
  plan.gathers = findGathers(graph, legality);
  if (earliness.inTurn)
    plan.first = findFirst(graph, legality, plan.gathers);
  std::vector<int64_t> live(graph.size());
  for (const Gather &gather : plan.gathers)
    for (unsigned i = gather.first; i <= gather.last; ++i)
      if ((live[i] += gather.bytes) > plan.neededBytes) {
        plan.neededBytes = live[i];
        plan.needed = i;
      }
  int64_t budget = earliness.budget;
  if (plan.neededBytes > budget)
    return plan;
  constexpr unsigned kMostTries = 16;
  int64_t bound = budget;
  for (unsigned i = 0; i < kMostTries; ++i) {
    plan.peakBytes =
        issueWithin(plan.gathers, graph.size(), {bound, earliness.inTurn});
    plan.ringBytes = planRing(plan.gathers);
    if (plan.ringBytes <= budget)
      return plan;
    bound = std::max(plan.neededBytes, bound - (plan.ringBytes - budget));
    if (i + 2 == kMostTries)
      bound = 0; // none early
  }
  plan.neededBytes = plan.ringBytes;
  return plan;
}

/// Repeats gathers in `main` if the budget does not keep them.
static FailureOr<Placed> place(func::FuncOp main, Earliness earliness) {
  Placed placed;
  for (bool isRepeated : {false, true}) {
    FailureOr<FusionLegality> legality =
        FusionLegality::create(main, GroupLimits());
    if (failed(legality))
      return failure();
    placed.graph = std::make_unique<OverlapGraph>(main, nullptr);
    placed.plan = planPrefetch(*placed.graph, *legality, earliness);
    if (isRepeated || placed.plan.neededBytes <= earliness.budget)
      break;
    placed.numRepeats =
        repeatGathers(*placed.graph, placed.plan.gathers, earliness.budget);
  }
  return placed;
}

static void rewrite(func::FuncOp main, OverlapGraph &graph,
                    const PrefetchPlan &plan) {
  llvm::DenseMap<unsigned, SmallVector<unsigned, 2>> starts, awaits;
  llvm::DenseSet<unsigned> moved;
  for (const Gather &gather : plan.gathers) {
    starts[gather.issue].push_back(gather.node);
    awaits[gather.first].push_back(gather.node);
    moved.insert(gather.node);
    graph[gather.node].op->setAttr(kPrefetchedAttr,
                                   UnitAttr::get(main.getContext()));
  }
  for (unsigned node : plan.first) {
    starts[node].push_back(node);
    awaits[graph[node].after.front()].push_back(node);
    moved.insert(node);
    // Beside it they would take the link from it.
    graph.setStream(node, graph[plan.gathers.front().node].stream);
  }
  std::vector<OverlapItem> items;
  for (unsigned id = 0; id < graph.size(); ++id) {
    for (unsigned node : starts.lookup(id))
      items.push_back({OverlapItem::Start, node});
    for (unsigned node : awaits.lookup(id))
      items.push_back({OverlapItem::Await, node});
    if (!moved.contains(id))
      items.push_back({OverlapItem::Run, id});
  }
  rewriteOrder(main, graph, items);
}

/// What the schedule makes of a copy of `main`; nullopt if it can't be had.
static std::optional<Trial> tryPlaces(func::FuncOp main, Earliness earliness,
                                      const CostModel &costs) {
  OpBuilder builder(main);
  OwningOpRef<func::FuncOp> owned(main.clone());
  func::FuncOp copy = *owned;
  copy.setSymName((main.getSymName() + ".prefetch").str());
  builder.insert(copy); // meshes and kernels are found from there
  FailureOr<Placed> placed = place(copy, earliness);
  if (failed(placed) || placed->plan.neededBytes > earliness.budget)
    return std::nullopt;
  rewrite(copy, *placed->graph, placed->plan);
  CommModel comms(costs.getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(copy, costs, comms);
  if (failed(prices))
    return std::nullopt;
  OverlapPlan plan = planOverlap(OverlapGraph(copy, &*prices), *prices);
  return Trial{earliness, plan.getTimeline().stepUs,
               plan.isSerial() ? plan.serialBytes : plan.overlappedBytes};
}

/// The least first: doubled, and all values that are gathered.
static SmallVector<int64_t> getCandidates(int64_t least,
                                          ArrayRef<Gather> gathers) {
  int64_t all = 0;
  for (const Gather &gather : gathers)
    all += gather.bytes;
  SmallVector<int64_t> candidates{least};
  for (unsigned i = 0; i < kMostDoublings && candidates.back() < all / 2; ++i)
    candidates.push_back(2 * candidates.back());
  if (candidates.back() < all)
    candidates.push_back(all);
  return candidates;
}

/// The first trial has the least budget; another must fit in `limit`.
static const Trial &choose(ArrayRef<Trial> trials, int64_t limit) {
  auto fits = [&](const Trial &trial) {
    return &trial == &trials.front() || trial.bytes <= limit;
  };
  double leastUs = INFINITY;
  for (const Trial &trial : trials)
    if (fits(trial))
      leastUs = std::min(leastUs, trial.us);
  return *llvm::find_if(trials, [&](const Trial &trial) {
    return fits(trial) && trial.us <= kMostUs * leastUs;
  });
}

namespace {

struct PrefetchAllGather final
    : PricedPass<fusion::impl::PrefetchAllGatherBase<PrefetchAllGather>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!main || !llvm::hasSingleElement(main.getBody()) ||
        main->hasAttr(kPrefetchBudgetAttr) ||
        main.getBody().front().getOps<AllGatherOp>().empty())
      return markAllAnalysesPreserved();
    FailureOr<Earliness> earliness = findEarliness(main);
    if (failed(earliness))
      return signalPassFailure();
    int64_t most = earliness->budget;
    FailureOr<Placed> placed = place(main, *earliness);
    if (failed(placed))
      return signalPassFailure();
    const PrefetchPlan &plan = placed->plan;
    if (plan.gathers.empty())
      return markAllAnalysesPreserved();
    if (plan.neededBytes > most) {
      emitError((*placed->graph)[plan.needed].op, ErrorKind::Resources)
          << "needs " << plan.neededBytes
          << " bytes of gathered values at once, --prefetch-budget allows "
          << most << ": give at least " << plan.neededBytes;
      return signalPassFailure();
    }
    main->setAttr(kPrefetchBudgetAttr,
                  IntegerAttr::get(IntegerType::get(&getContext(), 64), most));
    report(*placed);
    rewrite(main, *placed->graph, plan);
    remark::passed(main.getLoc(), name("prefetch"))
        << remark::add("gathers start as early as the budget allows")
        << remark::metric("Budget", most)
        << remark::metric("PeakBytes", plan.peakBytes)
        << remark::metric("RegionBytes", plan.ringBytes)
        << remark::metric("NeededBytes", plan.neededBytes)
        << remark::metric("Gathers", int64_t(plan.gathers.size()))
        << remark::metric("Repeated", placed->numRepeats)
        << remark::metric("Behind", int64_t(plan.first.size()));
  }

private:
  remark::RemarkOpts name(StringRef rule) {
    return remark::RemarkOpts::name(rule).category("fusion").function(function);
  }
  /// The given budget, or that of the best trial.
  FailureOr<Earliness> findEarliness(func::FuncOp main);
  void tell(func::FuncOp main, ArrayRef<Trial> trials, const Trial &best);
  void report(const Placed &placed);
};

} // namespace

FailureOr<Earliness> PrefetchAllGather::findEarliness(func::FuncOp main) {
  int64_t given = std::min<uint64_t>(budget, INT64_MAX);
  FailureOr<FusionLegality> legality =
      FusionLegality::create(main, GroupLimits());
  if (failed(legality))
    return failure();
  OverlapGraph graph(main, nullptr);
  std::vector<Gather> gathers = findGathers(graph, *legality);
  int64_t most = findMostRead(graph, gathers);
  int64_t least = most > INT64_MAX / 2 ? INT64_MAX : 2 * most;
  if (given != 0)
    least = given;
  bool areFirst = !findFirst(graph, *legality, gathers).empty();
  // Nothing is known of links: keep little.
  if (gathers.empty() || !model->getDevice().comm || (given != 0 && !areFirst))
    return Earliness{least};
  int64_t limit = std::min<uint64_t>(memoryLimit, INT64_MAX);
  if (limit == 0) {
    limit = model->getDevice().memoryBytes;
    for (Value argument : main.getArguments())
      limit -= legality->getByteSize(argument);
  }
  SmallVector<Trial> trials;
  for (int64_t candidate :
       given != 0 ? SmallVector<int64_t>{given} : getCandidates(least, gathers))
    for (bool inTurn : {false, true}) {
      if (inTurn && !areFirst)
        break;
      std::optional<Trial> trial = tryPlaces(main, {candidate, inTurn}, *model);
      if (trial)
        trials.push_back(*trial);
      else if (trials.empty())
        return Earliness{least};
    }
  const Trial &best = choose(trials, limit);
  if (trials.size() > 1)
    tell(main, trials, best);
  return best.earliness;
}

void PrefetchAllGather::tell(func::FuncOp main, ArrayRef<Trial> trials,
                             const Trial &best) {
  auto format = [](double us) { return llvm::formatv("{0:f2}", us).str(); };
  remark::passed(main.getLoc(), name("prefetch-budget"))
      << remark::add("by trial of {0} budgets: a step of {1} us within {2} "
                     "bytes; the least has {3} us within {4} bytes",
                     trials.size(), format(best.us), best.earliness.budget,
                     format(trials.front().us), trials.front().earliness.budget)
      << remark::metric("Trials", int64_t(trials.size()))
      << remark::metric("Budget", best.earliness.budget)
      << remark::metric("us_step", format(best.us))
      << remark::metric("PeakBytes", best.bytes)
      << remark::metric("LeastBudget", trials.front().earliness.budget)
      << remark::metric("us_of_least", format(trials.front().us));
}

void PrefetchAllGather::report(const Placed &placed) {
  const OverlapGraph &graph = *placed.graph;
  llvm::DenseSet<unsigned> moved;
  for (const Gather &gather : placed.plan.gathers)
    moved.insert(gather.node);
  std::vector<int64_t> before(graph.size() + 1); // ops that stay, by position
  for (unsigned id = 0; id < graph.size(); ++id)
    before[id + 1] = before[id] + !moved.contains(id);
  for (const Gather &gather : placed.plan.gathers)
    remark::passed(graph[gather.node].op->getLoc(), name("prefetch-gather"))
        << remark::add("starts before its readers")
        << remark::metric("Bytes", gather.bytes)
        << remark::metric("Ahead", before[gather.first] - before[gather.issue]);
}
