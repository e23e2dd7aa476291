//===- VerifyRewrites.cpp - Replacements against what they replaced -------===//
//
// One run of the reference evaluator over the log, in which the old and the new
// expression stand side by side. Values are kept from one of the two to the
// other, and no longer.
//
//===----------------------------------------------------------------------===//
#include "GeneratedInputs.h"
#include "fusion/Analysis/RewriteLog.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/Parameters.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Reference/Compare.h"
#include "fusion/Reference/Evaluator.h"

#include "mlir/IR/Remarks.h"

#include <cmath>

namespace fusion {
#define GEN_PASS_DEF_TRACKREWRITES
#define GEN_PASS_DEF_VERIFYREWRITES
#include "fusion/Pipelines/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using reference::Tensor;

/// Roundings of a formula against those of one op: the formula's own, step by
/// step, and values that cancel in it.
static constexpr double kSlack = 4;

/// How near a formula is to another spelling of it, element by element.
static reference::Criterion getCriterion(Operation *op, const Tensor &want) {
  llvm::Expected<reference::AccuracyClass> found =
      reference::getAccuracyClass(op);
  if (!found || *found != reference::AccuracyClass::Composite) {
    llvm::consumeError(found.takeError());
    return reference::Criterion::makeBits();
  }
  llvm::Expected<reference::Criterion> one =
      reference::getCriterion(op, {}, want);
  if (!one) {
    llvm::consumeError(one.takeError());
    return reference::Criterion::makeBits();
  }
  double largest = 0;
  for (int64_t i = 0; i < want.getNumElements(); ++i)
    if (double value = std::abs(want.getFloat(i)); std::isfinite(value))
      largest = std::max(largest, value);
  return reference::Criterion::makeRelative(
      0, kSlack * (one->atol + one->rtol * largest));
}

namespace {

/// Checks what was replaced in one function.
class RewriteCheck {
public:
  RewriteCheck(func::FuncOp function, ArrayRef<const LoggedRewrite *> rewrites,
               reference::Options options, uint64_t seed)
      : function(function), rewrites(rewrites), options(std::move(options)),
        seed(seed) {}

  LogicalResult run();

private:
  LogicalResult runBatch(int64_t batch);

  func::FuncOp function;
  ArrayRef<const LoggedRewrite *> rewrites;
  reference::Options options;
  uint64_t seed;
};

} // namespace

LogicalResult RewriteCheck::runBatch(int64_t batch) {
  FailureOr<std::vector<Tensor>> inputs = generateInputs(function, batch, seed);
  if (failed(inputs))
    return failure();
  // Replaced values by their rewrite until it was compared, which comes behind.
  llvm::DenseMap<Operation *, SmallVector<unsigned, 1>> beforeOf, afterOf;
  for (auto [i, rewrite] : llvm::enumerate(rewrites)) {
    beforeOf[rewrite->before.getOwner()].push_back(i);
    afterOf[rewrite->after.getOwner()].push_back(i);
  }
  llvm::DenseMap<unsigned, Tensor> wanted;
  std::optional<std::pair<unsigned, std::string>> fault;
  reference::Options own = options;
  own.onResult = [&](Operation *op, ArrayRef<Tensor> results, int64_t) {
    if (fault)
      return;
    for (unsigned i : beforeOf.lookup(op))
      wanted[i] = results[rewrites[i]->before.getResultNumber()];
    for (unsigned i : afterOf.lookup(op)) {
      auto it = wanted.find(i);
      if (it == wanted.end())
        continue;
      reference::Comparison comparison = reference::compare(
          results[rewrites[i]->after.getResultNumber()], it->second,
          rewrites[i]->isExact ? reference::Criterion::makeBits()
                               : getCriterion(op, it->second));
      wanted.erase(it);
      if (!comparison.passed && !fault)
        fault = {i, comparison.message};
    }
  };
  auto results = reference::evaluate(function, *inputs, own);
  if (!results)
    return reportUnchecked(function, results.takeError());
  if (!fault)
    return success();
  const LoggedRewrite &rewrite = *rewrites[fault->first];
  return emitError(rewrite.before.getOwner(), ErrorKind::Check)
         << "the rewrite " << rewrite.rule << " changes the value of '"
         << rewrite.before.getOwner()->getName() << "', now of '"
         << rewrite.after.getOwner()->getName() << "', batch " << batch << ": "
         << fault->second;
}

LogicalResult RewriteCheck::run() {
  std::set<int64_t> batches = getBatches(function);
  for (int64_t batch : batches)
    if (failed(runBatch(batch)))
      return failure();
  remark::analysis(
      function.getLoc(),
      remark::RemarkOpts::name("verify-rewrites").category("fusion"))
      << remark::add("new expressions compute what the old ones did")
      << remark::metric("rewrites", rewrites.size())
      << remark::metric("batches", batches.size());
  return success();
}

namespace {

struct TrackRewrites : fusion::impl::TrackRewritesBase<TrackRewrites> {
  using TrackRewritesBase::TrackRewritesBase;

  void runOnOperation() override {
    getAnalysis<RewriteLog>().start(getOperation());
    markAllAnalysesPreserved();
  }
};

struct VerifyRewrites : fusion::impl::VerifyRewritesBase<VerifyRewrites> {
  using VerifyRewritesBase::VerifyRewritesBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto log = getCachedAnalysis<RewriteLog>();
    if (!log) {
      getOperation().emitError("no rewrites were logged; run "
                               "fusion-track-rewrites before the passes that "
                               "replace values");
      return signalPassFailure();
    }
    // It was checked already.
    if (!log->get().getModule())
      return;
    if (StringRef rule = log->get().getUnlogged(); !rule.empty()) {
      getOperation().emitError()
          << "what " << rule << " replaced was not logged, as a pass behind "
          << "fusion-track-rewrites changed other values; put "
          << "fusion-track-rewrites right before it";
      return signalPassFailure();
    }
    reference::Options options;
    options.moduleDirectory =
        getParameterFolder(getOperation(), parameterFolder);
    options.memoryLimit = memoryLimit;
    for (auto function : log->get().getModule().getOps<func::FuncOp>()) {
      SmallVector<const LoggedRewrite *> rewrites;
      for (const LoggedRewrite &rewrite : log->get().getRewrites())
        if (rewrite.function == function)
          rewrites.push_back(&rewrite);
      if (!rewrites.empty() &&
          failed(RewriteCheck(function, rewrites, options, seed).run()))
        return signalPassFailure();
    }
    log->get().stop();
  }
};

} // namespace
