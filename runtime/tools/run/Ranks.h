//===- Ranks.h - One rank of a job ------------------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_RANKS_H
#define FUSION_RUNTIME_TOOLS_RUN_RANKS_H

#include "Communicator.h"
#include "ModuleFile.h"
#include "Options.h"
#include "Progress.h"
#include "RankLink.h"

namespace fusion::rt {

/// A rank's place in its job.
struct RankContext {
  uint32_t rank = 0, size = 1;
  RankLink *link = nullptr;
  RankProgress *progress = nullptr;
  std::shared_ptr<Communicator> communicator;
  int traceFile =
      -1; ///< where the events of --profile go; -1: a file of its own
  double traceOrigin = 0; ///< microseconds

  /// Returns when all ranks have called it. `Usage` if their `value`s differ,
  /// which is that of `what`.
  Status meet(const std::string &where, const std::string &what = {},
              int64_t value = 0);
};

/// What the ranks of a job compare.
Expected<Identity> makeIdentity(const RunOptions &options,
                                const LoadedModule &module, uint32_t rank,
                                uint32_t size);

/// Ends this process because the job ends, with the job's code.
[[noreturn]] void endProcess(const Status &reason);

/// Joins, runs the module, and ends with the others: the rank's exit code.
/// `address` is the local one for messages between ranks. `error` gets the
/// rank's own error, or why it was stopped.
int runRank(const RunOptions &options,
            const std::shared_ptr<LoadedModule> &module, RankContext &context,
            const std::string &address, Status *error = nullptr);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_RANKS_H
