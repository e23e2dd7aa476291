//===- OverlapCollectives.cpp - Communication beside computation ----------===//
//
// Decides with OverlapPlan whether a function is rewritten so, and tells.
//
//===----------------------------------------------------------------------===//
#include "RewriteOrder.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Of a function that was scheduled: twice is once.
static constexpr llvm::StringLiteral kOverlappedAttr = "fusion.overlapped";

static std::string formatUs(double us) {
  return llvm::formatv("{0:f2}", us).str();
}

namespace {

struct OverlapCollectives final
    : PricedPass<fusion::impl::OverlapCollectivesBase<OverlapCollectives>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!main || !llvm::hasSingleElement(main.getBody()) ||
        main->hasAttr(kOverlappedAttr) ||
        main.getBody().front().getOps<CommunicationOpInterface>().empty())
      return markAllAnalysesPreserved();
    CommModel comms(model->getDevice());
    FailureOr<StepPrices> prices = StepPrices::create(main, *model, comms);
    if (failed(prices))
      return signalPassFailure();
    OverlapGraph graph(main, &*prices);
    OverlapPlan plan = planOverlap(graph, *prices);
    main->setAttr(kOverlappedAttr, UnitAttr::get(&getContext()));
    if (plan.isSerial()) {
      refuse(main, graph, plan);
      return;
    }
    report(main, graph, plan);
    rewriteOrder(main, graph, plan.items);
  }

private:
  remark::RemarkOpts name(StringRef rule) {
    return remark::RemarkOpts::name(rule).category("fusion").function(function);
  }
  void refuse(func::FuncOp main, const OverlapGraph &graph,
              const OverlapPlan &plan);
  void report(func::FuncOp main, const OverlapGraph &graph,
              const OverlapPlan &plan);
};

} // namespace

void OverlapCollectives::refuse(func::FuncOp main, const OverlapGraph &graph,
                                const OverlapPlan &plan) {
  bool isShared = false;
  CommModel comms(model->getDevice());
  for (unsigned node = 0; node < graph.size(); ++node)
    isShared |=
        graph[node].isComm && comms.isSharedWithCompute(graph[node].price.link);
  remark::missed(main.getLoc(), name("overlap-serial"))
      << remark::add(
             "{0}",
             plan.numStarted == 0
                 ? "no computation can go on beside a collective"
             : isShared
                 ? "one after the other is predicted faster: kernels and "
                   "collectives use one link"
                 : "one after the other is predicted faster")
      << remark::metric("us_serial", formatUs(plan.serial.stepUs))
      << remark::metric("us_overlapped", formatUs(plan.overlapped.stepUs));
}

void OverlapCollectives::report(func::FuncOp main, const OverlapGraph &graph,
                                const OverlapPlan &plan) {
  std::vector<double> exposed(plan.steps.size());
  for (const Exposure &exposure : plan.overlapped.exposures)
    exposed[exposure.comm] += exposure.endUs - exposure.beginUs;
  for (auto [i, step] : llvm::enumerate(plan.steps)) {
    const OverlapNode &node = graph[plan.nodeOf[i]];
    if (!node.isComm)
      continue;
    if (step.stream == 0) {
      remark::missed(node.op->getLoc(), name("overlap-collective"))
          << remark::add("nothing can be computed beside it")
          << remark::metric("us", formatUs(step.us));
      continue;
    }
    remark::passed(node.op->getLoc(), name("overlap-collective"))
        << remark::add("runs beside computation")
        << remark::metric("stream", int64_t(step.stream))
        << remark::metric("us", formatUs(step.us))
        << remark::metric("us_exposed", formatUs(exposed[i]))
        << remark::metric("us_start",
                          formatUs(plan.overlapped.spans[i].beginUs))
        << remark::metric("us_end", formatUs(plan.overlapped.spans[i].endUs));
  }
  remark::passed(main.getLoc(), name("overlap"))
      << remark::add("scheduled communication beside computation")
      << remark::metric("us_serial", formatUs(plan.serial.stepUs))
      << remark::metric("us_overlapped", formatUs(plan.overlapped.stepUs))
      << remark::metric("us_exposed", formatUs(plan.overlapped.exposedUs))
      << remark::metric("PeakBytes", plan.overlappedBytes)
      << remark::metric("SerialPeakBytes", plan.serialBytes);
}
