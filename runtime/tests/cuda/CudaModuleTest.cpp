//===- CudaModuleTest.cpp - Modules that hold device code -----------------===//
//
// Limits of launches, calls with what only a GPU's library does, and files of
// earlier versions; what else the file keeps is ModuleFileTest.cpp's.
//
//===----------------------------------------------------------------------===//
#include "CudaTesting.h"
#include "DnnApi.h"
#include "Limits.h"
#include "ModuleFormat.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// Relu of 64 floats, for a GPU.
Module reluModule() {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {64}), y = builder.output("y", {64});
  builder.launch(Relu, {x}, y, {0, 64});
  return forCuda(builder.build());
}

/// `bytes`, where `readModule` wants them.
std::unique_ptr<void, void (*)(void *)>
aligned(const std::vector<uint8_t> &bytes) {
  void *memory = std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64);
  std::memcpy(memory, bytes.data(), bytes.size());
  return {memory, std::free};
}

Expected<ModuleView> reread(const std::vector<uint8_t> &bytes) {
  auto memory = aligned(bytes);
  return readModule(memory.get(), bytes.size());
}

/// The reason why `module`, changed, can't be written.
std::string refusal(Module module, const std::function<void(Module &)> &edit) {
  edit(module);
  auto bytes = writeModule(module);
  EXPECT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), Code::BadProgram);
  return bytes.status().message();
}

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

/// Files of the earlier minor versions have no new field: defaults stand in.
TEST(CudaModule, EarlierMinorVersionsLoad) {
  auto bytes = writeModule(convModule(2));
  ASSERT_TRUE(bytes.ok());
  for (uint16_t minor : {0, 1}) {
    auto old = *bytes;
    std::memcpy(&old[10], &minor, 2);
    size_t sections = 3, table = sections * format::kEntrySize;
    std::vector<uint8_t> hashed(old.begin(),
                                old.begin() + format::kHashedPreamble);
    hashed.insert(hashed.end(), old.begin() + format::kPreambleSize,
                  old.begin() + long(format::kPreambleSize + table));
    auto digest = sha256(hashed.data(), hashed.size());
    std::memcpy(&old[format::kHashedPreamble], digest->data(), 32);
    auto view = reread(old);
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_EQ(view->minor, minor);
    EXPECT_EQ(view->module.kernels[0].threads, 0u);
    EXPECT_EQ(view->module.program.commands[0].call.activation,
              Activation::None);
  }
}

/// 2^31 - 1 blocks are a grid, one more is none; the last block may be partial.
TEST(CudaModule, GridsHaveALimit) {
  const int64_t limit = (int64_t(1) << 31) - 1;
  for (int64_t grain : {1, 7}) {
    for (int64_t units : {limit * grain, limit * grain - grain + 1}) {
      Module module = reluModule();
      module.program.commands[0].launch.grain = grain;
      module.program.commands[0].launch.units = {0, units};
      auto bytes = writeModule(module);
      EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    }
    EXPECT_HAS(refusal(reluModule(),
                       [&](Module &m) {
                         m.program.commands[0].launch.grain = grain;
                         m.program.commands[0].launch.units = {
                             0, limit * grain + 1};
                       }),
               "more than 2^31 - 1 blocks");
  }
  // The largest batch decides.
  EXPECT_HAS(refusal(reluModule(),
                     [&](Module &m) {
                       m.program.maxBatch = 2;
                       m.program.commands[0].launch.grain = 1;
                       m.program.commands[0].launch.units = {limit, 0};
                     }),
             "more than 2^31 - 1 blocks");
}

TEST(CudaModule, LaunchesHave4000PointersAtMost) {
  auto withOperands = [](Module &m, size_t count) {
    KernelLaunch &launch = m.program.commands[0].launch;
    Operand first = launch.operands[0];
    launch.operands.insert(launch.operands.begin(),
                           count - launch.operands.size(), first);
  };
  Module module = reluModule();
  withOperands(module, 4000);
  auto bytes = writeModule(module);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_HAS(refusal(reluModule(), [&](Module &m) { withOperands(m, 4001); }),
             "more than 4000 operands");
}

/// A linear layer as one library call.
Module linearModule() {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {2, 3}), y = builder.output("y", {2, 4});
  ByteRange w = builder.constant(std::vector<float>(12, 1));
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = {{0, 2}, {0, 3}};
  call.weightShape = {{0, 3}, {0, 4}};
  call.outputShape = {{0, 2}, {0, 4}};
  builder.call(call, {x, w}, y);
  return builder.build();
}

TEST(CudaModule, CallsKeepActivationAndTf32) {
  for (Activation activation :
       {Activation::Relu, Activation::GeluTanh, Activation::GeluErf}) {
    Module module = forCuda(linearModule());
    module.program.commands[0].call.activation = activation;
    module.program.commands[0].call.computeTf32 = true;
    module.program.commands[0].call.keepsOrder = true;
    module.program.commands[0].call.units = 124;
    auto bytes = writeModule(module);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    auto view = reread(*bytes);
    ASSERT_TRUE(view.ok());
    EXPECT_EQ(view->module.program.commands[0].call.activation, activation);
    EXPECT_TRUE(view->module.program.commands[0].call.computeTf32);
    EXPECT_TRUE(view->module.program.commands[0].call.keepsOrder);
    EXPECT_EQ(view->module.program.commands[0].call.units, 124u);
  }
  EXPECT_HAS(
      refusal(forCuda(linearModule()),
              [](Module &m) { m.program.commands[0].call.units = 65537; }),
      "more than 65536");
  EXPECT_HAS(refusal(forCuda(convModule()),
                     [](Module &m) { m.program.commands[0].call.units = 8; }),
             "multiprocessors of a call that is no product");
  EXPECT_HAS(refusal(forCuda(linearModule()),
                     [](Module &m) {
                       m.program.commands[0].call.activation = Activation(9);
                     }),
             "unknown library call, element type, activation or");
}

/// What stands in for a call has the call's operands, and is a kernel of a GPU.
TEST(CudaModule, CallsKeepTheirFallback) {
  Module module = poolModule();
  auto bytes = writeModule(module);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto view = reread(*bytes);
  ASSERT_TRUE(view.ok());
  const Command &command = view->module.program.commands[0];
  EXPECT_TRUE(command.hasFallback);
  EXPECT_EQ(command.fallback.kernel, uint32_t(Relu));
  EXPECT_EQ(command.fallback.units.base, 64);
  EXPECT_FALSE(command.hasTail);
  EXPECT_HAS(
      refusal(module,
              [](Module &m) { m.program.commands[0].fallback.kernel = 99; }),
      "does not exist");
  EXPECT_HAS(refusal(module,
                     [](Module &m) {
                       Command &call = m.program.commands[0];
                       call.fallback.operands = call.operands;
                     }),
             "a fallback with operands of its own");
  EXPECT_HAS(
      refusal(linearModule(),
              [](Module &m) { m.program.commands[0].hasFallback = true; }),
      "a call of the CPU with a fallback");
}

/// Weights of a convolution may be stored channels-last, those of a product
/// not.
TEST(CudaModule, CallsKeepTheOrderOfWeights) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {1, 4, 4, 2});
  ByteRange y = builder.output("y", {1, 2, 2, 3});
  ByteRange w = builder.constant(std::vector<float>(54, 1));
  LibraryCall call;
  call.channelsLast = call.weightsLast = true;
  call.inputShape = {{0, 1}, {0, 2}, {0, 4}, {0, 4}};
  call.weightShape = {{0, 3}, {0, 2}, {0, 3}, {0, 3}};
  call.outputShape = {{0, 1}, {0, 3}, {0, 2}, {0, 2}};
  call.strides = call.dilations = {1, 1};
  call.padLow = call.padHigh = {0, 0};
  builder.call(call, {x, w}, y);
  Module module = forCuda(builder.build());
  auto bytes = writeModule(module);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto view = reread(*bytes);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->module.program.commands[0].call.weightsLast);
  EXPECT_HAS(refusal(module,
                     [](Module &m) {
                       m.program.commands[0].call.channelsLast = false;
                     }),
             "laid out channels-last");
  EXPECT_HAS(
      refusal(forCuda(linearModule()),
              [](Module &m) { m.program.commands[0].call.weightsLast = true; }),
      "laid out channels-last");
}

/// What the library lacks is told from a lack of memory: a stand-in helps with
/// the first only.
TEST(CudaModule, StatusesOfCuDnnAreToldApart) {
  cuda::DnnApi api;
  EXPECT_TRUE(api.check(0, "f").ok());
  EXPECT_EQ(api.check(3000, "f").code(), Code::Rejected);
  EXPECT_EQ(api.check(3007, "f").code(), Code::Rejected);
  EXPECT_EQ(api.check(4003, "f").code(), Code::Resources);
  EXPECT_EQ(api.check(4004, "f").code(), Code::Resources);
  EXPECT_EQ(api.check(1001, "f").code(), Code::Environment);
  EXPECT_EQ(api.check(5000, "f").message(), "f failed: status 5000");
}

} // namespace
