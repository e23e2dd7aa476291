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

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>

using namespace fusion::rt;
using namespace fusion::rt::testing;

namespace {

/// What the ranks of a job check before they run: their program, with all of
/// its module if it has one, and that all have the same. Empty if they accept.
std::string verdict(const std::vector<Program> &ranks,
                    const Module *module = nullptr) {
  for (const Program &program : ranks) {
    Status status;
    if (module) {
      Module edited = *module;
      edited.program = program;
      status = verifyModule(edited, 0);
    } else {
      status = verifyMesh(program.mesh);
      for (const Command &command : program.commands)
        if (status.ok() && command.kind == CommandKind::Collective)
          status = verifyCollective(command, program.mesh, program.minBatch,
                                    program.maxBatch);
      if (status.ok())
        status = verifySchedule(program);
    }
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

/// Launches, calls, copies and collectives.
size_t workOf(const Program &program) {
  size_t count = 0;
  for (const Command &command : program.commands)
    count += command.kind != CommandKind::Record &&
             command.kind != CommandKind::Wait;
  return count;
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

/// One mutant of each kind of `program` (of `module`, if there is one), up to
/// `most` of a kind.
void tryMutants(const Program &program, Random &random,
                std::map<Mutation, Counts> &counts, int most,
                const Module *module = nullptr) {
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
    bool accepted = verdict(ranks, module).empty();
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

/// `program` is right, and so are `count` reorderings of it. Returns how many
/// of them are another schedule.
int tryReorderings(const Program &program, Random &random, int count,
                   const Module *module = nullptr) {
  Exploration right = explore(onAll(program));
  EXPECT_TRUE(right.complete);
  EXPECT_EQ(right.harm, Harm::None) << right.what << print({program});
  EXPECT_EQ(meaningOf(program, ranksOf(program)).outputs, right.outputs)
      << print({program});
  EXPECT_EQ(verdict(onAll(program), module), "") << print({program});
  int changed = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    Program other = reorder(program, random);
    Exploration found = explore(onAll(other));
    EXPECT_EQ(found.harm, Harm::None)
        << found.what << print({program}) << print({other});
    EXPECT_EQ(found.outputs, right.outputs)
        << print({program}) << print({other});
    EXPECT_EQ(verdict(onAll(other), module), "")
        << print({program}) << print({other});
    changed += *scheduleHash(program) != *scheduleHash(other);
  }
  return changed;
}

TEST(ScheduleMutants, LegalReorderingsAreAccepted) {
  Random random(1);
  int changed = 0;
  size_t longest = 0;
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    Program program = makeProgram(random);
    EXPECT_LE(workOf(program), 12u);
    longest = std::max(longest, program.commands.size());
    changed += tryReorderings(program, random, 2);
  }
  printf("2000 reorderings, %d of them another schedule; longest %zu\n",
         changed, longest);
  EXPECT_GE(changed, 1500);
}

/// Modules that the compiler made, in the folder that FUSION_MUTANT_MODULES
/// names; without constants, on at least two ranks.
TEST(ScheduleMutants, OfCompiledPrograms) {
  const char *folder = getenv("FUSION_MUTANT_MODULES");
  if (!folder)
    GTEST_SKIP() << "FUSION_MUTANT_MODULES names no folder of modules";
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".fsn")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  Random random(3);
  std::map<Mutation, Counts> counts;
  int changed = 0;
  for (const std::filesystem::path &file : files) {
    auto loaded = loadModuleFile(file.string());
    ASSERT_TRUE(bool(loaded)) << loaded.status().message();
    Module module = (*loaded)->view.module;
    // Operands tell which command it is; most have no name.
    for (size_t i = 0; i < module.program.commands.size(); ++i)
      module.program.commands[i].name = "c" + std::to_string(i);
    const Program program = module.program;
    EXPECT_GE(ranksOf(program), 2u) << file;
    EXPECT_LE(workOf(program), 12u) << file;
    changed += tryReorderings(program, random, 100, &module);
    for (int i = 0; i < 100 && !HasFailure(); ++i)
      tryMutants(program, random, counts, INT_MAX, &module);
    ASSERT_FALSE(HasFailure()) << file;
  }
  report(counts);
  printf("%zu programs, %zu reorderings, %d of them another schedule\n",
         files.size(), 100 * files.size(), changed);
  for (const auto &[kind, count] : counts)
    EXPECT_GE(count.harmful, 50) << name(kind);
}

} // namespace
