//===- LocalOps.cpp - One rank's part of an op ----------------------------===//
//
// See LocalOps.h. Most ops are cloned onto the local operands; the others are
// those with sizes or positions in their attributes, and those whose addends
// are not simply the op on a part.
//
//===----------------------------------------------------------------------===//
#include "LocalOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

namespace {

/// Builds one op.
class LocalOpBuilder {
public:
  LocalOpBuilder(OpBuilder &builder, Operation *op, const OpPlan &plan,
                 LocalValues &values, const Mesh &mesh)
      : builder(builder), op(op), plan(plan), values(values), mesh(mesh),
        loc(op->getLoc()) {}

  void build();

private:
  void maskOperands();
  RankedTensorType getResultType(unsigned i) const {
    return plan.results[i].getLocalType(
        cast<RankedTensorType>(op->getResult(i).getType()));
  }
  Operation *clone();
  /// The cut of a dimension of operand `i` whose factor is `f`.
  DimSharding cutOf(unsigned f) const { return {plan.axes[f], plan.local[f]}; }
  bool isSplit(const DimFactors &factors) const {
    return !factors.empty() && !plan.axes[factors.front()].empty();
  }

  Value buildSource();
  Value buildSlice(SliceOp slice);
  Value buildMean(ReduceOp reduce);
  Value buildGather(GatherOp gather);
  Value buildScatter(ScatterOp scatter);

  OpBuilder &builder;
  Operation *op;
  const OpPlan &plan;
  LocalValues &values;
  const Mesh &mesh;
  Location loc;
  SmallVector<Value> operands;
};

} // namespace

/// What is padding must be no addend.
void LocalOpBuilder::maskOperands() {
  if (isa<GatherOp>(op))
    return; // no index points there
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (auto scatter = dyn_cast<ScatterOp>(op); scatter && i != 1)
      continue; // updates of padding go nowhere
    for (auto [dim, factors] : llvm::enumerate(plan.rule.operands[i])) {
      if (factors.empty())
        continue;
      unsigned f = factors.front();
      const Factor &factor = plan.rule.factors[f];
      if (factor.kind != FactorKind::Reduced || !plan.isPadded(f, mesh))
        continue;
      Type element = getElementTypeOrSelf(operand.getType());
      Attribute neutral = isa<ScatterOp>(op)
                              ? builder.getIntegerAttr(element, -1) // in no row
                              : LocalValues::getNeutral(factor.reduce, element);
      operand = values.mask(operand, dim, cutOf(f), factor.size, neutral, loc);
    }
  }
}

Operation *LocalOpBuilder::clone() {
  // One value may stand in two places, cut in two ways.
  Operation *local = op->clone();
  local->setOperands(operands);
  for (auto [i, result] : llvm::enumerate(local->getResults()))
    if (i < plan.results.size())
      result.setType(getResultType(i));
  builder.insert(local);
  return local;
}

/// Constants and parameters are cut on the rank, iota is made from its offset.
Value LocalOpBuilder::buildSource() {
  if (auto iota = dyn_cast<IotaOp>(op)) {
    Value local = clone()->getResult(0);
    const DimFactors &factors = plan.rule.results[0][iota.getAxis()];
    if (!isSplit(factors))
      return local;
    RankedTensorType type = getResultType(0);
    Value offset = values.getOffset(cutOf(factors.front()), {}, loc);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    if (scalar != offset.getType())
      offset = CastOp::create(builder, loc, scalar, offset);
    offset = BroadcastOp::create(builder, loc, type, offset,
                                 builder.getDenseI64ArrayAttr({}));
    return AddOp::create(builder, loc, local, offset);
  }
  Operation *whole = builder.clone(*op);
  values.set(
      op->getResult(0), whole->getResult(0),
      Sharding::replicated(cast<RankedTensorType>(op->getResult(0).getType())));
  return values.get(op->getResult(0), plan.results[0], loc);
}

/// A dimension that is split is taken whole.
Value LocalOpBuilder::buildSlice(SliceOp slice) {
  SmallVector<int64_t> limits(slice.getLimits());
  for (auto [dim, factors] : llvm::enumerate(plan.rule.operands[0]))
    if (isSplit(factors))
      limits[dim] = plan.local[factors.front()];
  return SliceOp::create(builder, loc, operands[0], slice.getStartsAttr(),
                         builder.getDenseI64ArrayAttr(limits),
                         slice.getStridesAttr());
}

/// The sum over all ranks, divided by the number of elements of all: in f32 for
/// the narrow types, whose sum may not fit.
Value LocalOpBuilder::buildMean(ReduceOp reduce) {
  SmallVector<unsigned> axes;
  int64_t count = 1;
  for (int64_t dim : reduce.getDims()) {
    unsigned f = plan.rule.operands[0][dim].front();
    count *= plan.rule.factors[f].size;
    axes.append(plan.axes[f].begin(), plan.axes[f].end());
  }
  if (axes.empty())
    return clone()->getResult(0);
  llvm::sort(axes);
  Type element = getElementTypeOrSelf(operands[0].getType());
  Type compute = getComputeType(element);
  Value input = operands[0];
  auto type = cast<RankedTensorType>(input.getType());
  if (compute != element)
    input = CastOp::create(
        builder, loc, RankedTensorType::get(type.getShape(), compute), input);
  Value sum = ReduceOp::create(builder, loc, ReduceKind::Sum, input,
                               reduce.getDimsAttr());
  if (!plan.results[0].partial) // else combined later
    sum = AllReduceOp::create(
              builder, loc, TypeRange(sum.getType()),
              ReduceKindAttr::get(op->getContext(), ReduceKind::Sum),
              ValueRange(sum), mesh.getSymbol(), mesh.getAxes(axes))
              .getResult(0);
  auto sumType = cast<RankedTensorType>(sum.getType());
  Value mean = DivOp::create(
      builder, loc, sum,
      values.splat(builder.getFloatAttr(compute, double(count)), sumType, loc));
  if (compute != element)
    mean = CastOp::create(builder, loc, getResultType(0), mean);
  return mean;
}

/// Rows that other ranks have count as zeros.
Value LocalOpBuilder::buildGather(GatherOp gather) {
  unsigned axis = gather.getAxis();
  const DimFactors &factors = plan.rule.operands[0][axis];
  if (!isSplit(factors))
    return clone()->getResult(0);
  DimSharding cut = cutOf(factors.front());
  int64_t size = plan.rule.factors[factors.front()].size;
  auto index = cast<RankedTensorType>(operands[1].getType());
  auto wide = RankedTensorType::get(index.getShape(), builder.getI64Type());
  Value row = operands[1];
  if (index != wide)
    row = CastOp::create(builder, loc, wide, row);
  row = MaxOp::create(builder, loc, row, values.splat(0, wide, loc));
  row = MinOp::create(builder, loc, row, values.splat(size - 1, wide, loc));
  row = SubOp::create(builder, loc, row,
                      values.getOffset(cut, wide.getShape(), loc));
  Value isHere = CompareOp::create(builder, loc, CompareKind::Ge, row,
                                   values.splat(0, wide, loc));
  Value isBelow = CompareOp::create(builder, loc, CompareKind::Lt, row,
                                    values.splat(cut.local, wide, loc));
  isHere = AndOp::create(builder, loc, isHere, isBelow);
  Value rows =
      GatherOp::create(builder, loc, operands[0], row, gather.getAxisAttr(),
                       gather.getBatchDimsAttr());
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < index.getRank(); ++dim)
    dims.push_back(dim < int64_t(gather.getBatchDims())
                       ? dim
                       : dim - gather.getBatchDims() + axis);
  isHere = BroadcastOp::create(
      builder, loc, RankedTensorType::get(type.getShape(), builder.getI1Type()),
      isHere, builder.getDenseI64ArrayAttr(dims));
  Value zero = values.splat(
      LocalValues::getNeutral(ReduceKind::Sum, type.getElementType()), type,
      loc);
  return SelectOp::create(builder, loc, type, isHere, rows, zero);
}

/// Index vectors count from the rank's first row; those of other ranks' rows
/// point outside, and their updates are dropped.
Value LocalOpBuilder::buildScatter(ScatterOp scatter) {
  auto index = cast<RankedTensorType>(operands[1].getType());
  int64_t indexed = index.getShape().back();
  SmallVector<Value> offsets;
  bool isAny = false;
  auto line = RankedTensorType::get({1}, index.getElementType());
  for (int64_t dim = 0; dim < indexed; ++dim) {
    const DimFactors &factors = plan.rule.operands[0][dim];
    if (!isSplit(factors)) {
      offsets.push_back(values.splat(0, line, loc));
      continue;
    }
    isAny = true;
    Value offset = values.getOffset(cutOf(factors.front()), {1}, loc);
    if (offset.getType() != line)
      offset = CastOp::create(builder, loc, line, offset);
    offsets.push_back(offset);
  }
  if (isAny) {
    Value offset =
        ConcatOp::create(builder, loc, offsets, builder.getI64IntegerAttr(0));
    offset = BroadcastOp::create(
        builder, loc, index, offset,
        builder.getDenseI64ArrayAttr({index.getRank() - 1}));
    operands[1] = SubOp::create(builder, loc, operands[1], offset);
  }
  return clone()->getResult(0);
}

void LocalOpBuilder::build() {
  for (auto [operand, sharding] :
       llvm::zip_equal(op->getOperands(), plan.operands))
    operands.push_back(values.get(operand, sharding, loc));
  maskOperands();
  Value result;
  if (isa<ConstantOp, GetParameterOp, IotaOp>(op)) {
    result = buildSource();
    if (!isa<IotaOp>(op))
      return;
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    result = buildSlice(slice);
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    result = buildGather(gather);
  } else if (auto scatter = dyn_cast<ScatterOp>(op)) {
    result = buildScatter(scatter);
  } else if (auto reduce = dyn_cast<ReduceOp>(op);
             reduce && reduce.getKind() == ReduceKind::Mean) {
    result = buildMean(reduce);
  } else {
    Operation *local = clone();
    for (auto [i, sharding] : llvm::enumerate(plan.results))
      values.set(op->getResult(i), local->getResult(i), sharding);
    return;
  }
  values.set(op->getResult(0), result, plan.results[0]);
}

void fusion::buildLocalOp(OpBuilder &builder, Operation *op, const OpPlan &plan,
                          LocalValues &values, const Mesh &mesh) {
  LocalOpBuilder(builder, op, plan, values, mesh).build();
}
