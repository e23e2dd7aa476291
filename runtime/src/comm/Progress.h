//===- Progress.h - Words that say how far a rank is ------------*- C++ -*-===//
//
// A rank writes them, whoever watches over it reads them from memory they
// share, even when the rank is stopped. One writer a stream, no locks; a rank's
// GPU writes words of its own.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_PROGRESS_H
#define FUSION_RUNTIME_COMM_PROGRESS_H

#include <atomic>
#include <cstdint>
#include <ctime>

namespace fusion::rt {

/// Where one stream of a rank is.
struct alignas(64) StreamProgress {
  enum State : uint32_t { Idle, Running, Collective };
  /// A step, kept for reports: the last ones, in a ring.
  struct Entry {
    std::atomic<uint64_t> time{0}; ///< nanoseconds, monotonic
    std::atomic<uint32_t> command{0}, state{Idle};
  };
  static constexpr uint64_t kRecent = 64;

  std::atomic<uint64_t> changes{0};     ///< grows with every step
  std::atomic<uint64_t> collectives{0}; ///< entered
  std::atomic<uint32_t> command{0};
  std::atomic<uint32_t> state{Idle};
  /// Written by the rank's GPU within a step: `deviceWord` of the collective
  /// that the stream has come to, or is past. 0: none yet.
  std::atomic<uint32_t> device{0};
  Entry recent[kRecent];

  static constexpr uint32_t deviceWord(uint32_t command, State state) {
    return 2 * command + (state == Collective ? 1 : 2);
  }

  void enter(uint32_t newCommand, State newState) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t number = changes.load(std::memory_order_relaxed);
    Entry &entry = recent[number % kRecent];
    entry.time.store(uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec),
                     std::memory_order_relaxed);
    entry.command.store(newCommand, std::memory_order_relaxed);
    entry.state.store(newState, std::memory_order_relaxed);
    command.store(newCommand, std::memory_order_relaxed);
    if (newState == Collective)
      collectives.fetch_add(1, std::memory_order_relaxed);
    state.store(newState, std::memory_order_relaxed);
    changes.store(number + 1, std::memory_order_release);
  }
};

/// One rank's words; streams beyond the last share it.
struct RankProgress {
  static constexpr uint32_t kStreams = 8;
  /// What the rank does beside running its program.
  enum Phase : uint32_t {
    Joining,
    Loading,
    Ready,
    Working,
    Writing, ///< all have run; it writes its results and waits for no one
    Ending,
    Done
  };
  std::atomic<uint32_t> phase{Joining};
  std::atomic<uint32_t> waiting{0}; ///< for another rank's word at the hub
  std::atomic<uint64_t> changes{0};
  /// Whether somebody looks at the words, set before a session is made, and
  /// whether the GPU writes its own, set by the session.
  std::atomic<uint32_t> isWatched{0}, hasDevice{0};
  StreamProgress streams[kStreams];

  StreamProgress &stream(uint32_t index) {
    return streams[index < kStreams ? index : kStreams - 1];
  }
  void setPhase(Phase value) {
    phase.store(value, std::memory_order_relaxed);
    changes.fetch_add(1, std::memory_order_release);
  }
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_PROGRESS_H
