//===- Watch.cpp - Which rank a job waits for -----------------------------===//
//
// The rank to blame is one that has not come to the collective in which the
// others are: of the ranks that are furthest behind, one that does not wait.
//
//===----------------------------------------------------------------------===//
#include "Watch.h"
#include "CommandText.h"
#include "Communicator.h"
#include "Frames.h"
#include "Text.h"

#include <algorithm>
#include <tuple>

using namespace fusion::rt;

/// The longest time between two looks that counts, seconds.
static constexpr double kTick = 0.4;

RankView fusion::rt::readProgress(const RankProgress &progress,
                                  uint32_t streams) {
  RankView view;
  view.changes = progress.changes.load(std::memory_order_acquire);
  view.phase = progress.phase.load(std::memory_order_relaxed);
  view.waiting = progress.waiting.load(std::memory_order_relaxed) != 0;
  for (uint32_t i = 0; i < std::min(streams, RankProgress::kStreams); ++i) {
    const StreamProgress &stream = progress.streams[i];
    view.changes += stream.changes.load(std::memory_order_acquire);
    view.streams.push_back(
        {stream.command.load(std::memory_order_relaxed),
         stream.state.load(std::memory_order_relaxed),
         stream.collectives.load(std::memory_order_relaxed)});
    view.onDevice |= view.streams.back().state == StreamProgress::Collective;
  }
  // While the host waits for a step, the device says where it is.
  view.onDevice &= progress.hasDevice.load(std::memory_order_relaxed) != 0;
  for (uint32_t i = 0; view.onDevice && i < view.streams.size(); ++i) {
    uint32_t word = progress.streams[i].device.load(std::memory_order_relaxed);
    view.changes += uint64_t(word) << 32;
    StreamView &stream = view.streams[i];
    stream.state = word == 0  ? uint32_t(StreamProgress::Idle)
                   : word % 2 ? uint32_t(StreamProgress::Collective)
                              : uint32_t(StreamProgress::Running);
    stream.command = word ? (word - 1) / 2 : 0;
  }
  return view;
}

std::string fusion::rt::encodeView(const RankView &view) {
  std::vector<std::string> fields{
      std::to_string(view.phase),
      std::to_string(int(view.waiting) + 2 * int(view.onDevice)),
      std::to_string(view.changes), std::to_string(view.streams.size())};
  for (const StreamView &stream : view.streams) {
    fields.push_back(std::to_string(stream.command));
    fields.push_back(std::to_string(stream.state));
    fields.push_back(std::to_string(stream.collectives));
  }
  std::string text;
  for (const std::string &field : fields)
    text += field + " ";
  return text;
}

bool fusion::rt::decodeView(const std::string &payload, RankView &view) {
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  for (char c : payload) {
    if (c == ' ') {
      numbers.push_back(number);
      number = 0;
    } else if (c >= '0' && c <= '9') {
      number = number * 10 + uint64_t(c - '0');
    } else {
      return false;
    }
  }
  if (numbers.size() < 4 || numbers[3] > RankProgress::kStreams ||
      numbers.size() != 4 + 3 * numbers[3])
    return false;
  view = {uint32_t(numbers[0]), numbers[1] % 2 != 0, false,
          numbers[1] / 2 != 0,  numbers[2],          {}};
  for (size_t i = 4; i < numbers.size(); i += 3)
    view.streams.push_back(
        {uint32_t(numbers[i]), uint32_t(numbers[i + 1]), numbers[i + 2]});
  return true;
}

/// Whether a rank waits for others.
static bool waits(const RankView &rank) {
  if (rank.phase >= RankProgress::Ending ||
      (rank.phase == RankProgress::Working && rank.waiting))
    return true;
  for (const StreamView &stream : rank.streams)
    if (stream.state == StreamProgress::Collective)
      return true;
  return false;
}

static uint64_t entered(const RankView &rank) {
  uint64_t count = 0;
  for (const StreamView &stream : rank.streams)
    count += stream.collectives;
  return count;
}

/// Grows while a GPU works off a step.
static uint64_t position(const RankView &rank) {
  uint64_t sum = 0;
  for (const StreamView &stream : rank.streams)
    if (rank.onDevice && stream.state != StreamProgress::Idle)
      sum += StreamProgress::deviceWord(stream.command,
                                        StreamProgress::State(stream.state));
  return sum;
}

std::string Watch::where(const RankView &rank) const {
  switch (rank.phase) {
  case RankProgress::Joining:
    return "is joining";
  case RankProgress::Loading:
    return rank.waiting ? "waits for others to connect" : "prepares its run";
  case RankProgress::Ready:
    return "waits for others to be ready";
  case RankProgress::Writing:
    return "writes its results";
  case RankProgress::Ending:
    return "has run its program and not ended";
  case RankProgress::Done:
    return "has ended";
  default:
    if (rank.waiting)
      return "waits for the others' word";
    break;
  }
  const StreamView *at = nullptr;
  for (const StreamView &stream : rank.streams)
    if (!at || at->state == StreamProgress::Idle ||
        stream.state == StreamProgress::Collective)
      at = &stream;
  if (!at || at->state == StreamProgress::Idle ||
      at->command >= program.commands.size())
    return "is before its first command";
  const Command &command = program.commands[at->command];
  std::string name = commandText(program, at->command, 256);
  if (command.kind == CommandKind::Collective)
    name += std::string(" (") + collectiveName(command.collective.op) + ")";
  bool inside = at->state == StreamProgress::Collective;
  return std::string(inside ? "waits in " : "last did ") + name + ", " +
         std::to_string(entered(rank)) + " collectives entered";
}

std::string Watch::table(const std::vector<RankView> &ranks) const {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 64; ++i)
    text += "  rank " + std::to_string(i) + " " + where(ranks[i]) + "\n";
  return text;
}

int Watch::lateStarter(const std::vector<RankView> &ranks) {
  int late = -1;
  auto key = [&](size_t i) {
    return std::make_tuple(ranks[i].stopped, !ranks[i].waiting);
  };
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].phase < RankProgress::Ready &&
        (late < 0 || key(i) > key(size_t(late))))
      late = int(i);
  return late;
}

/// Of the ranks that are furthest behind, one that does not wait.
int Watch::lateRank(const std::vector<RankView> &ranks) const {
  int late = -1;
  auto key = [&](size_t i) {
    return std::make_tuple(!ranks[i].stopped, entered(ranks[i]),
                           position(ranks[i]), waits(ranks[i]), ranks[i].phase);
  };
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].phase != RankProgress::Done &&
        (late < 0 || key(i) < key(size_t(late))))
      late = int(i);
  // If all wait at one place, none is to blame.
  bool differs = false;
  for (size_t i = 0; late >= 0 && i < ranks.size(); ++i)
    differs |= key(i) != key(size_t(late));
  return differs ? late : -1;
}

bool Watch::isSlow() {
  bool slow = limit > 0 && quiet > limit / 2 && !warned;
  warned |= slow;
  return slow;
}

Status Watch::look(const std::vector<RankView> &ranks, double now) {
  double passed = last < 0 ? 0 : std::clamp(now - last, 0.0, kTick);
  last = now;
  bool moved = changes.size() != ranks.size(), waiting = false;
  changes.resize(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    // Nothing is left to exchange, and a disk may be slow.
    moved |= ranks[i].phase == RankProgress::Writing;
    moved |= changes[i] != ranks[i].changes;
    changes[i] = ranks[i].changes;
    waiting |= waits(ranks[i]);
  }
  if (moved || !waiting) {
    quiet = 0;
    return {};
  }
  quiet += passed;
  if (limit <= 0 || quiet <= limit)
    return {};
  int late = lateRank(ranks);
  std::string who =
      late < 0
          ? "all ranks wait"
          : "rank " + std::to_string(late) +
                (ranks[size_t(late)].stopped ? " stands still; it " : " ") +
                where(ranks[size_t(late)]);
  for (size_t i = 0; i < ranks.size(); ++i)
    if (int(i) != late && waits(ranks[i])) {
      who += "; rank " + std::to_string(i) + " " + where(ranks[i]);
      break;
    }
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g", limit);
  return Status(Code::Timeout,
                who + "; no rank moved for " + seconds +
                    " s (--collective-timeout)",
                {}, late);
}
