//===- VerifyDirectTest.cpp - Moves whose readers need no copy ------------===//
//
// Rule S9: a program that keeps it, and each way to break it. Without it other
// ranks would read bytes that are not there yet, or no longer.
//
//===----------------------------------------------------------------------===//
#include "TestModules.h"
#include "VerifyModule.h"
#include "VerifySchedule.h"

#include <functional>
#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// Commands of `swapModule` with one step.
enum : size_t { kSwap = 3, kReader = 6, kRecord = 7, kWait = 8, kRelease = 9 };

std::string verdict(const Program &program) {
  for (const Command &command : program.commands)
    if (command.kind == CommandKind::Collective)
      if (Status status = verifyCollective(command, program.mesh, 1, 1);
          !status.ok())
        return status.message();
  return verifySchedule(program).message();
}

/// What is said of one step with 64 elements, changed by `edit`.
std::string edited(const std::function<void(Program &)> &edit) {
  Program program = swapModule(64, 1, true).program;
  edit(program);
  return verdict(program);
}

#define EXPECT_SAYS(text, ...)                                                 \
  do {                                                                         \
    std::string said = edited(__VA_ARGS__);                                    \
    EXPECT_NE(said.find(text), std::string::npos) << said;                     \
  } while (false)

/// A launch on stream 0, in front of the release and its event.
void insertLaunch(Program &p, std::vector<Operand> operands) {
  Command launch;
  launch.name = "other";
  launch.launch.operands = std::move(operands);
  p.commands.insert(p.commands.begin() + kRecord, launch);
}

ByteRange input(const Program &p) {
  return p.commands[kSwap].operands[0].range;
}
ByteRange output(const Program &p) {
  return p.commands[kSwap].operands[1].range;
}

TEST(VerifyDirect, MovesThatAreReleasedAreAccepted) {
  for (int steps : {1, 3})
    EXPECT_EQ(verdict(swapModule(64, steps, true).program), "");
  // More readers, and readers of a part.
  EXPECT_EQ(edited([](Program &p) {
              ByteRange part = output(p);
              part.offset += 64;
              part.size = 32;
              insertLaunch(p, {{part, true, false}});
              insertLaunch(p, {{output(p), true, false}});
            }),
            "");
}

TEST(VerifyDirect, AReleaseMustFollow) {
  EXPECT_SAYS("S9: a direct move without a release",
              [](Program &p) { p.commands.pop_back(); });
  // Of another group it is none.
  EXPECT_SAYS("S9: a release of what no direct move",
              [](Program &p) { p.commands[kRelease].stream = 0; });
}

TEST(VerifyDirect, AReleaseNamesWhatWasMoved) {
  EXPECT_SAYS("does not name what the direct move", [](Program &p) {
    p.commands[kRelease].operands[0].range = output(p);
    p.commands[kRelease].operands[1].range = input(p);
  });
  EXPECT_SAYS("does not name what the direct move", [](Program &p) {
    p.commands[kRelease].operands[1].range.size -= 32;
  });
  EXPECT_SAYS("no direct move", [](Program &p) {
    ByteRange more{0, p.segments[0].size, 64};
    p.segments[0].size += 64;
    insertLaunch(p, {{more, false, true}});
    auto &operands = p.commands[kRelease + 1].operands;
    operands.push_back({input(p), true, false});
    operands.push_back({more, true, true});
  });
  // A move that copies needs none.
  EXPECT_SAYS("S9: a release of what no direct move", [](Program &p) {
    p.commands[kSwap].collective.isDirect = false;
  });
}

TEST(VerifyDirect, AllReadBeforeTheRelease) {
  // Nothing orders the reader.
  EXPECT_SAYS("S5",
              [](Program &p) { p.commands.erase(p.commands.begin() + kWait); });
  // One behind it, in order.
  EXPECT_SAYS("S9: reads the output of a direct move behind its release",
              [](Program &p) {
                Command reader = p.commands[kReader];
                reader.stream = 1;
                reader.launch.operands = {{output(p), true, false}};
                p.commands.push_back(reader);
              });
  // Where something else was written meanwhile it may be read.
  EXPECT_EQ(edited([](Program &p) {
              Command writer = p.commands[kReader];
              writer.stream = 1;
              writer.launch.operands = {{output(p), false, true}};
              p.commands.push_back(writer);
              writer.launch.operands = {{output(p), true, false}};
              p.commands.push_back(writer);
            }),
            "");
}

TEST(VerifyDirect, OnlyLaunchesReadWhatIsNotCopied) {
  EXPECT_SAYS("S9: touches the output",
              [](Program &p) { insertLaunch(p, {{output(p), true, true}}); });
  EXPECT_SAYS("S9: touches the output",
              [](Program &p) { insertLaunch(p, {{output(p), false, true}}); });
  EXPECT_SAYS("S9: touches the output", [](Program &p) {
    Command copy;
    copy.kind = CommandKind::Copy;
    copy.source = output(p);
    copy.target = p.commands[kReader].launch.operands[2].range;
    p.commands.insert(p.commands.begin() + kRecord, copy);
  });
  EXPECT_SAYS("S9: touches the output", [](Program &p) {
    insertLaunch(p, {});
    Command &call = p.commands[kRecord];
    call.kind = CommandKind::Call;
    call.operands = {{output(p), true, false}};
  });
  // Its neighbour's bytes are in this rank's memory.
  EXPECT_SAYS("on several ranks, or others with them", [](Program &p) {
    ByteRange both{0, 0, p.segments[0].size};
    insertLaunch(p, {{both, true, false}});
  });
}

TEST(VerifyDirect, InputsStayUntilTheRelease) {
  EXPECT_SAYS("S9: writes what other ranks may be reading",
              [](Program &p) { insertLaunch(p, {{input(p), true, true}}); });
  EXPECT_SAYS("S9: writes what other ranks may be reading", [](Program &p) {
    ByteRange last = input(p);
    last.offset += last.size - 4;
    last.size = 4;
    insertLaunch(p, {{last, false, true}});
  });
  // By another move, too.
  EXPECT_SAYS("S9: a direct move shares bytes", [](Program &p) {
    Command again = p.commands[kSwap];
    again.operands[1].range = {0, p.segments[0].size, 256};
    p.segments[0].size += 256;
    p.commands.insert(p.commands.begin() + kSwap + 1, again);
  });
}

TEST(VerifyDirect, OtherRanksFindWhatTheyRead) {
  EXPECT_SAYS("S9: a direct move outside private segments", [](Program &p) {
    p.commands[kSwap].operands[0].range = p.commands[0].source;
  });
  EXPECT_SAYS("not aligned to 16 bytes", [](Program &p) {
    ByteRange place{0, p.segments[0].size + 8, 256};
    p.segments[0].size += 264;
    for (Operand *operand : {&p.commands[kSwap].operands[1],
                             &p.commands[kReader].launch.operands[1],
                             &p.commands[kRelease].operands[1]})
      operand->range = place;
  });
}

TEST(VerifyDirect, AMoveIsWholeAndByPeerCopies) {
  auto swap = [](Program &p) -> CollectiveCall & {
    return p.commands[kSwap].collective;
  };
  EXPECT_SAYS("not over peer copies", [&](Program &p) {
    swap(p).transport = CollectiveTransport::Nccl;
  });
  EXPECT_SAYS("no permutation of all ranks", [&](Program &p) {
    swap(p).sources = {0};
    swap(p).targets = {1};
  });
  EXPECT_SAYS("depends on the batch",
              [&](Program &p) { swap(p).parts[0].shape = {{64, 0}}; });
  EXPECT_SAYS("in place", [&](Program &p) {
    swap(p).parts[0].inPlace = true;
    p.commands[kSwap].operands.pop_back();
  });
  EXPECT_SAYS("a release that moves something", [](Program &p) {
    p.commands[kRelease].collective.parts = p.commands[kSwap].collective.parts;
  });
  EXPECT_SAYS("sources and targets of what is no permutation", [](Program &p) {
    p.commands[kRelease].collective.sources = {0, 1};
  });
  EXPECT_SAYS("no pairs of operands",
              [](Program &p) { p.commands[kRelease].operands.pop_back(); });
  EXPECT_SAYS("not accessed as its place says", [](Program &p) {
    p.commands[kRelease].operands[1].writes = false;
  });
}

/// Of what is gathered, a launch reads one rank's part at a time.
TEST(VerifyDirect, PiecesOfRanksAreReadApart) {
  for (bool isApart : {true, false}) {
    std::string said = edited([&](Program &p) {
      Command &gather = p.commands[kSwap];
      gather.collective.op = CollectiveOp::AllGather;
      gather.collective.sources = gather.collective.targets = {};
      ByteRange whole{0, p.segments[0].size, 512}, half = whole;
      half.size = 256;
      p.segments[0].size += 512;
      gather.operands[1].range = whole;
      p.commands[kRelease].operands[1].range = whole;
      auto &reads = p.commands[kReader].launch.operands;
      reads[1].range = half;
      half.offset += isApart ? 256 : 255;
      reads.insert(reads.begin(), {half, true, false});
    });
    if (isApart)
      EXPECT_EQ(said, "");
    else
      EXPECT_NE(said.find("on several ranks"), std::string::npos) << said;
  }
}

/// Many parts, and many commands between: near linear.
TEST(VerifyDirect, ManyMovesAndReadersAreQuick) {
  Program program = swapModule(64, 2000, true).program;
  EXPECT_EQ(verdict(program), "");
}

} // namespace
