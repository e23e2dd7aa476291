//===- Join.h - Ranks that another launcher started -------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_JOIN_H
#define FUSION_RUNTIME_TOOLS_RUN_JOIN_H

#include "ModuleFile.h"
#include "Options.h"

#include <optional>

namespace fusion::rt {

/// This process's place in a job that torchrun, mpirun or srun started.
struct JobPlace {
  std::string launcher; ///< by whose variables: "torchrun", ...
  uint32_t rank = 0, size = 1;
  uint32_t localRank = 0;            ///< among the ranks of this host
  std::string address = "127.0.0.1"; ///< of rank 0
  uint16_t port = 0;
};

/// Looks for the variables of those launchers; nothing if there are none.
/// `Usage` if they make no sense. The only place that reads them.
Expected<std::optional<JobPlace>> findJob();

/// Joins the job over TCP, runs the module, and ends with the others. Rank 0 is
/// where they meet: it listens on `options.listenAddress`.
Status joinJob(const RunOptions &options, const JobPlace &place,
               const std::shared_ptr<LoadedModule> &module);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_JOIN_H
