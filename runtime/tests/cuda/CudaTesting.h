//===- CudaTesting.h - Sessions on the tests' CUDA driver -------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_CUDATESTING_H
#define FUSION_RUNTIME_TESTS_CUDA_CUDATESTING_H

#include "FakeCuda.h"
#include "Session.h"
#include "TestModules.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace fusion::rt::test {

/// A module in memory of its own.
inline std::shared_ptr<LoadedModule> loaded(const Module &module) {
  auto bytes = writeModule(module);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok())
    return nullptr;
  std::shared_ptr<void> memory(
      std::aligned_alloc(64, (bytes->size() + 63) / 64 * 64), std::free);
  std::memcpy(memory.get(), bytes->data(), bytes->size());
  auto result = loadModuleMemory(memory.get(), bytes->size());
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok())
    return nullptr;
  auto *module_ = result->get();
  return {module_, [memory, keep = *result](LoadedModule *) {}};
}

inline Expected<std::unique_ptr<Session>>
cudaSession(const Module &module, SessionOptions options = {}) {
  return Session::create(loaded(module), options);
}

/// y = relu(x) + c for 64 floats a batch, with c from the constants: relu on
/// one stream, a copy of c on another, then the sum.
inline Module sumModule(int64_t maxBatch = 1) {
  ModuleBuilder builder(maxBatch);
  ByteRange x = builder.input("x", {64}, true);
  ByteRange y = builder.output("y", {64}, true);
  std::vector<float> values;
  for (int64_t i = 0; i < 64 * maxBatch; ++i)
    values.push_back(float(i % 7));
  ByteRange c = builder.constant(values);
  ByteRange t = builder.scratch(x.size), u = builder.scratch(x.size);
  builder.launch(Relu, {x}, t, {64, 0});
  builder.copy(c, u).copySize = {256, 0};
  builder.module.program.commands.back().stream = 1;
  builder.event(CommandKind::Record, 0, 1);
  builder.event(CommandKind::Wait, 0, 0);
  builder.launch(Add, {t, u}, y, {64, 0});
  return forCuda(builder.build());
}

/// A pool of 1 x 1 windows, which no CUDA library computes: y = relu(x) by its
/// fallback, on 64 floats.
inline Module poolModule() {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {1, 1, 8, 8});
  ByteRange y = builder.output("y", {1, 1, 8, 8});
  LibraryCall pool;
  pool.op = LibraryOp::AvgPool;
  pool.inputShape = pool.outputShape = {{0, 1}, {0, 1}, {0, 8}, {0, 8}};
  pool.window = pool.strides = pool.dilations = {1, 1};
  pool.padLow = pool.padHigh = {0, 0};
  Command &command = builder.call(pool, {x}, y);
  command.hasFallback = true;
  command.fallback.kernel = Relu;
  command.fallback.units = {0, 64};
  return forCuda(builder.build());
}

/// What `sumModule` makes of `x`.
inline std::vector<float> sumOf(const std::vector<float> &x) {
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] < 0 ? 0 : x[i]) + float(i % 7));
  return y;
}

/// Small integers of both signs.
inline std::vector<float> numbers(size_t count, int seed = 0) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(float(int((i * 5 + size_t(seed) * 3) % 11) - 5));
  return values;
}

/// Memory of the fake GPU, `skew` bytes after a multiple of 4096.
class DeviceBuffer {
public:
  explicit DeviceBuffer(size_t count, uint64_t skew = 0, int device = 0)
      : memory(fakeCudaAllocate(count * 4 + skew, device)), skew(skew),
        count(count) {}
  explicit DeviceBuffer(const std::vector<float> &values, uint64_t skew = 0)
      : DeviceBuffer(values.size(), skew) {
    fakeCudaWrite(get(), values.data(), count * 4);
  }
  ~DeviceBuffer() { fakeCudaFree(memory); }
  DeviceBuffer(const DeviceBuffer &) = delete;
  void *get() const { return static_cast<char *>(memory) + skew; }
  std::vector<float> values() const {
    std::vector<float> result(count);
    fakeCudaRead(result.data(), get(), count * 4);
    return result;
  }

private:
  void *memory;
  uint64_t skew;
  size_t count;
};

#define EXPECT_OK(expression)                                                  \
  do {                                                                         \
    Status okStatus = (expression);                                            \
    EXPECT_TRUE(okStatus.ok()) << okStatus.message();                          \
  } while (false)

/// A run of one input and one output.
inline Status run(Session &session, const void *x, void *y, int64_t batch = 1,
                  Observer *observer = nullptr) {
  return session.run(batch, &x, &y, observer);
}

/// Each test begins with a whole device and must leave nothing on it.
class CudaTest : public testing::Test {
protected:
  void SetUp() override {
    fakeCudaReset();
    fakeCudaSet("total", int64_t(1) << 30);
    fakeCudaSet("sm", 90);
  }
  void TearDown() override { expectNothingLeft(); }
  static void expectNothingLeft() {
    for (const char *kind : {"memory", "stream", "event", "module", "graph",
                             "exec", "context", "pushed"})
      EXPECT_EQ(fakeCudaLive(kind), 0) << kind;
  }
};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_CUDA_CUDATESTING_H
