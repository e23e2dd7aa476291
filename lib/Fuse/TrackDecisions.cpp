//===- TrackDecisions.cpp - Starts the record of what is decided ----------===//
//
// Makes the record of each function, with what a plan file asks of it.
//
//===----------------------------------------------------------------------===//
#include "PlanFile.h"
#include "PlanText.h"
#include "fusion/Analysis/DeviceModel.h"
#include "fusion/Fuse/FusionDecisions.h"
#include "fusion/Fuse/Passes.h"

#include "llvm/Support/MemoryBuffer.h"

namespace fusion {
#define GEN_PASS_DEF_TRACKDECISIONS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct TrackDecisions : fusion::impl::TrackDecisionsBase<TrackDecisions> {
  using TrackDecisionsBase::TrackDecisionsBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    std::shared_ptr<const PlanFile> file;
    if (!plan.empty() && !(file = read()))
      return signalPassFailure();
    llvm::StringMap<const FunctionPlan *> plans;
    if (file)
      for (const FunctionPlan &function : file->functions)
        plans[function.function] = &function;
    auto &record = getAnalysis<FusionRecord>();
    FusionDecisions *any = nullptr;
    bool failed = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      FusionDecisions &decisions = record.start(function);
      decisions.isStrict = strict;
      decisions.keepOriginal = keepOriginal;
      any = &decisions;
      if (!file)
        continue;
      decisions.planFile = file;
      decisions.plan = plans.lookup(function.getName());
      plans.erase(function.getName());
      if (!decisions.plan)
        decisions.report(&getContext(), 1,
                         "the plan says nothing about the function '" +
                             function.getName() + "'; the planner decides");
      failed |= decisions.hasFailed;
    }
    if (!file || !any)
      return;
    // One that can't be read is told by the passes that predict.
    llvm::Expected<DeviceModel> model = DeviceModel::load(device);
    std::string name = model ? model->name : device;
    llvm::consumeError(model.takeError());
    if (!file->device.empty() && file->device != name)
      any->report(&getContext(), file->deviceLine,
                  "the plan was made for the device '" + file->device +
                      "', and this is '" + name + "'");
    // In the order of the file.
    for (const FunctionPlan &function : file->functions)
      if (plans.contains(function.function))
        any->report(&getContext(), function.line,
                    "the model has no function '" + function.function + "'");
    if (!launches)
      for (const FunctionPlan &function : file->functions)
        for (const PlanLine &line : function.groups)
          if (line.isHorizontal())
            any->report(&getContext(), line.line,
                        "the launch can't be had without horizontal fusion: "
                        "each of its " +
                            Twine(line.groups.size()) +
                            " groups is a launch of its own");
    if (failed || any->hasFailed)
      signalPassFailure();
  }

  std::shared_ptr<const PlanFile> read() {
    auto buffer = llvm::MemoryBuffer::getFile(plan, /*IsText=*/true);
    if (!buffer) {
      mlir::emitError(UnknownLoc::get(&getContext()))
          << "cannot read the plan '" << plan
          << "': " << buffer.getError().message()
          << "; give the path of a file that --emit-plan wrote";
      return nullptr;
    }
    llvm::Expected<PlanFile> parsed =
        parsePlanFile((*buffer)->getBuffer(), plan);
    if (parsed)
      return std::make_shared<const PlanFile>(std::move(*parsed));
    llvm::handleAllErrors(parsed.takeError(), [&](const PlanTextError &error) {
      mlir::emitError(
          FileLineColLoc::get(&getContext(), plan, error.line, error.column))
          << error.message;
    });
    return nullptr;
  }
};

} // namespace
