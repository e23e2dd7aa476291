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
  uint64_t memoryLimit = 0;   ///< bytes of the arena, 0: none
  uint64_t decisionLimit = 0; ///< bytes to decide by, 0: the device's memory
  uint64_t enoughBytes = 0;   ///< limit that is known to do, 0: unknown
  std::string device = "cpu"; ///< name, or path of a device file
  std::string costModel = "roofline";
  bool overlap = true;         ///< communication beside computation
  uint64_t prefetchBudget = 0; ///< bytes; 0: by predicted steps
  /// Prints the timeline on so many of that device, if not empty.
  std::string simulatedDevice;
  uint64_t simulatedRanks = 0;
};

/// Graph of compiled groups -> verified program.
void buildSchedulePipeline(mlir::OpPassManager &manager,
                           const ScheduleOptions &options);

#define GEN_PASS_REGISTRATION
#include "fusion/Schedule/Passes.h.inc"

} // namespace fusion

#endif // FUSION_SCHEDULE_PASSES_H
