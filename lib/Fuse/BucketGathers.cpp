//===- BucketGathers.cpp - Parameters gathered together -------------------===//
//
// State that is cut over ranks is gathered where it is read, tensor by tensor:
// a bias of a kilobyte takes as long to start as a matrix, and a step has
// hundreds. Tensors whose first readers come one behind the other are gathered
// by one collective, up to a size at which starting it matters little. The
// first ones of a step have nothing that hides them, so buckets grow.
//
// A tensor is gathered once, and as it is: what is gathered again for another
// reader, or widened before, is the same tensor. Whether it stays until its
// last reader is the schedule's matter (PrefetchAllGather).
//
//===----------------------------------------------------------------------===//
#include "BucketPlan.h"
#include "DecidingPass.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

#include <cmath>

#define DEBUG_TYPE "fusion-bucket-gathers"

namespace fusion {
#define GEN_PASS_DEF_BUCKETGATHERS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// The size of the first bucket is sent in this many times what starting one
/// takes.
static constexpr double kStarts = 2;

/// Each may have this many times the bytes of the one before it, until they
/// take as long as the wait between two, or have the bytes that are given.
static constexpr double kGrowth = 2;

/// Tensors of a bucket: a collective's kernel has an argument for each.
static constexpr size_t kMostTensors = 64;

namespace {

/// A gather of a tensor that is there from the start, or of several: a bucket
/// that was formed before, which those to both sides did not fit in.
struct ParameterGather {
  AllGatherOp op;
  int64_t bytes = 0; ///< of the result
  Operation *reader = nullptr;
};

struct BucketGathers
    : DecidingPass<fusion::impl::BucketGathersBase<BucketGathers>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;

private:
  void form(ArrayRef<ParameterGather> members);
};

} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Whether `value` needs no computation.
static bool isGiven(Value value) {
  return isa<BlockArgument>(value) || value.getDefiningOp<GetParameterOp>();
}

/// A cast that its operand is less to send than.
static CastOp findWidening(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && isGiven(cast.getInput()) &&
                 getType(cast.getInput()).getElementTypeBitWidth() <
                     getType(cast).getElementTypeBitWidth()
             ? cast
             : CastOp();
}

static bool isBucket(AllGatherOp op) {
  return op.getInputs().size() > 1 && llvm::all_of(op.getInputs(), isGiven);
}

static bool isCandidate(AllGatherOp op) {
  return op.getInputs().size() == 1 && op->getDiscardableAttrs().empty() &&
         getType(op.getOutputs()[0]).hasStaticShape() &&
         (isGiven(op.getInputs()[0]) || findWidening(op.getInputs()[0]));
}

/// Gathers what `op` widens before, and widens then.
static AllGatherOp gatherNarrow(AllGatherOp op) {
  CastOp widened = findWidening(op.getInputs()[0]);
  if (!widened)
    return op;
  OpBuilder builder(op);
  RankedTensorType type = getType(op.getOutputs()[0]);
  auto gather = cast<AllGatherOp>(builder.clone(*op));
  gather.getInputsMutable().assign(widened.getInput());
  Value whole = gather.getOutputs()[0];
  whole.setType(type.clone(getType(widened.getInput()).getElementType()));
  op.getOutputs()[0].replaceAllUsesWith(
      CastOp::create(builder, widened.getLoc(), type, whole));
  op.erase();
  if (widened->use_empty())
    widened.erase();
  return gather;
}

/// What two gathers of one bucket have in common.
static bool haveSameKey(AllGatherOp a, AllGatherOp b) {
  return a.getDim() == b.getDim() && a.getMesh() == b.getMesh() &&
         a.getAxes() == b.getAxes();
}

/// All gathers of the block, each tensor's only one, and its buckets, in the
/// order of their first readers.
static SmallVector<ParameterGather> findGathers(Block &block) {
  llvm::DenseMap<Value, SmallVector<AllGatherOp, 1>> gathersOf;
  SmallVector<ParameterGather> found;
  for (AllGatherOp op : llvm::to_vector(block.getOps<AllGatherOp>())) {
    if (isBucket(op))
      found.push_back({op, 0, nullptr});
    if (!isCandidate(op))
      continue;
    op = gatherNarrow(op);
    SmallVector<AllGatherOp, 1> &known = gathersOf[op.getInputs()[0]];
    auto same = llvm::find_if(
        known, [&](AllGatherOp other) { return haveSameKey(op, other); });
    if (same != known.end()) {
      op.getOutputs()[0].replaceAllUsesWith(same->getOutputs()[0]);
      op.erase();
      continue;
    }
    known.push_back(op);
    RankedTensorType type = getType(op.getOutputs()[0]);
    found.push_back(
        {op,
         type.getNumElements() *
             int64_t(llvm::divideCeil(type.getElementTypeBitWidth(), 8)),
         nullptr});
  }
  for (ParameterGather &gather : found)
    for (Operation *user : gather.op->getUsers()) {
      Operation *reader = block.findAncestorOpInBlock(*user);
      if (!gather.reader || reader->isBeforeInBlock(gather.reader))
        gather.reader = reader;
    }
  llvm::erase_if(found, [](auto &gather) { return !gather.reader; });
  llvm::stable_sort(found, [](auto &a, auto &b) {
    return a.reader != b.reader && a.reader->isBeforeInBlock(b.reader);
  });
  return found;
}

/// One collective of all, where the first one is.
void BucketGathers::form(ArrayRef<ParameterGather> members) {
  if (members.size() < 2)
    return;
  SmallVector<Value> operands;
  SmallVector<Type> types;
  SmallVector<Location> locations;
  Operation *first = members.front().op;
  int64_t bytes = 0;
  for (const ParameterGather &member : members) {
    AllGatherOp op = member.op;
    operands.push_back(op.getInputs()[0]);
    types.push_back(op.getOutputs()[0].getType());
    locations.push_back(op.getLoc());
    bytes += member.bytes;
    if (op->isBeforeInBlock(first))
      first = op;
  }
  OpBuilder builder(first);
  // Parameters come before all that reads them.
  for (Value operand : operands)
    if (Operation *source = operand.getDefiningOp();
        source && first->isBeforeInBlock(source))
      source->moveBefore(first);
  OperationState state(builder.getFusedLoc(locations), first->getName(),
                       operands, types, first->getAttrs());
  Operation *bucket = builder.create(state);
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::BucketGathers);
  remark::passed(bucket->getLoc(),
                 remark::RemarkOpts::name(info.id).category("fusion"))
      << remark::reason("{0}", info.text)
      << remark::metric("tensors", int64_t(members.size()))
      << remark::metric("bytes", bytes);
  for (auto [member, result] : llvm::zip_equal(members, bucket->getResults())) {
    AllGatherOp op = member.op;
    op.getOutputs()[0].replaceAllUsesWith(result);
    op.erase();
  }
}

/// Of the bucket behind so many, where they grow to `target` bytes at least.
static int64_t getMostBytes(const CollectiveCost &cost, unsigned numBefore,
                            int64_t target) {
  double usPerByte = std::max(cost.usPerByte, 1e-12);
  double first = kStarts * cost.latencyUs;
  double last =
      std::max(cost.queuedUs, static_cast<double>(target) * usPerByte);
  double us =
      std::min(first * std::pow(kGrowth, numBefore), std::max(first, last));
  return static_cast<int64_t>(us / usPerByte);
}

LogicalResult BucketGathers::decide(FunctionOpInterface function,
                                    Block &block) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::BucketGathers);
  declareRewrite(function, info.id, info.text);
  SmallVector<ParameterGather> gathers = findGathers(block);
  CommModel comm(model->getDevice());
  SmallVector<ParameterGather> bucket;
  int64_t bytes = 0;
  unsigned numBefore = 0; // buckets, of one tensor too
  auto close = [&] {
    numBefore += !bucket.empty();
    form(bucket);
    bucket.clear();
    bytes = 0;
  };
  for (const ParameterGather &gather : gathers) {
    AllGatherOp op = gather.op;
    if (isBucket(op)) {
      close();
      ++numBefore;
      continue;
    }
    CollectiveCost cost(op, comm);
    int64_t limit = getMostBytes(cost, numBefore, bucketBytes);
    if (!bucket.empty()) {
      bool isSame = haveSameKey(bucket.front().op, op);
      if (!isSame)
        remark::missed(op.getLoc(),
                       remark::RemarkOpts::name(
                           getFusionRuleInfo(FusionRule::GatherKey).id)
                           .category("fusion"))
            << remark::reason("{0}",
                              getFusionRuleInfo(FusionRule::GatherKey).text);
      if (!isSame || bytes + gather.bytes > limit ||
          bucket.size() == kMostTensors)
        close();
    }
    bucket.push_back(gather);
    bytes += gather.bytes;
  }
  form(bucket);
  return success();
}
