//===- SimulateStep.cpp - How long a scheduled step takes -----------------===//
//
// Prints the timeline of a function on any device: what hides and what does
// not, and why.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Schedule/Passes.h"

#include "llvm/Support/raw_ostream.h"

namespace fusion {
#define GEN_PASS_DEF_SIMULATESTEP
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct SimulateStep final
    : PricedPass<fusion::impl::SimulateStepBase<SimulateStep>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!main || !llvm::hasSingleElement(main.getBody())) {
      getOperation().emitError("has no graph @")
          << function << " to simulate: stop before it becomes a program";
      return signalPassFailure();
    }
    int64_t numRanks = 1;
    for (auto mesh : getOperation().getOps<MeshOp>()) {
      numRanks = 1;
      for (int64_t size : mesh.getAxisSizes())
        numRanks *= size;
    }
    if (ranks != 0 && int64_t(ranks) != numRanks) {
      getOperation().emitError("the program is for ")
          << numRanks << (numRanks == 1 ? " rank" : " ranks")
          << ", --simulate asks for " << uint64_t(ranks)
          << ": give --mesh with so many, such as dp=" << uint64_t(ranks);
      return signalPassFailure();
    }
    CommModel comms(model->getDevice());
    FailureOr<StepPrices> prices = StepPrices::create(main, *model, comms);
    if (failed(prices))
      return signalPassFailure();
    std::vector<TimedStep> steps = buildTimedSteps(main, *prices);
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "@" << function << " on " << numRanks << " x "
       << model->getDevice().name << ": ";
    simulate(steps, comms).print(os, steps);
    mlir::emitRemark(main.getLoc()) << StringRef(text).rtrim();
  }
};

} // namespace
