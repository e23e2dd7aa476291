//===- Streams.h - A thread for each further stream -------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CPU_STREAMS_H
#define FUSION_RUNTIME_CPU_STREAMS_H

#include "Status.h"

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fusion::rt {

/// Runs the streams of a program side by side: stream 0 on the calling thread,
/// each other one on a thread of its own that lives as long as this.
class Streams {
public:
  Streams(uint32_t streams, uint32_t events);
  ~Streams();
  Streams(const Streams &) = delete;

  /// Calls `body(stream)` for each stream at once, and returns the first error
  /// when all have returned. An error of one ends the waits of the others.
  Status run(const std::function<Status(uint32_t)> &body);

  /// Of the run's bodies: an event is recorded once more.
  void record(uint32_t event);
  /// Waits until `event` was recorded `times` times in this run.
  Status wait(uint32_t event, uint32_t times,
              const volatile std::sig_atomic_t *stop);

private:
  void work(uint32_t stream);
  void finish(const Status &status);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<uint32_t> recorded; ///< by event
  const std::function<Status(uint32_t)> *body = nullptr;
  uint64_t generation = 0;
  uint32_t running = 0;
  bool ending = false, failed = false;
  Status first; ///< error
  std::vector<std::thread> threads;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CPU_STREAMS_H
