//===- Report.h - What fusion-run prints at the end -------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_REPORT_H
#define FUSION_RUNTIME_TOOLS_RUN_REPORT_H

#include "Compare.h"
#include "Options.h"
#include "Session.h"

namespace fusion::rt {

/// Collects results and prints them once, as text or as one JSON object.
class Report {
public:
  Report(const RunOptions &options, const Session &session, int64_t batch)
      : options(options), session(session), batch(batch) {}

  void addDifference(const std::string &output, const Difference &difference) {
    differences.emplace_back(output, difference);
  }
  /// Microseconds of each timed run, unsorted.
  void setTimes(std::vector<double> values);
  /// Microseconds a run by the device's clock, each the mean of `count`.
  void setDeviceTimes(std::vector<double> values, int64_t count);
  void setCounters(const Counters &value) { counters = value; }
  void print() const;

private:
  void printText() const;
  void printJson() const;
  static double percentile(const std::vector<double> &times, double fraction);

  const RunOptions &options;
  const Session &session;
  int64_t batch;
  Counters counters;
  std::vector<double> times, deviceTimes; ///< sorted
  int64_t replays = 1;                    ///< a device time
  std::vector<std::pair<std::string, Difference>> differences;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_REPORT_H
