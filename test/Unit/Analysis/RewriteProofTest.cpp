//===- RewriteProofTest.cpp - Nothing but what was declared changed -------===//
//
// A pass that replaces one value, as it should be and with one thing wrong
// each.
//
//===----------------------------------------------------------------------===//
#include "AnalysisFixture.h"

#include "fusion/Analysis/RewriteProof.h"

#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace fusion;
using namespace fusion::test;

namespace {

/// A function of two halves: x * sigmoid(x), to be replaced, and x - y, which
/// is none of the pass's business.
struct RewriteProofTest : testing::Test {
  Parsed parsed{R"(
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = fusion.sigmoid %x : tensor<4xf32>
      %1 = fusion.mul %x, %0 : tensor<4xf32>
      %2 = fusion.sub %x, %y : tensor<4xf32>
      return %1, %2 : tensor<4xf32>, tensor<4xf32>
    })"};
  RewriteLog log{nullptr};
  RewriteProof proof{parsed.main, "test-rewrite", &log};
  std::string message;

  Operation *op(unsigned i) { return parsed.ops[i]; }

  /// Replaces the product, with a declaration or without.
  void raise(bool isDeclared) {
    proof.start();
    OpBuilder builder(op(1));
    Value x = parsed.main.getArgument(0);
    Value silu = SiluOp::create(builder, op(1)->getLoc(), x.getType(), x);
    if (isDeclared)
      proof.declare(op(1)->getResult(0), silu, /*isExact=*/false);
    op(1)->getResult(0).replaceAllUsesWith(silu);
    for (unsigned i : {1, 0}) {
      proof.forget(op(i));
      op(i)->erase();
    }
  }

  bool holds() {
    ScopedDiagnosticHandler handler(
        &parsed.context, [&](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            message = diagnostic.str();
        });
    return succeeded(proof.verify());
  }
};

} // namespace

TEST_F(RewriteProofTest, DeclaredValuesMayChange) {
  raise(/*isDeclared=*/true);
  EXPECT_TRUE(holds()) << message;
}

TEST_F(RewriteProofTest, ANewOpMayEqualOneThatWasThere) {
  // The graph has the named op on the same value already.
  OpBuilder builder(op(2));
  Value x = parsed.main.getArgument(0);
  Value there = SiluOp::create(builder, op(2)->getLoc(), x.getType(), x);
  op(2)->setOperand(0, there);
  raise(/*isDeclared=*/true);
  EXPECT_TRUE(holds()) << message;
}

TEST_F(RewriteProofTest, UndeclaredOnesMayNot) {
  raise(/*isDeclared=*/false);
  EXPECT_FALSE(holds());
  EXPECT_EQ(message,
            "internal error: the graph behind test-rewrite is not the graph "
            "before it: result 0 is another expression");
}

TEST_F(RewriteProofTest, NothingElseMayChange) {
  raise(/*isDeclared=*/true);
  // Both operands are values that were there; their order is not.
  Operation *sub = op(2);
  Value first = sub->getOperand(0);
  sub->setOperand(0, sub->getOperand(1));
  sub->setOperand(1, first);
  EXPECT_FALSE(holds());
  EXPECT_EQ(message,
            "internal error: the graph behind test-rewrite is not the graph "
            "before it: result 1 is another expression");
}

TEST_F(RewriteProofTest, ADeclaredValueInTheWrongPlaceIsFound) {
  raise(/*isDeclared=*/true);
  // The second result was never declared to be silu.
  Operation *end = parsed.main.getBody().front().getTerminator();
  end->setOperand(1, end->getOperand(0));
  EXPECT_FALSE(holds());
}

TEST_F(RewriteProofTest, TheLogHasBothSideBySide) {
  log.start(*parsed.module);
  raise(/*isDeclared=*/true);
  ASSERT_EQ(log.getRewrites().size(), 1u);
  const LoggedRewrite &rewrite = log.getRewrites().front();
  EXPECT_EQ(rewrite.rule, "test-rewrite");
  EXPECT_TRUE(isa<MulOp>(rewrite.before.getOwner()));
  EXPECT_TRUE(isa<SiluOp>(rewrite.after.getOwner()));
  // Of one function, the copy, in which the old value is still what is read.
  EXPECT_EQ(rewrite.before.getOwner()->getBlock(),
            rewrite.after.getOwner()->getBlock());
  EXPECT_NE(rewrite.before.getOwner()->getBlock(), op(2)->getBlock());
  EXPECT_FALSE(rewrite.before.use_empty());
  EXPECT_TRUE(rewrite.after.use_empty());
}

TEST_F(RewriteProofTest, WhatReadsANewValueIsComparedOnTheOldOne) {
  log.start(*parsed.module);
  proof.start();
  // Twice: silu(x) for x * sigmoid(x), then relu(silu(x)) for x - y.
  OpBuilder builder(op(2));
  Location loc = op(2)->getLoc();
  Value x = parsed.main.getArgument(0);
  Value silu = SiluOp::create(builder, loc, x.getType(), x);
  proof.declare(op(1)->getResult(0), silu, /*isExact=*/false);
  Value relu = ReluOp::create(builder, loc, x.getType(), silu);
  proof.declare(op(2)->getResult(0), relu, /*isExact=*/false);
  ASSERT_EQ(log.getRewrites().size(), 2u);
  EXPECT_EQ(log.getRewrites()[1].after.getOwner()->getOperand(0),
            log.getRewrites()[0].before);
}
