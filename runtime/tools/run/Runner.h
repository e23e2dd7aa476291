//===- Runner.h - What fusion-run does after parsing ------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_RUNNER_H
#define FUSION_RUNTIME_TOOLS_RUN_RUNNER_H

#include "ModuleFile.h"
#include "Options.h"
#include "Status.h"

namespace fusion::rt {

/// Loads, runs and reports as the options say. Results go to stdout.
Status runModule(const RunOptions &options);

class RankContext;

/// Runs a module that was loaded and is trusted; as `rank` of a job, or alone.
Status runLoaded(const RunOptions &options,
                 const std::shared_ptr<LoadedModule> &loaded,
                 RankContext *rank);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_RUNNER_H
