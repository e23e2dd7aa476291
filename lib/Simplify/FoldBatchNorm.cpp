//===- FoldBatchNorm.cpp - Fold inference BatchNorms into weights ---------===//
//
// Asks BatchNormAnalysis about each BatchNorm, in program order, and applies
// what it allows: new weights and a new op, the old ones untouched. A fold may
// feed the next (a BatchNorm of a BatchNorm), so each is decided on the graph
// that the folds before it left.
//
//===----------------------------------------------------------------------===//
#include "BatchNormAnalysis.h"
#include "RewriteRecord.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/IR/Weights.h"
#include "fusion/Simplify/Passes.h"
#include "fusion/Support/SeededBugs.h"

#define DEBUG_TYPE "fusion-fold-batch-norm"

namespace fusion {
#define GEN_PASS_DEF_FOLDBATCHNORM
#include "fusion/Simplify/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kRule = "fold-batch-norm";

static Value getWeights(Operation *producer) {
  if (auto conv = dyn_cast<ConvOp>(producer))
    return conv.getWeights();
  if (auto conv = dyn_cast<ConvTransposeOp>(producer))
    return conv.getWeights();
  return cast<MatmulOp>(producer).getRhs();
}

/// Builds the op with the folded weights; returns the value of the norm.
static Value buildFolded(OpBuilder &builder, const BatchNormFold &fold,
                         Value weights, Value bias) {
  Location loc = fold.producer->getLoc();
  if (auto conv = dyn_cast<ConvOp>(fold.producer))
    return ConvOp::create(
        builder, loc, conv.getType(), conv.getInput(), weights, bias,
        conv.getStridesAttr(), conv.getPadLowAttr(), conv.getPadHighAttr(),
        conv.getDilationsAttr(), conv.getGroupsAttr(), conv.getLayoutAttr());
  if (auto conv = dyn_cast<ConvTransposeOp>(fold.producer))
    return ConvTransposeOp::create(
        builder, loc, conv.getType(), conv.getInput(), weights, bias,
        conv.getStridesAttr(), conv.getPadLowAttr(), conv.getPadHighAttr(),
        conv.getOutputPaddingAttr(), conv.getDilationsAttr(),
        conv.getGroupsAttr(), conv.getLayoutAttr());
  auto matmul = cast<MatmulOp>(fold.producer);
  Value product = MatmulOp::create(
      builder, loc, matmul.getType(), matmul.getLhs(), weights,
      matmul.getTransposeLhsAttr(), matmul.getTransposeRhsAttr());
  int64_t axis = matmul.getType().getRank() - 1;
  BatchNormOp norm = fold.norm;
  Value added = BroadcastOp::create(builder, norm.getLoc(), matmul.getType(),
                                    bias, builder.getDenseI64ArrayAttr({axis}),
                                    builder.getI64IntegerAttr(fold.batchScale));
  return AddOp::create(builder, norm.getLoc(), matmul.getType(), product,
                       added);
}

static void applyFold(const BatchNormFold &fold, WeightsBuilder &weights) {
  BatchNormOp norm = fold.norm;
  OpBuilder builder(norm);
  Location loc = fold.producer->getLoc();
  Value old = getWeights(fold.producer);
  Value newWeights = weights.build(builder, loc, old, "_folded", fold.weights);
  Value newBias = weights.build(builder, loc, old, "_folded_bias", fold.bias);
  norm.getResult().replaceAllUsesWith(
      buildFolded(builder, fold, newWeights, newBias));
  eraseDead(norm);
}

static void reportFold(const BatchNormFold &fold, Location loc) {
  if (!fold) {
    remark::missed(loc, getRemarkOpts(kRule))
        << remark::reason("{0}", fold.refusal);
    return;
  }
  remark::passed(loc, getRemarkOpts(kRule))
      << remark::add("folded into {0}{1}", fold.clone ? "a copy of " : "",
                     fold.producer->getName().getStringRef())
      << remark::metric("Channels", fold.bias.getNumElements())
      << remark::metric("WeightBytes", *getByteSize(fold.weights.getType()))
      << remark::metric("BiasAdds", int64_t(fold.adds.size()))
      << remark::metric("FlopsPerElement", fold.flopsPerElement);
}

namespace {
struct FoldBatchNorm final : fusion::impl::FoldBatchNormBase<FoldBatchNorm> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    declareRewrite(module, kRule,
                   "a batch_norm behind a convolution or product of constants");
    SmallVector<BatchNormOp> norms;
    int64_t convolutions = 0;
    module.walk([&](Operation *op) {
      if (auto norm = dyn_cast<BatchNormOp>(op))
        norms.push_back(norm);
      convolutions += isa<ConvOp, ConvTransposeOp>(op);
    });
    if (norms.empty())
      return markAllAnalysesPreserved();
    if (exactRewritesOnly) {
      if (foldsOnly)
        return markAllAnalysesPreserved();
      remark::missed(module.getLoc(), getRemarkOpts(kRule))
          << remark::reason("{0} batch_norms kept: folding changes rounding, "
                            "and only exact rewrites are asked for",
                            norms.size());
      return markAllAnalysesPreserved();
    }

    ConstantReader reader(module, getParameterFolder(module, parameterFolder));
    WeightsBuilder weights(module, reader);
    int64_t folded = 0;
    for (BatchNormOp norm : norms) {
      if (seededBug(1) && folded > 0)
        break;
      BatchNormFold fold = analyzeBatchNorm(norm, reader, cloneFlopsPerElement);
      if (fold || !foldsOnly)
        reportFold(fold, norm.getLoc());
      if (!fold)
        continue;
      applyFold(fold, weights);
      ++folded;
    }
    recordRewrites(module, kRule, folded);
    if (folded > 0)
      eraseUnusedParameters(module);
    else if (convolutions > 0 && !foldsOnly)
      remark::missed(module.getLoc(), getRemarkOpts(kRule))
          << remark::reason("pattern matched nothing: {0} convolutions, {1} "
                            "batch_norms, 0 folded",
                            convolutions, norms.size());
  }
};
} // namespace
