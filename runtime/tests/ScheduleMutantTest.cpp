//===- ScheduleMutantTest.cpp - Does the verifier see all harm? -----------===//
//
// Random correct programs, mutants of them and legal reorderings. An explorer
// of interleavings decides which mutants do harm; the verifier must refuse all
// of those, and no reordering.
//
//===----------------------------------------------------------------------===//
#include "ModuleFile.h"
#include "ScheduleExplorer.h"
#include "SchedulePrograms.h"
#include "VerifyModule.h"
#include "VerifySchedule.h"

#include <gtest/gtest.h>
#include <map>

using namespace fusion::rt;
using namespace fusion::rt::testing;

namespace {

/// What the ranks of a job check before they run: their program, and that all
/// have the same. Empty if they accept.
std::string verdict(const std::vector<Program> &ranks) {
  for (const Program &program : ranks) {
    Status status = verifyMesh(program.mesh);
    for (const Command &command : program.commands)
      if (status.ok() && command.kind == CommandKind::Collective)
        status = verifyCollective(command, program.mesh, program.minBatch,
                                  program.maxBatch);
    if (status.ok())
      status = verifySchedule(program);
    if (!status.ok())
      return status.message();
  }
  for (const Program &program : ranks)
    if (*scheduleHash(program) != *scheduleHash(ranks[0]))
      return "the ranks' schedules differ";
  return "";
}

std::string print(const std::vector<Program> &ranks) {
  std::string text;
  auto print = [&](const ByteRange &range) {
    text += " " + std::to_string(range.segment) + ":" +
            std::to_string(range.offset) + "+" + std::to_string(range.size) +
            "#" + std::to_string(range.allocation);
  };
  for (const Program &program : ranks) {
    text += "-- rank " + std::to_string(&program - ranks.data()) + "\n";
    for (const Command &command : program.commands) {
      const char *kinds[] = {"launch",     "call",   "copy",
                             "collective", "record", "wait"};
      text += std::to_string(command.stream) + " " + kinds[int(command.kind)] +
              " " + command.name;
      for (uint32_t axis : command.collective.axes)
        text += " @" + std::to_string(axis);
      for (auto *list : {&command.operands, &command.launch.operands})
        for (const Operand &operand : *list) {
          text += operand.reads ? operand.writes ? " both" : " from" : " to";
          print(operand.range);
        }
      if (command.kind == CommandKind::Copy) {
        print(command.source);
        print(command.target);
      }
      text += "\n";
    }
  }
  return text;
}

uint32_t ranksOf(const Program &program) {
  uint32_t ranks = 1;
  for (const auto &axis : program.mesh.axes)
    ranks *= axis.second;
  return ranks;
}

std::vector<Program> onAll(const Program &program) {
  return std::vector<Program>(ranksOf(program), program);
}

/// What the explorer says of the edit of a program.
struct Judgement {
  std::string harm;     ///< empty: none
  bool another = false; ///< a harmless one computes something else
};

Judgement judge(const std::vector<Program> &ranks,
                const std::vector<uint64_t> &outputs) {
  Exploration found = explore(ranks);
  EXPECT_TRUE(found.complete);
  if (found.harm != Harm::None)
    return {name(found.harm)};
  bool same = true;
  for (const Program &program : ranks)
    same &= *scheduleHash(program) == *scheduleHash(ranks[0]);
  // Ranks that differ have no list order in common: only the outputs of the
  // program that was edited are right. An edit that all ranks share may make
  // another program, which is right if it does what its list says.
  if (!same)
    return {found.outputs == outputs ? "" : "wrong values"};
  Exploration meaning = meaningOf(ranks[0], uint32_t(ranks.size()));
  if (meaning.harm != Harm::None || meaning.outputs != found.outputs)
    return {"wrong values"};
  return {"", found.outputs != outputs};
}

struct Counts {
  int harmful = 0, missed = 0, harmless = 0, another = 0, strict = 0;
  std::map<std::string, int> harms;
};

/// One mutant of each kind of `program`; false if one does harm unseen.
void tryMutants(const Program &program, Random &random,
                std::map<Mutation, Counts> &counts, int most) {
  Exploration right = explore(onAll(program));
  ASSERT_EQ(right.harm, Harm::None) << right.what << print({program});
  for (size_t kind = 0; kind < kMutations; ++kind) {
    Counts &count = counts[Mutation(kind)];
    if (count.harmful + count.harmless == most)
      continue;
    auto ranks = mutate(program, Mutation(kind), ranksOf(program), random);
    if (ranks.empty())
      continue;
    Judgement judged = judge(ranks, right.outputs);
    bool accepted = verdict(ranks).empty();
    if (judged.harm.empty()) {
      ++count.harmless;
      count.another += judged.another;
      count.strict += !accepted;
      continue;
    }
    ++count.harmful;
    ++count.harms[judged.harm];
    if (!accepted)
      continue;
    ++count.missed;
    ADD_FAILURE() << name(Mutation(kind))
                  << " does harm unseen: " << judged.harm << "\n"
                  << explore(ranks).what << print({program}) << print(ranks);
  }
}

void report(const std::map<Mutation, Counts> &counts) {
  printf("%-22s %8s %7s %9s %8s %8s\n", "mutants", "harmful", "missed",
         "harmless", "(another", "refused)");
  for (const auto &[kind, count] : counts) {
    printf("%-22s %8d %7d %9d %8d %8d ", name(kind), count.harmful,
           count.missed, count.harmless, count.another, count.strict);
    for (const auto &[harm, number] : count.harms)
      printf(" %s %d", harm.c_str(), number);
    printf("\n");
  }
}

TEST(ScheduleMutants, HarmfulOnesAreRefused) {
  Random random(2);
  std::map<Mutation, Counts> counts;
  constexpr int kEach = 2000;
  for (int i = 0; i < 4 * kEach && !HasFailure(); ++i)
    tryMutants(makeProgram(random), random, counts, kEach);
  report(counts);
  for (const auto &[kind, count] : counts) {
    EXPECT_EQ(count.missed, 0) << name(kind);
    EXPECT_EQ(count.harmful + count.harmless, kEach) << name(kind);
    EXPECT_GE(count.harmful, 50) << name(kind);
    EXPECT_GE(count.harmless, 10) << name(kind);
  }
}

TEST(ScheduleMutants, LegalReorderingsAreAccepted) {
  Random random(1);
  uint64_t changed = 0;
  size_t longest = 0;
  for (int i = 0; i < 1000; ++i) {
    Program program = makeProgram(random);
    size_t work = 0;
    for (const Command &command : program.commands)
      work += command.kind != CommandKind::Record &&
              command.kind != CommandKind::Wait;
    EXPECT_LE(work, 12u);
    longest = std::max(longest, program.commands.size());
    Exploration right = explore(onAll(program));
    ASSERT_TRUE(right.complete);
    ASSERT_EQ(right.harm, Harm::None) << right.what << print({program});
    ASSERT_EQ(meaningOf(program, ranksOf(program)).outputs, right.outputs)
        << print({program});
    ASSERT_EQ(verdict(onAll(program)), "") << print({program});
    for (int j = 0; j < 2; ++j) {
      Program other = reorder(program, random);
      Exploration found = explore(onAll(other));
      ASSERT_EQ(found.harm, Harm::None)
          << found.what << print({program}) << print({other});
      ASSERT_EQ(found.outputs, right.outputs)
          << print({program}) << print({other});
      ASSERT_EQ(verdict(onAll(other)), "")
          << print({program}) << print({other});
      changed += *scheduleHash(program) != *scheduleHash(other);
    }
  }
  printf("2000 reorderings, %d of them another schedule; longest %zu\n",
         int(changed), longest);
  EXPECT_GE(changed, 1500u);
}

} // namespace
