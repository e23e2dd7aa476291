//===- SchedulePipeline.cpp - The schedule phase --------------------------===//
#include "fusion/Schedule/Passes.h"

#include "mlir/Pass/PassManager.h"

void fusion::buildSchedulePipeline(mlir::OpPassManager &manager,
                                   const ScheduleOptions &options) {
  PlanMemoryOptions plan;
  plan.memoryLimit = options.memoryLimit;
  manager.addPass(createPlanMemory(plan));
  manager.addPass(createVerifySchedule());
}
