//===- CudaAutotuneTest.cpp - Which algorithm a session takes -------------===//
//
// On the tests' driver and cuBLASLt, whose products take as long as a test
// says: that the fastest algorithm is taken, remembered, and that no file makes
// a session fail.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "FakeBlasLt.h"

#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

constexpr int64_t kRows = 3, kSum = 5, kColumns = 4;

/// y = x w + b, of [3, 5] and [5, 4], for `members` results.
Module productModule(bool allowTf32, int64_t members = 1) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {kRows, kSum});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.computeTf32 = allowTf32;
  call.hasBias = true;
  call.members = members;
  call.inputShape = {{0, kRows}, {0, kSum}};
  call.weightShape = {{0, kSum}, {0, kColumns}};
  call.outputShape = {{0, kRows}, {0, kColumns}};
  std::vector<ByteRange> weights, biases, outputs;
  for (int64_t i = 0; i < members; ++i)
    weights.push_back(builder.constant(numbers(kSum * kColumns, int(i))));
  for (int64_t i = 0; i < members; ++i)
    biases.push_back(builder.constant(numbers(kColumns, 7 + int(i))));
  for (int64_t i = 0; i < members; ++i)
    outputs.push_back(
        builder.output("y" + std::to_string(i), {kRows, kColumns}));
  Command &command = builder.call(call, {x, weights[0], biases[0]}, outputs[0]);
  for (int64_t i = 1; i < members; ++i) {
    command.operands.push_back({x, true, false});
    command.operands.push_back({weights[i], true, false});
    command.operands.push_back({biases[i], true, false});
    command.operands.push_back({outputs[i], false, true});
  }
  for (Operand &operand : command.operands)
    operand.dtype = DType::F32;
  return forCuda(builder.build());
}

class CudaAutotuneTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fakeBlasLtReset();
    folder = temporaryPath("cache");
    ::mkdir(folder.c_str(), 0700);
    file = folder + "/fusion/autotune";
    ::unlink(file.c_str());
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    // Of four algorithms the third is the fastest.
    fakeBlasLtSet("algorithms", 4);
    int64_t millis[] = {5, 4, 2, 3};
    for (int i = 0; i < 4; ++i)
      fakeBlasLtSet(("millis " + std::to_string(i)).c_str(), millis[i]);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    CudaTest::TearDown();
  }

  struct Seen {
    uint64_t algorithm = ~uint64_t(0); ///< of the run
    uint64_t timed = 0;                ///< intervals that were measured
    int64_t batch = 0;
    std::vector<std::string> notes;
  };
  /// A session of its own: makes it, runs it once, and looks at the values.
  Seen session(bool autotune, bool allowTf32 = true, int64_t members = 1,
               uint64_t memoryLimit = 0) {
    Seen seen;
    SessionOptions options;
    options.autotune = autotune;
    options.memoryLimit = memoryLimit;
    uint64_t before = fakeCudaCount("cuEventElapsedTime");
    auto made = cudaSession(productModule(allowTf32, members), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok())
      return seen;
    seen.timed = fakeCudaCount("cuEventElapsedTime") - before;
    seen.notes = (*made)->executor().notes();
    std::vector<float> x = numbers(kRows * kSum, 3);
    std::vector<std::vector<float>> results(
        size_t(members), std::vector<float>(kRows * kColumns));
    const void *inputs[] = {x.data()};
    std::vector<void *> outputs;
    for (auto &each : results)
      outputs.push_back(each.data());
    Status status = (*made)->run(1, inputs, outputs.data());
    EXPECT_TRUE(status.ok()) << status.message();
    const FakeProduct &last = *fakeBlasLtProduct(fakeBlasLtCount() - 1);
    seen.algorithm = last.algorithm;
    seen.batch = last.batch;
    return seen;
  }
  std::string read() {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write(const std::string &text) { std::ofstream(file) << text; }

  std::string folder, file;
};

TEST_F(CudaAutotuneTest, TakesTheFastestWhereItIsAsked) {
  EXPECT_EQ(session(false).algorithm, 0u);
  Seen seen = session(true);
  EXPECT_EQ(seen.algorithm, 2u);
  EXPECT_GE(seen.timed, 4u * 9);
  EXPECT_TRUE(seen.notes.empty());
  EXPECT_NE(read().find("Fake GPU, CUDA 12.8, cuBLASLt 130100, f32 tf32 "
                        "3x4x5 NN bias\t"),
            std::string::npos)
      << read();
  // What is remembered counts for those that ask.
  EXPECT_EQ(session(false).algorithm, 0u);
}

TEST_F(CudaAutotuneTest, ASecondSessionMeasuresNothing) {
  EXPECT_GT(session(true).timed, 0u);
  fakeBlasLtSet("millis 2", 100);
  Seen seen = session(true);
  EXPECT_EQ(seen.timed, 0u);
  EXPECT_EQ(seen.algorithm, 2u);
}

/// Another number of members, another driver, an algorithm that is not offered.
TEST_F(CudaAutotuneTest, OtherCallsAreMeasured) {
  session(true);
  Seen seen = session(true, true, 3);
  EXPECT_GT(seen.timed, 0u);
  EXPECT_EQ(seen.algorithm, 2u);
  EXPECT_EQ(session(true, true, 3).timed, 0u);
  fakeBlasLtSet("algorithms", 2);
  seen = session(true);
  EXPECT_GT(seen.timed, 0u);
  EXPECT_EQ(seen.algorithm, 1u);
}

/// A difference that is chance does not count.
TEST_F(CudaAutotuneTest, TheFirstStaysWhereNoneIsFaster) {
  for (int i = 0; i < 4; ++i)
    fakeBlasLtSet(("millis " + std::to_string(i)).c_str(), 3);
  EXPECT_EQ(session(true).algorithm, 0u);
}

/// Sums of f32 have one order, whatever is fast.
TEST_F(CudaAutotuneTest, StrictSumsAreNoMatterOfTimes) {
  Seen seen = session(true, /*allowTf32=*/false);
  EXPECT_EQ(seen.algorithm, 0u);
  EXPECT_EQ(seen.timed, 0u);
}

TEST_F(CudaAutotuneTest, ADamagedFileIsANote) {
  session(true);
  std::string whole = read();
  for (const std::string &damage :
       {whole.substr(0, whole.size() - 5), whole + "no tab\n",
        whole + std::string("a\0b\tc\n", 6), whole + "a\tb\tc\n"}) {
    write(damage);
    Seen seen = session(true);
    EXPECT_EQ(seen.algorithm, 2u);
    ASSERT_EQ(seen.notes.size(), 1u) << damage;
    EXPECT_NE(seen.notes[0].find("is damaged (lines: 1)"), std::string::npos);
  }
  // A cut line was measured again; the file is whole after that.
  write(whole.substr(0, whole.size() - 5));
  EXPECT_GT(session(true).timed, 0u);
  EXPECT_EQ(read(), whole);
}

/// Names that the library does not give are not given to it.
TEST_F(CudaAutotuneTest, AWrongAlgorithmIsMeasuredAgain) {
  session(true);
  std::string whole = read(), wrong = whole;
  wrong[wrong.size() - 2] ^= 1;
  write(wrong);
  Seen seen = session(true);
  EXPECT_GT(seen.timed, 0u);
  EXPECT_EQ(seen.algorithm, 2u);
  EXPECT_EQ(read(), whole);
}

TEST_F(CudaAutotuneTest, AForeignFileIsLeftAlone) {
  session(true);
  write("something else\n");
  Seen seen = session(true);
  EXPECT_EQ(seen.algorithm, 2u);
  ASSERT_EQ(seen.notes.size(), 1u);
  EXPECT_NE(seen.notes[0].find("is no file of this version's autotune"),
            std::string::npos);
  EXPECT_EQ(read(), "something else\n");
}

/// A pipe, which would be waited for, and a folder.
TEST_F(CudaAutotuneTest, WhatIsNoFileIsLeftAlone) {
  session(true);
  ::unlink(file.c_str());
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  Seen seen = session(true);
  EXPECT_EQ(seen.algorithm, 2u);
  ASSERT_EQ(seen.notes.size(), 1u);
  EXPECT_NE(seen.notes[0].find("can't be read"), std::string::npos);
}

TEST_F(CudaAutotuneTest, AFolderThatCantBeWrittenIsANote) {
  // A file stands where the folder would: no user may write into it.
  std::string blocked = temporaryPath("blocked");
  std::ofstream(blocked) << "x";
  ::setenv("XDG_CACHE_HOME", blocked.c_str(), 1);
  Seen seen = session(true);
  EXPECT_EQ(seen.algorithm, 2u);
  ASSERT_EQ(seen.notes.size(), 1u);
  EXPECT_NE(seen.notes[0].find("nothing is remembered"), std::string::npos);
}

/// Two sessions that know nothing of each other: both results are kept.
TEST_F(CudaAutotuneTest, WritersKeepWhatOthersWrote) {
  SessionOptions options;
  options.autotune = true;
  auto first = cudaSession(productModule(true), options);
  ASSERT_TRUE(first.ok());
  std::string whole = read();
  std::string other = whole.substr(0, whole.find('\n') + 1) + "another\tway\n";
  write(other);
  session(true);
  std::string both = read();
  EXPECT_NE(both.find("another\tway\n"), std::string::npos);
  EXPECT_NE(both.find("3x4x5"), std::string::npos);
}

/// Operands are memory too: beyond the limit the first algorithm is taken.
TEST_F(CudaAutotuneTest, KeepsTheMemoryLimit) {
  Seen free = session(true);
  ASSERT_EQ(free.algorithm, 2u);
  ::unlink(file.c_str());
  // Enough for a run, not for operands of their own beside the weights.
  Seen seen = session(true, true, 1, 1500);
  EXPECT_EQ(seen.algorithm, 0u);
  ASSERT_EQ(seen.notes.size(), 1u);
  EXPECT_NE(seen.notes[0].find("not timed"), std::string::npos);
}

/// Not autotune's: a session whose weights start 4 bytes behind a segment.
TEST_F(CudaAutotuneTest, UnalignedOperandsAreTold) {
  Module module = productModule(true);
  fakeBlasLtSet("unaligned", 0);
  ASSERT_TRUE(cudaSession(module).ok());
  ByteRange &weights = module.program.commands[0].operands[1].range;
  weights.offset += 4;
  auto session = cudaSession(module);
  EXPECT_EQ(session.status().code(), Code::Rejected);
  EXPECT_NE(session.status().message().find("multiple of 16 bytes"),
            std::string::npos)
      << session.status().message();
}

} // namespace
