//===- Passes.h - Passes of the schedule phase ------------------*- C++ -*-===//
#ifndef FUSION_SCHEDULE_PASSES_H
#define FUSION_SCHEDULE_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Schedule/Passes.h.inc"

/// What the schedule phase needs to know.
struct ScheduleOptions {
  uint64_t memoryLimit = 0; ///< bytes, 0: none
};

/// Graph of compiled groups -> verified program.
void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const ScheduleOptions &options);

#define GEN_PASS_REGISTRATION
#include "fusion/Schedule/Passes.h.inc"

} // namespace fusion

#endif // FUSION_SCHEDULE_PASSES_H
