//===- HiddenLaunches.cpp - Launches beside communication -----------------===//
//
// The schedule of the function is asked of the same plan that the schedule
// phase makes: without launches, with all of them, and with fewer. An exposed
// interval is filled from its begin backwards, by members of the launches that
// ran since the collective started which is waited for.
//
//===----------------------------------------------------------------------===//
#include "HiddenLaunches.h"
#include "GrowingLaunch.h"

#include "fusion/Analysis/OverlapPlan.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace fusion;

/// Plans that are tried, and ops beyond which none is.
static constexpr unsigned kMaxTrials = 16;
static constexpr unsigned kMostNodes = 1 << 14;

/// Microseconds that are no difference.
static constexpr double kSameUs = 1e-3;

/// How much longer the step may get beside what is sent more slowly: not all
/// members are as long as what is exposed.
static constexpr double kMostLonger = 1.01;

/// Of what is exposed more, how much is filled: later phases make some groups
/// views, which take no time.
static constexpr double kFill = 1.05;

namespace {

/// A schedule of the function as it is now.
struct Estimate {
  std::unique_ptr<OverlapGraph> graph;
  OverlapPlan plan;

  const Timeline &getTimeline() const {
    // What the schedule phase would take.
    bool isSerial =
        plan.numStarted == 0 || plan.overlapped.stepUs > plan.serial.stepUs;
    return isSerial ? plan.serial : plan.overlapped;
  }
  double getStepUs() const { return getTimeline().stepUs; }
  double getExposedUs() const { return getTimeline().exposedUs; }
};

/// A launch beside a collective that an exposed interval waits for, or behind.
struct HiddenLaunch {
  /// Nodes that would run while the collective is waited for if they were in
  /// launches of their own.
  ArrayRef<unsigned> members;
  double memberUs;   ///< that each would fill
  unsigned exposure; ///< of the timeline
};

class LaunchExposure {
public:
  LaunchExposure(func::FuncOp function, const HorizontalGraph &graph,
                 const HorizontalLimits &limits, const CostModel &model,
                 const RequestedLaunches *requested, HorizontalPlan &plan)
      : function(function), graph(graph), limits(limits), model(model),
        comms(model.getDevice()), requested(requested), plan(plan) {}

  LogicalResult run();

private:
  FailureOr<Estimate> estimate();
  void form() { formHorizontal(function.getBody().front(), graph, plan); }
  void unform();
  SmallVector<HiddenLaunch> findHidden(const Estimate &now) const;
  ArrayRef<unsigned> findBefore(const Estimate &now) const;
  llvm::DenseSet<unsigned> choose(const Estimate &now, double wantedUs) const;
  HorizontalPlan leaveApart(const llvm::DenseSet<unsigned> &apart);

  func::FuncOp function;
  const HorizontalGraph &graph;
  const HorizontalLimits &limits;
  const CostModel &model;
  CommModel comms;
  const RequestedLaunches *requested;
  HorizontalPlan &plan;
  /// Launches, by their first member, that are known to be better than none.
  llvm::DenseSet<unsigned> kept;
  /// By node that is a group: microseconds of a launch of its own.
  SmallVector<double, 0> memberUs;
};

} // namespace

FailureOr<Estimate> LaunchExposure::estimate() {
  FailureOr<StepPrices> prices = StepPrices::create(function, model, comms);
  if (failed(prices))
    return failure();
  Estimate result;
  result.graph = std::make_unique<OverlapGraph>(function, &*prices);
  result.plan = planOverlap(*result.graph, *prices);
  if (memberUs.empty())
    for (unsigned node = 0; node < graph.size(); ++node)
      memberUs.push_back(
          graph[node].group ? prices->getStep(graph[node].group).us : 0);
  return result;
}

/// Takes the launches apart again, where they are.
void LaunchExposure::unform() {
  for (const PlannedLaunch &launch : plan.launches) {
    if (launch.members.size() < 2)
      continue;
    auto group =
        cast<GroupOp>(graph[launch.members.front()].group->getParentOp());
    Block *body = group.getBodyBlock();
    for (auto [argument, input] :
         llvm::zip(body->getArguments(), group.getInputs()))
      argument.replaceAllUsesWith(input);
    YieldOp yield = group.getYield();
    group->replaceAllUsesWith(yield.getValues());
    yield->erase();
    for (Operation &member : llvm::make_early_inc_range(*body))
      member.moveBefore(group);
    group->erase();
  }
}

/// Launches that run since the collective started which an exposed interval
/// waits for, and members of later ones that could: the last interval's first,
/// of these the latest.
SmallVector<HiddenLaunch>
LaunchExposure::findHidden(const Estimate &now) const {
  const Timeline &timeline = now.plan.overlapped;
  ArrayRef<TimedStep> steps = now.plan.steps;
  llvm::DenseMap<Operation *, const PlannedLaunch *> launchOf;
  for (const PlannedLaunch &launch : plan.launches)
    if (launch.members.size() > 1 &&
        !(requested && requested->isFixed[launch.members.front()]))
      launchOf[graph[launch.members.front()].group->getParentOp()] = &launch;
  SmallVector<HiddenLaunch> launches;
  SmallVector<StepSpan> spans;
  for (unsigned step = steps.size(); step-- > 0;) {
    auto it = launchOf.find((*now.graph)[now.plan.nodeOf[step]].op);
    if (it == launchOf.end())
      continue;
    double aloneUs = 0;
    for (unsigned member : it->second->members)
      aloneUs += memberUs[member];
    double gainUs = (1 + steps[step].slowdown) * (aloneUs - steps[step].us);
    if (gainUs <= kSameUs)
      continue;
    launches.push_back(
        {it->second->members, gainUs / (it->second->members.size() - 1), 0});
    spans.push_back(timeline.spans[step]);
  }
  // When the transfers began that go on without a gap until each one.
  llvm::DenseMap<unsigned, double> busySince;
  std::map<unsigned, StepSpan> streams;
  for (unsigned step = 0; step < steps.size(); ++step) {
    if (!steps[step].isComm)
      continue;
    const StepSpan &span = timeline.spans[step];
    auto [busy, isNew] = streams.try_emplace(steps[step].stream, span);
    if (span.beginUs > busy->second.endUs + kSameUs)
      busy->second.beginUs = span.beginUs;
    busy->second.endUs = span.endUs;
    busySince[step] = busy->second.beginUs;
  }
  llvm::DenseMap<Operation *, double> ends;
  for (unsigned step = 0; step < steps.size(); ++step)
    ends[(*now.graph)[now.plan.nodeOf[step]].op] = timeline.spans[step].endUs;
  auto endOf = [&](unsigned node) {
    Operation *op = graph[node].op;
    if (auto launch = dyn_cast<GroupOp>(op->getParentOp()))
      op = launch;
    return ends.lookup(op);
  };
  SmallVector<HiddenLaunch> hidden;
  SmallVector<bool> isTaken(launches.size());
  for (unsigned interval = timeline.exposures.size(); interval-- > 0;) {
    const Exposure &exposure = timeline.exposures[interval];
    double since = busySince.lookup(exposure.comm);
    for (size_t at = 0; at < launches.size(); ++at) {
      if (isTaken[at] || spans[at].beginUs < since - kSameUs ||
          spans[at].endUs > exposure.beginUs + kSameUs)
        continue;
      isTaken[at] = true;
      launches[at].exposure = interval;
      hidden.push_back(launches[at]);
    }
    // Members of those behind it, which wait for other members' operands.
    for (size_t at = launches.size(); at-- > 0;) {
      if (isTaken[at] || spans[at].beginUs < exposure.endUs - kSameUs)
        continue;
      for (const unsigned &node : launches[at].members)
        if (llvm::all_of(graph[node].producers, [&](unsigned producer) {
              return endOf(producer) <= exposure.beginUs + kSameUs;
            }))
          hidden.push_back({ArrayRef(node), memberUs[node], interval});
    }
  }
  return hidden;
}

/// The last launch before what is exposed last, of those not tried yet: its
/// members may find room where all of them together did not.
ArrayRef<unsigned> LaunchExposure::findBefore(const Estimate &now) const {
  const Timeline &timeline = now.plan.overlapped;
  if (timeline.exposures.empty())
    return {};
  llvm::DenseMap<Operation *, double> begins;
  for (unsigned step = 0; step < now.plan.steps.size(); ++step)
    begins[(*now.graph)[now.plan.nodeOf[step]].op] =
        timeline.spans[step].beginUs;
  const PlannedLaunch *last = nullptr;
  double lastUs = -1;
  for (const PlannedLaunch &launch : plan.launches) {
    unsigned first = launch.members.front();
    if (launch.members.size() < 2 || kept.contains(first) ||
        (requested && requested->isFixed[first]))
      continue;
    double us = begins.lookup(graph[first].group->getParentOp());
    if (us > lastUs && us < timeline.exposures.back().beginUs) {
      last = &launch;
      lastUs = us;
    }
  }
  return last ? ArrayRef<unsigned>(last->members) : ArrayRef<unsigned>();
}

/// Nodes that, in launches of their own, would take about `wantedUs` longer
/// while a collective is waited for.
llvm::DenseSet<unsigned> LaunchExposure::choose(const Estimate &now,
                                                double wantedUs) const {
  SmallVector<HiddenLaunch> hidden = findHidden(now);
  SmallVector<double> roomUs;
  for (const Exposure &exposure : now.plan.overlapped.exposures)
    roomUs.push_back(exposure.endUs - exposure.beginUs);
  llvm::DenseSet<unsigned> apart;
  auto take = [&](const HiddenLaunch &each, size_t count) {
    // The last but one leaves none behind.
    if (count + 1 == each.members.size())
      ++count;
    ArrayRef<unsigned> last = each.members.take_back(count);
    apart.insert(last.begin(), last.end());
  };
  for (const HiddenLaunch &each : hidden) {
    double &room = roomUs[each.exposure];
    double most = std::min<double>(std::max<size_t>(each.members.size() - 1, 1),
                                   std::floor(room / each.memberUs));
    size_t count = std::min(most, std::ceil(wantedUs / each.memberUs));
    if (count == 0)
      continue;
    take(each, count);
    room -= count * each.memberUs;
    wantedUs -= count * each.memberUs;
    if (wantedUs <= kSameUs)
      break;
  }
  // No member is so short: the shortest.
  if (apart.empty() && !hidden.empty())
    take(*llvm::min_element(hidden,
                            [](const HiddenLaunch &a, const HiddenLaunch &b) {
                              return a.memberUs < b.memberUs;
                            }),
         1);
  return apart;
}

/// The plan with some nodes in launches of their own, right behind those that
/// they were in.
HorizontalPlan
LaunchExposure::leaveApart(const llvm::DenseSet<unsigned> &apart) {
  HorizontalPlan result;
  result.refusals = plan.refusals;
  result.isAcyclic = plan.isAcyclic;
  result.apart = plan.apart;
  LaunchBudget budget(graph, limits, model);
  for (const PlannedLaunch &launch : plan.launches) {
    SmallVector<unsigned> alone;
    if (launch.members.size() < 2 ||
        llvm::none_of(launch.members,
                      [&](unsigned node) { return apart.contains(node); })) {
      result.launches.push_back(launch);
      continue;
    }
    GrowingLaunch growing(budget);
    for (unsigned node : launch.members)
      if (apart.contains(node) || growing.tryAdd(node))
        alone.push_back(node);
    if (!growing.launch.members.empty())
      result.launches.push_back(std::move(growing.launch));
    for (unsigned node : alone)
      result.launches.emplace_back().members = {node};
    llvm::append_range(result.apart, alone);
  }
  return result;
}

LogicalResult LaunchExposure::run() {
  FailureOr<Estimate> without = estimate();
  form();
  FailureOr<Estimate> now = estimate();
  if (failed(without) || failed(now))
    return failure();
  double mostUs = kMostLonger * now->getStepUs(), allUs = now->getExposedUs();
  double share = kFill;
  for (unsigned trial = 0; trial < kMaxTrials; ++trial) {
    double excessUs = now->getExposedUs() - without->getExposedUs();
    if (excessUs <= kSameUs)
      break;
    llvm::DenseSet<unsigned> apart = choose(*now, share * excessUs);
    if (apart.empty()) {
      ArrayRef<unsigned> members = findBefore(*now);
      if (members.empty())
        break;
      apart.insert(members.begin(), members.end());
      kept.insert(members.front());
    }
    HorizontalPlan before = plan, after = leaveApart(apart);
    unform();
    plan = std::move(after);
    form();
    FailureOr<Estimate> next = estimate();
    if (failed(next))
      return failure();
    double slowedUs =
        comms.getComm().slowdownComm * (allUs - next->getExposedUs());
    if (next->getExposedUs() < now->getExposedUs() - kSameUs &&
        next->getStepUs() <= mostUs + slowedUs &&
        next->getStepUs() <= without->getStepUs() + kSameUs) {
      now = std::move(next);
      continue;
    }
    unform();
    plan = std::move(before);
    form();
    // The estimate before is of launches that are gone.
    now = estimate();
    if (failed(now))
      return failure();
    share /= 2;
  }
  return success();
}

LogicalResult
fusion::formLaunches(FunctionOpInterface function, const HorizontalGraph &graph,
                     const HorizontalLimits &limits, const CostModel &model,
                     const RequestedLaunches *requested, HorizontalPlan &plan) {
  Block &block = function.getFunctionBody().front();
  auto main = dyn_cast<func::FuncOp>(function.getOperation());
  if (main && graph.size() <= kMostNodes &&
      !block.getOps<CommunicationOpInterface>().empty())
    return LaunchExposure(main, graph, limits, model, requested, plan).run();
  formHorizontal(block, graph, plan);
  return success();
}
