//===- OverlapPlan.cpp - What starts when, beside what --------------------===//
//
// The clock is that of stream 0. Among the kernels whose inputs have come, the
// first in program order goes on, or in an order that hides more
// (KernelOrder.cpp); if none has, the one whose collective is done first.
// Collectives start in the order in which they are ready. All figures
// are of the device's file, so every rank decides alike.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/OverlapPlan.h"

#include "KernelOrder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

#include <queue>

using namespace mlir;
using namespace fusion;

/// Orders that are tried, and nodes of all of them together.
static constexpr size_t kMaxTrials = 16, kTrialNodes = 1 << 17;

/// Microseconds that are no difference.
static constexpr double kSameUs = 1e-3;

/// How many bytes more than in the given order a better one may need: small
/// values that stand elsewhere.
static constexpr double kSameBytes = 1 + 1e-3;

unsigned fusion::getCommStream(Operation *op) {
  // A bucket's reduction may be a move, and sums in other kernels.
  if (isa<AllReduceOp, ReduceScatterOp>(op) || op->hasAttr("fusion.bucket"))
    return 1;
  return isa<AllGatherOp>(op) ? 2 : 3;
}

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

bool OverlapGraph::isLazy(Operation *op) {
  // What only orders ops is gone before anything is scheduled.
  return isa<ConstantOp, GetParameterOp, ReshapeOp, RankSliceOp, AfterOp>(op) ||
         (isa<GroupOp>(op) && op->hasAttr(kViewAttr));
}

/// The op that is no view behind `value`, or null.
static Operation *getProducer(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && OverlapGraph::isLazy(op)) {
    if (op->getNumOperands() == 0)
      return nullptr;
    unsigned input =
        isa<GroupOp>(op) ? cast<OpResult>(value).getResultNumber() : 0;
    value = op->getOperand(input);
    op = value.getDefiningOp();
  }
  return op;
}

OverlapGraph::OverlapGraph(func::FuncOp function, StepPrices *prices) {
  llvm::DenseMap<Operation *, unsigned> nodeOf;
  int64_t barrier = -1, pinned = -1;
  unsigned sinceBarrier = 0;
  // Readers of gathered values since the last region: what was there before a
  // region is not moved behind it, since the region's memory may be theirs.
  SmallVector<unsigned> sinceRegion;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isLazy(&op))
      continue;
    unsigned id = nodes.size();
    nodeOf[&op] = id;
    OverlapNode &node = nodes.emplace_back();
    node.op = &op;
    node.isRegion = isa<AsyncOp>(op);
    node.isComm = isa<CommunicationOpInterface>(op);
    node.isBarrier = !node.isComm && !node.isRegion && !isa<AwaitOp>(op) &&
                     !isMemoryEffectFree(&op);
    if (node.isRegion) {
      node.stream = cast<AsyncOp>(op).getStream();
      for (Operation &inner : cast<AsyncOp>(op).getBody().front()) {
        TimedStep step = prices ? prices->getStep(&inner) : TimedStep();
        node.price.us += step.us;
        if (!step.isComm)
          continue;
        node.price.link = step.link;
        node.price.slowdownOfKernels = step.slowdownOfKernels;
        node.price.slowdownOfComm = step.slowdownOfComm;
      }
      node.price.isComm = true;
      node.price.name = "region";
    } else {
      if (prices)
        node.price = prices->getStep(&op);
      if (node.isComm)
        node.stream = getCommStream(&op);
    }
    llvm::SetVector<Value> values(op.operand_begin(), op.operand_end());
    if (op.getNumRegions() > 0 && !op.hasTrait<OpTrait::IsIsolatedFromAbove>())
      getUsedValuesDefinedAbove(op.getRegions(), values);
    llvm::SmallSetVector<unsigned, 4> before;
    bool readsGathered = false;
    for (Value value : values) {
      Operation *producer = getProducer(value);
      auto it = producer ? nodeOf.find(producer) : nodeOf.end();
      if (it == nodeOf.end())
        continue;
      before.insert(it->second);
      readsGathered |= isa<AwaitOp>(producer);
    }
    if (barrier >= 0)
      before.insert(barrier);
    if (node.isBarrier) {
      for (unsigned other = sinceBarrier; other < id; ++other)
        before.insert(other);
      sinceBarrier = id;
      barrier = id;
    }
    if (node.isRegion) {
      before.insert(sinceRegion.begin(), sinceRegion.end());
      sinceRegion.clear();
      if (pinned >= 0)
        before.insert(pinned);
      pinned = id;
      if (id > 0)
        before.insert(id - 1);
    } else if (readsGathered) {
      sinceRegion.push_back(id);
    }
    before.remove_if([&](unsigned other) { return other == id; });
    node.before.assign(before.begin(), before.end());
    llvm::sort(node.before);
    for (unsigned other : node.before)
      nodes[other].after.push_back(id);
  }
  llvm::SmallPtrSet<Operation *, 16> returnedViews;
  auto isReturned = [&](Operation *op) {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      return user->hasTrait<OpTrait::IsTerminator>() ||
             returnedViews.contains(user);
    });
  };
  for (Operation &op : llvm::reverse(function.getBody().front()))
    if (isLazy(&op) && isReturned(&op))
      returnedViews.insert(&op);
  for (OverlapNode &node : nodes) {
    node.isReturned = isReturned(node.op);
    bool isViewed = llvm::any_of(node.op->getUsers(), isLazy);
    node.isChained = node.isComm && !node.isReturned && !isViewed &&
                     node.after.size() == 1 && nodes[node.after.front()].isComm;
  }
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {

class Scheduler {
public:
  /// `order` says in which order kernels that could all run do.
  Scheduler(const OverlapGraph &graph, const CommModel &comms,
            ArrayRef<unsigned> order)
      : graph(graph), comms(comms), order(order), rank(order.size()),
        linkFree(comms.getComm().links.size()) {
    for (auto [at, node] : llvm::enumerate(order))
      rank[node] = at;
  }
  std::vector<OverlapItem> run();

private:
  /// By time, then by program order.
  using Entry = std::pair<double, unsigned>;
  using Heap =
      std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;

  static bool isAsync(const OverlapNode &node) {
    return node.isComm || node.isRegion;
  }
  /// What `node` waits for is scheduled.
  void enter(unsigned node);
  /// Its successors may be ready.
  void leave(unsigned node);
  void await(unsigned node);
  void start(unsigned node);
  void startReady();
  void runNode(unsigned node);

  const OverlapGraph &graph;
  const CommModel &comms;
  ArrayRef<unsigned> order;
  std::vector<unsigned> rank; ///< by node: its place in the order
  std::vector<OverlapItem> items;
  std::vector<unsigned> missing;
  std::vector<double> end;
  std::vector<bool> awaited;
  std::vector<unsigned> pending; ///< started collectives, in order
  size_t firstPending = 0;
  /// When a stream, and a link with what uses its wires, are done with what was
  /// started.
  std::map<unsigned, double> streamFree;
  std::vector<double> linkFree;
  double allDone = 0;            ///< of what was started
  double slowdownOfKernels = -1; ///< by what was started last
  Heap ready;                    ///< collectives
  Heap later;                    ///< kernels, by when their inputs have come
  std::priority_queue<unsigned, std::vector<unsigned>, std::greater<unsigned>>
      now; ///< ranks of kernels whose inputs have come
  double clock = 0;
};

} // namespace

void Scheduler::enter(unsigned id) {
  const OverlapNode &node = graph[id];
  double time = 0;
  bool waits = false;
  for (unsigned other : node.before) {
    time = std::max(time, end[other]);
    // A result that others read too is awaited where they can see it.
    waits |= graph[other].isComm && !graph[other].isChained && !awaited[other];
  }
  if (isAsync(node) && !waits) {
    ready.push({time, id});
    return;
  }
  if (node.isBarrier)
    for (size_t i = firstPending; i < pending.size(); ++i)
      time = std::max(time, end[pending[i]]);
  later.push({time, id});
}

void Scheduler::leave(unsigned id) {
  for (unsigned next : graph[id].after)
    if (--missing[next] == 0)
      enter(next);
}

void Scheduler::await(unsigned id) {
  if (awaited[id])
    return;
  awaited[id] = true;
  items.push_back({OverlapItem::Await, id});
}

void Scheduler::start(unsigned id) {
  const OverlapNode &node = graph[id];
  double begin = std::max(clock, streamFree[node.stream]);
  for (unsigned other : node.before) {
    if (!graph[other].isComm)
      continue;
    begin = std::max(begin, end[other]);
    // Awaited in the region, not on stream 0.
    if (graph[other].isChained)
      awaited[other] = true;
    else
      await(other);
  }
  for (auto [link, free] : llvm::enumerate(linkFree))
    if (comms.areShared(node.price.link, link))
      begin = std::max(begin, free);
  double slowdown = node.price.slowdownOfComm;
  if (slowdown < 0)
    slowdown = comms.getComm().slowdownComm;
  end[id] = begin + node.price.us * (1 + slowdown);
  slowdownOfKernels = node.price.slowdownOfKernels;
  streamFree[node.stream] = linkFree[node.price.link] = end[id];
  allDone = std::max(allDone, end[id]);
  items.push_back({node.isComm ? OverlapItem::Start : OverlapItem::Run, id});
  if (node.isComm)
    pending.push_back(id);
  leave(id);
}

void Scheduler::startReady() {
  while (!ready.empty()) {
    unsigned id = ready.top().second;
    ready.pop();
    start(id);
  }
}

void Scheduler::runNode(unsigned id) {
  const OverlapNode &node = graph[id];
  if (isAsync(node)) {
    for (unsigned other : node.before)
      if (graph[other].isComm && !graph[other].isChained)
        await(other);
    return start(id);
  }
  for (unsigned other : node.before)
    if (graph[other].isComm)
      await(other);
  if (node.isBarrier) {
    for (size_t i = firstPending; i < pending.size(); ++i)
      await(pending[i]);
    firstPending = pending.size();
  }
  items.push_back({OverlapItem::Run, id});
  // Slowed by what is sent meanwhile.
  double slowdown =
      slowdownOfKernels < 0 ? node.price.slowdown : slowdownOfKernels;
  double slowed = node.price.us * (1 + slowdown);
  double beside = std::clamp(allDone - clock, 0.0, slowed);
  clock += beside + (slowed - beside) / (1 + slowdown);
  end[id] = clock;
  leave(id);
}

std::vector<OverlapItem> Scheduler::run() {
  unsigned count = graph.size();
  missing.resize(count);
  end.resize(count);
  awaited.resize(count);
  for (unsigned id = 0; id < count; ++id)
    missing[id] = graph[id].before.size();
  for (unsigned id = 0; id < count; ++id)
    if (graph[id].before.empty())
      enter(id);
  while (true) {
    startReady();
    while (!later.empty() && later.top().first <= clock) {
      now.push(rank[later.top().second]);
      later.pop();
    }
    if (now.empty()) {
      if (later.empty())
        break;
      clock = later.top().first;
      continue;
    }
    unsigned id = order[now.top()];
    now.pop();
    runNode(id);
  }
  for (unsigned id : pending)
    await(id);
  return std::move(items);
}

/// Collectives that are awaited as soon as they start: nothing is beside them.
static void runInLine(const OverlapGraph &graph,
                      std::vector<OverlapItem> &items) {
  std::vector<OverlapItem> kept;
  for (size_t i = 0; i < items.size(); ++i) {
    kept.push_back(items[i]);
    if (items[i].kind != OverlapItem::Start || i + 1 == items.size() ||
        items[i + 1].kind != OverlapItem::Await ||
        items[i + 1].node != items[i].node)
      continue;
    // One that awaits others in its region needs the region.
    bool isChain =
        llvm::any_of(graph[items[i].node].before,
                     [&](unsigned other) { return graph[other].isChained; });
    if (isChain)
      continue;
    kept.back().kind = OverlapItem::Run;
    ++i;
  }
  items = std::move(kept);
}

/// The steps of a schedule, as buildTimedSteps would make them of its ops.
static void buildSteps(const OverlapGraph &graph, ArrayRef<OverlapItem> items,
                       std::vector<TimedStep> &steps,
                       std::vector<unsigned> &nodeOf) {
  std::vector<int64_t> stepOf(graph.size(), -1);
  int64_t lastOfMain = -1;
  std::vector<unsigned> awaited;
  for (const OverlapItem &item : items) {
    const OverlapNode &node = graph[item.node];
    if (item.kind == OverlapItem::Await || isa<AwaitOp>(node.op)) {
      unsigned source = item.node;
      if (item.kind != OverlapItem::Await)
        source = node.before.empty() ? item.node : node.before.front();
      if (stepOf[source] >= 0)
        awaited.push_back(stepOf[source]);
      continue;
    }
    if (node.price.name.empty())
      continue;
    TimedStep step = node.price;
    bool isAside = item.kind == OverlapItem::Start || node.isRegion;
    step.stream = isAside ? node.stream : 0;
    step.waits = awaited;
    if (isAside && lastOfMain >= 0)
      step.waits.push_back(lastOfMain);
    for (unsigned other : node.before)
      if (graph[other].isChained && stepOf[other] >= 0)
        step.waits.push_back(stepOf[other]);
    stepOf[item.node] = steps.size();
    if (!isAside) {
      awaited.clear();
      lastOfMain = steps.size();
    }
    nodeOf.push_back(item.node);
    steps.push_back(std::move(step));
  }
}

static OverlapPlan planInOrder(const OverlapGraph &graph, StepPrices &prices,
                               ArrayRef<unsigned> order) {
  OverlapPlan plan;
  plan.items = Scheduler(graph, prices.getComms(), order).run();
  runInLine(graph, plan.items);
  for (const OverlapItem &item : plan.items)
    plan.numStarted += item.kind == OverlapItem::Start;
  buildSteps(graph, plan.items, plan.steps, plan.nodeOf);
  plan.overlapped = simulate(plan.steps, prices.getComms());
  return plan;
}

OverlapPlan fusion::planOverlap(const OverlapGraph &graph, StepPrices &prices) {
  LiveBytes live(graph, prices);
  KernelOrder order(graph, live);
  auto measure = [&](ArrayRef<OverlapItem> items) {
    return live.getPeak(getSpans(graph, items));
  };
  OverlapPlan plan = planInOrder(graph, prices, order.get());
  plan.overlappedBytes = measure(plan.items);
  int64_t mostBytes = plan.overlappedBytes;
  size_t trials =
      std::clamp<size_t>(kTrialNodes / (graph.size() + 1), 1, kMaxTrials);
  for (; trials > 0; --trials) {
    std::optional<std::vector<unsigned>> better = order.propose(plan);
    if (!better)
      break;
    OverlapPlan trial = planInOrder(graph, prices, *better);
    trial.overlappedBytes = measure(trial.items);
    if (trial.overlapped.stepUs > plan.overlapped.stepUs - kSameUs ||
        trial.overlappedBytes > kSameBytes * mostBytes)
      continue;
    plan = std::move(trial);
    order.set(std::move(*better));
  }
  std::vector<OverlapItem> inOrder;
  for (unsigned id = 0; id < graph.size(); ++id)
    inOrder.push_back({OverlapItem::Run, id});
  std::vector<TimedStep> steps;
  std::vector<unsigned> nodeOf;
  buildSteps(graph, inOrder, steps, nodeOf);
  plan.serial = simulate(steps, prices.getComms());
  plan.serialBytes = measure(inOrder);
  return plan;
}

FailureOr<Timeline> fusion::predictStep(func::FuncOp function,
                                        const CostModel &costs, bool overlap) {
  CommModel comms(costs.getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(function, costs, comms);
  if (failed(prices))
    return failure();
  OverlapPlan plan = planOverlap(OverlapGraph(function, &*prices), *prices);
  return overlap ? plan.getTimeline() : plan.serial;
}
