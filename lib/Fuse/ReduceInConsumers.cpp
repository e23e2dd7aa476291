//===- ReduceInConsumers.cpp - Reductions summed where they are read ------===//
//
// The thin pass around the decision (TransportPlan.cpp). A reduction that copy
// engines carry becomes a move of every rank's tensor and ordinary elementwise
// ops behind it: vertical fusion puts those into the kernels that read the sum,
// horizontal fusion those of a bucket into one launch.
//
// Two ranks swap their tensors. More gather them along a new leading dimension,
// so that each rank's lies in one piece; a reduce_scatter sends each rank its
// part, likewise.
//
//===----------------------------------------------------------------------===//
#include "BucketPlan.h"
#include "DecidingPass.h"
#include "RankSum.h"
#include "TransportPlan.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "fusion-reduce-in-consumers"

namespace fusion {
#define GEN_PASS_DEF_REDUCEINCONSUMERS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static std::string formatUs(double us) {
  return llvm::formatv("{0:f2}", us).str();
}

static void emitDecision(const PlannedCollective &planned) {
  if (!planned.usesPeer && !planned.refusal)
    return;
  const FusionRuleInfo &info = getFusionRuleInfo(
      planned.usesPeer ? isRankReduction(planned.op) ? FusionRule::TransportSum
                                                     : FusionRule::TransportPeer
                       : *planned.refusal);
  remark::RemarkOpts options =
      remark::RemarkOpts::name(info.id).category("fusion");
  auto remark = info.accepts ? remark::passed(planned.op->getLoc(), options)
                             : remark::missed(planned.op->getLoc(), options);
  remark << remark::reason("{0}", info.text)
         << remark::metric("ranks", planned.ranks)
         << remark::metric("bytes", planned.bytes);
  if (planned.usesPeer && planned.extraBytes > 0)
    remark << remark::metric("extra_bytes", planned.extraBytes);
  remark << remark::metric("us_nccl", formatUs(planned.ncclUs))
         << remark::metric("us_peer", formatUs(planned.peerUs))
         << remark::metric("us_sum", formatUs(planned.sumUs));
  if (planned.usesPeer && planned.isDirect)
    remark << remark::metric("us_direct", formatUs(planned.readUs));
  if (planned.other) {
    std::string other;
    llvm::raw_string_ostream(other) << planned.other->getLoc();
    remark << remark::metric("other", other);
  }
  if (planned.limit)
    remark << remark::metric("value", planned.value)
           << remark::metric("limit", planned.limit);
}

static void emitDecisions(Operation *function, const TransportPlan &plan) {
  llvm::for_each(plan.collectives, emitDecision);
  if (plan.stepUs == 0)
    return;
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::TransportStep);
  bool isShorter = plan.stepUs < plan.ncclStepUs;
  remark::RemarkOpts options =
      remark::RemarkOpts::name(info.id).category("fusion");
  auto remark = isShorter ? remark::passed(function->getLoc(), options)
                          : remark::missed(function->getLoc(), options);
  remark << remark::reason("{0}", info.text)
         << remark::metric("us_step_nccl", formatUs(plan.ncclStepUs))
         << remark::metric("us_step_peer", formatUs(plan.peerStepUs))
         << remark::metric("us_step", formatUs(plan.stepUs));
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

static ReduceKind getKind(Operation *reduction) {
  return reduction->getAttrOfType<ReduceKindAttr>("kind").getValue();
}

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value createReshape(OpBuilder &builder, Location loc, Value value,
                           ArrayRef<int64_t> shape) {
  if (getType(value).getShape() == shape)
    return value;
  return ReshapeOp::create(builder, loc, getType(value).clone(shape), value);
}

/// Part `index` of `parts` equal ones along the first dimension, as `shape`.
static Value createPart(OpBuilder &builder, Location loc, Value value,
                        int64_t index, int64_t parts, ArrayRef<int64_t> shape) {
  RankedTensorType type = getType(value);
  SmallVector<int64_t> starts(type.getRank()), limits(type.getShape()),
      strides(type.getRank(), 1);
  int64_t size = limits[0] / parts;
  starts[0] = index * size;
  limits[0] = starts[0] + size;
  SmallVector<int64_t> taken(type.getShape());
  taken[0] = size;
  Value part = SliceOp::create(builder, loc, type.clone(taken), value,
                               builder.getDenseI64ArrayAttr(starts),
                               builder.getDenseI64ArrayAttr(limits),
                               builder.getDenseI64ArrayAttr(strides));
  return createReshape(builder, loc, part, shape);
}

/// Gives the readers of `reduced` sums that `addAs` makes in a shape: one for
/// those in each shape that it is viewed in, one for reductions, one for the
/// rest. A view between a sum and its reader would keep them apart, and a sum
/// that two kernels read would be written for it; so each adds for itself.
static void addInReaders(Value reduced,
                         llvm::function_ref<Value(ArrayRef<int64_t>)> addAs) {
  llvm::SmallSetVector<Operation *, 4> reducing, others;
  llvm::SmallSetVector<Operation *, 4> readers(reduced.user_begin(),
                                               reduced.user_end());
  for (Operation *reader : readers) {
    if (auto view = dyn_cast<ReshapeOp>(reader)) {
      view.getResult().replaceAllUsesWith(addAs(view.getType().getShape()));
      view.erase();
    } else if (leadsToReduction(reader)) {
      reducing.insert(reader);
    } else {
      others.insert(reader);
    }
  }
  for (auto &set : {reducing, others}) {
    if (set.empty())
      continue;
    Value sum = addAs(getType(reduced).getShape());
    for (Operation *reader : set)
      reader->replaceUsesOfWith(reduced, sum);
  }
}

namespace {

/// A gradient that two ranks swap in parts, for its readers whole again: what
/// is received is put together, not the sums, which would be a pass of its own.
struct WholeSum {
  ConcatOp received;
  Value own;
  ReduceKind kind;
};

/// Replaces one reduction.
class ReductionRewriter {
public:
  /// `wholes`: what is added whole. `sums`: gets the ops that add.
  ReductionRewriter(const PlannedCollective &planned,
                    const llvm::SmallPtrSetImpl<Operation *> &wholes,
                    llvm::SmallPtrSetImpl<Operation *> &sums)
      : op(planned.op), ranks(planned.ranks), isDirect(planned.isDirect),
        wholes(wholes), sums(sums), builder(op) {
    kind = getKind(op);
    if (auto scatter = dyn_cast<ReduceScatterOp>(op))
      dim = scatter.getDim();
  }

  void run();

private:
  bool isSwap() const { return isa<AllReduceOp>(op) && ranks == 2; }
  Value createSent(Value operand);
  Operation *createMove();
  SmallVector<Value> createTerms(unsigned number, Value received,
                                 ArrayRef<int64_t> shape);

  Operation *op;
  int64_t ranks;
  bool isDirect;
  const llvm::SmallPtrSetImpl<Operation *> &wholes;
  llvm::SmallPtrSetImpl<Operation *> &sums;
  OpBuilder builder;
  ReduceKind kind;
  int64_t dim = 0; ///< that a reduce_scatter cuts
};

} // namespace

/// The operand in the form in which it is sent.
Value ReductionRewriter::createSent(Value operand) {
  if (isSwap())
    return operand;
  SmallVector<int64_t> shape(getType(operand).getShape());
  if (isa<AllReduceOp>(op)) {
    shape.insert(shape.begin(), 1);
  } else {
    // The parts get a dimension of their own.
    shape[dim] /= ranks;
    shape.insert(shape.begin() + dim, ranks);
    // What is received is concatenated along the first one.
    if (dim > 0)
      shape.insert(shape.begin(), 1);
  }
  return createReshape(builder, op->getLoc(), operand, shape);
}

/// The move of all operands: its results hold the tensors of the ranks.
Operation *ReductionRewriter::createMove() {
  SmallVector<Value> sent;
  SmallVector<Type> types;
  int64_t split = dim > 0 ? dim + 1 : 0;
  for (Value operand : op->getOperands()) {
    sent.push_back(createSent(operand));
    SmallVector<int64_t> shape(getType(sent.back()).getShape());
    if (!isSwap()) {
      if (isa<ReduceScatterOp>(op))
        shape[split] /= ranks;
      shape[0] *= ranks;
    }
    types.push_back(getType(operand).clone(shape));
  }
  StringRef name = isSwap() ? CollectivePermuteOp::getOperationName()
                   : isa<AllReduceOp>(op) ? AllGatherOp::getOperationName()
                                          : AllToAllOp::getOperationName();
  OperationState state(op->getLoc(), name, sent, types, {});
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    state.attributes.append(attribute);
  for (StringRef kept : {"mesh", "axes"})
    state.addAttribute(kept, op->getAttr(kept));
  if (isSwap()) {
    state.addAttribute("sources", builder.getDenseI64ArrayAttr({0, 1}));
    state.addAttribute("targets", builder.getDenseI64ArrayAttr({1, 0}));
  } else if (isa<AllReduceOp>(op)) {
    state.addAttribute("dim", builder.getI64IntegerAttr(0));
  } else {
    state.addAttribute("split_dim", builder.getI64IntegerAttr(split));
    state.addAttribute("concat_dim", builder.getI64IntegerAttr(0));
  }
  state.attributes.set(kTransportAttr,
                       builder.getStringAttr(stringifyTransport(
                           isDirect ? Transport::Direct : Transport::Peer)));
  return builder.create(state);
}

/// The tensors that result `number` is the sum of, as `shape`, in the order of
/// the ranks; of two, in any.
SmallVector<Value> ReductionRewriter::createTerms(unsigned number,
                                                  Value received,
                                                  ArrayRef<int64_t> shape) {
  Location loc = op->getLoc();
  if (isSwap())
    return {createReshape(builder, loc, op->getOperand(number), shape),
            createReshape(builder, loc, received, shape)};
  SmallVector<Value> terms;
  for (int64_t rank = 0; rank < ranks; ++rank)
    terms.push_back(createPart(builder, loc, received, rank, ranks, shape));
  return terms;
}

void ReductionRewriter::run() {
  Operation *move = createMove();
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value received = move->getResult(i);
    result.replaceUsesWithIf(received, [&](OpOperand &use) {
      return wholes.contains(use.getOwner());
    });
    addInReaders(result, [&](ArrayRef<int64_t> shape) {
      return createRankSum(builder, op->getLoc(), kind,
                           createTerms(i, received, shape), sums);
    });
  }
  op->erase();
}

/// Whether `concat` puts together sums of all parts of one value, which two
/// ranks swap.
static std::optional<WholeSum>
matchWhole(ConcatOp concat, const llvm::SmallPtrSetImpl<Operation *> &swapped) {
  WholeSum whole{concat, {}, ReduceKind::Sum};
  int64_t end = 0;
  for (Value input : concat.getInputs()) {
    auto result = dyn_cast<OpResult>(input);
    if (!result || !swapped.contains(result.getOwner()))
      return std::nullopt;
    auto part = result.getOwner()
                    ->getOperand(result.getResultNumber())
                    .getDefiningOp<SliceOp>();
    if (!part || part.getStarts().size() != 1 || part.getStarts()[0] != end ||
        part.getStrides()[0] != 1)
      return std::nullopt;
    ReduceKind kind = getKind(result.getOwner());
    if (whole.own && (whole.own != part.getInput() || whole.kind != kind))
      return std::nullopt;
    whole.own = part.getInput();
    whole.kind = kind;
    end = part.getLimits()[0];
  }
  if (!whole.own || whole.own.getType() != concat.getType())
    return std::nullopt;
  return whole;
}

static void rewrite(Block &block, const TransportPlan &plan) {
  llvm::SmallPtrSet<Operation *, 16> swapped, concats, sums;
  for (const PlannedCollective &planned : plan.collectives)
    if (planned.usesPeer && planned.ranks == 2 && isa<AllReduceOp>(planned.op))
      swapped.insert(planned.op);
  SmallVector<WholeSum> wholes;
  for (auto concat : block.getOps<ConcatOp>())
    if (std::optional<WholeSum> whole = matchWhole(concat, swapped)) {
      wholes.push_back(*whole);
      concats.insert(concat);
    }
  for (const PlannedCollective &planned : plan.collectives) {
    if (planned.usesPeer && isRankReduction(planned.op))
      ReductionRewriter(planned, concats, sums).run();
    else
      planned.op->setAttr(
          kTransportAttr,
          StringAttr::get(block.getParentOp()->getContext(),
                          stringifyTransport(planned.usesPeer
                                                 ? Transport::Peer
                                                 : Transport::Nccl)));
  }
  for (WholeSum &whole : wholes) {
    OpBuilder builder(whole.received->getContext());
    builder.setInsertionPointAfter(whole.received);
    Location loc = whole.received.getLoc();
    Value received = whole.received.getResult();
    addInReaders(received, [&](ArrayRef<int64_t> shape) {
      return createRankSum(builder, loc, whole.kind,
                           {createReshape(builder, loc, whole.own, shape),
                            createReshape(builder, loc, received, shape)},
                           sums);
    });
  }
  sliceTerms(block, sums);
}

namespace {

struct ReduceInConsumers
    : DecidingPass<fusion::impl::ReduceInConsumersBase<ReduceInConsumers>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override {
    std::optional<TransportChoice> choice = symbolizeTransport(transport);
    if (!choice)
      return function.emitError("bad value of 'transport', '")
             << transport << "', give auto, nccl, peer or direct";
    FailureOr<FusionLegality> legality =
        FusionLegality::create(function, GroupLimits());
    if (failed(legality))
      return failure();
    const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::TransportSum);
    declareRewrite(function, info.id, info.text);
    TransportPlan plan =
        planTransports(block, *choice, memoryLimit, *legality, *model);
    if (getContext().getRemarkEngine())
      emitDecisions(function, plan);
    if (!plan.isNamed)
      return success();
    rewrite(block, plan);
    return success();
  }
};

} // namespace
