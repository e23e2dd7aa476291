//===- VerifyDirect.cpp - Moves whose readers need no copy ----------------===//
//
// Rule S9, in one sweep in list order over the byte ranges of the direct moves
// that are not released yet, and of the outputs that were. That the accesses it
// allows are ordered is the matter of the other rules.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Mesh.h"
#include "Text.h"
#include "VerifySchedule.h"

#include <algorithm>
#include <map>
#include <set>

using namespace fusion::rt;

namespace {

constexpr uint64_t kAlignment = 16;

using Place = std::pair<uint32_t, uint64_t>; ///< segment, offset

/// Bytes from a place on.
struct Part {
  uint64_t end = 0;   ///< offset behind them
  uint64_t piece = 0; ///< of an output: bytes that come from one rank
};
/// Parts that share no byte.
using Parts = std::map<Place, Part>;

/// The group of a collective.
using GroupKey = std::pair<uint32_t, std::vector<uint32_t>>;

class DirectVerifier {
public:
  explicit DirectVerifier(const Program &program) : program(program) {}
  Status verify();

private:
  Status bad(const std::string &what) {
    const std::string &name = program.commands[now].name;
    return Status(Code::BadProgram,
                  "schedule: command " + std::to_string(now) + " '" +
                      escape(name) + "': S9: " + what,
                  name);
  }
  Status move(const Command &command);
  Status release(const Command &command);
  Status access(const ByteRange &range, bool reads, bool writes, bool isLaunch);
  Status insert(Parts &parts, const ByteRange &range, uint64_t piece);

  const Program &program;
  size_t now = 0;
  Parts inputs, outputs; ///< of moves that are not released
  Parts released;        ///< outputs that nothing wrote since
  std::map<GroupKey, std::set<size_t>> open; ///< moves, by group
};

} // namespace

/// The first part with a byte in [offset, end) of a segment.
static Parts::iterator findOverlap(Parts &parts, uint32_t segment,
                                   uint64_t offset, uint64_t end) {
  auto it = parts.upper_bound({segment, offset});
  if (it != parts.begin()) {
    auto before = std::prev(it);
    if (before->first.first == segment && before->second.end > offset)
      return before;
  }
  return it != parts.end() && it->first < Place{segment, end} ? it
                                                              : parts.end();
}

Status DirectVerifier::insert(Parts &parts, const ByteRange &range,
                              uint64_t piece) {
  if (range.size == 0)
    return {};
  if (program.segments[range.segment].kind != SegmentKind::Private)
    return bad("a direct move outside private segments");
  uint64_t end = range.offset + range.size;
  if (findOverlap(parts, range.segment, range.offset, end) != parts.end())
    return bad("a direct move shares bytes with another that is not released");
  parts[{range.segment, range.offset}] = {end, piece};
  return {};
}

Status DirectVerifier::move(const Command &command) {
  const CollectiveCall &call = command.collective;
  uint64_t pieces =
      call.op == CollectiveOp::Permute ? 1 : groupSize(program.mesh, call.axes);
  for (size_t i = 0; i + 1 < command.operands.size(); i += 2) {
    const ByteRange &input = command.operands[i].range,
                    &output = command.operands[i + 1].range;
    // A kernel expects bytes where they are as well aligned as in its output.
    if (input.offset % kAlignment || output.offset % kAlignment ||
        (pieces > 1 && output.size / pieces % kAlignment))
      return bad("a direct move of parts that are not aligned to 16 bytes");
    FUSION_RT_TRY(insert(inputs, input, 0));
    FUSION_RT_TRY(
        insert(outputs, output, std::max<uint64_t>(1, output.size / pieces)));
  }
  open[{command.stream, call.axes}].insert(now);
  return {};
}

Status DirectVerifier::release(const Command &command) {
  std::set<size_t> moves;
  open[{command.stream, command.collective.axes}].swap(moves);
  size_t operand = 0;
  auto isSame = [](const ByteRange &a, const ByteRange &b) {
    return a.segment == b.segment && a.offset == b.offset && a.size == b.size &&
           a.allocation == b.allocation;
  };
  for (size_t number : moves)
    for (const Operand &moved : program.commands[number].operands) {
      if (operand == command.operands.size() ||
          !isSame(command.operands[operand++].range, moved.range))
        return bad("a release that does not name what the direct move " +
                   std::to_string(number) + " moves, in its order");
      const ByteRange &range = moved.range;
      if (range.size == 0)
        continue;
      (moved.writes ? outputs : inputs).erase({range.segment, range.offset});
      if (moved.writes)
        released[{range.segment, range.offset}] = {range.offset + range.size,
                                                   0};
    }
  return operand == command.operands.size()
             ? Status()
             : bad("a release of what no direct move of its group has moved");
}

Status DirectVerifier::access(const ByteRange &range, bool reads, bool writes,
                              bool isLaunch) {
  if (range.size == 0)
    return {};
  uint64_t end = range.offset + range.size;
  if (writes &&
      findOverlap(inputs, range.segment, range.offset, end) != inputs.end())
    return bad("writes what other ranks may be reading");
  if (auto part = findOverlap(outputs, range.segment, range.offset, end);
      part != outputs.end()) {
    uint64_t start = part->first.second, piece = part->second.piece;
    if (writes || !isLaunch)
      return bad("touches the output of a direct move, which only launches "
                 "read before its release");
    if (range.offset < start || end > part->second.end ||
        (range.offset - start) / piece != (end - 1 - start) / piece)
      return bad("reads bytes of a direct move together that are on several "
                 "ranks, or others with them");
  }
  for (auto part = findOverlap(released, range.segment, range.offset, end);
       part != released.end();
       part = findOverlap(released, range.segment, range.offset, end)) {
    if (reads)
      return bad("reads the output of a direct move behind its release");
    // What is left of it to both sides.
    auto [place, old] = *part;
    released.erase(part);
    if (place.second < range.offset)
      released[place] = {range.offset, 0};
    if (old.end > end)
      released[{place.first, end}] = {old.end, 0};
  }
  return {};
}

Status DirectVerifier::verify() {
  auto operands = [&](const std::vector<Operand> &list, bool isLaunch) {
    for (const Operand &operand : list)
      if (operand.reads)
        FUSION_RT_TRY(access(operand.range, true, operand.writes, isLaunch));
    for (const Operand &operand : list)
      if (!operand.reads)
        FUSION_RT_TRY(access(operand.range, false, operand.writes, isLaunch));
    return Status();
  };
  for (now = 0; now < program.commands.size(); ++now) {
    const Command &command = program.commands[now];
    bool isCollective = command.kind == CommandKind::Collective;
    if (isCollective && command.collective.op == CollectiveOp::Release) {
      FUSION_RT_TRY(release(command));
      continue;
    }
    bool isLaunch = command.kind == CommandKind::Launch;
    FUSION_RT_TRY(operands(command.operands, false));
    FUSION_RT_TRY(operands(command.launch.operands, isLaunch));
    if (command.kind == CommandKind::Copy) {
      FUSION_RT_TRY(access(command.source, true, false, false));
      FUSION_RT_TRY(access(command.target, false, true, false));
    }
    if (isCollective && command.collective.isDirect)
      FUSION_RT_TRY(move(command));
  }
  for (const auto &[group, moves] : open)
    if (!moves.empty()) {
      now = *moves.begin();
      return bad("a direct move without a release");
    }
  return {};
}

Status fusion::rt::verifyDirectMoves(const Program &program) {
  auto isDirect = [](const Command &command) {
    return command.kind == CommandKind::Collective &&
           (command.collective.isDirect ||
            command.collective.op == CollectiveOp::Release);
  };
  if (std::none_of(program.commands.begin(), program.commands.end(), isDirect))
    return {};
  return DirectVerifier(program).verify();
}
