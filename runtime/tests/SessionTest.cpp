//===- SessionTest.cpp - Running modules on the backends ------------------===//
//
// Dynamic batches, tails, donation, badly aligned buffers, limits, and two
// modules side by side.
//
//===----------------------------------------------------------------------===//
#include "Session.h"
#include "ElfCheck.h"
#include "HostMemory.h"
#include "TestModules.h"
#include "Trust.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

std::shared_ptr<LoadedModule> load(const Module &module,
                                   const std::string &name = "session.fsn") {
  std::string path = temporaryPath(name);
  Status status = writeModuleFile(module, path);
  EXPECT_TRUE(status.ok()) << status.message();
  auto loaded = loadModuleFile(path);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? *loaded : nullptr;
}

std::unique_ptr<Session> open(std::shared_ptr<LoadedModule> loaded,
                              SessionOptions options = {}) {
  if (options.threads == 0)
    options.threads = 2;
  auto session = Session::create(std::move(loaded), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

std::vector<float> run(Session &session, int64_t batch,
                       const std::vector<float> &input, size_t outputSize) {
  std::vector<float> output(outputSize, NAN);
  const void *inputs[] = {input.data()};
  void *outputs[] = {output.data()};
  Status status = session.run(batch, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return output;
}

std::vector<float> ramp(size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = float(int(i % 7) - 3);
  return values;
}

TEST(Session, BatchesGiveTheRowsOfTheLargestBatch) {
  auto session = open(load(convModule(4)));
  ASSERT_TRUE(session);
  std::vector<float> input = ramp(4 * 144);
  std::vector<float> all = run(*session, 4, input, 4 * 144);
  for (int64_t batch : {1, 3, 2, 4, 1}) {
    auto part = run(*session, batch, input, size_t(batch) * 144);
    EXPECT_EQ(part, std::vector<float>(all.begin(), all.begin() + batch * 144));
  }
  std::vector<float> zero(4 * 144);
  EXPECT_NE(all, zero);
}

TEST(Session, BatchOutsideTheRangeIsUsage) {
  auto session = open(load(convModule(4)));
  ASSERT_TRUE(session);
  std::vector<float> buffer(5 * 144), other(5 * 144);
  const void *inputs[] = {buffer.data()};
  void *outputs[] = {other.data()};
  for (int64_t batch : {0, 5, -1}) {
    Status status = session->run(batch, inputs, outputs);
    EXPECT_EQ(status.code(), Code::Usage);
    EXPECT_HAS(status.message(), "1..4");
  }
}

/// A pointwise conv with an in-place tail whose output exceeds the cache limit,
/// so that it is cut into blocks of rows.
Module bigTailModule(int64_t maxBatch) {
  ModuleBuilder builder(maxBatch);
  ByteRange x = builder.input("x", {1, 2, 96, 96}, true);
  ByteRange y = builder.output("y", {1, 8, 96, 96}, true);
  ByteRange a = builder.input("a", {1, 8, 96, 96}, true);
  ByteRange w = builder.constant(ramp(16));
  LibraryCall conv;
  conv.inputShape = {{1, 0}, {0, 2}, {0, 96}, {0, 96}};
  conv.outputShape = {{1, 0}, {0, 8}, {0, 96}, {0, 96}};
  conv.weightShape = {{0, 8}, {0, 2}, {0, 1}, {0, 1}};
  conv.hasAddend = true;
  conv.strides = conv.dilations = {1, 1};
  conv.padLow = conv.padHigh = {0, 0};
  Command &command = builder.call(conv, {x, w, a}, y);
  command.hasTail = true;
  command.launch.kernel = Twice;
  command.launch.units = {8 * 96 * 96, 0};
  command.launch.grain = 1000;
  command.launch.operands = {{y, true, true, DType::F32}};
  return builder.build();
}

TEST(Session, TailInBlocksEqualsCallThenLaunch) {
  auto session = open(load(bigTailModule(3)));
  ASSERT_TRUE(session);
  size_t plane = 96 * 96;
  std::vector<float> x = ramp(3 * 2 * plane), a = ramp(3 * 8 * plane);
  std::vector<float> w = ramp(16), y(3 * 8 * plane);
  const void *inputs[] = {x.data(), a.data()};
  void *outputs[] = {y.data()};
  for (int64_t batch : {3, 2}) {
    std::fill(y.begin(), y.end(), NAN);
    Status status = session->run(batch, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t n = 0; n < size_t(batch); ++n)
      for (size_t o = 0; o < 8; ++o)
        for (size_t i = 0; i < plane; ++i) {
          float sum = a[(n * 8 + o) * plane + i];
          for (size_t c = 0; c < 2; ++c)
            sum += x[(n * 2 + c) * plane + i] * w[o * 2 + c];
          ASSERT_EQ(y[(n * 8 + o) * plane + i], 2 * sum);
        }
    // What lies behind a smaller batch is not touched.
    EXPECT_TRUE(batch == 3 || std::isnan(y[2 * 8 * plane]));
  }
}

TEST(Session, BatchedMatMulTailInBlocks) {
  // Constant and varying right sides move along with the rows; a broadcast
  // left side stays.
  for (bool constant : {true, false})
    for (int64_t lhsBatch : {3, 1}) {
      ModuleBuilder builder;
      ByteRange x = builder.input("x", {lhsBatch, 200, 20});
      std::vector<float> w = ramp(3 * 20 * 200), a = ramp(lhsBatch * 200 * 20);
      ByteRange weights =
          constant ? builder.constant(w) : builder.input("w", {3, 20, 200});
      ByteRange y = builder.output("y", {3, 200, 200});
      LibraryCall call;
      call.op = LibraryOp::MatMul;
      call.inputShape = {{0, lhsBatch}, {0, 200}, {0, 20}};
      call.weightShape = {{0, 3}, {0, 20}, {0, 200}};
      call.outputShape = {{0, 3}, {0, 200}, {0, 200}};
      Command &command = builder.call(call, {x, weights}, y);
      command.hasTail = true;
      command.launch.kernel = Twice;
      command.launch.units = {0, 3 * 200 * 200};
      command.launch.operands = {{y, true, true, DType::F32}};
      auto session = open(load(builder.build()));
      ASSERT_TRUE(session);
      std::vector<float> out(3 * 200 * 200, NAN);
      const void *inputs[] = {a.data(), w.data()};
      void *outputs[] = {out.data()};
      ASSERT_TRUE(session->run(1, inputs, outputs).ok());
      for (size_t b = 0; b < 3; ++b)
        for (size_t i = 0; i < 200; ++i)
          for (size_t j = 0; j < 200; ++j) {
            float sum = 0;
            for (size_t k = 0; k < 20; ++k)
              sum += a[((lhsBatch == 1 ? 0 : b) * 200 + i) * 20 + k] *
                     w[(b * 20 + k) * 200 + j];
            ASSERT_EQ(out[(b * 200 + i) * 200 + j], 2 * sum)
                << constant << lhsBatch << b << i << j;
          }
    }
}

Module donatedModule() {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {8});
  builder.output("y", {8});
  builder.module.program.inputs[0].donatedTo = 0;
  Command &command = builder.launch(Twice, {}, x, {0, 8});
  command.launch.operands[0].reads = true;
  return builder.build();
}

TEST(Session, DonatedInputMayBeTheOutputOrNot) {
  auto session = open(load(donatedModule()));
  ASSERT_TRUE(session);
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, twice;
  for (float value : x)
    twice.push_back(2 * value);
  std::vector<float> kept = x;
  EXPECT_EQ(run(*session, 1, x, 8), twice);
  EXPECT_EQ(x, kept);
  const void *inputs[] = {x.data()};
  void *outputs[] = {x.data()};
  ASSERT_TRUE(session->run(1, inputs, outputs).ok());
  EXPECT_EQ(x, twice);
}

TEST(Session, StepsGoOnFromTheOutput) {
  auto session = open(load(donatedModule()));
  ASSERT_TRUE(session);
  std::vector<float> x(8, 1), y(8);
  const void *inputs[] = {x.data()};
  void *outputs[] = {y.data()};
  ASSERT_TRUE(session->run(1, inputs, outputs).ok());
  ASSERT_TRUE(session->step(1, inputs, outputs).ok());
  ASSERT_TRUE(session->step(1, inputs, outputs).ok());
  EXPECT_EQ(y, std::vector<float>(8, 8));
  EXPECT_EQ(x, std::vector<float>(8, 1));
}

// y = a + x * w, over a's bytes: small, and in blocks of rows with a tail.
TEST(Session, DonatedAddendIsTheOutput) {
  for (int64_t rows : {2, 300}) {
    ModuleBuilder builder;
    ByteRange x = builder.input("x", {3, rows, 2});
    ByteRange a = builder.input("a", {3, rows, 200});
    ByteRange y = builder.output("y", {3, rows, 200});
    builder.module.program.inputs[1].donatedTo = 0;
    std::vector<float> left = ramp(3 * rows * 2), w = ramp(2 * 200);
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.inputShape = {{0, 3}, {0, rows}, {0, 2}};
    call.weightShape = {{0, 2}, {0, 200}};
    call.outputShape = {{0, 3}, {0, rows}, {0, 200}};
    call.hasAddend = true;
    Command &command = builder.call(call, {x, builder.constant(w), a}, y);
    command.hasTail = true;
    command.launch.kernel = Twice;
    command.launch.units = {0, 3 * rows * 200};
    command.launch.operands = {{y, true, true, DType::F32}};
    auto session = open(load(builder.build()));
    ASSERT_TRUE(session);
    for (bool sameBytes : {true, false}) {
      std::vector<float> old = ramp(3 * rows * 200), bytes = old,
                         other(old.size(), NAN);
      std::vector<float> &out = sameBytes ? bytes : other;
      const void *inputs[] = {left.data(), bytes.data()};
      void *outputs[] = {out.data()};
      Status status = session->run(1, inputs, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < size_t(3 * rows); ++i)
        for (size_t j = 0; j < 200; ++j)
          ASSERT_EQ(out[i * 200 + j],
                    2 * (old[i * 200 + j] + left[2 * i] * w[j] +
                         left[2 * i + 1] * w[200 + j]))
              << rows << ' ' << i << ' ' << j;
    }
  }
}

Module reluModule(const std::string &library = "kernels",
                  uint32_t alignment = 4) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  builder.launch(Relu, {x}, y, {0, 64});
  Module module = builder.build();
  module.nativeCode = nativeCode(library);
  for (Segment &segment : module.program.segments)
    if (segment.kind != SegmentKind::Private)
      segment.alignment = alignment;
  return module;
}

TEST(Session, OverlappingBuffersAreUsage) {
  auto session = open(load(reluModule()));
  ASSERT_TRUE(session);
  std::vector<float> buffer(128);
  const void *inputs[] = {buffer.data()};
  for (size_t offset : {0, 1, 63}) {
    void *outputs[] = {buffer.data() + offset};
    EXPECT_EQ(session->run(1, inputs, outputs).code(), Code::Usage);
  }
  void *outputs[] = {buffer.data() + 64};
  EXPECT_TRUE(session->run(1, inputs, outputs).ok());
  void *none[] = {nullptr};
  EXPECT_HAS(session->run(1, inputs, none).message(), "no buffer");
}

TEST(Session, MisalignedBuffersAreStagedWithinTheLimit) {
  Module module = reluModule("kernels", 64);
  alignas(64) float memory[160];
  for (int i = 0; i < 160; ++i)
    memory[i] = float(i - 80);
  const void *inputs[] = {memory + 1};
  void *outputs[] = {memory + 81};
  auto session = open(load(module));
  ASSERT_TRUE(session);
  std::vector<float> expected;
  for (int i = 0; i < 64; ++i)
    expected.push_back(std::fmax(memory[1 + i], 0.0f));
  ASSERT_TRUE(session->run(1, inputs, outputs).ok());
  EXPECT_EQ(std::vector<float>(memory + 81, memory + 145), expected);
  EXPECT_EQ(session->stagingBytes(), 512u);

  SessionOptions limited;
  limited.memoryLimit = 300;
  auto tight = open(load(module), limited);
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->run(1, inputs, outputs).code(), Code::Resources);
}

TEST(Session, MemoryLimitIsCheckedBeforeAllocation) {
  auto loaded = load(convModule(4));
  SessionOptions options;
  options.memoryLimit = 4607; // the arena needs 4608
  auto refused = Session::create(loaded, options);
  EXPECT_EQ(refused.status().code(), Code::Resources);
  EXPECT_HAS(refused.status().message(), "4608");
  EXPECT_HAS(refused.status().message(), "4607");
  EXPECT_HAS(refused.status().message(), "'call0'");
  options.memoryLimit = 4608; // now packed weights don't fit
  EXPECT_EQ(Session::create(loaded, options).status().code(), Code::Resources);
  options.memoryLimit = 1 << 20;
  auto session = open(loaded, options);
  ASSERT_TRUE(session);
  EXPECT_LE(session->executor().memory().total(), uint64_t(1) << 20);
}

TEST(Session, HugeArenaIsRefusedNotAttempted) {
  Module module = reluModule();
  module.program.segments[0].size = uint64_t(1) << 50;
  module.program.peakBytes = uint64_t(1) << 50;
  auto session = Session::create(load(module), {});
  EXPECT_EQ(session.status().code(), Code::Resources);
}

/// A root folder whose files say what memory there is.
std::string fakeRoot(const std::string &groups) {
  std::string root = temporaryPath("root");
  std::filesystem::remove_all(root);
  auto write = [&](const std::string &path, const std::string &text) {
    std::filesystem::path file = root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  write("/proc/meminfo",
        "MemTotal:  1000 kB\nMemFree: 1 kB\nSwapTotal: 24 kB\n");
  write("/proc/self/cgroup", groups);
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.max", "4096\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "8192\n");
  write("/sys/fs/cgroup/memory/c/d/memory.limit_in_bytes",
        "9223372036854771712\n");
  return root;
}

TEST(Session, ControlGroupsLimitTheMemory) {
  uint64_t machine = 1024 * 1024;
  EXPECT_EQ(hostMemoryLimit(fakeRoot("")), machine);
  EXPECT_EQ(hostMemoryLimit(fakeRoot("0::/\n")), machine);
  // A limit of a group above counts, in both versions.
  EXPECT_EQ(hostMemoryLimit(fakeRoot("0::/a/b\n")), 4096u);
  EXPECT_EQ(hostMemoryLimit(fakeRoot("3:cpuset:/a\n4:cpu,memory:/c/d\n0::/\n")),
            8192u);
  // A container sees a path that isn't mounted.
  EXPECT_EQ(hostMemoryLimit(fakeRoot("4:memory:/gone/x\n")), machine);
  EXPECT_EQ(hostMemoryLimit(fakeRoot("garbage\n:\n::\n0::b\n")), machine);
  EXPECT_EQ(hostMemoryLimit("/nowhere"), 0u);
  // This machine says something, and a program that needs more is refused.
  uint64_t here = hostMemoryLimit();
  ASSERT_GT(here, uint64_t(1) << 20);
  Module module = reluModule();
  module.program.segments[0].size = (here / 4096 + 1) * 4096;
  module.program.peakBytes = module.program.segments[0].size;
  auto session = Session::create(load(module), {});
  EXPECT_EQ(session.status().code(), Code::Resources);
  EXPECT_HAS(session.status().message(), "this process can have");
}

TEST(Session, TwoModulesRunTheirOwnCode) {
  std::vector<float> x = ramp(64), plain, plus;
  for (float value : x) {
    plain.push_back(std::fmax(value, 0.0f));
    plus.push_back(std::fmax(value, 0.0f) + 1);
  }
  for (int round = 0; round < 3; ++round) {
    auto first = open(load(reluModule("kernels"), "a.fsn"));
    auto second = open(load(reluModule("kernels1"), "b.fsn"));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(run(*first, 1, x, 64), plain);
    EXPECT_EQ(run(*second, 1, x, 64), plus);
    first.reset();
    // The descriptor number of the first is free again for a third.
    auto third = open(load(reluModule("kernels1"), "c.fsn"));
    auto fourth = open(load(reluModule("kernels"), "d.fsn"));
    ASSERT_TRUE(third && fourth);
    EXPECT_EQ(run(*second, 1, x, 64), plus);
    EXPECT_EQ(run(*third, 1, x, 64), plus);
    EXPECT_EQ(run(*fourth, 1, x, 64), plain);
  }
}

TEST(Session, ImportsAreFilledByNameAndSignature) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  builder.launch(Exponential, {x}, y, {0, 64});
  Module module = builder.build();
  auto session = open(load(module));
  ASSERT_TRUE(session);
  std::vector<float> in = ramp(64), expected;
  for (float value : in)
    expected.push_back(expf(value));
  EXPECT_EQ(run(*session, 1, in, 64), expected);

  module.imports[1] = {"system", "i32(ptr)"};
  EXPECT_EQ(Session::create(load(module), {}).status().code(), Code::Rejected);
  module.imports[1] = {"pow", "f32(f32)"};
  EXPECT_EQ(Session::create(load(module), {}).status().code(), Code::Rejected);
  module.imports[1] = {"pow", "f64(f64,f64)"};
  module.imports.push_back({"erff", "f32(f32)"}); // the array holds two
  EXPECT_HAS(Session::create(load(module), {}).status().message(),
             "fusion_imports");
}

TEST(Session, NativeCodeThatReachesOutIsRejected) {
  auto why = [](const std::string &library) {
    return Session::create(load(reluModule(library)), {}).status().message();
  };
  EXPECT_HAS(why("undefined"), "'fusion_missing' is undefined");
  EXPECT_HAS(why("constructor"), "constructors");
  EXPECT_HAS(why("execstack"), "executable stack");
  EXPECT_HAS(why("needed"), "depends on other libraries");
  Module missing = reluModule();
  missing.kernels[0].symbol = "absent";
  EXPECT_HAS(Session::create(load(missing), {}).status().message(), "'absent'");
}

TEST(Session, DamagedNativeCodeNeverCrashesTheCheck) {
  // The image isn't mapped here: only our reader sees it.
  std::vector<uint8_t> code = nativeCode();
  std::vector<Kernel> kernels = {{"relu", ""}};
  ASSERT_TRUE(checkElf(code, kernels, 2).ok());
  size_t rejected = 0;
  for (size_t bit = 0; bit < code.size() * 8; ++bit) {
    code[bit / 8] ^= uint8_t(1 << bit % 8);
    rejected += !checkElf(code, kernels, 2).ok();
    code[bit / 8] ^= uint8_t(1 << bit % 8);
  }
  EXPECT_GT(rejected, 500u);
  for (size_t size = 0; size < code.size(); size += 7)
    (void)checkElf({code.begin(), code.begin() + long(size)}, kernels, 2);
  EXPECT_FALSE(checkElf({}, kernels, 0).ok());
}

TEST(Session, MissingCpuFeaturesAreListed) {
  Module module = reluModule();
  module.cpuFeatures = {"sse2", "avx9000"};
  Status status = Session::create(load(module), {}).status();
  EXPECT_EQ(status.code(), Code::Rejected);
  EXPECT_HAS(status.message(), "avx9000 (unknown to this runtime)");
  EXPECT_EQ(status.message().find("sse2"), std::string::npos);
}

TEST(Session, NullBackendCountsAndNeedsNoCode) {
  Module module = convModule(4);
  module.cpuFeatures = {"avx9000"};
  SessionOptions options;
  options.backend = "null";
  auto session = open(load(module), options);
  ASSERT_TRUE(session);
  std::vector<float> x = ramp(4 * 144);
  EXPECT_EQ(run(*session, 4, x, 4 * 144), std::vector<float>(4 * 144, 0.0f));
  run(*session, 1, x, 144);
  Counters counters = session->executor().counters();
  EXPECT_EQ(counters.runs, 2u);
  EXPECT_EQ(counters.launches, 2u);
  EXPECT_EQ(counters.calls, 2u);
  EXPECT_EQ(counters.tails, 2u);
}

TEST(Session, StopFlagEndsARun) {
  volatile std::sig_atomic_t stop = 0;
  SessionOptions options;
  options.stop = &stop;
  auto session = open(load(convModule(4)), options);
  ASSERT_TRUE(session);
  std::vector<float> x = ramp(4 * 144);
  run(*session, 4, x, 4 * 144);
  stop = SIGINT;
  const void *inputs[] = {x.data()};
  std::vector<float> y(4 * 144);
  void *outputs[] = {y.data()};
  EXPECT_EQ(session->run(4, inputs, outputs).message(), "interrupted");
}

TEST(Trust, OwnNeedsOwnerModeAndBuild) {
  auto trust = [](const LoadedModule &module) {
    return checkTrust(module, "own").message();
  };
  std::string path = temporaryPath("trust.fsn");
  auto loaded = load(reluModule(), "trust.fsn");
  EXPECT_EQ(trust(*loaded), "");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  auto writable = loadModuleFile(path);
  ASSERT_TRUE(writable.ok());
  EXPECT_HAS(trust(**writable), "can be written by others");
  Module foreign = reluModule();
  foreign.buildId = "0123";
  EXPECT_HAS(trust(*load(foreign, "foreign.fsn")), "another build");
  loaded->ownerId = loaded->ownerId + 1;
  EXPECT_HAS(trust(*loaded), "another user");
  EXPECT_TRUE(checkTrust(*loaded, "all").ok());
  EXPECT_EQ(checkTrust(*loaded, "some").code(), Code::Usage);
}

TEST(Trust, SignatureCoversTheWholeFile) {
  std::string path = temporaryPath("signed.fsn"), key = temporaryPath("key");
  auto loaded = load(reluModule(), "signed.fsn");
  std::string make = "openssl genpkey -algorithm ed25519 -out " + key +
                     " 2>/dev/null && openssl pkey -in " + key +
                     " -pubout -out " + key +
                     ".pub && openssl pkeyutl -sign "
                     "-rawin -inkey " +
                     key + " -in " + path + " -out " + path + ".sig";
  if (std::system("openssl version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no openssl command to make a key with";
  ASSERT_EQ(std::system(make.c_str()), 0);
  std::string rule = "signed:" + key + ".pub";
  EXPECT_EQ(checkTrust(*loaded, rule).message(), "");
  // Another module beside the same signature.
  ASSERT_TRUE(writeModuleFile(reluModule("kernels1"), path).ok());
  auto other = loadModuleFile(path);
  ASSERT_TRUE(other.ok());
  EXPECT_HAS(checkTrust(**other, rule).message(), "is not signed by");
  EXPECT_EQ(checkTrust(**other, "signed:/dev/null").code(), Code::Usage);
}

} // namespace
