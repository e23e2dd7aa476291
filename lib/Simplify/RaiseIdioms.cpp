//===- RaiseIdioms.cpp - Chains of primitives to named ops ----------------===//
//
// Asks the matchers about each op that may be part of an idiom, in program
// order, and replaces what they found. A named op of f32 that decomposes into
// the very chain is an exact rewrite; what may change a bit is counted in the
// module's record.
//
//===----------------------------------------------------------------------===//
#include "Idioms.h"
#include "RewriteRecord.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Analysis/RewriteProof.h"
#include "fusion/IR/Weights.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Debug.h"

#define DEBUG_TYPE "fusion-raise-idioms"

namespace fusion {
#define GEN_PASS_DEF_RAISEIDIOMS
#include "fusion/Simplify/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kRule = "raise-idioms";

/// A value for each column, in the shape that a norm takes.
static Value buildPerColumn(OpBuilder &builder, const Idiom &idiom,
                            Value source) {
  if (!source)
    return {};
  RankedTensorType input = getTensorType(idiom.input);
  auto type = RankedTensorType::get(input.getShape().drop_front(idiom.axis),
                                    input.getElementType());
  if (source.getType() == type)
    return source;
  return ReshapeOp::create(builder, source.getLoc(), type, source);
}

template <typename NormOp>
static Value buildNorm(OpBuilder &builder, Location loc, const Idiom &idiom) {
  Value scale = buildPerColumn(builder, idiom, idiom.scale);
  Value bias = buildPerColumn(builder, idiom, idiom.bias);
  return NormOp::create(builder, loc, idiom.input.getType(), idiom.input, scale,
                        bias, builder.getF64FloatAttr(idiom.epsilon),
                        builder.getI64IntegerAttr(idiom.axis));
}

static Value buildNamed(OpBuilder &builder, Location loc, const Idiom &idiom) {
  IntegerAttr axis = builder.getI64IntegerAttr(idiom.axis);
  Type type = idiom.input.getType();
  switch (idiom.kind) {
  case IdiomKind::LayerNorm:
    return buildNorm<LayerNormOp>(builder, loc, idiom);
  case IdiomKind::RmsNorm:
    return buildNorm<RmsNormOp>(builder, loc, idiom);
  case IdiomKind::Softmax:
    return SoftmaxOp::create(builder, loc, type, idiom.input, axis);
  case IdiomKind::LogSoftmax:
    return LogSoftmaxOp::create(builder, loc, type, idiom.input, axis);
  case IdiomKind::Gelu:
    return GeluOp::create(builder, loc, type, idiom.gelu, idiom.input);
  case IdiomKind::Silu:
    return SiluOp::create(builder, loc, type, idiom.input);
  }
  llvm_unreachable("unknown idiom");
}

static std::optional<Idiom> match(Operation *op) {
  return TypeSwitch<Operation *, std::optional<Idiom>>(op)
      .Case<SqrtOp, RsqrtOp, PowOp>([](auto op) { return matchNorm(op); })
      .Case<ReduceOp, LogOp>([](auto op) { return matchSoftmax(op); })
      .Case<ErfOp, TanhOp>([](auto op) { return matchGelu(op); })
      .Case<SigmoidOp, ExpOp>([](auto op) { return matchSilu(op); })
      .Default([](auto) { return std::nullopt; });
}

static void reportRefusal(Operation *anchor, const Idiom &idiom,
                          StringRef reason) {
  remark::missed(anchor->getLoc(), getRemarkOpts(kRule))
      << remark::reason("near {0}: {1}", idiom.getOpName(), reason);
}

namespace {
struct RaiseIdioms final : fusion::impl::RaiseIdiomsBase<RaiseIdioms> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    declareRewrite(module, kRule, "primitives that spell a named op");
    auto log = getCachedAnalysis<RewriteLog>();
    int64_t rounded = 0, raised = 0;
    for (auto function : module.getOps<FunctionOpInterface>()) {
      RewriteProof proof(function, kRule, log ? &log->get() : nullptr);
      for (Block &block : function.getFunctionBody())
        rounded += run(block, raised, proof);
      if (failed(proof.verify()))
        return signalPassFailure();
    }
    recordRewrites(module, kRule, rounded);
    markAnalysesPreserved<RewriteLog>();
    if (raised == 0)
      markAllAnalysesPreserved();
  }

private:
  /// Raises what a block holds; returns how many of them may change bits.
  int64_t run(Block &block, int64_t &raised, RewriteProof &proof) {
    SmallVector<Operation *> anchors;
    for (Operation &op : block)
      if (isa<SqrtOp, RsqrtOp, PowOp, ReduceOp, LogOp, ErfOp, TanhOp, SigmoidOp,
              ExpOp>(op))
        anchors.push_back(&op);
    llvm::SmallPtrSet<Operation *, 16> erased;
    int64_t rounded = 0;
    for (Operation *anchor : anchors) {
      if (erased.contains(anchor))
        continue;
      std::optional<Idiom> idiom = match(anchor);
      if (!idiom)
        continue;
      LLVM_DEBUG(idiom->print(llvm::dbgs()));
      if (idiom->refusal.empty() && exactRewritesOnly &&
          !idiom->roundings.empty())
        idiom->refuse("only exact rewrites are asked for, and " +
                      idiom->roundings.front().str());
      if (!idiom->refusal.empty()) {
        reportRefusal(anchor, *idiom, idiom->refusal);
        continue;
      }
      raise(*idiom, erased, proof);
      rounded += !idiom->roundings.empty();
      ++raised;
    }
    return rounded;
  }

  void raise(const Idiom &idiom, llvm::SmallPtrSetImpl<Operation *> &erased,
             RewriteProof &proof) {
    Operation *root = idiom.root;
    llvm::SmallPtrSet<Operation *, 16> ops(idiom.interior.begin(),
                                           idiom.interior.end());
    auto report = remark::passed(root->getLoc(), getRemarkOpts(kRule));
    report << remark::add("raised to {0}", idiom.getOpName())
           << remark::metric("Ops", int64_t(ops.size()))
           << remark::metric("Exact", idiom.roundings.empty());
    if (!idiom.roundings.empty())
      report << remark::metric("Rounding", llvm::join(idiom.roundings, "; "));
    if (!idiom.note.empty())
      report << remark::metric("Note", idiom.note);
    proof.start();
    OpBuilder builder(root);
    Value named = buildNamed(builder, root->getLoc(), idiom);
    // The named op rounds once where it is evaluated, the chain at each step.
    proof.declare(root->getResult(0), named, /*isExact=*/false);
    root->getResult(0).replaceAllUsesWith(named);
    eraseDead(root, [&](Operation *op) {
      erased.insert(op);
      proof.forget(op);
    });
  }
};
} // namespace
