//===- Ranks.h - One rank of a job ------------------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_RANKS_H
#define FUSION_RUNTIME_TOOLS_RUN_RANKS_H

#include "DeviceCommunicator.h"
#include "ModuleFile.h"
#include "Options.h"
#include "Progress.h"
#include "RankLink.h"

namespace fusion::rt {

/// A rank's place in its job.
class RankContext {
public:
  uint32_t rank = 0, size = 1;
  RankLink *link = nullptr;
  RankProgress *progress = nullptr;
  std::shared_ptr<Communicator> communicator;
  /// Of a program for GPUs; becomes the session's.
  std::shared_ptr<DeviceCommunicator> deviceCommunicator;
  uint32_t localRank = 0; ///< among the ranks of this host
  int traceFile =
      -1; ///< where the events of --profile go; -1: a file of its own
  double traceOrigin = 0; ///< microseconds

  /// Returns when all ranks have called it. `Usage` if their `value`s differ,
  /// which is that of `what`.
  Status meet(const std::string &where, const std::string &what = {},
              int64_t value = 0);
  /// Gives `value` the largest of all ranks' values.
  Status agreeOnLargest(double &value);

private:
  uint64_t agreements = 0;
};

/// What the ranks of a job compare.
Expected<Identity> makeIdentity(const RunOptions &options,
                                const LoadedModule &module,
                                const RankContext &context);

/// Whether the module's session will be on a GPU.
bool runsOnGpu(const RunOptions &options, const LoadedModule &module);

/// The GPU of a rank. `Usage` if --device names too few.
Expected<int> deviceOf(const RunOptions &options, uint32_t localRank);

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
