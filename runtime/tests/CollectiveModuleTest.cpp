//===- CollectiveModuleTest.cpp - Programs of several ranks in a file -----===//
#include "Mesh.h"
#include "TestModules.h"
#include "VerifyModule.h"
#include "VerifySchedule.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// A module as a file would give it back.
Module reread(const Module &module) {
  auto bytes = writeModule(module);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  void *memory = std::aligned_alloc(64, (bytes->size() + 63) / 64 * 64);
  std::memcpy(memory, bytes->data(), bytes->size());
  auto view = readModule(memory, bytes->size());
  EXPECT_TRUE(view.ok()) << view.status().message();
  Module result = view.ok() ? view->module : Module();
  std::free(memory);
  return result;
}

TEST(CollectiveModule, RoundTripKeepsEverything) {
  Module module = collectivesModule("dp=2,tp=3");
  Program &program = module.program;
  program.inputs[0].globalShape = {71, 18};
  program.commands[3].collective.bucket = 7;
  program.commands[3].collective.units = 6;
  program.commands[3].collective.transport = CollectiveTransport::Nccl;
  Module back = reread(module);
  EXPECT_EQ(back.program.mesh.name, "m");
  EXPECT_EQ(back.program.mesh.axes, program.mesh.axes);
  EXPECT_EQ(back.program.inputs[0].sharding, program.inputs[0].sharding);
  EXPECT_EQ(back.program.inputs[0].globalShape, (std::vector<int64_t>{71, 18}));
  ASSERT_EQ(back.program.commands.size(), program.commands.size());
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &a = program.commands[i], &b = back.program.commands[i];
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.stream, b.stream);
    EXPECT_EQ(a.operands.size(), b.operands.size());
    const CollectiveCall &c = a.collective, &d = b.collective;
    EXPECT_EQ(c.op, d.op);
    EXPECT_EQ(c.reduction, d.reduction);
    EXPECT_EQ(c.axes, d.axes);
    EXPECT_EQ(c.dim, d.dim);
    EXPECT_EQ(c.concatDim, d.concatDim);
    EXPECT_EQ(c.root, d.root);
    EXPECT_EQ(c.sources, d.sources);
    EXPECT_EQ(c.targets, d.targets);
    EXPECT_EQ(c.bucket, d.bucket);
    EXPECT_EQ(c.units, d.units);
    EXPECT_EQ(c.transport, d.transport);
    ASSERT_EQ(c.parts.size(), d.parts.size());
    for (size_t p = 0; p < c.parts.size(); ++p) {
      EXPECT_EQ(c.parts[p].inPlace, d.parts[p].inPlace);
      EXPECT_EQ(c.parts[p].shape.size(), d.parts[p].shape.size());
    }
  }
}

TEST(CollectiveModule, RoundTripKeepsWhatIsReadInPlace) {
  Module module = swapModule(64, 1, /*isDirect=*/true);
  Module back = reread(module);
  EXPECT_EQ(verifySchedule(back.program).message(), "");
  auto count = [](const Program &program, auto is) {
    return std::count_if(program.commands.begin(), program.commands.end(),
                         [&](const Command &c) { return is(c.collective); });
  };
  auto isDirect = [](const CollectiveCall &call) { return call.isDirect; };
  EXPECT_EQ(count(back.program, isDirect), 1);
  EXPECT_EQ(count(back.program,
                  [](const CollectiveCall &call) {
                    return call.op == CollectiveOp::Release;
                  }),
            1);
  // Ranks of which one copies run different programs.
  auto copied = swapModule(64, 1, /*isDirect=*/true);
  for (Command &command : copied.program.commands)
    command.collective.isDirect = false;
  EXPECT_NE(*scheduleHash(module.program), *scheduleHash(copied.program));
}

TEST(CollectiveModule, ScheduleHashSeesTheProgramOnly) {
  Module module = collectivesModule("dp=2");
  auto first = scheduleHash(module.program);
  module.provenance.push_back({"a", "b"});
  EXPECT_EQ(*first, *scheduleHash(module.program));
  module.program.commands[3].collective.root = 1;
  EXPECT_NE(*first, *scheduleHash(module.program));
}

/// What `edit` makes of a good module is refused with `text`.
void refused(const std::function<void(Program &)> &edit,
             const std::string &text) {
  Module module = collectivesModule("dp=2,tp=3");
  ASSERT_TRUE(verifyModule(module, 0).ok());
  edit(module.program);
  Status status = verifyModule(module, 0);
  EXPECT_EQ(status.code(), Code::BadProgram);
  EXPECT_NE(status.message().find(text), std::string::npos)
      << status.message() << " has not: " << text;
}

Command &find(Program &program, CollectiveOp op) {
  for (Command &command : program.commands)
    if (command.kind == CommandKind::Collective && command.collective.op == op)
      return command;
  ADD_FAILURE();
  return program.commands[0];
}

TEST(CollectiveModule, EveryBadFieldIsRefused) {
  auto call = [](Program &p, CollectiveOp op) -> CollectiveCall & {
    return find(p, op).collective;
  };
  refused([](Program &p) { p.mesh.axes.clear(); }, "sharding");
  refused([](Program &p) { p.mesh.axes[0].first = "tp"; }, "distinct");
  refused([](Program &p) { p.mesh.axes[0].second = 0; }, "empty axis");
  refused([](Program &p) { p.mesh.axes[0].second = 342; }, "1024 ranks");
  refused([](Program &p) { p.mesh.axes.resize(17, {"x", 1}); }, "16 axes");
  refused([](Program &p) { p.inputs[0].sharding[1] = {0}; }, "twice");
  refused([](Program &p) { p.inputs[0].sharding[1] = {2}; }, "twice");
  refused([](Program &p) { p.inputs[0].sharding.pop_back(); }, "one list");
  refused([](Program &p) { p.inputs[0].globalShape = {73, 18}; }, "larger");
  refused([](Program &p) { p.inputs[0].globalShape = {72}; }, "another rank");
  refused([&](Program &p) { call(p, CollectiveOp::AllReduce).units = 65537; },
          "multiprocessors");
  refused([&](Program &p) { call(p, CollectiveOp::AllReduce).axes = {}; },
          "no axis");
  refused([&](Program &p) { call(p, CollectiveOp::AllReduce).axes = {0, 0}; },
          "no axis");
  refused([&](Program &p) { call(p, CollectiveOp::AllReduce).axes = {2}; },
          "no axis");
  refused([&](Program &p) { call(p, CollectiveOp::AllReduce).parts.clear(); },
          "no part");
  refused(
      [&](Program &p) {
        call(p, CollectiveOp::AllReduce).parts[0].inPlace = true;
      },
      "operands");
  refused(
      [&](Program &p) {
        call(p, CollectiveOp::AllReduce).parts[0].dtype = DType::I1;
      },
      "element type");
  refused(
      [&](Program &p) {
        call(p, CollectiveOp::AllReduce).parts[0].dtype = DType::F64;
      },
      "bytes");
  for (CollectiveOp op : {CollectiveOp::AllReduce, CollectiveOp::ReduceScatter})
    refused(
        [&](Program &p) { call(p, op).transport = CollectiveTransport::Peer; },
        "peer copies");
  refused([&](Program &p) { call(p, CollectiveOp::AllGather).dim = 2; },
          "dimension");
  refused([&](Program &p) { call(p, CollectiveOp::AllGather).dim = -1; },
          "dimension");
  refused(
      [&](Program &p) {
        Command &command = find(p, CollectiveOp::AllGather);
        command.collective.parts[0].inPlace = true;
        command.operands.pop_back();
      },
      "in place");
  refused(
      [&](Program &p) {
        auto &shape = call(p, CollectiveOp::ReduceScatter).parts[0].shape;
        shape = {{0, 18}, {0, 12}};
        std::swap(shape[0].base, shape[1].base);
        shape[1].base = 17;
      },
      "equal parts");
  refused([&](Program &p) { call(p, CollectiveOp::AllToAll).splitDim = 2; },
          "dimension");
  refused([&](Program &p) { call(p, CollectiveOp::Broadcast).root = 6; },
          "root");
  refused([&](Program &p) { call(p, CollectiveOp::Permute).sources[0] = 1; },
          "twice");
  refused(
      [&](Program &p) { call(p, CollectiveOp::Permute).targets.pop_back(); },
      "more sources");
  // Whoever prints them takes them for pairs.
  for (CollectiveOp op : {CollectiveOp::AllReduce, CollectiveOp::AxisIndex})
    refused([&](Program &p) { call(p, op).sources = {0}; }, "no permutation");
  refused([&](Program &p) { call(p, CollectiveOp::Broadcast).targets = {0}; },
          "no permutation");
  refused(
      [&](Program &p) { find(p, CollectiveOp::AxisIndex).operands.clear(); },
      "8 bytes");
  refused(
      [&](Program &p) {
        find(p, CollectiveOp::AllReduce).operands[0].writes = true;
      },
      "accessed");
}

/// The schedule's proof covers what a collective reads and writes.
TEST(CollectiveModule, RacesOfCollectivesAreFound) {
  Module module = collectivesModule("dp=2");
  ASSERT_TRUE(verifySchedule(module.program).ok());
  auto expect = [&](Program program, const char *rule) {
    Status status = verifySchedule(program);
    EXPECT_NE(status.message().find(rule), std::string::npos)
        << status.message();
  };
  Program program = module.program;
  program.commands.erase(program.commands.begin() + 2); // the wait
  expect(program, "S5");
  program = module.program;
  find(program, CollectiveOp::AllReduce).operands[1].range =
      find(program, CollectiveOp::AllReduce).operands[0].range;
  expect(program, "S2");
  program = module.program;
  program.commands.pop_back();
  expect(program, "S7");
}

TEST(Mesh, GroupsAreRowMajorInTheOrderWritten) {
  Mesh mesh{"m", {{"a", 2}, {"b", 3}, {"c", 2}}};
  EXPECT_EQ(rankCount(mesh), 12u);
  // Rank 7 is (1, 0, 1).
  EXPECT_EQ(groupOf(mesh, {1}, 7), (std::vector<uint32_t>{7, 9, 11}));
  EXPECT_EQ(groupOf(mesh, {0, 2}, 7), (std::vector<uint32_t>{0, 1, 6, 7}));
  EXPECT_EQ(groupOf(mesh, {2, 0}, 7), (std::vector<uint32_t>{0, 6, 1, 7}));
  EXPECT_EQ(positionOn(mesh, {2, 0}, 7), 3u);
  EXPECT_EQ(positionOn(mesh, {2, 0}, 6), 1u);
  EXPECT_EQ(positionOn(mesh, {}, 7), 0u);
}

TEST(Mesh, ShardsOfAPaddedDimension) {
  // 5 rows on 4 ranks, 2 each: 2, 2, 1 and none.
  Mesh mesh{"m", {{"d", 4}}};
  Port port;
  port.tensor.shape = {{0, 2}};
  port.sharding = {{0}};
  port.globalShape = {5};
  int64_t starts[] = {0, 2, 4, 5}, sizes[] = {2, 2, 1, 0};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Shard shard = shardOf(mesh, port, 0, 2, rank);
    EXPECT_EQ(shard.start, starts[rank]);
    EXPECT_EQ(shard.size, sizes[rank]);
  }
}

} // namespace
