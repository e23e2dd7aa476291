//===- Turns.h - Runs on somebody's request ---------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_TURNS_H
#define FUSION_RUNTIME_TOOLS_RUN_TURNS_H

#include "Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fusion::rt {

/// What can be asked for.
struct TurnActions {
  /// Runs and times the program `count` times: microseconds of each.
  std::function<Status(int64_t count, std::vector<double> &micros)> time;
  /// Writes the outputs of the last run, or the one of that name, into a
  /// folder.
  std::function<Status(const std::string &folder, const std::string &name)>
      write;
};

/// Connects to the Unix socket `path`, says "rank RANK" and does what comes, a
/// line each, until the other side closes it: "time N" is answered by
/// {"us": [...]}, "write FOLDER" and "write FOLDER OUTPUT" by {}. `Environment`
/// if nobody listens there, `Usage` for any other line.
Status serveTurns(const std::string &path, uint32_t rank,
                  const TurnActions &actions);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_TURNS_H
