//===- PrefetchAllGather.cpp - Gathers as early as memory allows ----------===//
//
// Positions are the ops that are no views. A gather that starts in front of
// position q keeps its bytes until its last reader; the sum at every position
// stays within the budget. First come the readers' own positions, which the
// budget must hold, then each gather, in the order of need, goes back while it
// fits. The bytes are planned as the arena will be, in a region of their own.
//
//===----------------------------------------------------------------------===//
#include "ArenaPlan.h"
#include "CommandOrder.h"
#include "PrefetchPlan.h"
#include "RewriteOrder.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {
#define GEN_PASS_DEF_PREFETCHALLGATHER
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct PrefetchPlan {
  std::vector<Gather> gathers; ///< in the order of need
  int64_t neededBytes = 0;     ///< without any prefetching
  unsigned needed = 0;         ///< a node that needs them
  int64_t peakBytes = 0;       ///< at any position
  int64_t ringBytes = 0;       ///< of the region that holds them
};

} // namespace

/// The gathers of parameters and other values that are there early. Those of
/// another collective's result, or for one, those the function returns, and
/// those that bring the gradients of a bucket are not ours.
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
        node.after.empty() || isReturned(node.op) ||
        llvm::any_of(llvm::concat<const unsigned>(node.before, node.after),
                     [&](unsigned other) {
                       return graph[other].isComm || graph[other].isRegion;
                     }))
      continue;
    Gather gather;
    gather.node = id;
    for (Value result : node.op->getResults()) {
      gather.sizes.push_back(legality.getByteSize(result));
      gather.bytes += llvm::alignTo(gather.sizes.back(), kArenaAlignment);
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

/// Sets when each gather starts, and returns the most bytes at any position.
static int64_t issueWithin(std::vector<Gather> &gathers, unsigned numNodes,
                           int64_t budget) {
  std::vector<int64_t> live(numNodes);
  for (Gather &gather : gathers)
    for (unsigned i = gather.issue = gather.first; i <= gather.last; ++i)
      live[i] += gather.bytes;
  unsigned previous = 0;
  for (Gather &gather : gathers) {
    unsigned least = std::max(gather.ready, previous);
    while (gather.issue > least &&
           live[gather.issue - 1] + gather.bytes <= budget)
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

/// `budget` 0 is twice what one op reads: what is kept from the forward pass to
/// the backward pass would be all parameters. Where values of unequal sizes
/// leave gaps, less is issued early, until the region fits.
static PrefetchPlan planPrefetch(const OverlapGraph &graph,
                                 const FusionLegality &legality,
                                 int64_t &budget) {
  PrefetchPlan plan;
  plan.gathers = findGathers(graph, legality);
  std::vector<int64_t> live(graph.size());
  for (const Gather &gather : plan.gathers)
    for (unsigned i = gather.first; i <= gather.last; ++i)
      if ((live[i] += gather.bytes) > plan.neededBytes) {
        plan.neededBytes = live[i];
        plan.needed = i;
      }
  if (budget == 0) {
    int64_t most = findMostRead(graph, plan.gathers);
    budget = most > INT64_MAX / 2 ? INT64_MAX : 2 * most;
  }
  if (plan.neededBytes > budget)
    return plan;
  constexpr unsigned kMostTries = 16;
  int64_t bound = budget;
  for (unsigned i = 0; i < kMostTries; ++i) {
    plan.peakBytes = issueWithin(plan.gathers, graph.size(), bound);
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

namespace {

struct PrefetchAllGather final
    : fusion::impl::PrefetchAllGatherBase<PrefetchAllGather> {
  using Base::Base;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!main || !llvm::hasSingleElement(main.getBody()) ||
        main->hasAttr(kPrefetchBudgetAttr) ||
        main.getBody().front().getOps<AllGatherOp>().empty())
      return markAllAnalysesPreserved();
    FailureOr<FusionLegality> legality =
        FusionLegality::create(main, GroupLimits());
    if (failed(legality))
      return signalPassFailure();
    auto graph = std::make_unique<OverlapGraph>(main, nullptr);
    int64_t most = std::min<uint64_t>(budget, INT64_MAX);
    PrefetchPlan plan = planPrefetch(*graph, *legality, most);
    int64_t numRepeats = 0;
    if (plan.neededBytes > most) {
      numRepeats = repeatGathers(*graph, plan.gathers, most);
      graph = std::make_unique<OverlapGraph>(main, nullptr);
      legality = FusionLegality::create(main, GroupLimits());
      plan = planPrefetch(*graph, *legality, most);
    }
    if (plan.gathers.empty())
      return markAllAnalysesPreserved();
    if (plan.neededBytes > most) {
      emitError((*graph)[plan.needed].op, ErrorKind::Resources)
          << "needs " << plan.neededBytes
          << " bytes of gathered values at once, --prefetch-budget allows "
          << most << ": give at least " << plan.neededBytes;
      return signalPassFailure();
    }
    main->setAttr(kPrefetchBudgetAttr,
                  IntegerAttr::get(IntegerType::get(&getContext(), 64), most));
    rewrite(main, *graph, plan);
    remark::passed(main.getLoc(), name("prefetch"))
        << remark::add("gathers start as early as the budget allows")
        << remark::metric("Budget", most)
        << remark::metric("PeakBytes", plan.peakBytes)
        << remark::metric("RegionBytes", plan.ringBytes)
        << remark::metric("NeededBytes", plan.neededBytes)
        << remark::metric("Gathers", int64_t(plan.gathers.size()))
        << remark::metric("Repeated", numRepeats);
  }

private:
  remark::RemarkOpts name(StringRef rule) {
    return remark::RemarkOpts::name(rule).category("fusion").function(function);
  }
  void rewrite(func::FuncOp main, const OverlapGraph &graph,
               const PrefetchPlan &plan);
};

} // namespace

void PrefetchAllGather::rewrite(func::FuncOp main, const OverlapGraph &graph,
                                const PrefetchPlan &plan) {
  llvm::DenseMap<unsigned, SmallVector<unsigned, 2>> starts, awaits;
  llvm::DenseSet<unsigned> moved;
  for (const Gather &gather : plan.gathers) {
    starts[gather.issue].push_back(gather.node);
    awaits[gather.first].push_back(gather.node);
    moved.insert(gather.node);
  }
  std::vector<int64_t> before(graph.size() + 1); // ops that stay, by position
  for (unsigned id = 0; id < graph.size(); ++id)
    before[id + 1] = before[id] + !moved.contains(id);
  for (const Gather &gather : plan.gathers) {
    Operation *op = graph[gather.node].op;
    op->setAttr(kPrefetchedAttr, UnitAttr::get(&getContext()));
    remark::passed(op->getLoc(), name("prefetch-gather"))
        << remark::add("starts before its readers")
        << remark::metric("Bytes", gather.bytes)
        << remark::metric("Ahead", before[gather.first] - before[gather.issue]);
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
