//===- CudaMeasure.cpp - How long a run takes on a GPU --------------------===//
//
// Replays the graph of the last run between two events.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"

#include <algorithm>
#include <chrono>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// How long the replays between two events take at least, if 100 do: an
/// event's own time is a microsecond.
static constexpr double kBatchMicros = 2000;
/// How long a batch that isn't timed takes, if 100 replays do: what ran before,
/// here or for another program, has left the clocks as it liked them.
static constexpr double kWarmMicros = 10000;
static constexpr int kWarmBatches = 2;

/// How many replays that take `each` microseconds fill `micros`.
static int64_t replaysOf(double each, double micros) {
  return std::clamp<int64_t>(int64_t(micros / std::max(each, 1.0)), 1, 100);
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
  auto launch = [&] {
    return driver->check(driver->graphLaunch(*graph, stream), "cuGraphLaunch");
  };
  auto record = [&](CUevent event) {
    return driver->check(driver->eventRecord(event, stream), "cuEventRecord");
  };
  // Microseconds that one of `replays` took, by events around all of them. One
  // more goes ahead: ranks begin a little apart and meet in its collectives,
  // and the host queues the others meanwhile.
  auto time = [&](int64_t replays, double &micros) -> Status {
    if (isStopped())
      return Status(Code::Internal, "interrupted");
    enterStep(firstCollective);
    FUSION_RT_TRY(launch());
    FUSION_RT_TRY(record(events.pair[0]));
    for (int64_t i = 0; i < replays; ++i)
      FUSION_RT_TRY(launch());
    FUSION_RT_TRY(record(events.pair[1]));
    FUSION_RT_TRY(waitFor(events.pair[1], "waiting for the runs", replays + 1));
    leaveStep();
    float millis = 0;
    FUSION_RT_TRY(driver->check(
        driver->eventElapsedTime(&millis, events.pair[0], events.pair[1]),
        "cuEventElapsedTime"));
    micros = double(millis) * 1000 / double(replays);
    return {};
  };
  // All ranks replay equally often, and begin together.
  bool agrees = !groups.empty() && options.agreeOnLargest;
  auto agree = [&](double &micros) -> Status {
    if (agrees)
      return options.agreeOnLargest(micros);
    // Nobody to ask, so all take the same number.
    if (!groups.empty())
      micros = kBatchMicros;
    return {};
  };
  auto meet = [&] {
    double none = 0;
    return agree(none);
  };
  double each = 0;
  FUSION_RT_TRY(failed(time(1, each)));
  for (int i = 0; i < kWarmBatches; ++i) {
    FUSION_RT_TRY(agree(each));
    FUSION_RT_TRY(failed(time(replaysOf(each, kWarmMicros), each)));
  }
  FUSION_RT_TRY(agree(each));
  bool hasWall = timings.hasWall;
  timings = {};
  timings.hasWall = hasWall;
  timings.replays = replaysOf(each, kBatchMicros);
  for (int64_t i = 0; i < count; ++i) {
    FUSION_RT_TRY(meet());
    FUSION_RT_TRY(failed(time(timings.replays, each)));
    timings.device.push_back(each);
    if (!hasWall)
      continue;
    FUSION_RT_TRY(meet());
    double start = now();
    enterStep(firstCollective);
    FUSION_RT_TRY(failed(launch()));
    FUSION_RT_TRY(failed(waitFor(stream, "waiting for the run")));
    timings.wall.push_back(now() - start);
    leaveStep();
  }
  return {};
}
