//===- GatherUpdates.cpp - Updates of rows sent, not the tensor -----------===//
//
// The gradient of an embedding has a row for each word, of which a batch names
// few. Reduced over ranks it is sent whole, zeros and all, and it is the last
// gradient of the backward pass: nothing hides it from a clip, which needs it
// before the first update. So the updates of all ranks are gathered, and each
// rank adds them itself; of a reduce_scatter, to the rows that it keeps: the
// others' indices point outside, where a scatter drops them.
//
// The order of the additions becomes that of the ranks, and within a rank its
// own: what one program over the whole batch does.
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "DecidingPass.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

#define DEBUG_TYPE "fusion-gather-updates"

namespace fusion {
#define GEN_PASS_DEF_GATHERUPDATES
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Rows up to which 32 bits hold each index less the first row of any rank.
static constexpr int64_t kMostRows32 = int64_t(1) << 31;

namespace {

/// A tensor of updated rows that is reduced over ranks.
struct ReducedUpdates {
  Operation *reduction;
  ScatterOp scatter;
  /// The updates as they are gathered: before they are widened for the sum.
  Value sent;
  /// That gathers the indices before, as for a lookup; or null.
  AllGatherOp gathered;
  double reducedUs = 0, gatheredUs = 0;
};

struct GatherUpdates
    : DecidingPass<fusion::impl::GatherUpdatesBase<GatherUpdates>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;

private:
  void price(ReducedUpdates &updates) const;
};

} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isZero(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return false;
  auto splat = elements.getSplatValue<Attribute>();
  if (auto number = dyn_cast<FloatAttr>(splat))
    return number.getValue().isZero();
  auto number = dyn_cast<IntegerAttr>(splat);
  return number && number.getValue().isZero();
}

/// Bytes of `value`, whose sizes are known.
static double countBytes(Value value) {
  return static_cast<double>(getType(value).getNumElements()) *
         llvm::divideCeil(getType(value).getElementTypeBitWidth(), 8);
}

/// The ranks of a reduction that there is one sum of; 0 of another op.
static int64_t countRanks(Operation *op) {
  if (!isa<AllReduceOp, ReduceScatterOp>(op) || op->getNumOperands() != 1 ||
      op->getAttrOfType<ReduceKindAttr>("kind").getValue() != ReduceKind::Sum)
    return 0;
  return getCommGroup(cast<CommunicationOpInterface>(op)).size;
}

static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Where the ranks of `reduction` gather the scatter's indices, in any shape,
/// ahead of it.
static AllGatherOp findGathered(Operation *reduction, ScatterOp scatter) {
  Value indices = skipReshapes(scatter.getIndices());
  for (auto gather : scatter->getBlock()->getOps<AllGatherOp>()) {
    if (!gather->isBeforeInBlock(scatter))
      break;
    // One dimension is in the order of the ranks whatever it was before.
    if (gather.getInputs().size() == 1 && gather.getDim() == 0 &&
        gather.getMeshAttr() == reduction->getAttr("mesh") &&
        gather.getAxesAttr() == reduction->getAttr("axes") &&
        skipReshapes(gather.getInputs()[0]) == indices)
      return gather;
  }
  return {};
}

/// The rule that says no, or nothing; then `updates` has all but its prices.
static std::optional<FusionRule> analyze(ReducedUpdates &updates) {
  ScatterOp scatter = updates.scatter;
  RankedTensorType indices = getType(scatter.getIndices());
  if (scatter.getKind() != ScatterKind::Add || !scatter->hasOneUse() ||
      !isZero(scatter.getInput()) || indices.getRank() < 2 ||
      !indices.hasStaticShape() ||
      !getType(scatter.getInput()).hasStaticShape() ||
      !getType(scatter.getUpdates()).hasStaticShape() ||
      getType(scatter.getUpdates()).getNumElements() == 0)
    return FusionRule::UpdatesForm;
  // Only the first dimension's indices can be counted from a rank's rows.
  auto part = dyn_cast<ReduceScatterOp>(updates.reduction);
  if (part && (part.getDim() != 0 || indices.getShape().back() != 1 ||
               part.getAxes().size() != 1))
    return FusionRule::UpdatesForm;
  // A negative index that is counted from a row further on must stay outside.
  if (part && indices.getElementType().isInteger(32) &&
      getType(scatter.getInput()).getDimSize(0) > kMostRows32)
    return FusionRule::UpdatesForm;
  updates.sent = scatter.getUpdates();
  if (auto widened = updates.sent.getDefiningOp<CastOp>()) {
    Type narrow = getType(widened.getInput()).getElementType();
    Type wide = getType(widened).getElementType();
    if (isa<FloatType>(narrow) == isa<FloatType>(wide) &&
        narrow.getIntOrFloatBitWidth() < wide.getIntOrFloatBitWidth())
      updates.sent = widened.getInput();
  }
  updates.gathered = findGathered(updates.reduction, scatter);
  return std::nullopt;
}

/// Beside what is sent, all ranks' updates are read and not one's only.
void GatherUpdates::price(ReducedUpdates &updates) const {
  CommModel comm(model->getDevice());
  auto op = cast<CommunicationOpInterface>(updates.reduction);
  CommGroup group = getCommGroup(op);
  auto ranks = static_cast<double>(group.size);
  ScatterOp scatter = updates.scatter;
  updates.reducedUs =
      comm.predict(*getCommOp(op), countBytes(scatter.getResult()), group).us;
  double sentBytes = countBytes(updates.sent);
  double indexBytes = countBytes(scatter.getIndices());
  updates.gatheredUs =
      comm.predict(CommOp::AllGather, ranks * sentBytes, group).us;
  if (!updates.gathered)
    updates.gatheredUs +=
        comm.predict(CommOp::AllGather, ranks * indexBytes, group).us;
  KernelWork work;
  work.memoryBytes =
      static_cast<int64_t>((ranks - 1) * (sentBytes + indexBytes));
  updates.gatheredUs += model->getMicroseconds(work);
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

static Value createGather(OpBuilder &builder, Operation *reduction, Value value,
                          int64_t ranks) {
  RankedTensorType type = getType(value);
  SmallVector<int64_t> shape(type.getShape());
  shape.front() *= ranks;
  OperationState state(reduction->getLoc(), AllGatherOp::getOperationName(),
                       {value}, {type.clone(shape)});
  state.addAttribute("dim", builder.getI64IntegerAttr(0));
  for (StringRef kept : {"mesh", "axes"})
    state.addAttribute(kept, reduction->getAttr(kept));
  return builder.create(state)->getResult(0);
}

/// `indices` counted from the first of `rows` that a rank keeps.
static Value createOwnIndices(OpBuilder &builder, ReduceScatterOp part,
                              Value indices, int64_t rows) {
  Location loc = part.getLoc();
  RankedTensorType type = getType(indices);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value first = AxisIndexOp::create(builder, loc, scalar, part.getMeshAttr(),
                                    part.getAxesAttr());
  Value count = ConstantOp::create(
      builder, loc, scalar,
      DenseElementsAttr::get(scalar, builder.getI64IntegerAttr(rows)));
  first = MulOp::create(builder, loc, scalar, first, count);
  if (!type.getElementType().isInteger(64))
    first = CastOp::create(builder, loc, scalar.clone(type.getElementType()),
                           first);
  first = BroadcastOp::create(builder, loc, type, first,
                              builder.getDenseI64ArrayAttr({}));
  return SubOp::create(builder, loc, type, indices, first);
}

static void rewrite(const ReducedUpdates &updates) {
  Operation *reduction = updates.reduction;
  ScatterOp scatter = updates.scatter;
  OpBuilder builder(scatter);
  Location loc = scatter.getLoc();
  int64_t ranks = getCommGroup(cast<CommunicationOpInterface>(reduction)).size;
  Value indices;
  if (AllGatherOp gathered = updates.gathered) {
    SmallVector<int64_t> shape(getType(scatter.getIndices()).getShape());
    shape.front() *= ranks;
    indices = gathered.getOutputs()[0];
    if (getType(indices).getShape() != ArrayRef(shape))
      indices = ReshapeOp::create(builder, loc, getType(indices).clone(shape),
                                  indices);
  } else {
    indices = createGather(builder, reduction, scatter.getIndices(), ranks);
  }
  Value all = createGather(builder, reduction, updates.sent, ranks);
  RankedTensorType type = getType(reduction->getResult(0));
  Value zeros = scatter.getInput();
  if (auto part = dyn_cast<ReduceScatterOp>(reduction)) {
    indices = createOwnIndices(builder, part, indices, type.getDimSize(0));
    auto whole = cast<DenseElementsAttr>([&] {
      Attribute elements;
      matchPattern(zeros, m_Constant(&elements));
      return elements;
    }());
    zeros = ConstantOp::create(
        builder, loc, type,
        DenseElementsAttr::get(type, whole.getSplatValue<Attribute>()));
  }
  if (updates.sent != scatter.getUpdates())
    all = CastOp::create(
        builder, loc,
        getType(all).clone(getType(scatter.getUpdates()).getElementType()),
        all);
  Value sum = ScatterOp::create(builder, loc, type, ScatterKind::Add, zeros,
                                indices, all);
  reduction->getResult(0).replaceAllUsesWith(sum);
  reduction->erase();
  Operation *widened = scatter.getUpdates().getDefiningOp();
  scatter->erase();
  if (isa_and_present<CastOp>(widened) && widened->use_empty())
    widened->erase();
}

LogicalResult GatherUpdates::decide(FunctionOpInterface function,
                                    Block &block) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::GatherUpdates);
  declareRewrite(function, info.id, info.text);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (countRanks(&op) < 2)
      continue;
    ReducedUpdates updates{
        &op, op.getOperand(0).getDefiningOp<ScatterOp>(), {}};
    if (!updates.scatter || updates.scatter->getBlock() != &block)
      continue;
    std::optional<FusionRule> refusal = analyze(updates);
    if (!refusal) {
      price(updates);
      if (updates.gatheredUs >= updates.reducedUs)
        refusal = FusionRule::UpdatesProfit;
    }
    tellSentInPlace(&op, function.getName(), FusionRule::GatherUpdates, refusal,
                    updates.gatheredUs, updates.reducedUs);
    if (!refusal)
      rewrite(updates);
  }
  return success();
}
