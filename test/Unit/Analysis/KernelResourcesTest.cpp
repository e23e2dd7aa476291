//===- KernelResourcesTest.cpp - Registers and other limits ---------------===//
//
// Numbers are counted by hand: with f32 a thread of the round device has four
// elements, with f64 two, each of two registers; the overhead is 24. Beyond 32
// registers one element after the other is computed; what was loaded, or waits
// to be stored, is there for all elements.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/KernelResources.h"
#include "AnalysisFixture.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

static KernelResources estimate(const Parsed &p, GroupKind kind) {
  return estimateResources(
      p.ops, kind, [&](mlir::Operation *op) { return p.escapes(op); },
      *p.legality, makeRoundDevice());
}

/// x is read by `width` ops, and their sum is multiplied by each of them: all
/// are live at once.
static std::string makeWide(unsigned width, llvm::StringRef element = "f32") {
  std::string type = ("tensor<4096x" + element + ">").str(), text;
  text = "func.func @main(%x: " + type + ") -> " + type + " {\n";
  auto line = [&](const std::string &result, const char *op,
                  const std::string &operands) {
    text += "  %" + result + " = fusion." + op + " " + operands + " : " + type +
            "\n";
  };
  auto name = [](const char *prefix, unsigned i) {
    return prefix + std::to_string(i);
  };
  line("a0", "neg", "%x");
  for (unsigned i = 1; i < width; ++i)
    line(name("a", i), "mul", "%" + name("a", i - 1) + ", %x");
  line("s0", "add", "%a0, %a1");
  for (unsigned i = 1; i + 1 < width; ++i)
    line(name("s", i), "add",
         "%" + name("s", i - 1) + ", %" + name("a", i + 1));
  std::string sum = name("s", width - 2);
  for (unsigned i = 0; i < width; ++i) {
    line(name("t", i), "mul", "%" + sum + ", %" + name("a", i));
    sum = name("t", i);
  }
  return text + "  return %" + sum + " : " + type + "\n}\n";
}

TEST(KernelResources, CountsLiveValues) {
  // Both inputs of the add, then add and x, then the result.
  Parsed p(R"(
    func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
      %0 = fusion.add %x, %y : tensor<64xf32>
      %1 = fusion.exp %0 : tensor<64xf32>
      %2 = fusion.mul %1, %x : tensor<64xf32>
      return %2 : tensor<64xf32>
    })");
  KernelResources r = estimate(p, GroupKind::Loop);
  EXPECT_EQ(r.elementsPerThread, 4);
  EXPECT_EQ(r.registersPerThread, 2 * 4 + 24);
  EXPECT_EQ(r.registersPerUnit, (2 * 4 + 24) * 256 * 2);
  EXPECT_EQ(r.loads, 2);
  EXPECT_EQ(r.parameterBytes, 3 * 8 + 16);
  EXPECT_EQ(r.peak, p.ops[0]);
  EXPECT_FALSE(checkDeviceLimits(r, makeRoundDevice()).has_value());
}

TEST(KernelResources, DoublesTakeTwoAndHalvesAreComputedInFloat) {
  Parsed doubles(makeWide(10, "f64"));
  // As the last of ten is computed: nine others, and both elements of x.
  EXPECT_EQ(estimate(doubles, GroupKind::Loop).registersPerThread,
            9 * 2 + 2 * 2 + 24);
  Parsed halves(makeWide(10, "f16"));
  // Eight elements of x are in four registers, a computed one in one.
  EXPECT_EQ(estimate(halves, GroupKind::Loop).elementsPerThread, 8);
  EXPECT_EQ(estimate(halves, GroupKind::Loop).registersPerThread, 9 + 4 + 24);
}

TEST(KernelResources, OutputsStayLiveToTheEnd) {
  Parsed p(R"(
    func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
      %0 = fusion.exp %x : tensor<64xf32>
      %1 = fusion.exp %0 : tensor<64xf32>
      %2 = fusion.exp %1 : tensor<64xf32>
      return %0, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
    })");
  EXPECT_EQ(estimate(p, GroupKind::Loop).registersPerThread, 3 * 4 + 24);
}

TEST(KernelResources, EightyKiloRegistersAreTooMany) {
  // 132 values and x as the last is computed: (132 + 4 + 24) * 512 threads,
  // which are 81920 = 80 * 1024.
  Parsed p(makeWide(133));
  KernelResources r = estimate(p, GroupKind::Loop);
  EXPECT_EQ(r.registersPerThread, 160);
  EXPECT_EQ(r.registersPerUnit, 80 * 1024);
  auto verdict = checkDeviceLimits(r, makeRoundDevice());
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rule, FusionRule::RegistersUnit);
  EXPECT_EQ(verdict->value, 81920);
  EXPECT_EQ(verdict->limit, 65536);
  // (100 + 4 + 24) * 512 = 65536 is just possible.
  Parsed most(makeWide(101));
  KernelResources fits = estimate(most, GroupKind::Loop);
  EXPECT_EQ(fits.registersPerUnit, 65536);
  EXPECT_FALSE(checkDeviceLimits(fits, makeRoundDevice()).has_value());
}

TEST(KernelResources, AThreadHasALimitOfItsOwn) {
  // 232 + 4 + 24 = 260 > 255.
  Parsed p(makeWide(233));
  auto verdict =
      checkDeviceLimits(estimate(p, GroupKind::Loop), makeRoundDevice());
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rule, FusionRule::RegistersThread);
  EXPECT_EQ(verdict->value, 260);
  EXPECT_EQ(verdict->limit, 255);
}

TEST(KernelResources, RowsAreSpreadOverThreads) {
  auto row = [](int64_t length) {
    std::string type = "tensor<128x" + std::to_string(length) + "xf32>";
    return "func.func @main(%x: " + type + ") -> " + type +
           " {\n %0 = fusion.softmax %x axis = 1 : " + type +
           "\n return %0 : " + type + "\n}";
  };
  // 50 vectors of four: a warp, two each. The row, a vector to be stored, and
  // the six registers of a loop over vectors.
  Parsed small(row(200));
  KernelResources r = estimate(small, GroupKind::RowReduce);
  EXPECT_EQ(r.elementsPerThread, 8);
  EXPECT_EQ(r.threadsPerBlock, 128);
  EXPECT_EQ(r.residentBlocks, 4);
  EXPECT_EQ(r.sharedBytes, 0);
  EXPECT_EQ(r.registersPerThread, 8 + 4 + 6 + 24);
  // 2048 vectors, eight each: 256 threads, whose 8 warps exchange one value.
  Parsed large(row(8192));
  r = estimate(large, GroupKind::RowReduce);
  EXPECT_EQ(r.elementsPerThread, 32);
  EXPECT_EQ(r.threadsPerBlock, 256);
  EXPECT_EQ(r.residentBlocks, 2);
  EXPECT_EQ(r.sharedBytes, 8 * 4);
  EXPECT_EQ(r.registersPerThread, 32 + 4 + 6 + 24);
}

TEST(KernelResources, SharedMemoryAndArgumentsHaveLimits) {
  // A reduction of columns transposes through 32 x 33 values of 4 bytes: twelve
  // of them are 50688 bytes of the 50000 that a block has, eleven are 46464.
  for (int64_t count : {11, 12}) {
    std::string text = "func.func @main(%x: tensor<64x64xf32>) -> (", values,
                types;
    std::string body;
    for (int64_t i = 0; i < count; ++i) {
      std::string name = "%r" + std::to_string(i);
      body += "  " + name + " = fusion.reduce " + (i % 2 ? "max" : "sum") +
              ", %x dims = [0] : tensor<64x64xf32>\n";
      values += (i ? ", " : "") + name;
      types += i ? ", tensor<64xf32>" : "tensor<64xf32>";
    }
    text +=
        types + ") {\n" + body + "  return " + values + " : " + types + "\n}\n";
    Parsed p(text);
    KernelResources r = estimate(p, GroupKind::ColumnReduce);
    EXPECT_EQ(r.sharedBytes, count * 32 * 33 * 4);
    EXPECT_EQ(r.parameterBytes, 8 * (1 + count) + 16);
    DeviceModel device = makeRoundDevice();
    device.sharedBytesPerUnit = 1000000;
    auto verdict = checkDeviceLimits(r, device);
    EXPECT_EQ(verdict.has_value(), count == 12);
    if (verdict) {
      EXPECT_EQ(verdict->rule, FusionRule::SharedMemory);
      EXPECT_EQ(verdict->value, 50688);
      EXPECT_EQ(verdict->limit, 50000);
    }
    // Two resident blocks share what a multiprocessor has.
    verdict = checkDeviceLimits(r, makeRoundDevice());
    EXPECT_EQ(verdict.has_value(), count == 12);
    device.sharedBytesPerBlock = 1000000;
    device.parameterBytes = r.parameterBytes - 1;
    verdict = checkDeviceLimits(r, device);
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->rule, FusionRule::Arguments);
  }
}

TEST(KernelResources, CutsCountValuesNotInputs) {
  Parsed p(R"(
    func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
      %0 = fusion.exp %x : tensor<64xf32>
      %1 = fusion.neg %0 : tensor<64xf32>
      %2 = fusion.mul %1, %0 : tensor<64xf32>
      %3 = fusion.add %2, %y : tensor<64xf32>
      return %3 : tensor<64xf32>
    })");
  EXPECT_EQ(countLiveAcrossCuts(p.ops), (llvm::SmallVector<int64_t>{1, 2, 1}));
}

namespace {
/// Answers as told, and counts how often it is asked to compile.
struct Scripted : KernelProbe {
  std::optional<ProbeResult> compile(GroupOp) override {
    ++compiled;
    return answer;
  }
  ProbeResult answer;
  int compiled = 0;
};
} // namespace

TEST(KernelResources, ProbesOverruleEstimatesOnceABody) {
  Parsed p(R"(
    func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
      %0 = fusion.group loop (%a = %x : tensor<64xf32>) -> tensor<64xf32> {
        %2 = fusion.exp %a : tensor<64xf32>
        fusion.yield %2 : tensor<64xf32>
      }
      %1 = fusion.group loop (%b = %y : tensor<64xf32>) -> tensor<64xf32> {
        %3 = fusion.exp %b : tensor<64xf32>
        fusion.yield %3 : tensor<64xf32>
      }
      return %0, %1 : tensor<64xf32>, tensor<64xf32>
    })");
  Scripted probe;
  probe.answer.registersPerThread = 40;
  probe.answer.spillBytes = 8;
  for (mlir::Operation *op : p.ops) {
    KernelResources r = estimateResources(llvm::cast<GroupOp>(op), *p.legality,
                                          makeRoundDevice(), &probe);
    EXPECT_TRUE(r.isMeasured);
    EXPECT_EQ(r.registersPerUnit, 40 * 512);
    auto verdict = checkDeviceLimits(r, makeRoundDevice());
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->rule, FusionRule::Spills);
    EXPECT_EQ(verdict->value, 8);
  }
  EXPECT_EQ(probe.compiled, 1);
}
