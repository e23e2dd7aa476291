//===- Canonicalize.cpp - Canonical form by exact rewrites ----------------===//
//
// Local patterns to a fixed point, then equal ops merged, until neither finds
// anything; then unused parameters go. The patterns are the dialect's own and
// those of ArithmeticPatterns.cpp and StructuralPatterns.cpp.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/Weights.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#define DEBUG_TYPE "fusion-canonicalize"

namespace fusion {
#define GEN_PASS_DEF_CANONICALIZE
#include "fusion/Simplify/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Merging equal ops can bring two operands together that a pattern waits for,
/// and the other way round; more rounds than this have never been needed.
static constexpr int kMaxRounds = 8;

/// The ops of a function but for those inside groups, last first: the driver
/// takes them from the back.
static SmallVector<Operation *>
getOpsOutsideGroups(FunctionOpInterface function) {
  SmallVector<Operation *> ops;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != function.getOperation())
      ops.push_back(op);
    return isa<GroupOp>(op) ? WalkResult::skip() : WalkResult::advance();
  });
  std::reverse(ops.begin(), ops.end());
  return ops;
}

namespace {
struct Canonicalize final : fusion::impl::CanonicalizeBase<Canonicalize> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet owned(context);
    auto *dialect = context->getLoadedDialect<FusionDialect>();
    dialect->getCanonicalizationPatterns(owned);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (&op.getDialect() == dialect)
        op.getCanonicalizationPatterns(owned, context);
    populateArithmeticPatterns(owned);
    populateStructuralPatterns(owned);
    patterns = FrozenRewritePatternSet(std::move(owned));
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    GreedyRewriteConfig config;
    config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
    // Top-down: a pattern sees operands that are already canonical.
    config.setUseTopDownTraversal(true);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    IRRewriter rewriter(module.getContext());
    for (auto function : module.getOps<FunctionOpInterface>()) {
      if (function.isExternal())
        continue;
      for (int round = 0; round < kMaxRounds; ++round) {
        bool rewritten = false, merged = false;
        if (failed(rewrite(function, config, &rewritten)))
          function.emitWarning("canonical form not reached");
        DominanceInfo dominance(function);
        eliminateCommonSubExpressions(rewriter, dominance, function, &merged);
        if (!merged)
          break;
      }
    }
    eraseUnusedParameters(module);
  }

private:
  /// A group's kind was chosen for the ops it has: they stay as they are.
  LogicalResult rewrite(FunctionOpInterface function,
                        GreedyRewriteConfig config, bool *changed) {
    SmallVector<Operation *> ops = getOpsOutsideGroups(function);
    if (llvm::none_of(ops, llvm::IsaPred<GroupOp>))
      return applyPatternsGreedily(function, patterns, config, changed);
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    return applyOpPatternsGreedily(ops, patterns, config, changed);
  }

  FrozenRewritePatternSet patterns;
};
} // namespace
