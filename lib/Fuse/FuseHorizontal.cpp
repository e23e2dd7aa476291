//===- FuseHorizontal.cpp - Independent groups as one launch --------------===//
//
// The thin pass around the decision (HorizontalPlan.cpp) and the rewrite
// (FormHorizontal.cpp): checks what it is given, and says what was decided.
//
//===----------------------------------------------------------------------===//
#include "DecidingPass.h"
#include "HiddenLaunches.h"
#include "RecordHorizontal.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

#define DEBUG_TYPE "fusion-fuse-horizontal"

namespace fusion {
#define GEN_PASS_DEF_FUSEHORIZONTAL
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Adds the microseconds of the three ways.
template <typename Remark>
static void addTimes(Remark &remark, const LaunchAlternatives &times) {
  for (auto [name, us] : {std::pair("us_fused", times.fusedUs),
                          std::pair("us_serial", times.serialUs),
                          std::pair("us_streams", times.streamsUs)})
    remark << remark::metric(name, llvm::formatv("{0:f2}", us).str());
}

static void emitLaunch(const HorizontalGraph &graph,
                       const PlannedLaunch &launch) {
  GroupOp group = graph[launch.members.front()].group;
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseHorizontal);
  auto remark = remark::passed(
      group.getLoc(), remark::RemarkOpts::name(info.id).category("fusion"));
  remark << remark::reason("{0}", info.text)
         << remark::metric("ops", describeBody(group))
         << remark::metric("kind", stringifyGroupKind(group.getKind()))
         << remark::metric("members", launch.members.size())
         << remark::metric("saved_ns", static_cast<int64_t>(std::llround(
                                           1000 * launch.getSavedUs())))
         << remark::metric("extra_bytes", launch.extraBytes);
  // Gradients of several buckets: they wait for the same communication.
  llvm::SmallDenseSet<int64_t> buckets;
  for (unsigned member : launch.members)
    if (graph[member].bucket)
      buckets.insert(*graph[member].bucket);
  if (!buckets.empty())
    remark << remark::metric("buckets", int64_t(buckets.size()));
  // A launch that a plan file asked for was not compared with others.
  if (launch.times.serialUs > 0)
    addTimes(remark, launch.times);
}

static void emitRefusal(const HorizontalGraph &graph,
                        const HorizontalRefusal &refusal) {
  GroupOp group = graph[refusal.second].group;
  const FusionRuleInfo &info = getFusionRuleInfo(refusal.rule);
  auto remark = remark::missed(
      group.getLoc(), remark::RemarkOpts::name(info.id).category("fusion"));
  remark << remark::reason("{0}", info.text)
         << remark::metric("ops", describeBody(group))
         << remark::metric("kind", stringifyGroupKind(group.getKind()));
  std::string other;
  llvm::raw_string_ostream(other) << graph[refusal.first].op->getLoc();
  remark << remark::metric("other", other);
  if (refusal.limit)
    remark << remark::metric("value", refusal.value)
           << remark::metric("limit", refusal.limit);
  if (refusal.times)
    addTimes(remark, *refusal.times);
}

static void emitExposure(FunctionOpInterface function,
                         const ExposureChange &exposure) {
  auto options = remark::RemarkOpts::name("horizontal-exposed")
                     .category("fusion")
                     .function(function.getName());
  // What is a difference to HiddenLaunches.
  bool isMore = exposure.exposedUs > exposure.apartUs + 1e-3;
  auto add = [&](auto remark, StringRef text) {
    remark << remark::reason("{0}", text);
    for (auto [name, us] : {std::pair("us_exposed_all", exposure.allUs),
                            std::pair("us_exposed", exposure.exposedUs),
                            std::pair("us_exposed_apart", exposure.apartUs),
                            std::pair("us_step", exposure.stepUs),
                            std::pair("us_step_all", exposure.allStepUs)})
      remark << remark::metric(name, llvm::formatv("{0:f2}", us).str());
  };
  if (isMore)
    add(remark::missed(function.getLoc(), options),
        "more communication is exposed than by the groups apart: with fewer "
        "launches the step would be too much longer");
  else
    add(remark::passed(function.getLoc(), options),
        "no more communication is exposed than by the groups apart");
}

static void emitDecisions(FunctionOpInterface function,
                          const HorizontalGraph &graph,
                          const HorizontalPlan &plan) {
  if (plan.exposure)
    emitExposure(function, *plan.exposure);
  for (const PlannedLaunch &launch : plan.launches)
    if (launch.members.size() > 1)
      emitLaunch(graph, launch);
  for (const HorizontalRefusal &refusal : plan.refusals)
    emitRefusal(graph, refusal);
  for (unsigned node : plan.apart) {
    GroupOp group = graph[node].group;
    remark::missed(
        group.getLoc(),
        remark::RemarkOpts::name("horizontal-hidden").category("fusion"))
        << remark::reason("what the launch saves would be waited for: it runs "
                          "beside a collective")
        << remark::metric("ops", describeBody(group));
  }
}

/// What may live longer for one launch at least, and the share of the cache
/// that it may take: its readers still find it there.
static constexpr int64_t kLeastExtraBytes = 16 << 20, kCacheShare = 2;

namespace {

struct FuseHorizontal
    : DecidingPass<fusion::impl::FuseHorizontalBase<FuseHorizontal>> {
  using DecidingPass::DecidingPass;

  int64_t getMaxExtraBytes() const {
    if (maxExtraBytes > 0)
      return maxExtraBytes;
    int64_t cache = static_cast<int64_t>(model->getDevice().cacheBytes);
    return std::max(kLeastExtraBytes, cache / kCacheShare);
  }

  LogicalResult decide(FunctionOpInterface function, Block &block) override {
    FailureOr<FusionLegality> legality =
        FusionLegality::create(function, GroupLimits());
    if (failed(legality))
      return failure();
    const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseHorizontal);
    declareRewrite(function, info.id, info.text);
    HorizontalGraph graph(block, *legality, model->getDevice());
    HorizontalRecorder recorder(findDecisions(), graph);
    // Once: what was decided before, here or by hand, stays.
    for (GroupOp group : block.getOps<GroupOp>())
      if (group.getKind() == GroupKind::Horizontal)
        return recorder.skipPlan(&getContext());
    // A kernel's argument is a pointer; the batch and the units come besides.
    int64_t operands = std::min<int64_t>(
        maxOperands, (model->getDevice().parameterBytes - 64) / 8);
    HorizontalLimits limits{std::max<int64_t>(maxMembers, 1), operands,
                            getMaxExtraBytes(), memoryLimit};
    recorder.readPlan(&getContext(), limits);
    HorizontalPlan plan =
        planHorizontal(graph, limits, *model, recorder.getRequest());
    LLVM_DEBUG(plan.print(llvm::dbgs(), graph));
    if (!plan.isAcyclic) {
      emitError(function, ErrorKind::Internal)
          << "horizontal launches depend on each other in a circle";
      return failure();
    }
    if (plan.hasLaunches() &&
        failed(formLaunches(function, graph, limits, *model,
                            recorder.getRequest(), plan)))
      return failure();
    if (getContext().getRemarkEngine())
      emitDecisions(function, graph, plan);
    recorder.record(plan);
    return recorder.finish(block);
  }
};

} // namespace
