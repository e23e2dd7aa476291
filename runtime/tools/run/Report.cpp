//===- Report.cpp - What fusion-run prints at the end ---------------------===//
//
// Times are wall time of a whole run as the caller sees it; on a GPU also the
// device's own, by its events.
//
//===----------------------------------------------------------------------===//
#include "Report.h"
#include "Text.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

using namespace fusion::rt;

void Report::setTimes(std::vector<double> values) {
  times = std::move(values);
  std::sort(times.begin(), times.end());
}

void Report::setDeviceTimes(std::vector<double> values, int64_t count) {
  deviceTimes = std::move(values);
  std::sort(deviceTimes.begin(), deviceTimes.end());
  replays = count;
}

/// Linear interpolation between the two nearest ranks.
double Report::percentile(const std::vector<double> &times, double fraction) {
  double position = fraction * double(times.size() - 1);
  size_t low = size_t(position);
  size_t high = std::min(low + 1, times.size() - 1);
  return times[low] + (position - double(low)) * (times[high] - times[low]);
}

/// JSON has no infinities: they become strings.
static std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer),
                std::isfinite(value) ? "%.9g" : "\"%g\"", value);
  return buffer;
}

void Report::print() const {
  if (options.json)
    printJson();
  else
    printText();
}

void Report::printText() const {
  for (const auto &[name, difference] : differences) {
    std::printf("check %s: %s, %" PRIu64 " of %" PRIu64
                " elements differ, max abs %.9g (index %" PRIu64
                "), max rel %.9g, max ulp %" PRIu64 "\n",
                escape(name).c_str(), difference.differing ? "FAIL" : "ok",
                difference.differing, difference.count, difference.maxAbs,
                difference.maxAbsIndex, difference.maxRel, difference.maxUlp);
    if (difference.differing)
      std::printf("  first at index %" PRIu64 ": got %.9g, expected %.9g\n",
                  difference.firstIndex, difference.got, difference.expected);
  }
  if (options.backend == "null")
    std::printf("entries of one run: %" PRIu64 " launches, %" PRIu64
                " calls, %" PRIu64 " tails, %" PRIu64 " copies, %" PRIu64
                " records, %" PRIu64 " waits, %" PRIu64 " collectives; %" PRIu64
                " bytes read, %" PRIu64 " written; arena %" PRIu64 " bytes\n",
                counters.launches, counters.calls, counters.tails,
                counters.copies, counters.records, counters.waits,
                counters.collectives, counters.bytesRead, counters.bytesWritten,
                session.module().program.peakBytes);
  if (!times.empty())
    std::printf("bench: %zu runs, batch %lld: median %.3f us, p10 %.3f us, "
                "p90 %.3f us\n",
                times.size(), (long long)batch, percentile(times, 0.5),
                percentile(times, 0.1), percentile(times, 0.9));
  if (!deviceTimes.empty())
    std::printf("device time of a run, each the mean of %lld: median %.3f us, "
                "p10 %.3f us, p90 %.3f us\n",
                (long long)replays, percentile(deviceTimes, 0.5),
                percentile(deviceTimes, 0.1), percentile(deviceTimes, 0.9));
}

void Report::printJson() const {
  MemoryUse memory = session.executor().memory();
  std::printf("{\"program\": \"%s\", \"backend\": \"%s\", \"batch\": %lld",
              escape(session.module().program.name).c_str(),
              session.backendName().c_str(), (long long)batch);
  std::printf(", \"counts\": {\"launches\": %" PRIu64 ", \"calls\": %" PRIu64
              ", \"tails\": %" PRIu64 ", \"copies\": %" PRIu64
              ", \"records\": %" PRIu64 ", \"waits\": %" PRIu64
              ", \"collectives\": %" PRIu64 ", \"bytes_read\": %" PRIu64
              ", \"bytes_written\": %" PRIu64 "}",
              counters.launches, counters.calls, counters.tails,
              counters.copies, counters.records, counters.waits,
              counters.collectives, counters.bytesRead, counters.bytesWritten);
  std::printf(", \"memory\": {\"planned_arena\": %" PRIu64
              ", \"arena\": %" PRIu64 ", \"packed_weights\": %" PRIu64
              ", \"scratchpad\": %" PRIu64 ", \"staging\": %" PRIu64
              ", \"communication\": %" PRIu64 "}",
              session.module().program.peakBytes, memory.arena, memory.packed,
              memory.scratchpad, session.stagingBytes(), memory.communication);
  if (!differences.empty()) {
    std::printf(", \"check\": [");
    for (size_t i = 0; i < differences.size(); ++i) {
      const auto &[name, d] = differences[i];
      std::printf("%s{\"output\": \"%s\", \"count\": %" PRIu64
                  ", \"differing\": %" PRIu64 ", \"first_index\": %" PRIu64
                  ", \"max_abs\": %s, \"max_rel\": %s, \"max_ulp\": %" PRIu64
                  ", \"max_abs_index\": %" PRIu64 "}",
                  i ? ", " : "", escape(name).c_str(), d.count, d.differing,
                  d.firstIndex, number(d.maxAbs).c_str(),
                  number(d.maxRel).c_str(), d.maxUlp, d.maxAbsIndex);
    }
    std::printf("]");
  }
  // The CPU is its own device.
  const std::vector<double> &device = deviceTimes.empty() ? times : deviceTimes;
  if (!times.empty())
    std::printf(", \"bench\": {\"runs\": %zu, \"median_us\": %.3f, "
                "\"p10_us\": %.3f, \"p90_us\": %.3f, \"min_us\": %.3f, "
                "\"device_median_us\": %.3f, \"device_us\": {\"median\": "
                "%.3f, \"p10\": %.3f, \"p90\": %.3f, \"replays\": %lld}}",
                times.size(), percentile(times, 0.5), percentile(times, 0.1),
                percentile(times, 0.9), times.front(), percentile(device, 0.5),
                percentile(device, 0.5), percentile(device, 0.1),
                percentile(device, 0.9), (long long)replays);
  std::printf("}\n");
}
