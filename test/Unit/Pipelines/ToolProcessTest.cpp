//===- ToolProcessTest.cpp - How a process ends that crashed --------------===//
#include "fusion/Pipelines/ToolProcess.h"

#include "gtest/gtest.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <unistd.h>

using namespace fusion;

namespace {

/// A tool that does `work` and then ends well.
template <typename Work> void runTool(Work work) {
  char name[] = "tool";
  char *list[] = {name, nullptr};
  char **argv = list;
  int argc = 1;
  ToolProcess process(argc, argv);
  setActivity("the test ran");
  work();
  _exit(process.finish());
}

double secondsOf(void (*run)()) {
  auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Overwrites the pointer by which malloc would go on from a freed block:
/// the next search for a block of its size crashes with malloc's lock held.
void crashInMalloc() {
  constexpr size_t kSize = 2000; // no store of the thread keeps such blocks
  char *block = static_cast<char *>(std::malloc(kSize));
  void *volatile guard = std::malloc(kSize);
  std::free(block);
  size_t wrong = 16;
  volatile char *list = block + sizeof(void *);
  for (size_t i = 0; i < sizeof(wrong); ++i)
    list[i] = char(wrong >> 8 * i);
  guard = std::malloc(2 * kSize);
  (void)guard;
}

class ToolProcessTest : public testing::Test {
protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(ToolProcessTest, EndsWellWithoutCrash) {
  EXPECT_EXIT(runTool([] {}), testing::ExitedWithCode(0), "^$");
}

TEST_F(ToolProcessTest, CrashIsInternalError) {
  EXPECT_EXIT(runTool([] { raise(SIGSEGV); }), testing::ExitedWithCode(9),
              "^error: internal error: the compiler crashed while the test "
              "ran.*\n(.*\n)*Stack dump");
}

const char *kUnnamedStack = "^error: internal error: the compiler crashed "
                            "while the test ran.*\n(.*\n)*Stack, without names";

// A report needs memory: in one thread malloc has no lock and crashes again.
TEST_F(ToolProcessTest, CrashInMallocEnds) {
  EXPECT_EXIT(runTool(crashInMalloc), testing::ExitedWithCode(9),
              kUnnamedStack);
}

// Where there are threads, the report would wait for the lock for ever.
TEST_F(ToolProcessTest, CrashInMallocOfThreadsEnds) {
  double seconds = secondsOf([] {
    EXPECT_EXIT(runTool([] {
                  std::thread([] { pause(); }).detach();
                  crashInMalloc();
                }),
                testing::ExitedWithCode(9), kUnnamedStack);
  });
  EXPECT_LT(seconds, 3);
}

} // namespace
