//===- FaultReport.h - What the ranks did before a job failed ---*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_FAULTREPORT_H
#define FUSION_RUNTIME_TOOLS_RUN_FAULTREPORT_H

#include "ModuleData.h"
#include "Progress.h"
#include "Status.h"

#include <string>

namespace fusion::rt {

/// JSON: the error, and for each of `count` ranks what it was doing and the
/// last steps of its streams, from memory that outlives them. `now`:
/// nanoseconds of the monotonic clock at the failure.
std::string faultReport(const Program &program, const Status &cause,
                        const RankProgress *ranks, size_t count, uint64_t now);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_FAULTREPORT_H
