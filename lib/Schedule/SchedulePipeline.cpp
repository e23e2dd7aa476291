//===- SchedulePipeline.cpp - The schedule phase --------------------------===//
#include "fusion/Schedule/Passes.h"

#include "mlir/Pass/PassManager.h"

void fusion::buildSchedulePipeline(mlir::OpPassManager &manager,
                                   const ScheduleOptions &options) {
  OrderForMemoryOptions order;
  order.device = options.device;
  order.costModel = options.costModel;
  manager.addPass(createOrderForMemory(order));
  // What moves communication is proved right behind it.
  if (options.overlap) {
    PrefetchAllGatherOptions prefetch;
    prefetch.budget = options.prefetchBudget;
    prefetch.memoryLimit = options.decisionLimit;
    prefetch.device = options.device;
    prefetch.costModel = options.costModel;
    manager.addPass(createPrefetchAllGather(prefetch));
    manager.addPass(createVerifyGraph());
    OverlapCollectivesOptions overlap;
    overlap.device = options.device;
    overlap.costModel = options.costModel;
    manager.addPass(createOverlapCollectives(overlap));
  }
  ShareUnitsOptions share;
  share.device = options.device;
  share.costModel = options.costModel;
  manager.addPass(createShareUnits(share));
  manager.addPass(createVerifyGraph());
  if (!options.simulatedDevice.empty()) {
    SimulateStepOptions simulated;
    simulated.device = options.simulatedDevice;
    simulated.costModel = options.costModel;
    simulated.ranks = options.simulatedRanks;
    manager.addPass(createSimulateStep(simulated));
  }
  PlanMemoryOptions plan;
  plan.memoryLimit = options.memoryLimit;
  plan.enoughBytes = options.enoughBytes;
  manager.addPass(createPlanMemory(plan));
  manager.addPass(createVerifySchedule());
}
