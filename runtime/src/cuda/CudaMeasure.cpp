//===- CudaMeasure.cpp - How long a run takes on a GPU --------------------===//
//
// Replays the graph of the last run between two events.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"

#include "Mesh.h"

#include <algorithm>
#include <chrono>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// How long the replays between two events take at least, if 100 do: an
/// event's own time is a microsecond.
static constexpr double kBatchMicros = 2000;
/// Ranks begin a little apart, and the first to begin waits: many replays, but
/// not so long that who watches over the ranks sees nothing for a while.
static constexpr double kRanksMicros = 20000, kRanksMostMicros = 500000;
static constexpr int64_t kRanksReplays = 10;

/// How often a run that takes `each` microseconds is replayed between two
/// events.
static int64_t replaysOf(double each, bool hasRanks) {
  each = std::max(each, 1.0);
  if (!hasRanks)
    return std::clamp<int64_t>(int64_t(kBatchMicros / each), 1, 100);
  return std::clamp<int64_t>(
      std::max(int64_t(kRanksMicros / each), kRanksReplays), 1,
      std::max<int64_t>(int64_t(kRanksMostMicros / each), 1));
}

Status CudaExecutor::measure(int64_t batch, int64_t count, Timings &timings) {
  if (isDead)
    return lostDevice();
  if (lastBatch != batch)
    return Status(Code::Internal, "measured before a run at this batch");
  ContextScope scope(*driver, context);
  auto plan = planOf(batch);
  if (!plan)
    return plan.status();
  auto graph = graphOf(batch, **plan);
  if (!graph)
    return failed(graph.status());
  CUstream stream = streams.front();
  struct Events {
    ~Events() {
      for (CUevent event : pair)
        if (event && !isDead)
          driver.eventDestroy(event);
    }
    const Driver &driver;
    bool &isDead;
    CUevent pair[2] = {nullptr, nullptr};
  } events{*driver, isDead};
  for (CUevent &event : events.pair)
    FUSION_RT_TRY(
        failed(driver->check(driver->eventCreate(&event, 0), "cuEventCreate")));
  auto now = [] {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  // Microseconds that one of `replays` took, by events around all of them.
  auto time = [&](int64_t replays, double &micros) -> Status {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    FUSION_RT_TRY(driver->check(driver->eventRecord(events.pair[0], stream),
                                "cuEventRecord"));
    enterStep(firstCollective);
    for (int64_t i = 0; i < replays; ++i)
      FUSION_RT_TRY(
          driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch"));
    FUSION_RT_TRY(driver->check(driver->eventRecord(events.pair[1], stream),
                                "cuEventRecord"));
    FUSION_RT_TRY(waitFor(events.pair[1], "waiting for the runs", replays));
    leaveStep();
    float millis = 0;
    FUSION_RT_TRY(driver->check(
        driver->eventElapsedTime(&millis, events.pair[0], events.pair[1]),
        "cuEventElapsedTime"));
    micros = double(millis) * 1000 / double(replays);
    return {};
  };
  double each = 0;
  for (int i = 0; i < 3; ++i)
    FUSION_RT_TRY(failed(time(10, each)));
  // All ranks replay equally often, and begin together.
  bool hasRanks = rankCount(program.mesh) > 1;
  bool agrees = !groups.empty() && options.agreeOnLargest;
  if (agrees)
    FUSION_RT_TRY(options.agreeOnLargest(each));
  else if (hasRanks)
    each = kBatchMicros;
  auto meet = [&]() -> Status {
    double none = 0;
    return agrees ? options.agreeOnLargest(none) : Status();
  };
  int64_t replays = replaysOf(each, hasRanks);
  timings = {};
  timings.replays = replays;
  for (int64_t i = 0; i < count; ++i) {
    FUSION_RT_TRY(meet());
    FUSION_RT_TRY(failed(time(replays, each)));
    timings.device.push_back(each);
    FUSION_RT_TRY(meet());
    double start = now();
    enterStep(firstCollective);
    FUSION_RT_TRY(failed(
        driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch")));
    FUSION_RT_TRY(failed(waitFor(stream, "waiting for the run")));
    timings.wall.push_back(now() - start);
    leaveStep();
  }
  return {};
}
