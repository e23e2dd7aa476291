//===- TurnsTest.cpp - Ranges that lie elsewhere on each rank -------------===//
#include "Turns.h"
#include "DamagedModules.h"
#include "VerifyModule.h"
#include "VerifySchedule.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// On a mesh dp = 2, tp = 3 each rank copies its 16 bytes x, y and z to the
/// places of the ranks along tp: x to its own, y one further, z two further.
Module turnedModule() {
  ModuleBuilder builder;
  std::vector<ByteRange> inputs{builder.input("x", {4}),
                                builder.input("y", {4}),
                                builder.input("z", {4})};
  ByteRange whole = builder.output("r", {12});
  Program &program = builder.module.program;
  program.mesh.name = "m";
  program.mesh.axes = {{"dp", 2}, {"tp", 3}};
  for (auto &port : {&program.inputs[0], &program.inputs[1], &program.inputs[2],
                     &program.outputs[0]})
    port->sharding = {{}};
  for (uint32_t i = 0; i < 3; ++i) {
    program.turns.push_back({{1}, 16, i});
    ByteRange target = whole;
    target.size = 16;
    target.turn = i + 1;
    builder.copy(inputs[i], target);
  }
  return builder.build();
}

/// The offsets that the program's copies write on `rank`.
std::vector<uint64_t> offsetsOn(Program program, uint32_t rank) {
  EXPECT_TRUE(placeRanges(program, rank));
  EXPECT_TRUE(program.turns.empty());
  std::vector<uint64_t> offsets;
  for (const Command &command : program.commands) {
    EXPECT_EQ(command.target.turn, 0u);
    EXPECT_EQ(command.source.offset, 0u);
    offsets.push_back(command.target.offset);
  }
  return offsets;
}

using Offsets = std::vector<uint64_t>;

TEST(Turns, APlaceIsTheOneAlongTheAxes) {
  Program program = turnedModule().program;
  EXPECT_EQ(getPlaces(program), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(offsetsOn(program, 0), (Offsets{0, 16, 32}));
  EXPECT_EQ(offsetsOn(program, 1), (Offsets{16, 32, 0}));
  EXPECT_EQ(offsetsOn(program, 2), (Offsets{32, 0, 16}));
  EXPECT_EQ(offsetsOn(program, 4), (Offsets{16, 32, 0}));
  // Row-major over the axes as they are written: rank 1 of dp = 2, tp = 3 is
  // the third along tp, then dp.
  program.turns.push_back({{1, 0}, 1, 0});
  EXPECT_EQ(getPlaces(program).size(), 6u);
  program.commands.resize(1);
  program.commands[0].target.turn = 4;
  EXPECT_EQ(offsetsOn(program, 1), (Offsets{2}));
  EXPECT_EQ(offsetsOn(program, 3), (Offsets{1}));
}

TEST(Turns, WithoutTurnsOneProofIsForAll) {
  Program program = turnedModule().program;
  program.turns.clear();
  EXPECT_EQ(getPlaces(program), (std::vector<uint32_t>{0}));
}

TEST(Turns, RoundTripKeepsThem) {
  Module module = turnedModule();
  Aligned bytes(write(module));
  auto view = readModule(bytes.data(), bytes.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  const Program &back = view->module.program;
  ASSERT_EQ(back.turns.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.turns[i].axes, (std::vector<uint32_t>{1}));
    EXPECT_EQ(back.turns[i].step, 16u);
    EXPECT_EQ(back.turns[i].shift, i);
    EXPECT_EQ(back.commands[i].target.turn, i + 1);
    EXPECT_EQ(back.commands[i].source.turn, 0u);
  }
}

TEST(Turns, RoundTripKeepsThoseOfOperands) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {4}), y = builder.output("y", {4});
  x.size = y.size = 8;
  Program &program = builder.module.program;
  program.mesh.axes = {{"tp", 2}};
  program.inputs[0].sharding = program.outputs[0].sharding = {{}};
  program.turns = {{{0}, 8, 0}, {{0}, 8, 1}};
  for (uint32_t i = 0; i < 2; ++i) {
    x.turn = y.turn = i + 1;
    builder.launch(TestKernel::Relu, {x}, y, {0, 2});
  }
  Aligned bytes(write(builder.build()));
  auto view = readModule(bytes.data(), bytes.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  for (uint32_t i = 0; i < 2; ++i)
    for (const Operand &operand :
         view->module.program.commands[i].launch.operands) {
      EXPECT_EQ(operand.range.turn, i + 1);
      EXPECT_EQ(operand.range.offset, 0u);
    }
}

/// What `edit` makes of the module can't be written, and why.
std::string refusal(const std::function<void(Program &)> &edit) {
  Module module = turnedModule();
  EXPECT_TRUE(verifyModule(module, 0).ok());
  edit(module.program);
  Status status = verifyModule(module, 0);
  EXPECT_EQ(status.code(), Code::BadProgram);
  return status.message();
}

TEST(Turns, EveryBadFieldIsRefused) {
  EXPECT_HAS(refusal([](Program &p) { p.turns[1].axes = {}; }), "T1: no axis");
  EXPECT_HAS(refusal([](Program &p) { p.turns[1].axes = {2}; }),
             "turn 1: T1: axis 2");
  EXPECT_HAS(refusal([](Program &p) { p.turns[1].axes = {1, 1}; }),
             "named twice");
  EXPECT_HAS(refusal([](Program &p) { p.turns[2].shift = 3; }),
             "T2: a shift of 3 among 3 ranks");
  EXPECT_HAS(refusal([](Program &p) { p.turns[0].step = UINT64_MAX / 6 + 1; }),
             "T2: ranges up to 3");
  EXPECT_HAS(refusal([](Program &p) { p.commands[2].target.turn = 4; }),
             "T3: a range names a turn");
  EXPECT_HAS(refusal([](Program &p) { p.turns.clear(); }),
             "T3: a range names a turn");
  EXPECT_HAS(
      refusal([](Program &p) { p.commands[0].source.turn = UINT32_MAX; }),
      "T3: a range names a turn");
}

/// What is wrong on one rank only is found before anything runs.
TEST(Turns, EveryRankIsProved) {
  // 2 times 17 bytes behind leave the 48 of the result.
  EXPECT_HAS(refusal([](Program &p) {
               p.turns.push_back({{1}, 17, 0});
               p.commands.push_back(p.commands[0]);
               p.commands.back().target.turn = 4;
             }),
             "S1: bytes 34 + 16 are outside");
  EXPECT_HAS(refusal([](Program &p) {
               p.commands[1].target.offset = UINT64_MAX - 15;
             }),
             "S1: a range leaves all segments on rank 0");
  // Two copies to one place: another one is never written.
  EXPECT_HAS(refusal([](Program &p) { p.turns[2].shift = 1; }), "S7: byte 32");
  // Another stream writes what this one has written.
  EXPECT_HAS(refusal([](Program &p) {
               p.streams = 2;
               p.commands.push_back(p.commands[0]);
               p.commands.back().stream = 1;
               p.commands.back().target.turn = 0;
             }),
             "S5");
}

/// An operand of a collective lies where all ranks have it.
TEST(Turns, CollectivesHaveNone) {
  Module module = collectivesModule("tp=2");
  module.program.turns = {{{0}, 0, 0}};
  ASSERT_TRUE(verifyModule(module, 0).ok());
  for (Command &command : module.program.commands)
    if (command.kind == CommandKind::Collective) {
      command.operands[0].range.turn = 1;
      break;
    }
  EXPECT_HAS(verifyModule(module, 0).message(), "T4: an operand");
}

/// Files of format 1.5 have no turns.
TEST(Turns, EarlierMinorVersionsLoad) {
  std::vector<uint8_t> old = write(smallModule());
  old[10] = 5;
  uint64_t sections = old[12];
  std::vector<uint8_t> hashed(old.begin(),
                              old.begin() + format::kHashedPreamble);
  hashed.insert(hashed.end(), old.begin() + format::kPreambleSize,
                old.begin() + long(format::kPreambleSize +
                                   sections * format::kEntrySize));
  auto digest = sha256(hashed.data(), hashed.size());
  std::memcpy(&old[format::kHashedPreamble], digest->data(), 32);
  Aligned bytes(old);
  auto view = readModule(bytes.data(), bytes.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->minor, 5);
  EXPECT_TRUE(view->module.program.turns.empty());
}

} // namespace
