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
  void setCounters(const Counters &value) { counters = value; }
  void print() const;

private:
  void printText() const;
  void printJson() const;
  double percentile(double fraction) const;

  const RunOptions &options;
  const Session &session;
  int64_t batch;
  Counters counters;
  std::vector<double> times; ///< sorted
  std::vector<std::pair<std::string, Difference>> differences;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_REPORT_H
