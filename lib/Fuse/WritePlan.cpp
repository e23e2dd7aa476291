//===- WritePlan.cpp - Writes what was decided as a plan file -------------===//
//
// Reads the records of all functions. The hash of the plan, its notes for
// people aside, says which groups a module was built with.
//
//===----------------------------------------------------------------------===//
#include "PlanFile.h"
#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Fuse/FusionDecisions.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

namespace fusion {
#define GEN_PASS_DEF_WRITEPLAN
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Predicts the times of each group and launch, as it is and taken apart; where
/// sizes or figures can't be had, none.
static void predict(func::FuncOp function, const CostModel &model,
                    FusionDecisions &decisions) {
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return;
  const DeviceModel &device = model.getDevice();
  auto predictGroup = [&](GroupOp group) {
    double us =
        model.getMicroseconds(computeKernelWork(group, *legality, device));
    std::optional<unsigned> index = decisions.findGroup(group);
    if (!index)
      return us;
    DecidedGroup &decided = decisions.groups[*index];
    decided.predictedUs = us;
    decided.unfusedUs = 0;
    for (Operation &op : group.getBodyBlock()->without_terminator())
      if (OpFamily family = getOpFamily(&op);
          family != OpFamily::Source && family != OpFamily::View)
        *decided.unfusedUs += model.getMicroseconds(computeKernelWork(
            {&op}, [](Operation *) { return true; }, *legality, device));
    return us;
  };
  llvm::DenseMap<unsigned, DecidedLaunch *> launchOf;
  for (DecidedLaunch &launch : decisions.launches)
    if (!launch.groups.empty())
      launchOf[launch.groups.front()] = &launch;
  for (auto group : function.getFunctionBody().front().getOps<GroupOp>()) {
    if (group.getKind() != GroupKind::Horizontal) {
      predictGroup(group);
      continue;
    }
    double apart = 0;
    DecidedLaunch *launch = nullptr;
    for (auto member : group.getBodyBlock()->getOps<GroupOp>()) {
      apart += predictGroup(member);
      if (std::optional<unsigned> index = decisions.findGroup(member))
        if (DecidedLaunch *found = launchOf.lookup(*index))
          launch = found;
    }
    if (!launch)
      continue;
    launch->predictedUs =
        model.getMicroseconds(computeKernelWork(group, *legality, device));
    launch->unfusedUs = apart;
  }
}

namespace {

struct WritePlan : fusion::impl::WritePlanBase<WritePlan> {
  using WritePlanBase::WritePlanBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    PlanFile plan;
    llvm::Expected<DeviceModel> figures = DeviceModel::load(device);
    plan.device = figures ? figures->name : device;
    std::unique_ptr<CostModel> model;
    if (!figures)
      llvm::consumeError(figures.takeError());
    else if (auto made = createCostModel(costModel, std::move(*figures)))
      model = std::move(*made);
    else
      llvm::consumeError(made.takeError());
    if (auto record = getCachedAnalysis<FusionRecord>())
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (FusionDecisions *decisions = record->get().find(function))
          if (!decisions->ops.getGraphHash().empty()) {
            // Notes are for readers of a file.
            if (model && !file.empty())
              predict(function, *model, *decisions);
            plan.functions.push_back(decisions->makePlan(function.getName()));
          }
    if (digest) {
      std::string text;
      llvm::raw_string_ostream os(text);
      writePlanFile(plan, os, /*withNotes=*/false);
      std::array<uint8_t, 32> sha =
          llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
      getOperation()->setAttr(
          kPlanDigestAttr,
          StringAttr::get(&getContext(), llvm::toHex(sha, true)));
    }
    if (file.empty())
      return;
    if (llvm::Error error =
            llvm::writeToOutput(file, [&](llvm::raw_ostream &output) {
              writePlanFile(plan, output);
              return llvm::Error::success();
            })) {
      emitError(getOperation(), ErrorKind::Resources)
          << "cannot write the plan '" << file
          << "': " << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }
};

} // namespace
