//===- CudaWait.cpp - Waiting for a GPU, not for ever ---------------------===//
//
// The driver's own waits end with the work or never. These ask it again and
// again, so that a limit of time and the wish to stop are seen.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"
#include "Text.h"

#include <chrono>
#include <cstdio>
#include <thread>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// For so long the processor asks without a pause, as the driver would: runs
/// that are timed end within it.
static constexpr std::chrono::milliseconds kSpin(20);
/// Then it sleeps between two questions.
static constexpr std::chrono::microseconds kPause(100);

/// Between two questions whether the other ranks are still there.
static constexpr std::chrono::milliseconds kPoll(10);

template <typename Query>
Status CudaExecutor::waitUntil(Query query, const char *what,
                               const std::string &op, int64_t runs) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now(), nextPoll = start;
  for (;;) {
    CUresult result = query();
    if (result != kErrorNotReady)
      return driver->check(result, what, op);
    if (isStopped()) {
      isDead = true;
      return Status(Code::Internal, "interrupted");
    }
    Clock::duration passed = Clock::now() - start;
    double limit = options.timeout * double(runs);
    if (limit > 0 && std::chrono::duration<double>(passed).count() > limit) {
      isDead = true;
      char seconds[32];
      std::snprintf(seconds, sizeof(seconds), "%g s", limit);
      return Status(Code::Timeout,
                    "the GPU did not end " +
                        (op.empty() ? "a run of '" + escape(program.name) + "'"
                                    : "'" + escape(op) + "'") +
                        " within " + seconds +
                        "; allow more time (--op-timeout) if it needs more" +
                        (op.empty() ? ", or find the command with "
                                      "'fusion-run --find-fault'"
                                    : ""),
                    op);
    }
    if (passed <= kSpin)
      continue;
    std::this_thread::sleep_for(kPause);
    if (groups.empty() || Clock::now() < nextPoll)
      continue;
    nextPoll = Clock::now() + kPoll;
    if (Status status = options.deviceCommunicator->poll(); !status.ok()) {
      isDead = true;
      return status;
    }
  }
}

Status CudaExecutor::waitFor(CUstream stream, const char *what,
                             const std::string &op, int64_t runs) {
  return waitUntil([&] { return driver->streamQuery(stream); }, what, op, runs);
}

Status CudaExecutor::waitFor(CUevent event, const char *what, int64_t runs) {
  return waitUntil([&] { return driver->eventQuery(event); }, what, "", runs);
}

Status CudaExecutor::waitForEnqueued() {
  return enqueued ? waitFor(enqueued, "waiting for a run on another stream")
                  : Status();
}
