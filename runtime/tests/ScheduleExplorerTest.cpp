//===- ScheduleExplorerTest.cpp - Does the explorer see what it should? ---===//
//
// The judge of the verifier is judged by hand: programs whose harm is known,
// and the search without its reduction.
//
//===----------------------------------------------------------------------===//
#include "ScheduleExplorer.h"
#include "SchedulePrograms.h"

#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::testing;

namespace {

constexpr uint64_t kSize = 64;

/// Bytes of the arena's slots [slot, slot + count).
ByteRange slots(uint64_t slot, uint64_t count = 1) {
  return {0, slot * kSize, count * kSize, 0};
}

/// A program on a mesh of axes a and b, with one input (segment 1) and one
/// output (segment 2) of a slot each.
struct Builder {
  Builder(uint32_t streams, uint32_t a = 2, uint32_t b = 1) {
    program.streams = streams;
    program.mesh = {"m", {{"a", a}, {"b", b}}};
    program.segments = {{SegmentKind::Private, 16 * kSize, 64},
                        {SegmentKind::Input, kSize, 64},
                        {SegmentKind::Output, kSize, 64}};
    program.inputs.resize(1);
    program.inputs[0].segment = 1;
    program.outputs.resize(1);
    program.outputs[0].segment = 2;
  }
  Command &add(CommandKind kind, uint32_t stream, const std::string &name) {
    Command command;
    command.kind = kind;
    command.stream = stream;
    command.name = name;
    command.launch.kernel = uint32_t(program.commands.size());
    program.commands.push_back(command);
    return program.commands.back();
  }
  Builder &launch(uint32_t stream, const std::string &name,
                  std::vector<ByteRange> reads, std::vector<ByteRange> writes) {
    Command &command = add(CommandKind::Launch, stream, name);
    for (const ByteRange &range : reads)
      command.launch.operands.push_back({range, true, false});
    for (const ByteRange &range : writes)
      command.launch.operands.push_back({range, false, true});
    return *this;
  }
  Builder &event(CommandKind kind, uint32_t stream, uint32_t event) {
    add(kind, stream, "event").event = event;
    program.events = std::max(program.events, event + 1);
    return *this;
  }
  Builder &record(uint32_t stream, uint32_t number) {
    return event(CommandKind::Record, stream, number);
  }
  Builder &wait(uint32_t stream, uint32_t number) {
    return event(CommandKind::Wait, stream, number);
  }
  /// In place; of `count` slots.
  Builder &reduce(uint32_t stream, const std::string &name, uint64_t slot,
                  std::vector<uint32_t> axes = {0}, uint64_t count = 1) {
    Command &command = add(CommandKind::Collective, stream, name);
    command.operands = {{slots(slot, count), true, true}};
    command.collective.axes = axes;
    command.collective.parts = {
        {DType::F32, {{0, int64_t(count * kSize / 4)}}, true}};
    return *this;
  }
  /// Of the input, to two slots.
  Builder &gather(uint32_t stream, const std::string &name, uint64_t slot) {
    Command &command = add(CommandKind::Collective, stream, name);
    command.operands = {{{1, 0, kSize}, true, false},
                        {slots(slot, 2), false, true}};
    command.collective.op = CollectiveOp::AllGather;
    command.collective.axes = {0};
    command.collective.parts = {{DType::F32, {{0, int64_t(kSize / 4)}}}};
    return *this;
  }
  Builder &toOutput(uint32_t stream, std::vector<ByteRange> reads) {
    return launch(stream, "output", reads, {{2, 0, kSize}});
  }

  Program program;
};

const ByteRange kInput = {1, 0, kSize, 0};

Harm harmOf(const std::vector<Program> &ranks) {
  Exploration found = explore(ranks);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.harm, explore(ranks, /*reduce=*/false).harm) << found.what;
  return found.harm;
}

std::vector<Program> both(const Builder &builder) {
  return {builder.program, builder.program};
}

TEST(ScheduleExplorer, FindsARaceThatMostOrdersHide) {
  // Only if stream 1 lags by two commands does its read meet the second write.
  Builder b(2);
  b.launch(0, "first", {kInput}, {slots(0)}).record(0, 0);
  b.launch(0, "between", {kInput}, {slots(1)});
  Builder good = b;
  b.launch(0, "second", {kInput}, {slots(0)});
  for (Builder *builder : {&b, &good})
    builder->wait(1, 0).toOutput(1, {slots(0)});
  EXPECT_EQ(harmOf(both(b)), Harm::Race);
  EXPECT_EQ(harmOf(both(good)), Harm::None);
}

TEST(ScheduleExplorer, TellsTheOrderThatDoesHarm) {
  Builder b(2);
  b.launch(0, "writer", {kInput}, {slots(0)}).toOutput(1, {slots(0)});
  std::string what = explore(both(b)).what;
  EXPECT_NE(what.find("'output' meets 'writer' at cell"), std::string::npos)
      << what;
  EXPECT_NE(what.find("rank 0 stream 1 begins output"), std::string::npos)
      << what;
}

TEST(ScheduleExplorer, UnwrittenBytesAndOutputs) {
  EXPECT_EQ(harmOf(both(Builder(1).toOutput(0, {slots(0)}))), Harm::Unwritten);
  EXPECT_EQ(harmOf(both(Builder(1))), Harm::Unwritten);
  EXPECT_EQ(harmOf(both(Builder(1).toOutput(0, {kInput}))), Harm::None);
}

TEST(ScheduleExplorer, OverlappingOperands) {
  Builder b(1);
  b.launch(0, "a", {kInput}, {slots(0, 2)});
  b.launch(0, "b", {slots(0)}, {slots(0)}).toOutput(0, {slots(0)});
  EXPECT_EQ(harmOf(both(b)), Harm::Race);
}

TEST(ScheduleExplorer, TwoCommunicatorsOnOneStreamMayDeadlock) {
  // Both ranks are in both groups. Each stream holds one collective at a time.
  Builder b(1);
  b.launch(0, "a", {kInput}, {slots(0, 2)});
  Builder c = b;
  b.reduce(0, "x", 0, {0}).reduce(0, "y", 1, {0, 1}).toOutput(0, {slots(0, 2)});
  c.reduce(0, "y", 1, {0, 1}).reduce(0, "x", 0, {0}).toOutput(0, {slots(0, 2)});
  EXPECT_EQ(harmOf(both(b)), Harm::None);
  EXPECT_EQ(harmOf(both(c)), Harm::None);
  EXPECT_EQ(harmOf({b.program, c.program}), Harm::Deadlock);
}

TEST(ScheduleExplorer, TwoCommunicatorsOnTwoStreamsMayNot) {
  auto make = [](bool swapped) {
    Builder b(2);
    b.launch(0, "a", {kInput}, {slots(0, 2)}).record(0, 0).wait(1, 0);
    if (swapped)
      b.reduce(1, "y", 1, {0, 1}).reduce(0, "x", 0, {0});
    else
      b.reduce(0, "x", 0, {0}).reduce(1, "y", 1, {0, 1});
    b.record(1, 1).wait(0, 1).toOutput(0, {slots(0, 2)});
    return b.program;
  };
  EXPECT_EQ(harmOf({make(false), make(true)}), Harm::None);
}

TEST(ScheduleExplorer, EventsMayOrderCollectivesAgainstEachOther) {
  auto make = [](uint32_t first, uint32_t second) {
    Builder b(2);
    b.reduce(first, "x", first).record(first, 0).wait(second, 0);
    b.reduce(second, "y", second).record(second, 1).wait(first, 1);
    b.toOutput(0, {kInput});
    // The values exist from the start.
    Command init;
    init.name = "init";
    init.launch.kernel = 99;
    init.launch.operands = {{slots(0, 2), false, true}};
    b.program.commands.insert(b.program.commands.begin(), init);
    Command record, wait;
    record.kind = CommandKind::Record;
    wait.kind = CommandKind::Wait;
    record.event = wait.event = 2;
    wait.stream = 1;
    b.program.events = 3;
    b.program.commands.insert(b.program.commands.begin() + 1, {record, wait});
    return b.program;
  };
  EXPECT_EQ(harmOf({make(0, 1), make(0, 1)}), Harm::None);
  EXPECT_EQ(harmOf({make(0, 1), make(1, 0)}), Harm::Deadlock);
}

TEST(ScheduleExplorer, CircleOfFourRanks) {
  // On a mesh of 2 x 2 each rank meets one neighbour, then the other. Around
  // the square everyone may wait for the next one.
  auto make = [](bool columnFirst) {
    Builder b(1, 2, 2);
    b.launch(0, "a", {kInput}, {slots(0, 2)});
    for (bool column : {columnFirst, !columnFirst})
      b.reduce(0, column ? "column" : "row", column, {uint32_t(!column)});
    return b.toOutput(0, {slots(0, 2)}).program;
  };
  Program rows = make(false), columns = make(true);
  EXPECT_EQ(explore({rows, rows, rows, rows}).harm, Harm::None);
  EXPECT_EQ(explore({rows, rows, rows, columns}).harm, Harm::None);
  EXPECT_EQ(explore({rows, columns, columns, rows}).harm, Harm::Deadlock);
}

TEST(ScheduleExplorer, CollectivesThatDoNotFitTogether) {
  auto make = [](uint64_t count, Reduction reduction) {
    Builder b(1);
    b.launch(0, "a", {kInput}, {slots(0, 2)}).reduce(0, "x", 0, {0}, count);
    b.program.commands.back().collective.reduction = reduction;
    return b.toOutput(0, {slots(0, 2)}).program;
  };
  Program one = make(1, Reduction::Sum);
  EXPECT_EQ(harmOf({one, one}), Harm::None);
  EXPECT_EQ(harmOf({one, make(2, Reduction::Sum)}), Harm::Mismatch);
  EXPECT_EQ(harmOf({one, make(1, Reduction::Mean)}), Harm::Mismatch);
}

TEST(ScheduleExplorer, ARankWithoutItsCollective) {
  Builder b(1);
  b.launch(0, "a", {kInput}, {slots(0)});
  Builder c = b;
  b.reduce(0, "x", 0).toOutput(0, {slots(0)});
  c.toOutput(0, {slots(0)});
  EXPECT_EQ(harmOf({b.program, c.program}), Harm::Deadlock);
}

TEST(ScheduleExplorer, ARingOfGatheredBuffers) {
  // Three gathers into two places: the third must wait for the first reader.
  auto make = [](bool waits) {
    Builder b(2);
    b.gather(1, "gather0", 0).record(1, 0);
    b.gather(1, "gather1", 2).record(1, 1);
    b.wait(0, 0).launch(0, "layer0", {slots(0, 2)}, {slots(4)}).record(0, 2);
    if (waits)
      b.wait(1, 2);
    b.gather(1, "gather2", 0).record(1, 3);
    b.wait(0, 1).launch(0, "layer1", {slots(4), slots(2, 2)}, {slots(5)});
    b.wait(0, 3).toOutput(0, {slots(5), slots(0, 2)});
    return both(b);
  };
  EXPECT_EQ(harmOf(make(true)), Harm::None);
  EXPECT_EQ(harmOf(make(false)), Harm::Race);
}

TEST(ScheduleExplorer, AWaitIsForTheRecordBeforeIt) {
  // Event 0 is recorded on stream 0, then on stream 1; the wait is for the
  // first but also passes at the second, which may come sooner.
  auto make = [](bool ordered) {
    Builder b(3);
    b.launch(0, "a", {kInput}, {slots(0)}).record(0, 0);
    b.wait(2, 0).toOutput(2, {slots(0)}).record(2, 1);
    if (ordered)
      b.wait(1, 1);
    b.launch(1, "b", {kInput}, {slots(1)}).record(1, 0);
    return both(b);
  };
  EXPECT_EQ(harmOf(make(true)), Harm::None);
  EXPECT_NE(harmOf(make(false)), Harm::None);
}

TEST(ScheduleExplorer, ValuesAreThoseOfTheList) {
  // Gathering moves values, so its first half is rank 0's input; a reduction's
  // depends on both ranks.
  Builder copy(1), gathered(1);
  for (Builder *b : {&copy, &gathered}) {
    bool gathers = b == &gathered;
    if (gathers)
      b->gather(0, "gather", 0);
    Command &command = b->add(CommandKind::Copy, 0, "copy");
    command.source = gathers ? slots(0) : kInput;
    command.target = {2, 0, kSize};
  }
  auto plain = explore(both(copy)).outputs;
  auto first = explore(both(gathered)).outputs;
  ASSERT_EQ(plain.size(), 2u);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_NE(plain[0], plain[1]);
  EXPECT_EQ(first[0], plain[0]);
  EXPECT_EQ(first[1], plain[0]);
}

TEST(ScheduleExplorer, MeaningKeepsBuffersApart) {
  // Allocation 2 takes the bytes of 1 too early. In its own bytes it does not.
  Builder b(1);
  ByteRange one = slots(0), two = slots(0);
  one.allocation = 1;
  two.allocation = 2;
  b.launch(0, "a", {kInput}, {one}).launch(0, "b", {kInput}, {two});
  b.toOutput(0, {one});
  Exploration run = explore(both(b)), meaning = meaningOf(b.program, 2);
  EXPECT_EQ(run.harm, Harm::None);
  EXPECT_EQ(meaning.harm, Harm::None);
  EXPECT_NE(run.outputs, meaning.outputs);
}

TEST(ScheduleExplorer, TheReductionLosesNothing) {
  Random random(4);
  int harmful = 0, harmless = 0;
  uint64_t fastStates = 0, fullStates = 0;
  for (int i = 0; i < 4000; ++i) {
    Program program = makeProgram(random);
    if (program.commands.size() > 10 || ranksOf(program) > 2)
      continue;
    auto ranks = mutate(program, Mutation(pick(random, kMutations)), 2, random);
    if (ranks.empty())
      ranks = {program, program};
    Exploration fast = explore(ranks), full = explore(ranks, false);
    ASSERT_TRUE(fast.complete);
    if (!full.complete)
      continue;
    ASSERT_EQ(fast.harm == Harm::None, full.harm == Harm::None)
        << fast.what << full.what;
    ASSERT_EQ(fast.outputs, full.outputs);
    if (fast.harm == Harm::None) {
      ASSERT_LE(fast.states, full.states);
      fastStates += fast.states;
      fullStates += full.states;
    }
    ++(fast.harm == Harm::None ? harmless : harmful);
  }
  printf("%d harmful, %d harmless: %d states instead of %d\n", harmful,
         harmless, int(fastStates), int(fullStates));
  EXPECT_GE(harmful, 100);
  EXPECT_GE(harmless, 100);
}

} // namespace
