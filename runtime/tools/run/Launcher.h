//===- Launcher.h - Ranks as processes of this host -------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_LAUNCHER_H
#define FUSION_RUNTIME_TOOLS_RUN_LAUNCHER_H

#include "ModuleFile.h"
#include "Options.h"

namespace fusion::rt {

/// Runs the module on `options.ranks` processes and prints what they print.
/// Ends when all have ended: well, or because one failed, whose error this
/// gives. No process is left behind, not even if this one is killed.
Status launchRanks(const RunOptions &options,
                   const std::shared_ptr<LoadedModule> &module);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_LAUNCHER_H
