//===- Turns.cpp - Ranges that lie elsewhere on each rank -----------------===//
//
// One program serves all ranks; what differs is where some of its ranges lie.
// The proof of a schedule and the executors know nothing of that: they get the
// program of one rank.
//
//===----------------------------------------------------------------------===//
#include "Turns.h"
#include "Checked.h"
#include "CommandText.h"
#include "Mesh.h"
#include "VerifyModule.h"

#include <algorithm>
#include <set>

using namespace fusion::rt;

/// Calls `visit(ByteRange &)` on each range of `command`, until one says no.
template <typename CommandT, typename Visit>
static bool visitRanges(CommandT &command, Visit visit) {
  for (auto *list : {&command.operands, &command.launch.operands,
                     &command.fallback.operands})
    for (auto &operand : *list)
      if (!visit(operand.range))
        return false;
  return command.kind != CommandKind::Copy ||
         (visit(command.source) && visit(command.target));
}

Status fusion::rt::verifyTurns(const Program &program) {
  auto bad = [](size_t index, const std::string &what) {
    return Status(Code::BadProgram,
                  "turn " + std::to_string(index) + ": " + what);
  };
  if (!program.turns.empty())
    FUSION_RT_TRY(verifyMesh(program.mesh));
  for (size_t i = 0; i < program.turns.size(); ++i) {
    const Turn &turn = program.turns[i];
    std::set<uint32_t> seen;
    for (uint32_t axis : turn.axes)
      if (axis >= program.mesh.axes.size() || !seen.insert(axis).second)
        return bad(i, "T1: axis " + std::to_string(axis) +
                          " is not in the mesh, or named twice");
    if (turn.axes.empty())
      return bad(i, "T1: no axis");
    uint32_t ranks = groupSize(program.mesh, turn.axes);
    if (turn.shift >= ranks)
      return bad(i, "T2: a shift of " + std::to_string(turn.shift) + " among " +
                        std::to_string(ranks) + " ranks");
    if (turn.step > ((uint64_t(1) << 63) - 1) / ranks)
      return bad(i, "T2: ranges up to " + std::to_string(ranks) + " times " +
                        std::to_string(turn.step) + " bytes behind");
  }
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    bool isCollective = command.kind == CommandKind::Collective;
    const char *rule = nullptr;
    if (!visitRanges(command, [&](const ByteRange &range) {
          if (range.turn > program.turns.size())
            rule = "T3: a range names a turn that does not exist";
          else if (isCollective && range.turn != 0)
            rule = "T4: an operand of a collective has a turn";
          return !rule;
        }))
      return Status(Code::BadProgram,
                    "schedule: " + commandText(program, i) + ": " + rule,
                    command.name);
  }
  return {};
}

std::vector<uint32_t> fusion::rt::getPlaces(const Program &program) {
  if (program.turns.empty())
    return {0};
  std::set<std::vector<uint32_t>> lists;
  for (const Turn &turn : program.turns)
    lists.insert(turn.axes);
  std::set<std::vector<uint32_t>> seen;
  std::vector<uint32_t> places;
  for (uint32_t rank = 0; rank < rankCount(program.mesh); ++rank) {
    std::vector<uint32_t> place;
    for (const std::vector<uint32_t> &axes : lists)
      place.push_back(positionOn(program.mesh, axes, rank));
    if (seen.insert(std::move(place)).second)
      places.push_back(rank);
  }
  return places;
}

bool fusion::rt::placeRanges(Program &program, uint32_t rank) {
  std::vector<uint64_t> distances;
  for (const Turn &turn : program.turns)
    distances.push_back(
        (uint64_t(positionOn(program.mesh, turn.axes, rank)) + turn.shift) %
        groupSize(program.mesh, turn.axes) * turn.step);
  for (Command &command : program.commands)
    if (!visitRanges(command, [&](ByteRange &range) {
          if (range.turn == 0)
            return true;
          auto offset = checkedAdd(range.offset, distances[range.turn - 1]);
          if (!offset)
            return false;
          range.offset = *offset;
          range.turn = 0;
          return true;
        }))
      return false;
  program.turns.clear();
  return true;
}
