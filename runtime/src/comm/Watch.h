//===- Watch.h - Which rank a job waits for ---------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_COMM_WATCH_H
#define FUSION_RUNTIME_COMM_WATCH_H

#include "ModuleData.h"
#include "Progress.h"
#include "Status.h"

#include <string>
#include <vector>

namespace fusion::rt {

/// What is known of a stream of a rank.
struct StreamView {
  uint32_t command = 0;
  uint32_t state = 0; ///< StreamProgress::State
  uint64_t collectives = 0;
};

/// What is known of a rank.
struct RankView {
  uint32_t phase = RankProgress::Joining;
  bool waiting = false; ///< for another rank's word at the hub
  bool stopped = false; ///< by a signal, or silent
  /// The streams are a GPU's within a step: all ranks' commands can be
  /// compared.
  bool onDevice = false;
  uint64_t changes = 0; ///< grows with every step
  std::vector<StreamView> streams;
};

/// Reads a rank's words.
RankView readProgress(const RankProgress &progress, uint32_t streams);

/// A view as a payload of a frame, and back; false if it is none.
std::string encodeView(const RankView &view);
bool decodeView(const std::string &payload, RankView &view);

/// Decides that a job is stuck: some rank waits for others, in a collective or
/// at the end, and no rank has taken a step for `limit` seconds (0: never).
/// Time is counted in ticks of the watcher: what it sleeps through counts as
/// one tick, so that a suspended machine makes no rank late.
class Watch {
public:
  Watch(const Program &program, double limit)
      : program(program), limit(limit) {}

  /// Looks at all ranks at `now` (seconds of any steady clock). `Timeout` with
  /// who is where, once stuck.
  Status look(const std::vector<RankView> &ranks, double now);

  /// Whether the limit is near: time to find out who stands still.
  bool isNearLimit() const { return limit > 0 && quiet > limit - 0.5; }

  /// Whether half of the limit has passed, the first time.
  bool isSlow();

  /// The rank that keeps the job from starting, or -1: one that stands still
  /// before one that waits for no other.
  static int lateStarter(const std::vector<RankView> &ranks);

  /// "rank 2 is at command 117 'x' (all_reduce), ..." of all ranks.
  std::string table(const std::vector<RankView> &ranks) const;
  /// "last did command 3 'x', 4 collectives entered".
  std::string where(const RankView &rank) const;

private:
  int lateRank(const std::vector<RankView> &ranks) const;

  const Program &program;
  double limit;
  double last = -1, quiet = 0;
  bool warned = false;
  std::vector<uint64_t> changes;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_WATCH_H
