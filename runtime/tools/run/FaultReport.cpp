//===- FaultReport.cpp - What the ranks did before a job failed -----------===//
//
// Reads words that a rank may just be writing: an entry may be newer than its
// neighbour, never something else than what the rank wrote.
//
//===----------------------------------------------------------------------===//
#include "FaultReport.h"
#include "CommandText.h"
#include "Communicator.h"
#include "Text.h"
#include "Watch.h"

#include <algorithm>
#include <cstdio>

using namespace fusion::rt;

static const char *stateName(uint32_t state) {
  return state == StreamProgress::Collective ? "in" : "after";
}

static std::string commandText(const Program &program, uint32_t index) {
  if (index >= program.commands.size())
    return "";
  const Command &command = program.commands[index];
  std::string kind = command.kind == CommandKind::Collective
                         ? collectiveName(command.collective.op)
                         : "step";
  if (command.name.empty())
    return commandKind(command.kind);
  return kind + " '" + escape(command.name, 128) + "'";
}

static std::string streamReport(const Program &program,
                                const StreamProgress &stream, uint64_t now) {
  constexpr uint64_t size = StreamProgress::kRecent;
  uint64_t end = stream.changes.load(std::memory_order_acquire);
  uint64_t begin = end > size ? end - size : 0;
  std::string text;
  for (uint64_t i = begin; i < end; ++i) {
    const StreamProgress::Entry &entry = stream.recent[i % size];
    uint64_t time = entry.time.load(std::memory_order_relaxed);
    uint32_t command = entry.command.load(std::memory_order_relaxed);
    char buffer[96];
    std::snprintf(buffer, sizeof(buffer),
                  "\n      {\"ms_before\": %.3f, \"%s\": %u, \"what\": \"",
                  double(now - std::min(now, time)) * 1e-6,
                  stateName(entry.state.load(std::memory_order_relaxed)),
                  command);
    text += (i == begin ? "" : ",") + std::string(buffer) +
            commandText(program, command) + "\"}";
  }
  return text;
}

std::string fusion::rt::faultReport(const Program &program, const Status &cause,
                                    const RankProgress *ranks, size_t count,
                                    uint64_t now) {
  static const char *const phases[] = {"joining", "loading", "ready", "working",
                                       "writing", "ending",  "done"};
  Watch watch(program, 0);
  std::string message = cause.message();
  std::string text = "{\"code\": " + std::to_string(int(cause.code())) +
                     ", \"rank\": " + std::to_string(cause.rank()) +
                     ", \"op\": \"" + escape(cause.op()) + "\", \"cause\": \"" +
                     escape(message.substr(0, message.find('\n'))) +
                     "\", \"ranks\": [";
  for (size_t rank = 0; rank < count; ++rank) {
    RankView view = readProgress(ranks[rank], program.streams);
    text += std::string(rank ? "," : "") +
            "\n  {\"rank\": " + std::to_string(rank) + ", \"phase\": \"" +
            phases[std::min<uint32_t>(view.phase, RankProgress::Done)] +
            "\", \"where\": \"" + escape(watch.where(view)) +
            "\", \"streams\": [";
    for (size_t stream = 0; stream < view.streams.size(); ++stream)
      text += std::string(stream ? "," : "") + "\n    {\"collectives\": " +
              std::to_string(view.streams[stream].collectives) +
              ", \"recent\": [" +
              streamReport(program, ranks[rank].streams[stream], now) + "]}";
    text += "]}";
  }
  return text + "\n]}\n";
}
