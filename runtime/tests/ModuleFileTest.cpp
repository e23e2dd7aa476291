//===- ModuleFileTest.cpp - Writing, reading and damaging modules ---------===//
//
// A damaged module is rejected with a message; with recomputed hashes it is
// rejected or runs; it never crashes. Writes are atomic. What calls say is in
// ModuleCallsTest.cpp.
//
//===----------------------------------------------------------------------===//
#include "DamagedModules.h"
#include "Limits.h"
#include "Session.h"

#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

TEST(ModuleFile, RoundTripKeepsEverything) {
  Module module = convModule(4);
  auto bytes = write(module);
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  // Writing what was read gives the same bytes: nothing was lost.
  Module again = view->module;
  again.constants.assign(view->constants,
                         view->constants + view->constantsSize);
  EXPECT_EQ(write(again), bytes);
  EXPECT_EQ(view->module.program.commands[0].name, "call0");
  EXPECT_EQ(view->constants, aligned.data() + view->sections[2].offset);
}

TEST(ModuleFile, SameStructGivesSameBytes) {
  EXPECT_EQ(write(convModule(4)), write(convModule(4)));
}

TEST(ModuleFile, TruncationAtEveryByteIsRejected) {
  auto bytes = write(convModule());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Aligned part(
        std::vector<uint8_t>(bytes.begin(), bytes.begin() + long(size)));
    auto view = readModule(part.data(), part.size());
    ASSERT_EQ(view.status().code(), Code::Rejected) << size;
  }
}

TEST(ModuleFile, TruncationOfALargeModuleIsRejected) {
  Module module = convModule();
  module.constants.resize(4 << 20, 1);
  module.program.segments[3].size = module.constants.size();
  std::string path = temporaryPath("large.fsn");
  ASSERT_TRUE(writeModuleFile(module, path).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  ASSERT_TRUE(loadModuleFile(path).ok());
  // From the end on, so that each size is a truncation of the file before.
  for (off_t size = (info.st_size - 1) / 4096 * 4096; size >= 0; size -= 4096) {
    ASSERT_EQ(truncate(path.c_str(), size), 0);
    ASSERT_EQ(loadModuleFile(path).status().code(), Code::Rejected) << size;
  }
}

TEST(ModuleFile, TrailingBytesAreRejected) {
  auto bytes = write(smallModule());
  bytes.push_back(0);
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  EXPECT_NE(view.status().message().find("M4"), std::string::npos);
}

TEST(ModuleFile, EverySingleBitFlipIsRejected) {
  auto bytes = write(convModule());
  Aligned aligned(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    aligned.data()[bit / 8] ^= uint8_t(1 << bit % 8);
    auto view = readModule(aligned.data(), aligned.size());
    ASSERT_EQ(view.status().code(), Code::Rejected) << "bit " << bit;
    aligned.data()[bit / 8] ^= uint8_t(1 << bit % 8);
  }
}

/// Loads and runs; returns whether the module was accepted.
bool loadAndRun(std::vector<uint8_t> bytes, const char *backend) {
  Aligned aligned(bytes);
  auto loaded = loadModuleMemory(aligned.data(), aligned.size());
  if (!loaded.ok()) {
    EXPECT_TRUE(loaded.status().code() == Code::Rejected ||
                loaded.status().code() == Code::Resources)
        << loaded.status().message();
    return false;
  }
  SessionOptions options;
  options.backend = backend;
  options.threads = 1;
  options.memoryLimit = 64 << 20;
  auto session = Session::create(*loaded, options);
  if (!session.ok()) {
    EXPECT_NE(session.status().code(), Code::Internal)
        << session.status().message();
    return false;
  }
  const Program &program = (*loaded)->view.module.program;
  std::vector<std::vector<char>> buffers;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (const Port &port : program.inputs)
    buffers.emplace_back(program.segments[port.segment].size + 64);
  for (const Port &port : program.outputs)
    buffers.emplace_back(program.segments[port.segment].size + 64);
  for (size_t i = 0; i < buffers.size(); ++i)
    if (i < program.inputs.size())
      inputs.push_back(buffers[i].data());
    else
      outputs.push_back(buffers[i].data());
  return (*session)->run(program.maxBatch, inputs.data(), outputs.data()).ok();
}

TEST(ModuleFile, BitFlipsWithRightHashesNeverCrash) {
  auto bytes = write(smallModule());
  ASSERT_TRUE(loadAndRun(bytes, "cpu"));
  size_t accepted = 0, count = bytes.size() * 8;
  for (size_t bit = 0; bit < count; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= uint8_t(1 << bit % 8);
    rehash(changed);
    accepted += loadAndRun(std::move(changed), "cpu");
  }
  // Flips of weights, names and provenance must still be accepted.
  EXPECT_GT(accepted, count / 20);
  EXPECT_LT(accepted, count);
}

TEST(ModuleFile, BitFlipsOfALaunchingHeaderNeverCrash) {
  // Native code isn't run: what it may touch is beyond any check.
  auto bytes = write(convModule());
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok());
  size_t first = view->sections[0].offset;
  size_t last = first + view->sections[0].size;
  for (size_t bit = first * 8; bit < last * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= uint8_t(1 << bit % 8);
    rehash(changed);
    loadAndRun(std::move(changed), "null");
  }
}

void expectVersion(uint16_t major, uint16_t minor, const char *text) {
  auto bytes = write(smallModule());
  std::memcpy(&bytes[8], &major, 2);
  std::memcpy(&bytes[10], &minor, 2);
  rehash(bytes);
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  EXPECT_EQ(view.status().code(), Code::Rejected);
  EXPECT_NE(view.status().message().find(text), std::string::npos)
      << view.status().message();
}

TEST(ModuleFile, OtherVersionsAreNamed) {
  expectVersion(format::kMajor, format::kMinor + 1,
                "needs runtime format >= 1.7");
  expectVersion(format::kMajor + 1, 0, "needs runtime format >= 2.0");
  expectVersion(0, 9, "0.9 is no longer supported");
}

std::string rejection(std::vector<uint8_t> bytes) {
  rehash(bytes);
  Aligned aligned(bytes);
  return readModule(aligned.data(), aligned.size()).status().message();
}

/// A copy by a kernel of a GPU; the "code" is never run.
Module cudaModule() {
  ModuleBuilder builder(2);
  ByteRange x = builder.input("x", {1, 8}, true);
  ByteRange y = builder.output("y", {1, 8}, true);
  Command &command = builder.launch(Relu, {x}, y, {8, 0});
  command.launch.grain = 4;
  builder.module.nativeCode = {0};
  Module module = builder.build();
  module.nativeCode.clear();
  module.target = "cuda:sm_90";
  module.cpu.clear();
  module.cpuFeatures.clear();
  Kernel kernel{"k0", "max(x, 0)"};
  kernel.threads = 128;
  kernel.registers = 24;
  kernel.spillBytes = 8;
  kernel.sharedBytes = 512;
  kernel.waits = true;
  module.kernels = {kernel};
  module.deviceCode = {1, 2, 3};
  module.ptx = {'p', 't', 'x'};
  return module;
}

TEST(ModuleFile, DeviceCodeIsKept) {
  auto bytes = write(cudaModule());
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  const Module &module = view->module;
  EXPECT_EQ(module.deviceCode, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(module.ptx, (std::vector<uint8_t>{'p', 't', 'x'}));
  EXPECT_EQ(module.kernels[0].threads, 128u);
  EXPECT_EQ(module.kernels[0].registers, 24u);
  EXPECT_EQ(module.kernels[0].spillBytes, 8u);
  EXPECT_EQ(module.kernels[0].sharedBytes, 512u);
  EXPECT_TRUE(module.kernels[0].waits);
  EXPECT_EQ(write(module), bytes);
}

TEST(ModuleFile, DeviceCodeIsChecked) {
  auto refused = [](auto change) {
    Module module = cudaModule();
    change(module);
    return writeModule(module).status().message();
  };
  using M = Module &;
  EXPECT_HAS(refused([](M m) { m.target = "cuda"; }), "target 'cuda'");
  EXPECT_HAS(refused([](M m) { m.target = "cuda:sm_9x"; }), "sm_9x");
  EXPECT_HAS(refused([](M m) { m.target = "cpu"; }), "native code");
  EXPECT_HAS(refused([](M m) { m.nativeCode = {1}; }), "native code");
  EXPECT_HAS(refused([](M m) { m.ptx.clear(); }), "without PTX");
  EXPECT_HAS(refused([](M m) { m.ptx[1] = 0; }), "zero byte");
  for (uint32_t threads : {0u, 31u, 33u, 1056u})
    EXPECT_HAS(refused([&](M m) { m.kernels[0].threads = threads; }),
               "threads");
  EXPECT_EQ(refused([](M m) { m.kernels[0].threads = 1024; }), "");
  // 2^31 - 1 blocks of one unit at the largest batch, which is 2.
  auto blocks = [&](int64_t count) {
    return refused([&](M m) {
      m.program.commands[0].launch.units = {0, count};
      m.program.commands[0].launch.grain = 1;
    });
  };
  EXPECT_EQ(blocks((int64_t(1) << 31) - 2), "");
  EXPECT_HAS(blocks(int64_t(1) << 31), "blocks");
  // Without a cubin the driver compiles the PTX.
  EXPECT_EQ(refused([](M m) { m.deviceCode.clear(); }), "");

  Module cpu = convModule();
  cpu.kernels[0].threads = 32;
  EXPECT_HAS(writeModule(cpu).status().message(), "for a GPU");
  cpu = convModule();
  cpu.ptx = {'p'};
  EXPECT_HAS(writeModule(cpu).status().message(), "device code");
  cpu = smallModule();
  cpu.program.commands[0].call.activation = Activation::Relu;
  EXPECT_HAS(writeModule(cpu).status().message(), "activation");
  cpu = smallModule();
  cpu.program.commands[0].call.computeTf32 = true;
  EXPECT_HAS(writeModule(cpu).status().message(), "tf32");
  cpu = smallModule();
  cpu.program.commands[0].call.units = 8;
  EXPECT_HAS(writeModule(cpu).status().message(),
             "a number of multiprocessors in a call of the CPU");
}

TEST(ModuleFile, DamagedDeviceCodeIsRejected) {
  auto bytes = write(cudaModule());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    Aligned aligned(bytes);
    ASSERT_EQ(readModule(aligned.data(), aligned.size()).status().code(),
              Code::Rejected)
        << bit;
    // With right hashes it is rejected or fine, and never a crash.
    auto copy = bytes;
    rehash(copy);
    Aligned hashed(copy);
    (void)readModule(hashed.data(), hashed.size()).ok();
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
  }
}

TEST(ModuleFile, SectionTableRulesAreChecked) {
  auto bytes = write(smallModule());
  uint8_t *first = &bytes[format::kPreambleSize];
  uint8_t *second = first + format::kEntrySize;
  auto with = [&](uint8_t *at, uint64_t value, size_t size) {
    auto copy = bytes;
    std::memcpy(&copy[size_t(at - bytes.data())], &value, size);
    return rejection(copy);
  };
  EXPECT_HAS(with(first, 9, 4), "M8");                     // unknown kind
  EXPECT_HAS(with(second, 1, 4), "M8");                    // duplicate
  EXPECT_HAS(with(first + 4, 1, 4), "M5");                 // reserved
  EXPECT_HAS(with(first + 8, 64, 8), "M9");                // overlaps the table
  EXPECT_HAS(with(second + 8, 1 << 20, 8), "M9");          // gap
  EXPECT_HAS(with(second + 16, 0, 8), "M9");               // empty
  EXPECT_HAS(with(second + 16, UINT64_MAX, 8), "M9");      // wraps
  EXPECT_HAS(with(second + 16, UINT64_MAX - 63, 8), "M9"); // wraps with padding
  // One section less than the file has: the rest is not covered.
  auto fewer = bytes;
  fewer[12] = 1;
  EXPECT_HAS(rejection(fewer), "M9");
  auto none = bytes;
  none[12] = 0;
  EXPECT_HAS(rejection(none), "M6");
  auto many = bytes;
  many[12] = 65;
  many.resize(64 + 65 * 64 + 64);
  uint64_t size = many.size();
  std::memcpy(&many[16], &size, 8);
  EXPECT_HAS(rejection(many), "M6");
}

TEST(ModuleFile, PaddingMustBeZero) {
  Module module = smallModule();
  auto bytes = write(module);
  Aligned aligned(bytes);
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok());
  size_t end = view->sections[0].offset + view->sections[0].size;
  if (end % 64 == 0)
    GTEST_SKIP() << "this header needs no padding";
  auto changed = bytes;
  changed[end] = 1;
  EXPECT_HAS(rejection(changed), "M10");
}

TEST(ModuleFile, LimitsHoldAtTheLimitAndOneAbove) {
  Module module = smallModule();
  module.program.name = std::string(limits::kNameBytes, 'n');
  EXPECT_TRUE(writeModule(module).ok());
  module.program.name += 'n';
  EXPECT_FALSE(writeModule(module).ok());

  module = smallModule();
  module.program.inputs[0].tensor.shape = {{1, 0}, {0, 3}};
  module.program.inputs[0].tensor.shape.resize(limits::kRank, {0, 1});
  EXPECT_TRUE(writeModule(module).ok());
  module.program.inputs[0].tensor.shape.resize(limits::kRank + 1, {0, 1});
  EXPECT_FALSE(writeModule(module).ok());

  // 2^48 elements in an empty-handed parameter: only the count is checked.
  module = smallModule();
  module.program.streams = limits::kStreams;
  EXPECT_TRUE(writeModule(module).ok());
  ++module.program.streams;
  EXPECT_FALSE(writeModule(module).ok());

  module = smallModule();
  module.program.events = 65536;
  module.program.streams = 256;
  EXPECT_TRUE(writeModule(module).ok());
  ++module.program.events;
  EXPECT_FALSE(writeModule(module).ok());
}

TEST(ModuleFile, HugeShapesAreRejectedNotAllocated) {
  // The shape whose product wraps 64 bits to something small.
  Module module = smallModule();
  module.program.inputs[0].tensor.shape = {
      {0, 4194305}, {0, 4194305}, {0, 211106198978564}};
  auto bytes = writeModule(module);
  EXPECT_EQ(bytes.status().code(), Code::BadProgram);
  EXPECT_HAS(bytes.status().message(), "too large");
}

TEST(ModuleFile, DeclaredPeakMustBeRight) {
  Module module = smallModule();
  ++module.program.peakBytes;
  EXPECT_HAS(writeModule(module).status().message(), "peak");
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t filesIn(const std::string &directory) {
  size_t count = 0;
  std::string command = "ls -A '" + directory + "' | wc -l";
  FILE *pipe = popen(command.c_str(), "r");
  EXPECT_EQ(fscanf(pipe, "%zu", &count), 1);
  pclose(pipe);
  return count;
}

std::string freshDirectory(const std::string &name) {
  std::string directory = temporaryPath(name);
  mkdir(directory.c_str(), 0700);
  return directory;
}

TEST(ModuleFile, FullDiskLeavesTheOldFile) {
  std::string directory = freshDirectory("full");
  std::string path = directory + "/m.fsn";
  ASSERT_TRUE(writeModuleFile(smallModule(), path).ok());
  std::string before = readText(path);
  pid_t child = fork();
  if (child == 0) {
    // In a child, because a file size limit can't be raised again.
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    Status status = writeModuleFile(convModule(), path);
    _exit(status.code() == Code::Resources ? 0 : 1);
  }
  int outcome = -1;
  waitpid(child, &outcome, 0);
  EXPECT_EQ(outcome, 0);
  EXPECT_EQ(readText(path), before);
  EXPECT_EQ(filesIn(directory), 1u);
}

TEST(ModuleFile, KilledWriterNeverTearsTheFile) {
  std::string directory = freshDirectory("killed");
  std::string path = directory + "/m.fsn";
  Module small = smallModule(), large = convModule();
  large.constants.resize(1 << 20);
  large.program.segments[3].size = large.constants.size();
  ASSERT_TRUE(writeModuleFile(small, path).ok());
  std::string old = readText(path);
  auto bytes = write(large);
  std::string complete(bytes.begin(), bytes.end());
  for (int i = 0; i < 200; ++i) {
    pid_t child = fork();
    if (child == 0) {
      Status status = writeModuleFile(i % 2 ? small : large, path);
      _exit(status.ok() ? 0 : 1);
    }
    usleep(useconds_t(i * 37 % 4000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::string now = readText(path);
    ASSERT_TRUE(now == old || now == complete) << now.size();
  }
}

TEST(ModuleFile, UnwritablePlacesAreNamed) {
  std::string directory = freshDirectory("readonly");
  std::string path = directory + "/m.fsn";
  Status missing = writeModuleFile(smallModule(), directory + "/no/m.fsn");
  EXPECT_EQ(missing.code(), Code::Usage);
  EXPECT_HAS(missing.message(), "no/m.fsn");
  ASSERT_EQ(symlink("elsewhere", path.c_str()), 0);
  Status link = writeModuleFile(smallModule(), path);
  EXPECT_EQ(link.code(), Code::Usage);
  EXPECT_HAS(link.message(), "symbolic link");
  EXPECT_EQ(access((directory + "/elsewhere").c_str(), F_OK), -1);
  EXPECT_EQ(writeModuleFile(smallModule(), directory).code(), Code::Usage);
  EXPECT_EQ(filesIn(directory), 1u);
}

TEST(ModuleFile, NewFilesFollowTheUmask) {
  std::string path = temporaryPath("umask.fsn");
  mode_t old = umask(027);
  ASSERT_TRUE(writeModuleFile(smallModule(), path).ok());
  umask(old);
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(ModuleFile, ChangedFileIsDetectedBeforeARun) {
  std::string path = temporaryPath("changing.fsn");
  ASSERT_TRUE(writeModuleFile(smallModule(), path).ok());
  auto loaded = loadModuleFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE((*loaded)->checkUnchanged().ok());
  {
    std::ofstream file(path, std::ios::app);
    file << "x";
  }
  EXPECT_EQ((*loaded)->checkUnchanged().code(), Code::Rejected);
  // So is a byte that changes in place.
  ASSERT_TRUE(writeModuleFile(smallModule(), path).ok());
  auto other = loadModuleFile(path);
  ASSERT_TRUE(other.ok());
  usleep(20000); // the clock of time stamps is coarse
  int descriptor = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(descriptor, "x", 1, 200), 1);
  close(descriptor);
  EXPECT_EQ((*other)->checkUnchanged().code(), Code::Rejected);
  // Replacing the file leaves the mapped one as it was.
  ASSERT_TRUE(writeModuleFile(smallModule(), path).ok());
  auto again = loadModuleFile(path);
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(writeModuleFile(convModule(), path).ok());
  EXPECT_TRUE((*again)->checkUnchanged().ok());
}

TEST(ModuleFile, NotAModuleIsSaidPlainly) {
  auto load = [](const std::string &path) {
    return loadModuleFile(path).status();
  };
  EXPECT_EQ(load(temporaryPath("missing.fsn")).code(), Code::Usage);
  EXPECT_EQ(load("/dev/null").code(), Code::Rejected);
  EXPECT_EQ(load("/").code(), Code::Rejected);
  std::string path = temporaryPath("text.fsn");
  std::ofstream(path) << std::string(1000, 'a');
  EXPECT_HAS(load(path).message(), "not a Fusion module");
}

} // namespace
