//===- HiddenLaunches.cpp - Launches beside communication -----------------===//
//
// The schedule of the function is asked of the same plan that the schedule
// phase makes: without launches, with all of them, and with fewer. Exposed
// intervals are filled by members of launches that run since the collective
// started which is waited for. Where those do not fit, whole launches are left
// apart, which ends at what the groups apart expose.
//
//===----------------------------------------------------------------------===//
#include "HiddenLaunches.h"
#include "GrowingLaunch.h"
#include "HorizontalLaunches.h"

#include "fusion/Analysis/OverlapPlan.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;
using namespace fusion;

/// Plans that are tried, each way, and ops beyond which none is.
static constexpr unsigned kMaxTrials = 12;
static constexpr unsigned kMostNodes = 1 << 14;

/// Microseconds that are no difference.
static constexpr double kSameUs = 1e-3;

/// How much longer the step may get beside what is sent more slowly: not all
/// members are as long as what is exposed.
static constexpr double kMostLonger = 1.01;

/// Of what is exposed more, how much is filled: kernels that run beside a
/// collective slow it down.
static constexpr double kFill = 1.05;

/// What share of the step the groups apart may expose as if it were nothing:
/// phases behind this one price kernels a little otherwise.
static constexpr double kLater = 0.002;

namespace {

/// A schedule of the function as it is now.
struct Estimate {
  std::unique_ptr<OverlapGraph> graph;
  OverlapPlan plan;

  double getStepUs() const { return plan.getTimeline().stepUs; }
  double getExposedUs() const { return plan.getTimeline().exposedUs; }
};

/// A launch beside a collective that an exposed interval waits for, or behind.
struct HiddenLaunch {
  /// Nodes that would run while the collective is waited for if they were in
  /// launches of their own.
  ArrayRef<unsigned> members;
  double memberUs; ///< that each would fill
  /// The exposed intervals of the timeline that get shorter by that.
  unsigned firstExposure = 0, lastExposure = 0;

  /// The last but one leaves none behind.
  size_t getMost() const { return std::max<size_t>(members.size() - 1, 1); }
};

/// The last `count` members of a launch, to be launches of their own.
struct Pick {
  ArrayRef<unsigned> members;
  size_t count;

  /// One member alone is no launch.
  ArrayRef<unsigned> getApart() const {
    return members.take_back(count + 1 == members.size() ? count + 1 : count);
  }
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
  /// Rewrites the function into another plan.
  FailureOr<Estimate> take(HorizontalPlan other);
  bool mayChange(const PlannedLaunch &launch) const {
    return launch.members.size() > 1 &&
           !(requested && requested->isFixed[launch.members.front()]);
  }
  SmallVector<HiddenLaunch> findHidden(const Estimate &now) const;
  void findBehind(const Estimate &now, ArrayRef<HiddenLaunch> launches,
                  ArrayRef<StepSpan> spans,
                  SmallVectorImpl<HiddenLaunch> &hidden) const;
  SmallVector<Pick> choose(const Estimate &now, double wantedUs) const;
  HorizontalPlan leaveApart(const HorizontalPlan &from,
                            ArrayRef<Pick> picks) const;
  void sortByProgram(HorizontalPlan &sorted) const;
  double getExcessUs(const Estimate &now) const {
    return now.getExposedUs() - withoutExposedUs;
  }
  bool isBetter(const Estimate &next, const Estimate &now) const;
  LogicalResult fill(Estimate &now);
  LogicalResult leaveMany(Estimate &now);

  func::FuncOp function;
  const HorizontalGraph &graph;
  const HorizontalLimits &limits;
  const CostModel &model;
  CommModel comms;
  const RequestedLaunches *requested;
  HorizontalPlan &plan;
  /// Predicted without launches, and with all of them.
  double withoutUs = 0, withoutExposedUs = 0, allUs = 0, allExposedUs = 0;
  /// Launches, by their last member, that fill nothing.
  llvm::DenseSet<unsigned> useless;
  /// Whether what is left is covered by a member that takes longer.
  bool isCovering = false;
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

FailureOr<Estimate> LaunchExposure::take(HorizontalPlan other) {
  unform();
  plan = std::move(other);
  form();
  return estimate();
}

/// Launches that run since the collective started which an exposed interval
/// waits for, and members of later ones that could.
SmallVector<HiddenLaunch>
LaunchExposure::findHidden(const Estimate &now) const {
  const Timeline &timeline = now.plan.overlapped;
  ArrayRef<TimedStep> steps = now.plan.steps;
  llvm::DenseMap<Operation *, const PlannedLaunch *> launchOf;
  for (const PlannedLaunch &launch : plan.launches)
    if (mayChange(launch))
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
        {it->second->members, gainUs / (it->second->members.size() - 1)});
    spans.push_back(timeline.spans[step]);
  }
  // The last collective that started as soon as it could, of those until each:
  // what takes longer before that makes it late.
  llvm::DenseMap<unsigned, double> sinceOf;
  std::map<unsigned, double> streams;
  for (unsigned step = 0; step < steps.size(); ++step) {
    if (!steps[step].isComm)
      continue;
    double readyUs = 0;
    for (unsigned other : steps[step].waits)
      if (other < step)
        readyUs = std::max(readyUs, timeline.spans[other].endUs);
    double &since = streams[steps[step].stream];
    if (timeline.spans[step].beginUs <= readyUs + kSameUs)
      since = timeline.spans[step].beginUs;
    sinceOf[step] = since;
  }
  SmallVector<HiddenLaunch> hidden, others;
  SmallVector<StepSpan> otherSpans;
  unsigned numExposures = timeline.exposures.size();
  for (auto [launch, span] : llvm::zip(launches, spans)) {
    double beginUs = span.beginUs, endUs = span.endUs;
    auto isBeside = [&](unsigned interval) {
      const Exposure &exposure = timeline.exposures[interval];
      return endUs <= exposure.beginUs + kSameUs &&
             beginUs >= sinceOf.lookup(exposure.comm) - kSameUs;
    };
    unsigned &first = launch.firstExposure, &last = launch.lastExposure;
    while (first < numExposures && !isBeside(first))
      ++first;
    if (first == numExposures) {
      others.push_back(launch);
      otherSpans.push_back(span);
      continue;
    }
    last = first;
    while (last + 1 < numExposures && isBeside(last + 1))
      ++last;
    hidden.push_back(launch);
  }
  findBehind(now, others, otherSpans, hidden);
  llvm::erase_if(hidden, [&](const HiddenLaunch &each) {
    return useless.contains(each.members.back());
  });
  return hidden;
}

/// Adds members of launches behind an exposed interval that could run in it:
/// they wait for other members' operands.
void LaunchExposure::findBehind(const Estimate &now,
                                ArrayRef<HiddenLaunch> launches,
                                ArrayRef<StepSpan> spans,
                                SmallVectorImpl<HiddenLaunch> &hidden) const {
  ArrayRef<Exposure> exposures = now.plan.overlapped.exposures;
  llvm::DenseMap<Operation *, double> ends;
  for (unsigned step = 0; step < now.plan.steps.size(); ++step)
    ends[(*now.graph)[now.plan.nodeOf[step]].op] =
        now.plan.overlapped.spans[step].endUs;
  auto endOf = [&](unsigned node) {
    Operation *op = graph[node].op;
    if (auto launch = dyn_cast<GroupOp>(op->getParentOp()))
      op = launch;
    return ends.lookup(op);
  };
  for (auto [launch, span] : llvm::zip(launches, spans)) {
    unsigned end = 0;
    while (end < exposures.size() &&
           exposures[end].endUs <= span.beginUs + kSameUs)
      ++end;
    for (const unsigned &node : launch.members) {
      double readyUs = 0;
      for (unsigned producer : graph[node].producers)
        readyUs = std::max(readyUs, endOf(producer));
      unsigned first = 0;
      while (first < end && exposures[first].beginUs < readyUs - kSameUs)
        ++first;
      if (first < end)
        hidden.push_back({ArrayRef(node), memberUs[node], first, end - 1});
    }
  }
}

/// Members that, in launches of their own, would take about `wantedUs` longer
/// while a collective is waited for.
SmallVector<Pick> LaunchExposure::choose(const Estimate &now,
                                         double wantedUs) const {
  SmallVector<HiddenLaunch> hidden = findHidden(now);
  if (hidden.empty())
    return {};
  // The longest first if a long one is to cover the rest.
  if (isCovering)
    llvm::sort(hidden, [](const HiddenLaunch &a, const HiddenLaunch &b) {
      return std::tuple(b.memberUs, a.members.back()) <
             std::tuple(a.memberUs, b.members.back());
    });
  SmallVector<double> leftUs;
  for (const Exposure &exposure : now.plan.overlapped.exposures)
    leftUs.push_back(exposure.endUs - exposure.beginUs);
  SmallVector<size_t> counts;
  double takenUs = 0, leastUs = INFINITY;
  size_t shortest = 0, cover = hidden.size();
  for (auto [at, each] : llvm::enumerate(hidden)) {
    auto beside = MutableArrayRef(leftUs).slice(
        each.firstExposure, each.lastExposure - each.firstExposure + 1);
    double us = std::min(wantedUs - takenUs,
                         std::accumulate(beside.begin(), beside.end(), 0.0));
    size_t count = std::min<double>(each.getMost(), us / each.memberUs);
    counts.push_back(count);
    if (each.memberUs < hidden[shortest].memberUs)
      shortest = at;
    us = count * each.memberUs;
    double moreUs = takenUs + us + each.memberUs - wantedUs;
    if (count < each.getMost() && moreUs >= 0 && moreUs < leastUs) {
      leastUs = moreUs;
      cover = at;
    }
    takenUs += us;
    for (double &left : beside) {
      double filled = std::min(left, us);
      left -= filled;
      us -= filled;
    }
  }
  if (wantedUs - takenUs > kSameUs) {
    if (isCovering && cover < hidden.size()) {
      // It makes do without what is shorter.
      counts.resize(cover + 1);
      shortest = cover;
    }
    ++counts[shortest];
  }
  SmallVector<Pick> picks;
  for (auto [each, count] : llvm::zip(hidden, counts))
    if (count > 0)
      picks.push_back({each.members, std::min(count, each.members.size())});
  return picks;
}

/// The plan with some nodes in launches of their own, right behind those that
/// they were in.
HorizontalPlan LaunchExposure::leaveApart(const HorizontalPlan &from,
                                          ArrayRef<Pick> picks) const {
  llvm::DenseSet<unsigned> apart;
  for (const Pick &pick : picks)
    apart.insert_range(pick.getApart());
  HorizontalPlan result;
  result.refusals = from.refusals;
  result.isAcyclic = from.isAcyclic;
  result.apart = from.apart;
  LaunchBudget budget(graph, limits, model);
  for (const PlannedLaunch &launch : from.launches) {
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

/// Puts launches and nodes where the program has their last op: all nodes apart
/// are as they were.
void LaunchExposure::sortByProgram(HorizontalPlan &sorted) const {
  HorizontalLaunches launches(graph, nullptr);
  SmallVector<unsigned> nodes;
  for (const PlannedLaunch &launch : sorted.launches)
    llvm::append_range(nodes, launch.members);
  launches.replace(nodes, sorted.launches);
  sorted.launches.clear();
  sorted.isAcyclic = launches.take(sorted);
}

/// Whether less is exposed, and the step not much longer for it.
bool LaunchExposure::isBetter(const Estimate &next, const Estimate &now) const {
  double slowedUs =
      comms.getComm().slowdownComm * (allExposedUs - next.getExposedUs());
  return next.getExposedUs() < now.getExposedUs() - kSameUs &&
         next.getStepUs() <= kMostLonger * allUs + slowedUs &&
         next.getStepUs() <= withoutUs + kSameUs;
}

/// Leaves apart what fills the exposed intervals.
LogicalResult LaunchExposure::fill(Estimate &now) {
  useless.clear();
  // After a trial that failed: fewer picks, of fewer members.
  size_t mostPicks = SIZE_MAX, mostMembers = SIZE_MAX;
  for (unsigned trial = 0; trial < kMaxTrials && getExcessUs(now) > kSameUs;
       ++trial) {
    SmallVector<Pick> picks = choose(now, kFill * getExcessUs(now));
    if (picks.empty())
      break;
    if (picks.size() > mostPicks)
      picks.resize(mostPicks);
    for (Pick &pick : picks)
      pick.count = std::min(pick.count, mostMembers);
    size_t numPicks = picks.size(), numMembers = picks.front().count;
    unsigned last = picks.front().members.back();
    HorizontalPlan before = plan;
    FailureOr<Estimate> next = take(leaveApart(plan, picks));
    if (failed(next))
      return failure();
    if (isBetter(*next, now)) {
      now = std::move(*next);
      mostPicks = mostMembers = SIZE_MAX;
      continue;
    }
    // The estimate before is of launches that are gone.
    next = take(std::move(before));
    if (failed(next))
      return failure();
    now = std::move(*next);
    if (numPicks > 1) {
      mostPicks = numPicks / 2;
    } else if (numMembers > 1) {
      mostMembers = std::max<size_t>(numMembers / 4, 1);
    } else {
      useless.insert(last);
      mostPicks = mostMembers = SIZE_MAX;
    }
  }
  return success();
}

/// Leaves whole launches apart, those nearest before what is exposed last
/// first, as few as it takes: without any launch nothing more is exposed.
LogicalResult LaunchExposure::leaveMany(Estimate &now) {
  const Timeline &timeline = now.plan.overlapped;
  if (timeline.exposures.empty())
    return success();
  double lastUs = timeline.exposures.back().beginUs;
  llvm::DenseMap<Operation *, double> begins;
  for (unsigned step = 0; step < now.plan.steps.size(); ++step)
    begins[(*now.graph)[now.plan.nodeOf[step]].op] =
        timeline.spans[step].beginUs;
  HorizontalPlan before = plan;
  // By whether it is behind that, by how far it is away, by its first member.
  using Distance = std::tuple<bool, double, unsigned>;
  SmallVector<std::pair<Distance, ArrayRef<unsigned>>> order;
  for (const PlannedLaunch &launch : before.launches)
    if (mayChange(launch)) {
      unsigned first = launch.members.front();
      double us = begins.lookup(graph[first].group->getParentOp());
      order.push_back({Distance(us > lastUs, std::abs(us - lastUs), first),
                       launch.members});
    }
  llvm::sort(order, llvm::less_first());
  auto leave = [&](size_t count) {
    if (count == 0)
      return take(before);
    SmallVector<Pick> picks;
    for (auto [distance, members] : ArrayRef(order).take_front(count))
      picks.push_back({members, members.size()});
    HorizontalPlan after = leaveApart(before, picks);
    sortByProgram(after);
    return take(std::move(after));
  };
  size_t none = 0, enough = order.size(), best = 0;
  auto tryCount = [&](size_t count) {
    FailureOr<Estimate> next = leave(count);
    if (failed(next))
      return failure();
    (getExcessUs(*next) > kSameUs ? none : enough) = count;
    if (isBetter(*next, now) || (best != 0 && getExcessUs(*next) <= kSameUs &&
                                 next->getStepUs() < now.getStepUs())) {
      best = count;
      now = std::move(*next);
    }
    return success();
  };
  if (failed(tryCount(order.size())))
    return failure();
  while (enough - none > 1)
    if (failed(tryCount((none + enough) / 2)))
      return failure();
  FailureOr<Estimate> last = leave(best);
  if (failed(last))
    return failure();
  now = std::move(*last);
  return success();
}

LogicalResult LaunchExposure::run() {
  FailureOr<Estimate> without = estimate();
  form();
  FailureOr<Estimate> now = estimate();
  if (failed(without) || failed(now))
    return failure();
  withoutUs = without->getStepUs();
  withoutExposedUs = without->getExposedUs();
  if (withoutExposedUs < kLater * withoutUs)
    withoutExposedUs = 0;
  allUs = now->getStepUs();
  allExposedUs = now->getExposedUs();
  HorizontalPlan all = plan;
  if (failed(fill(*now)))
    return failure();
  if (getExcessUs(*now) > kSameUs) {
    HorizontalPlan filled = plan;
    double exposedUs = now->getExposedUs();
    isCovering = true;
    if (failed(now = take(std::move(all))) || failed(fill(*now)))
      return failure();
    if (now->getExposedUs() > exposedUs && failed(now = take(filled)))
      return failure();
  }
  if (getExcessUs(*now) > kSameUs && failed(leaveMany(*now)))
    return failure();
  if (allExposedUs > withoutExposedUs + kSameUs)
    plan.exposure = {allExposedUs, now->getExposedUs(), withoutExposedUs,
                     now->getStepUs(), allUs};
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
