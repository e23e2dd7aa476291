//===- CpuFeatures.h - What this machine's CPU can do -----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_CPUFEATURES_H
#define FUSION_RUNTIME_CPU_CPUFEATURES_H

#include "Status.h"

#include <string>
#include <vector>

namespace fusion::rt {

/// Whether the CPU and the operating system support every feature (LLVM's
/// names). The error is `Rejected` and lists all that are missing or unknown.
/// `cpu` is the name the module was compiled for, for the message.
Status checkCpuFeatures(const std::string &cpu,
                        const std::vector<std::string> &features);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_CPUFEATURES_H
