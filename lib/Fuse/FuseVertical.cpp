//===- FuseVertical.cpp - Fuses producers into their consumers ------------===//
//
// The thin pass around the decision (VerticalPlan.cpp) and the rewrite
// (FormGroups.cpp): checks what it is given, and says what was decided, in
// remarks and in the record that plan files are written from.
//
//===----------------------------------------------------------------------===//
#include "DecidingPass.h"
#include "RecordVertical.h"
#include "VerticalPlan.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "fusion-fuse-vertical"

namespace fusion {
#define GEN_PASS_DEF_FUSEVERTICAL
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// The reader that a clone or view stands for.
static const FuseNode &getReader(const FuseGraph &graph, unsigned node) {
  while (graph[node].isClone)
    node = graph[node].consumers.front();
  return graph[node];
}

/// One remark for each pair, named after the rule that decided.
static void emitDecisions(const FuseGraph &graph, const VerticalPlan &plan) {
  MLIRContext *context = nullptr;
  for (const FusePair &pair : plan.pairs) {
    Operation *producer = graph[pair.producer].op;
    if (!context && !(context = producer->getContext())->getRemarkEngine())
      return;
    const FuseNode &reader = getReader(graph, pair.consumer);
    if (reader.family == OpFamily::Outside)
      continue;
    const FusionRuleInfo &info = getFusionRuleInfo(pair.verdict.rule);
    remark::RemarkOpts options =
        remark::RemarkOpts::name(info.id).category("fusion");
    auto remark = info.accepts ? remark::passed(reader.op->getLoc(), options)
                               : remark::missed(reader.op->getLoc(), options);
    remark << remark::reason("{0}", info.text)
           << remark::metric("producer", producer->getName().getStringRef())
           << remark::metric("consumer", reader.op->getName().getStringRef())
           << remark::metric("bytes", pair.bytes);
    if (info.accepts)
      remark << remark::metric("kind", stringifyGroupKind(pair.verdict.kind));
    if (pair.separateUs > 0)
      remark << remark::metric("us_unfused",
                               llvm::formatv("{0:f2}", pair.separateUs).str())
             << remark::metric("us_fused",
                               llvm::formatv("{0:f2}", pair.fusedUs).str());
    if (pair.verdict.limit || pair.verdict.value)
      remark << remark::metric("value", pair.verdict.value)
             << remark::metric("limit", pair.verdict.limit);
    if (pair.verdict.at && !info.accepts)
      remark << remark::metric("at", pair.verdict.at->getName().getStringRef());
  }
}

/// The rules that join two ops, so that those without a pair are told.
static void declareRules(Operation *function) {
  for (FusionRule rule :
       {FusionRule::FuseEpilogue, FusionRule::FuseRowReduce,
        FusionRule::FuseColumnReduce, FusionRule::FuseLoop,
        FusionRule::FuseScatterUpdates, FusionRule::CloneCheap}) {
    const FusionRuleInfo &info = getFusionRuleInfo(rule);
    declareRewrite(function, info.id, info.text);
  }
}

namespace {

struct FuseVertical
    : DecidingPass<fusion::impl::FuseVerticalBase<FuseVertical>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override {
    FuseGraph graph(block);
    VerticalRecorder recorder(findDecisions(), block, graph);
    if (!graph.hasUngroupedWork())
      return success();
    declareRules(function);
    GroupLimits limits;
    limits.maxOps = maxOps;
    limits.maxInputs = maxInputs;
    limits.maxGroupOps = maxGroupOps;
    limits.maxLoads = maxLoads;
    limits.compileBudget = compileBudget;
    limits.argumentBytes = model->getDevice().parameterBytes;
    FailureOr<FusionLegality> legality =
        FusionLegality::create(function, limits);
    if (failed(legality) ||
        failed(recorder.readPlan(function, *model, separate)))
      return failure();
    VerticalPlan plan = separate
                            ? planSeparate(graph, *legality)
                            : planVertical(graph, *legality, *model,
                                           memoryLimit, recorder.getRequest());
    LLVM_DEBUG(plan.print(llvm::dbgs(), graph));
    emitDecisions(graph, plan);
    recorder.recordPairs(plan);
    formGroups(block, graph, plan, [&](const FormedGroup &formed) {
      recorder.recordGroup(plan.groups[formed.planned], formed);
    });
    return recorder.finish();
  }
};

} // namespace
