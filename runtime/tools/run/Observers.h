//===- Observers.h - Profiles and NaN checks --------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_OBSERVERS_H
#define FUSION_RUNTIME_TOOLS_RUN_OBSERVERS_H

#include "Session.h"

#include <mutex>
#include <string>
#include <vector>

namespace fusion::rt {

/// Microseconds of a monotonic clock.
double nowMicroseconds();

/// Times each command; writes a Chrome trace (chrome://tracing, Perfetto): a
/// process a rank, a thread a stream.
class TraceObserver final : public Observer {
public:
  explicit TraceObserver(const Program &program, uint32_t rank = 0)
      : program(program), rank(rank), started(program.streams) {}
  bool needsOrder() const override { return false; }
  void before(size_t command) override;
  void after(size_t command) override;
  /// Writes the trace atomically.
  Status write(const std::string &path) const;
  /// Appends the events, between commas, to an open file; their times are since
  /// `origin` microseconds of the clock.
  Status append(int file, double origin) const;

private:
  struct Event {
    size_t command;
    double start, duration;
  };
  std::string text(double origin) const;

  const Program &program;
  uint32_t rank;
  std::mutex mutex;
  std::vector<Event> events;
  std::vector<double> started; ///< by stream
};

/// Finds the first command that writes a NaN although it read none. Looks at
/// operands with a float element type; at a batch below the largest, at the
/// proportional part of each private range.
class NanObserver final : public Observer {
public:
  NanObserver(const Session &session, int64_t batch)
      : session(session), program(session.module().program), batch(batch) {}
  void before(size_t command) override;
  void after(size_t command) override;
  /// `CheckFailed` and the command's name, or ok.
  Status result() const { return found; }

private:
  bool rangeHasNan(const ByteRange &range, DType dtype) const;
  bool commandHasNan(const Command &command, bool written) const;
  uint64_t sizeAtBatch(const ByteRange &range) const;

  const Session &session;
  const Program &program;
  int64_t batch;
  bool inputHadNan = false;
  Status found;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_OBSERVERS_H
