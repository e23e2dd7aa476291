//===- SplitGroupsTest.cpp - Groups cut by what their kernels take --------===//
//
// With a probe the numbers are those of compiled kernels: a group that spills
// is cut, compiled again and cut again, each body once.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/KernelProbe.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace fusion;

namespace {

/// A compiler whose kernels spill from `most` ops on.
struct SpillingProbe : KernelProbe {
  explicit SpillingProbe(int64_t most) : most(most) {}
  std::optional<ProbeResult> compile(GroupOp group) override {
    ++compiled;
    int64_t ops = llvm::range_size(group.getBodyBlock()->without_terminator());
    ProbeResult result;
    result.registersPerThread = 32;
    result.spillBytes = ops > most ? 4 * (ops - most) : 0;
    return result;
  }
  int64_t most;
  int compiled = 0;
};

/// A group of exp, neg, exp, neg, ... of `length` ops.
struct Chain {
  explicit Chain(unsigned length) {
    DialectRegistry registry;
    registry.insert<FusionDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    std::string text =
        "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
        "  %g = fusion.group loop (%v0 = %x : tensor<64xf32>) -> "
        "tensor<64xf32> {\n";
    for (unsigned i = 0; i < length; ++i)
      text += "    %v" + std::to_string(i + 1) + " = fusion." +
              (i % 2 ? "neg" : "exp") + " %v" + std::to_string(i) +
              " : tensor<64xf32>\n";
    text += "    fusion.yield %v" + std::to_string(length) +
            " : tensor<64xf32>\n  }\n  return %g : tensor<64xf32>\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
  }

  /// Sizes of the groups behind the pass.
  SmallVector<int64_t> split(KernelProbe *probe) {
    PassManager manager(&context);
    SplitGroupsOptions options;
    options.device = "h200";
    manager.addNestedPass<func::FuncOp>(createSplitGroups(options, probe));
    EXPECT_TRUE(succeeded(manager.run(*module)));
    EXPECT_TRUE(succeeded(verify(*module)));
    SmallVector<int64_t> sizes;
    module->walk([&](GroupOp group) {
      sizes.push_back(
          llvm::range_size(group.getBodyBlock()->without_terminator()));
    });
    return sizes;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

TEST(SplitGroups, SpillsAreCutUntilNoneIsLeft) {
  Chain chain(16);
  SpillingProbe probe(5);
  // 16 -> 8, 8 -> 4, 4, 4, 4. The halves begin with exp: one body each size.
  EXPECT_EQ(chain.split(&probe), (SmallVector<int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(probe.compiled, 3);
}

TEST(SplitGroups, WithoutSpillsNothingIsCut) {
  Chain chain(16);
  SpillingProbe probe(16);
  EXPECT_EQ(chain.split(&probe), (SmallVector<int64_t>{16}));
  EXPECT_EQ(probe.compiled, 1);
  EXPECT_EQ(chain.split(nullptr), (SmallVector<int64_t>{16}));
}

TEST(SplitGroups, WhatSpillsAloneStays) {
  Chain chain(3);
  SpillingProbe probe(0);
  EXPECT_EQ(chain.split(&probe), (SmallVector<int64_t>{1, 1, 1}));
  // Idempotent, though none of them is met.
  EXPECT_EQ(chain.split(&probe), (SmallVector<int64_t>{1, 1, 1}));
}

// A group of many ops, far from anything a thread holds: still near-linear.
TEST(SplitGroups, HugeGroupsAreCut) {
  Chain chain(20000);
  SpillingProbe probe(100);
  SmallVector<int64_t> sizes = chain.split(&probe);
  int64_t sum = 0;
  for (int64_t size : sizes) {
    EXPECT_LE(size, 100);
    sum += size;
  }
  EXPECT_EQ(sum, 20000);
}
