//===- ModuleCallsTest.cpp - Launches and library calls of a module -------===//
//
// What a call says is kept by a file, and a wrong one is refused when it is
// written: by name, before anything runs it.
//
//===----------------------------------------------------------------------===//
#include "DamagedModules.h"

#include <cmath>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

TEST(ModuleCalls, TailUnitsMustFollowTheRows) {
  Module module = convModule(4);
  module.program.commands[0].launch.units = {144, 1};
  EXPECT_HAS(writeModule(module).status().message(), "multiple");
  module.program.commands[0].launch.units = {72, 0};
  EXPECT_TRUE(writeModule(module).ok());
  module.program.commands[0].launch.units = {0, 144};
  EXPECT_HAS(writeModule(module).status().message(), "multiple");
}

TEST(ModuleCalls, WrongLibraryCallsAreRefused) {
  Module good = convModule();
  auto refused = [&](auto change, const char *text) {
    Module module = good;
    change(module.program.commands[0]);
    EXPECT_HAS(writeModule(module).status().message(), text);
  };
  refused([](Command &c) { c.call.groups = 3; }, "groups");
  refused([](Command &c) { c.call.strides = {1}; }, "one value");
  refused([](Command &c) { c.call.strides = {0, 1}; }, "positive");
  refused([](Command &c) { c.call.padLow = {-1, 1}; }, "negative");
  refused([](Command &c) { c.call.padLow = {2, 1}; }, "does not follow");
  refused([](Command &c) { c.call.weightShape[1].base = 1; }, "channels");
  refused([](Command &c) { c.call.outputShape[3].base = 7; }, "too few");
  refused([](Command &c) { c.call.inputShape[2].scale = 1; }, "leading");
  refused([](Command &c) { c.operands.pop_back(); }, "operands instead of");
  refused([](Command &c) { c.call.members = 0; }, "members");
  refused([](Command &c) { c.call.members = -1; }, "members");
  refused([](Command &c) { c.call.members = 65537; }, "members");
  refused([](Command &c) { c.call.members = 2; }, "operands instead of 8");
  refused([](Command &c) { c.operands[0].writes = true; }, "is an input");
  refused([](Command &c) { c.operands[1].range.size = 4; }, "too few");
  refused([](Command &c) { c.call.weightsLast = true; }, "laid out");
  refused([](Command &c) { c.call.channelsLast = c.call.weightsLast = true; },
          "in a call of the CPU");
  refused([](Command &c) { c.launch.kernel = 99; }, "does not exist");
  refused([](Command &c) { c.launch.grain = 0; }, "grain");
  refused([](Command &c) { c.kind = CommandKind::Collective; },
          "without a mesh");
}

/// y = x w and z = v w as one call of two members.
Module groupedModule() {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {2, 2}), v = builder.input("v", {2, 2});
  ByteRange y = builder.output("y", {2, 2}), z = builder.output("z", {2, 2});
  ByteRange w = builder.constant({1, 2, 3, 4});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = call.weightShape = call.outputShape = {{0, 2}, {0, 2}};
  call.members = 2;
  Command &command = builder.call(call, {x, w}, y);
  command.operands.push_back({v, true, false, DType::F32});
  command.operands.push_back({w, true, false, DType::F32});
  command.operands.push_back({z, false, true, DType::F32});
  return builder.build();
}

TEST(ModuleCalls, MembersOfACallAreKeptAndChecked) {
  Aligned aligned(write(groupedModule()));
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->module.program.commands[0].call.members, 2);
  EXPECT_EQ(view->module.program.commands[0].operands.size(), 6u);
  auto refused = [&](auto change, const char *text) {
    Module module = groupedModule();
    change(module.program.commands[0]);
    EXPECT_HAS(writeModule(module).status().message(), text);
  };
  refused([](Command &c) { c.operands[3].range.size = 8; },
          "operand 3 has 8 bytes, too few");
  refused([](Command &c) { c.operands[3].writes = true; }, "is an input");
  refused([](Command &c) { c.operands[2].writes = false; }, "is the output");
  refused([](Command &c) { c.operands[5].range = c.operands[2].range; }, "S2");
}

/// Attention of a GPU: [B, 4, 3, 8] over [B, 2, 5, 8], values of 6 columns, a
/// mask for all heads.
Module attentionModule() {
  ModuleBuilder builder(2);
  ByteRange q = builder.input("q", {1, 4, 3, 8}, true),
            k = builder.input("k", {1, 2, 5, 8}, true),
            v = builder.input("v", {1, 2, 5, 6}, true),
            m = builder.input("m", {1, 1, 3, 5}, true);
  ByteRange y = builder.output("y", {1, 4, 3, 6}, true);
  LibraryCall call;
  call.op = LibraryOp::Attention;
  call.inputShape = {{1, 0}, {0, 4}, {0, 3}, {0, 8}};
  call.weightShape = {{1, 0}, {0, 2}, {0, 5}, {0, 8}};
  call.outputShape = {{1, 0}, {0, 4}, {0, 3}, {0, 6}};
  call.maskShape = {{1, 0}, {0, 1}, {0, 3}, {0, 5}};
  call.scale = 0.25;
  call.causal = true;
  builder.call(call, {q, k, v, m}, y);
  Module module = builder.build();
  module.target = "cuda:sm_90";
  module.cpu.clear();
  module.cpuFeatures.clear();
  return module;
}

TEST(ModuleCalls, AttentionIsKeptAndChecked) {
  Aligned aligned(write(attentionModule()));
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  const LibraryCall &call = view->module.program.commands[0].call;
  EXPECT_EQ(call.op, LibraryOp::Attention);
  ASSERT_EQ(call.maskShape.size(), 4u);
  EXPECT_EQ(call.maskShape[0].scale, 1);
  EXPECT_EQ(call.maskShape[3].base, 5);
  EXPECT_EQ(call.scale, 0.25);
  EXPECT_TRUE(call.causal);
  auto refused = [&](auto change, const char *text) {
    Module module = attentionModule();
    change(module.program.commands[0]);
    EXPECT_HAS(writeModule(module).status().message(), text);
  };
  refused([](Command &c) { c.call.inputShape[1].base = 3; }, "divisible");
  refused([](Command &c) { c.call.weightShape[1].base = 0; }, "divisible");
  refused([](Command &c) { c.call.weightShape[3].base = 4; }, "depth");
  refused([](Command &c) { c.call.weightShape[0] = {0, 1}; }, "batch");
  refused([](Command &c) { c.call.outputShape[2].base = 2; }, "follow");
  refused([](Command &c) { c.call.maskShape[0] = {0, 2}; }, "mask");
  refused([](Command &c) { c.call.maskShape[3].base = 4; }, "mask");
  refused([](Command &c) { c.call.maskShape.pop_back(); }, "rank 4");
  refused([](Command &c) { c.call.maskShape.clear(); }, "instead of 4");
  refused([](Command &c) { c.call.inputShape.pop_back(); }, "rank 4");
  refused([](Command &c) { c.call.scale = NAN; }, "finite");
  refused([](Command &c) { c.call.hasBias = true; }, "neither bias");
  refused([](Command &c) { c.call.activation = Activation::Relu; },
          "no activation");
  refused([](Command &c) { c.operands[2].range.size = 4; }, "too few");
  refused([](Command &c) { c.operands[3].writes = true; }, "is an input");
  refused([](Command &c) { c.call.op = LibraryOp::MatMul; },
          "only attention has a mask");
  Module cpu = attentionModule(), other = convModule();
  cpu.target = other.target;
  cpu.cpu = other.cpu;
  cpu.cpuFeatures = other.cpuFeatures;
  EXPECT_HAS(writeModule(cpu).status().message(),
             "attention in a call of the CPU");
}

/// The gradients of the same attention: three results.
Module attentionGradModule() {
  ModuleBuilder builder(2);
  ByteRange q = builder.input("q", {1, 4, 3, 8}, true),
            k = builder.input("k", {1, 2, 5, 8}, true),
            v = builder.input("v", {1, 2, 5, 6}, true),
            g = builder.input("g", {1, 4, 3, 6}, true),
            m = builder.input("m", {1, 1, 3, 5}, true);
  ByteRange dq = builder.output("dq", {1, 4, 3, 8}, true),
            dk = builder.output("dk", {1, 2, 5, 8}, true),
            dv = builder.output("dv", {1, 2, 5, 6}, true);
  LibraryCall call = attentionModule().program.commands[0].call;
  call.op = LibraryOp::AttentionGrad;
  Command &command = builder.call(call, {q, k, v, g, m, dq, dk}, dv);
  for (size_t i : {5, 6}) {
    command.operands[i].reads = false;
    command.operands[i].writes = true;
  }
  Module module = builder.build();
  module.target = "cuda:sm_90";
  module.cpu.clear();
  module.cpuFeatures.clear();
  return module;
}

TEST(ModuleCalls, AttentionGradIsKeptAndChecked) {
  Aligned aligned(write(attentionGradModule()));
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->module.program.commands[0].call.op, LibraryOp::AttentionGrad);
  auto refused = [&](auto change, const char *text) {
    Module module = attentionGradModule();
    change(module.program.commands[0]);
    EXPECT_HAS(writeModule(module).status().message(), text);
  };
  refused([](Command &c) { c.call.inputShape[1].base = 3; }, "divisible");
  refused([](Command &c) { c.call.outputShape[2].base = 2; }, "follow");
  refused([](Command &c) { c.call.maskShape.clear(); }, "instead of 7");
  refused([](Command &c) { c.call.op = LibraryOp::Attention; }, "instead of 5");
  refused([](Command &c) { c.call.hasAddend = true; }, "neither bias");
  refused([](Command &c) { c.operands[3].range.size = 4; }, "too few");
  refused([](Command &c) { c.operands[6].range.size = 4; }, "too few");
  refused([](Command &c) { c.operands[4].writes = true; }, "is an input");
  refused([](Command &c) { c.operands[5].writes = false; }, "is the output");
  refused([](Command &c) { c.operands[6].reads = true; }, "is the output");
  refused([](Command &c) { c.hasTail = true; }, "several results");
  refused([](Command &c) { c.call.op = LibraryOp(6); }, "unknown library call");
  Module cpu = attentionGradModule(), other = convModule();
  cpu.target = other.target;
  cpu.cpu = other.cpu;
  cpu.cpuFeatures = other.cpuFeatures;
  EXPECT_HAS(writeModule(cpu).status().message(),
             "attention in a call of the CPU");
}

/// The gradient of a layer's input behind a gelu, [B, 8] x [16, 8]^T, and of
/// the bias in front of that: two results.
Module gradientModule() {
  ModuleBuilder builder(2);
  ByteRange g = builder.input("g", {1, 8}, true),
            x = builder.input("x", {1, 16}, true);
  ByteRange w = builder.constant(std::vector<float>(128, 1));
  ByteRange dx = builder.output("dx", {1, 16}, true),
            db = builder.output("db", {16});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = {{1, 0}, {0, 8}};
  call.weightShape = {{0, 16}, {0, 8}};
  call.outputShape = {{1, 0}, {0, 16}};
  call.transposeRhs = true;
  call.activation = Activation::GeluTanhGrad;
  call.biasGradient = BiasGradient::Result;
  Command &command = builder.call(call, {g, w, x, dx}, db);
  command.operands[3].reads = false;
  command.operands[3].writes = true;
  Module module = builder.build();
  module.target = "cuda:sm_90";
  module.cpu.clear();
  module.cpuFeatures.clear();
  return module;
}

TEST(ModuleCalls, GradientsBesideProductsAreKeptAndChecked) {
  Aligned aligned(write(gradientModule()));
  auto view = readModule(aligned.data(), aligned.size());
  ASSERT_TRUE(view.ok()) << view.status().message();
  const LibraryCall &call = view->module.program.commands[0].call;
  EXPECT_EQ(call.activation, Activation::GeluTanhGrad);
  EXPECT_EQ(call.biasGradient, BiasGradient::Result);
  auto refused = [&](auto change, const char *text) {
    Module module = gradientModule();
    change(module.program.commands[0]);
    EXPECT_HAS(writeModule(module).status().message(), text);
  };
  refused([](Command &c) { c.call.biasGradient = BiasGradient(4); },
          "activation or gradient");
  refused([](Command &c) { c.call.activation = Activation(5); },
          "activation or gradient");
  refused([](Command &c) { c.call.biasGradient = BiasGradient::Rhs; },
          "summed behind a slope");
  refused([](Command &c) { c.call.activation = Activation::None; },
          "summed behind a slope");
  refused(
      [](Command &c) {
        c.call.activation = Activation::Relu;
        c.call.biasGradient = BiasGradient::Lhs;
      },
      "no activation");
  refused([](Command &c) { c.call.hasBias = true; }, "has a bias or addend");
  refused([](Command &c) { c.call.hasAddend = true; }, "has a bias or addend");
  refused([](Command &c) { c.call.dtype = DType::F64; }, "is of f64");
  refused([](Command &c) { c.call.op = LibraryOp::Conv; },
          "only a product of two matrices");
  refused(
      [](Command &c) {
        c.call.outputShape.insert(c.call.outputShape.begin(), {0, 1});
      },
      "only a product of two matrices");
  refused([](Command &c) { c.call.biasGradient = BiasGradient::None; },
          "5 operands instead of 4");
  refused([](Command &c) { c.operands[2].range.size = 4; }, "too few");
  refused([](Command &c) { c.operands[4].range.size = 4; }, "too few");
  refused([](Command &c) { c.operands[2].writes = true; }, "is an input");
  refused([](Command &c) { c.operands[3].writes = false; }, "is the output");
  refused([](Command &c) { c.hasTail = true; }, "several results");
  Module cpu = gradientModule(), other = convModule();
  cpu.target = other.target;
  cpu.cpu = other.cpu;
  cpu.cpuFeatures = other.cpuFeatures;
  EXPECT_HAS(writeModule(cpu).status().message(),
             "multiprocessors in a call of the CPU");
}

} // namespace
