//===- BucketCollectives.cpp - Gradients reduced by few collectives -------===//
//
// The thin pass around the decision (BucketPlan.cpp): drops reductions that
// change nothing, joins the others as planned, and says what was decided. Where
// buckets lie in memory is the schedule phase's matter, which finds them by
// their attribute.
//
//===----------------------------------------------------------------------===//
#include "BucketPlan.h"
#include "DecidingPass.h"
#include "PlainReductions.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "fusion-bucket-collectives"

namespace fusion {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

static std::string formatUs(double us) {
  return llvm::formatv("{0:f2}", us).str();
}

static void emitSums(const BucketPlan &plan, const GradientBucket &bucket) {
  remark::passed(
      plan.sums[bucket.members.front()].op->getLoc(),
      remark::RemarkOpts::name(getFusionRuleInfo(FusionRule::FuseBucket).id)
          .category("fusion"))
      << remark::reason("sums that computation waits for are one collective")
      << remark::metric("bucket", *bucket.number)
      << remark::metric("members", int64_t(bucket.members.size()))
      << remark::metric("bytes", bucket.bytes)
      << remark::metric("us_ready", formatUs(bucket.readyUs));
}

static void emitBucket(const BucketPlan &plan, const GradientBucket &bucket) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseBucket);
  remark::passed(plan.reductions[bucket.members.front()].op->getLoc(),
                 remark::RemarkOpts::name(info.id).category("fusion"))
      << remark::reason("{0}", info.text)
      << remark::metric("bucket", bucket.number.value_or(-1))
      << remark::metric("members", int64_t(bucket.members.size()))
      << remark::metric("bytes", bucket.bytes)
      << remark::metric("size_limit", plan.targetBytes[bucket.key])
      << remark::metric("us_ready", formatUs(bucket.readyUs))
      << remark::metric("us_start", formatUs(bucket.startUs))
      << remark::metric("us_end", formatUs(bucket.endUs))
      << remark::metric("us_exposed", formatUs(bucket.exposedUs));
}

static void emitSplit(const GradientReduction &first, int64_t target) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::SplitGradient);
  auto type = cast<RankedTensorType>(first.op->getOperand(0).getType());
  int64_t parts = llvm::divideCeil(type.getNumElements(), first.end);
  remark::passed(first.op->getLoc(),
                 remark::RemarkOpts::name(info.id).category("fusion"))
      << remark::reason("{0}", info.text) << remark::metric("parts", parts)
      << remark::metric("part_bytes", first.bytes)
      << remark::metric("size_limit", target);
}

static void emitRefusal(const BucketRefusal &refusal) {
  const FusionRuleInfo &info = getFusionRuleInfo(refusal.rule);
  auto remark =
      remark::missed(refusal.op->getLoc(),
                     remark::RemarkOpts::name(info.id).category("fusion"));
  remark << remark::reason("{0}", info.text);
  if (refusal.other) {
    std::string other;
    llvm::raw_string_ostream(other) << refusal.other->getLoc();
    remark << remark::metric("other", other);
  }
  if (refusal.limit)
    remark << remark::metric("value", refusal.value)
           << remark::metric("limit", refusal.limit);
}

static void emitDecisions(const BucketPlan &plan) {
  for (const GradientBucket &bucket : plan.sumBuckets)
    emitSums(plan, bucket);
  for (const GradientBucket &bucket : plan.buckets)
    emitBucket(plan, bucket);
  for (const GradientReduction &reduction : plan.reductions)
    if (reduction.end > 0 && reduction.begin == 0)
      emitSplit(reduction, plan.targetBytes[reduction.key]);
  for (const BucketRefusal &refusal : plan.refusals)
    emitRefusal(refusal);
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

namespace {

/// Joins the reductions of a plan.
class BucketRewriter {
public:
  BucketRewriter(Block &block, const BucketPlan &plan)
      : block(block), plan(plan), builder(block.getParentOp()->getContext()) {}

  void run();

private:
  void setPlace(unsigned place);
  Value getOperand(const GradientReduction &reduction);
  void form(const GradientBucket &bucket,
            ArrayRef<GradientReduction> reductions);

  Block &block;
  const BucketPlan &plan;
  OpBuilder builder;
  /// By place: the last op that was put there.
  llvm::DenseMap<unsigned, Operation *> lastAt;
  unsigned place = 0;
  /// By reduction in parts: its tensor in one dimension.
  llvm::DenseMap<Operation *, Value> flat;
  /// Results of its parts so far, in order.
  llvm::MapVector<Operation *, SmallVector<Value>> parts;
};

} // namespace

void BucketRewriter::setPlace(unsigned where) {
  place = where;
  Operation *&last = lastAt[place];
  if (!last && place > 0)
    last = plan.ops[place - 1];
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(&block);
}

/// What a bucket reduces: the tensor, or a view of a part.
Value BucketRewriter::getOperand(const GradientReduction &reduction) {
  Value operand = reduction.op->getOperand(0);
  if (reduction.end == 0)
    return operand;
  Location loc = reduction.op->getLoc();
  Value &whole = flat[reduction.op];
  auto type = cast<RankedTensorType>(operand.getType());
  auto line = RankedTensorType::get({type.getNumElements()},
                                    type.getElementType(), type.getEncoding());
  if (!whole)
    whole = type.getRank() == 1
                ? operand
                : ReshapeOp::create(builder, loc, line, operand).getResult();
  return SliceOp::create(
             builder, loc,
             line.clone(ArrayRef<int64_t>{reduction.end - reduction.begin}),
             whole, builder.getDenseI64ArrayAttr({reduction.begin}),
             builder.getDenseI64ArrayAttr({reduction.end}),
             builder.getDenseI64ArrayAttr({1}))
      .getResult();
}

void BucketRewriter::form(const GradientBucket &bucket,
                          ArrayRef<GradientReduction> reductions) {
  setPlace(bucket.place);
  SmallVector<Value> operands;
  SmallVector<Type> types;
  SmallVector<Location> locations;
  for (unsigned member : bucket.members) {
    const GradientReduction &reduction = reductions[member];
    Value operand = getOperand(reduction);
    operands.push_back(operand);
    types.push_back(reduction.end > 0 ? operand.getType()
                                      : reduction.op->getResult(0).getType());
    locations.push_back(reduction.op->getLoc());
  }
  Operation *first = reductions[bucket.members.front()].op;
  OperationState state(FusedLoc::get(builder.getContext(), locations),
                       first->getName(), operands, types, first->getAttrs());
  if (bucket.number)
    state.addAttribute(kBucketAttr, builder.getI64IntegerAttr(*bucket.number));
  Operation *joined = builder.create(state);
  for (auto [member, result] :
       llvm::zip(bucket.members, joined->getResults())) {
    const GradientReduction &reduction = reductions[member];
    if (reduction.end == 0) {
      reduction.op->getResult(0).replaceAllUsesWith(result);
      continue;
    }
    SmallVector<Value> &results = parts[reduction.op];
    results.push_back(result);
    auto type = cast<RankedTensorType>(reduction.op->getOperand(0).getType());
    if (reduction.end < type.getNumElements())
      continue;
    Location loc = reduction.op->getLoc();
    auto line = cast<RankedTensorType>(result.getType());
    Value whole = ConcatOp::create(
        builder, loc, line.clone(ArrayRef<int64_t>{type.getNumElements()}),
        results, builder.getI64IntegerAttr(0));
    if (type.getRank() != 1)
      whole = ReshapeOp::create(builder, loc, type, whole);
    reduction.op->getResult(0).replaceAllUsesWith(whole);
  }
  lastAt[place] = &*std::prev(builder.getInsertionPoint());
}

void BucketRewriter::run() {
  llvm::SmallPtrSet<Operation *, 16> erased;
  auto formAll = [&](ArrayRef<GradientBucket> buckets,
                     ArrayRef<GradientReduction> reductions) {
    for (const GradientBucket &bucket : buckets) {
      form(bucket, reductions);
      for (unsigned member : bucket.members)
        erased.insert(reductions[member].op);
    }
  };
  formAll(plan.sumBuckets, plan.sums);
  formAll(plan.buckets, plan.reductions);
  for (Operation *op : plan.ops)
    if (erased.contains(op))
      op->erase();
}

namespace {

struct BucketCollectives
    : DecidingPass<fusion::impl::BucketCollectivesBase<BucketCollectives>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override {
    FailureOr<FusionLegality> legality =
        FusionLegality::create(function, GroupLimits());
    if (failed(legality))
      return failure();
    const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseBucket);
    declareRewrite(function, info.id, info.text);
    simplifyReductions(block);
    BucketLimits limits{firstBytes, bucketBytes, tail};
    BucketPlan plan = planBuckets(block, limits, *legality, *model);
    LLVM_DEBUG(plan.print(llvm::dbgs()));
    if (getContext().getRemarkEngine())
      emitDecisions(plan);
    BucketRewriter(block, plan).run();
    return success();
  }
};

} // namespace
