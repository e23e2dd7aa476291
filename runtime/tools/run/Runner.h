//===- Runner.h - What fusion-run does after parsing ------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_RUNNER_H
#define FUSION_RUNTIME_TOOLS_RUN_RUNNER_H

#include "Options.h"
#include "Status.h"

namespace fusion::rt {

/// Loads, runs and reports as the options say. Results go to stdout.
Status runModule(const RunOptions &options);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_RUNNER_H
