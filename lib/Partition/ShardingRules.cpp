//===- ShardingRules.cpp - Along what an op can be split ------------------===//
//
// See ShardingRules.h. The general rule reads index maps; the ops with a rule
// of their own are those whose maps are piecewise or depend on data, where some
// dimensions can be split all the same.
//
//===----------------------------------------------------------------------===//
#include "ShardingRules.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

unsigned OpRule::add(int64_t size, FactorKind kind, ReduceKind reduce) {
  if (ShapedType::isDynamic(size))
    kind = FactorKind::Whole;
  factors.push_back({size, kind, reduce});
  return factors.size() - 1;
}

bool OpRule::canSplit(unsigned f) const {
  if (factors[f].kind == FactorKind::Whole)
    return false;
  for (const auto &tensors : {ArrayRef(operands), ArrayRef(results)})
    for (const TensorFactors &tensor : tensors)
      for (const DimFactors &dim : tensor)
        if (llvm::is_contained(ArrayRef(dim).drop_front(!dim.empty()), f))
          return false;
  return true;
}

/// Every dimension of every operand and result whole.
static OpRule makeWholeRule(Operation *op) {
  OpRule rule;
  for (Value operand : op->getOperands())
    rule.operands.emplace_back(shapeOf(operand).size());
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      rule.results.emplace_back(type.getRank());
  return rule;
}

/// Gives dimension `dim` of the first result a factor of its own.
static unsigned addResultDim(OpRule &rule, Operation *op, unsigned dim,
                             FactorKind kind = FactorKind::Parallel) {
  unsigned f = rule.add(shapeOf(op->getResult(0))[dim], kind);
  rule.results[0][dim] = {f};
  return f;
}

//===----------------------------------------------------------------------===//
// From the interface
//===----------------------------------------------------------------------===//

/// What combines addends over a reduction dimension of `op`, or nullopt if its
/// result is no such combination.
static std::optional<ReduceKind> getReduceKind(Operation *op) {
  if (isa<MatmulOp>(op))
    return ReduceKind::Sum;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || getElementTypeOrSelf(reduce.getInput().getType()).isInteger(1))
    return std::nullopt;
  // A mean divides by the number of elements of all ranks, a constant.
  ArrayRef<int64_t> shape = shapeOf(reduce.getInput());
  if (reduce.getKind() == ReduceKind::Mean &&
      llvm::any_of(reduce.getDims(), [&](int64_t dim) {
        return ShapedType::isDynamic(shape[dim]);
      }))
    return std::nullopt;
  return reduce.getKind();
}

static OpRule makeInterfaceRule(FusableOpInterface op) {
  OpRule rule = makeWholeRule(op);
  SmallVector<int64_t> space = op.getIterationShape();
  SmallVector<int64_t> reduced = op.getReductionDims();
  std::optional<ReduceKind> kind = getReduceKind(op);
  SmallVector<int64_t> parallel;
  for (auto [dim, size] : llvm::enumerate(space)) {
    bool isReduced = llvm::is_contained(reduced, int64_t(dim));
    if (!isReduced)
      parallel.push_back(dim);
    if (isReduced && kind)
      rule.add(size, FactorKind::Reduced, *kind);
    else
      rule.add(size, isReduced ? FactorKind::Whole : FactorKind::Parallel);
  }
  auto makeWhole = [&](unsigned f) {
    rule.factors[f].kind = FactorKind::Whole;
  };
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    std::optional<AffineMap> map = op.getOperandMap(i);
    if (!map || map->getNumResults() != rule.operands[i].size())
      return makeWholeRule(op);
    for (auto [dim, expr] : llvm::enumerate(map->getResults())) {
      auto plain = dyn_cast<AffineDimExpr>(expr);
      if (plain &&
          shapeOf(op->getOperand(i))[dim] == space[plain.getPosition()]) {
        rule.operands[i][dim] = {plain.getPosition()};
        continue;
      }
      // A part of such a dimension would be indexed from its own start.
      expr.walk([&](AffineExpr part) {
        if (auto used = dyn_cast<AffineDimExpr>(part))
          makeWhole(used.getPosition());
      });
    }
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    ArrayRef<int64_t> shape = shapeOf(result);
    SmallVector<int64_t> dims;
    if (shape == ArrayRef(space))
      dims = llvm::to_vector(llvm::seq<int64_t>(0, space.size()));
    else if (shape.size() == parallel.size() &&
             llvm::all_of(llvm::zip_equal(shape, parallel), [&](auto pair) {
               return std::get<0>(pair) == space[std::get<1>(pair)];
             }))
      dims = parallel;
    else
      return makeWholeRule(op);
    for (auto [dim, f] : llvm::enumerate(dims)) {
      rule.results[i][dim] = {unsigned(f)};
      if (llvm::is_contained(reduced, f)) // both read whole and written
        makeWhole(f);
    }
    // A part of what a result has no dimension for would be a part of its
    // value.
    for (int64_t f : parallel)
      if (!llvm::is_contained(dims, f))
        makeWhole(f);
  }
  return rule;
}

//===----------------------------------------------------------------------===//
// Ops that move elements
//===----------------------------------------------------------------------===//

/// Walks both shapes from the front: equal products close a run. Within a run
/// the sizes are taken apart into common factors; if they have none, the run is
/// whole.
static OpRule makeReshapeRule(ReshapeOp op) {
  OpRule rule = makeWholeRule(op);
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getResult());
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return rule;
  size_t i = 0, j = 0;
  int64_t leftFrom = 1, leftTo = 1; // of the dimensions i and j
  auto next = [](ArrayRef<int64_t> shape, size_t &at, int64_t &left) {
    while (left == 1 && at < shape.size())
      if ((left = shape[at]) == 1)
        ++at; // a unit dimension is of no factor
    return left != 1;
  };
  while (true) {
    bool isMore = next(from, i, leftFrom);
    if (!next(to, j, leftTo) || !isMore)
      break;
    int64_t size;
    if (ShapedType::isDynamic(leftFrom) || ShapedType::isDynamic(leftTo)) {
      if (leftFrom != leftTo)
        break;
      size = leftFrom;
    } else if (leftFrom % leftTo == 0 || leftTo % leftFrom == 0) {
      // The major factor of the larger one is what stands above the smaller
      // ones that follow: it is known only from behind, see below.
      size = std::min(leftFrom, leftTo);
    } else {
      break;
    }
    unsigned f = rule.add(size, FactorKind::Parallel);
    rule.operands[0][i].push_back(f);
    rule.results[0][j].push_back(f);
    leftFrom = ShapedType::isDynamic(size) ? 1 : leftFrom / size;
    leftTo = ShapedType::isDynamic(size) ? 1 : leftTo / size;
    i += leftFrom == 1;
    j += leftTo == 1;
  }
  // Where the shapes have no common factors, nothing is known from there on.
  if (leftFrom != 1 || leftTo != 1) {
    for (unsigned f :
         rule.operands[0].size() > i ? rule.operands[0][i] : DimFactors())
      rule.factors[f].kind = FactorKind::Whole;
    for (unsigned f :
         rule.results[0].size() > j ? rule.results[0][j] : DimFactors())
      rule.factors[f].kind = FactorKind::Whole;
  }
  return rule;
}

static OpRule makeSliceRule(SliceOp op) {
  OpRule rule = makeWholeRule(op);
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getInput())))
    if (shapeOf(op.getResult())[dim] == size)
      rule.operands[0][dim] = {addResultDim(rule, op, dim)};
  return rule;
}

static OpRule makeConcatRule(ConcatOp op) {
  OpRule rule = makeWholeRule(op);
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim) {
    if (dim == op.getAxis())
      continue;
    unsigned f = addResultDim(rule, op, dim);
    for (TensorFactors &operand : rule.operands)
      operand[dim] = {f};
  }
  return rule;
}

static OpRule makePadRule(PadOp op) {
  OpRule rule = makeWholeRule(op);
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim)
    if (op.getLow()[dim] == 0 && op.getHigh()[dim] == 0)
      rule.operands[0][dim] = {addResultDim(rule, op, dim)};
  return rule;
}

static OpRule makeUpdateSliceRule(UpdateSliceOp op) {
  OpRule rule = makeWholeRule(op);
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getUpdate())))
    if (size == shapeOf(op.getInput())[dim]) {
      unsigned f = addResultDim(rule, op, dim);
      rule.operands[0][dim] = rule.operands[1][dim] = {f};
    }
  return rule;
}

static OpRule makeAfterRule(AfterOp op) {
  OpRule rule = makeWholeRule(op);
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim)
    rule.operands[0][dim] = {addResultDim(rule, op, dim)};
  rule.unread = 1;
  return rule;
}

/// A dimension that no operand has: constants, parameters and iota are made, or
/// cut, on each rank.
static OpRule makeSourceRule(Operation *op) {
  OpRule rule = makeWholeRule(op);
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim)
    addResultDim(rule, op, dim);
  return rule;
}

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

static bool isNumber(Value value) {
  return !getElementTypeOrSelf(value.getType()).isInteger(1);
}

/// The gathered dimension may be split: a rank gives the rows that it has and
/// zeros for the others, an addend.
static OpRule makeGatherRule(GatherOp op) {
  OpRule rule = makeWholeRule(op);
  unsigned axis = op.getAxis(), batch = op.getBatchDims();
  unsigned indexRank = rule.operands[1].size();
  unsigned chosen = indexRank - batch; // dimensions in the place of `axis`
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim) {
    unsigned f = addResultDim(rule, op, dim);
    if (dim < batch)
      rule.operands[0][dim] = rule.operands[1][dim] = {f};
    else if (dim < axis)
      rule.operands[0][dim] = {f};
    else if (dim < axis + chosen)
      rule.operands[1][batch + dim - axis] = {f};
    else
      rule.operands[0][dim - chosen + 1] = {f};
  }
  if (isNumber(op.getInput()))
    rule.operands[0][axis] = {
        rule.add(shapeOf(op.getInput())[axis], FactorKind::Reduced)};
  return rule;
}

static OpRule makeGatherNdRule(GatherNdOp op) {
  OpRule rule = makeWholeRule(op);
  unsigned vectors = rule.operands[1].size() - 1, batch = op.getBatchDims();
  unsigned indexed = shapeOf(op.getIndices()).back();
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim) {
    unsigned f = addResultDim(rule, op, dim);
    if (dim < vectors)
      rule.operands[1][dim] = {f};
    if (dim < batch)
      rule.operands[0][dim] = {f};
    else if (dim >= vectors)
      rule.operands[0][dim - vectors + batch + indexed] = {f};
  }
  return rule;
}

/// Rows of the result may be split: each rank takes the updates of its rows.
/// The updates may be split where they are added to zeros, or combined by min
/// or max: each rank has an addend.
static OpRule makeScatterRule(ScatterOp op) {
  OpRule rule = makeWholeRule(op);
  unsigned vectors = rule.operands[1].size() - 1;
  unsigned indexed = shapeOf(op.getIndices()).back();
  for (unsigned dim = 0; dim < rule.results[0].size(); ++dim) {
    unsigned f = addResultDim(rule, op, dim);
    rule.operands[0][dim] = {f};
    if (dim >= indexed)
      rule.operands[2][vectors + dim - indexed] = {f};
  }
  std::optional<ReduceKind> kind;
  if (op.getKind() == ScatterKind::Min)
    kind = ReduceKind::Min;
  else if (op.getKind() == ScatterKind::Max)
    kind = ReduceKind::Max;
  else if (op.getKind() == ScatterKind::Add)
    kind = ReduceKind::Sum;
  if (op.getKind() == ScatterKind::Add)
    rule.addend = 0;
  if (kind && isNumber(op.getInput()))
    for (unsigned dim = 0; dim < vectors; ++dim)
      rule.operands[1][dim] = rule.operands[2][dim] = {
          rule.add(shapeOf(op.getUpdates())[dim], FactorKind::Reduced, *kind)};
  return rule;
}

//===----------------------------------------------------------------------===//
// Windows and attention
//===----------------------------------------------------------------------===//

/// Images and output channels are shared out; windows need rows of their
/// neighbours, so the spatial dimensions are whole.
template <typename OpTy>
static OpRule makeConvRule(OpTy op, unsigned outputDim, unsigned inputDim) {
  OpRule rule = makeWholeRule(op);
  unsigned channel =
      op.getLayout() == Layout::NCHW ? 1 : rule.results[0].size() - 1;
  rule.operands[0][0] = {addResultDim(rule, op, 0)};
  if (op.getGroups() != 1)
    return rule;
  unsigned output = addResultDim(rule, op, channel);
  rule.operands[1][outputDim] = {output};
  if (op.getBias())
    rule.operands[2][0] = {output};
  else // each rank would add the bias
    rule.operands[0][channel] = rule.operands[1][inputDim] = {
        rule.add(shapeOf(op.getInput())[channel], FactorKind::Reduced)};
  return rule;
}

template <typename OpTy> static OpRule makePoolRule(OpTy op) {
  OpRule rule = makeWholeRule(op);
  unsigned channel =
      op.getLayout() == Layout::NCHW ? 1 : rule.results[0].size() - 1;
  for (unsigned dim : {0u, channel}) {
    unsigned f = addResultDim(rule, op, dim);
    for (TensorFactors &operand : rule.operands)
      operand[dim] = {f};
  }
  return rule;
}

/// Batch and heads are shared out; heads of one group of keys stay together.
/// `op` is attention or its gradient, `rows` the operands and `rowResults` the
/// results that have the queries' shape; the others have the keys'.
template <typename OpTy>
static OpRule makeAttentionRule(OpTy op, ArrayRef<unsigned> rows,
                                ArrayRef<unsigned> rowResults) {
  OpRule rule = makeWholeRule(op);
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  unsigned batch = rule.add(query[0], FactorKind::Parallel);
  DimFactors group, head;
  if (!ShapedType::isDynamic(query[1]) && !ShapedType::isDynamic(key[1]) &&
      key[1] != 0 && query[1] % key[1] == 0) {
    group = {rule.add(key[1], FactorKind::Parallel)};
    head = group;
    if (query[1] != key[1])
      head.push_back(rule.add(query[1] / key[1], FactorKind::Parallel));
  }
  unsigned mask = op.getMask() ? op->getNumOperands() - 1 : ~0u;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (i == mask)
      continue;
    rule.operands[i][0] = {batch};
    rule.operands[i][1] = llvm::is_contained(rows, i) ? head : group;
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    rule.results[i][0] = {batch};
    rule.results[i][1] = llvm::is_contained(rowResults, i) ? head : group;
  }
  if (op.getMask()) {
    ArrayRef<int64_t> shape = shapeOf(op.getMask());
    if (shape[0] != 1 && shape[0] == query[0])
      rule.operands[mask][0] = {batch};
    if (shape[1] != 1)
      rule.operands[mask][1] = head;
  }
  return rule;
}

/// Positions go with their angles; a pair stays together.
static OpRule makeRopeRule(RopeOp op) {
  OpRule rule = makeWholeRule(op);
  unsigned rank = rule.results[0].size();
  for (unsigned dim = 0; dim + 1 < rank; ++dim)
    rule.operands[0][dim] = {addResultDim(rule, op, dim)};
  rule.operands[1][0] = rule.operands[2][0] = rule.results[0][rank - 2];
  return rule;
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

static Linearity getLinearity(Operation *op) {
  if (isa<TransposeOp, ReshapeOp, ReverseOp, SliceOp, AfterOp>(op))
    return Linearity::Moves;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == ReduceKind::Sum ? Linearity::Sums
                                               : Linearity::None;
  if (isa<AddOp, SubOp>(op))
    return Linearity::Adds;
  if (isa<NegOp>(op))
    return Linearity::Negates;
  if (isa<MulOp>(op))
    return Linearity::Scales;
  // Integer division rounds each addend.
  if (isa<DivOp>(op) &&
      isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return Linearity::Divides;
  return Linearity::None;
}

OpRule fusion::getShardingRule(Operation *op) {
  OpRule rule =
      llvm::TypeSwitch<Operation *, OpRule>(op)
          .Case([](ReshapeOp op) { return makeReshapeRule(op); })
          .Case([](SliceOp op) { return makeSliceRule(op); })
          .Case([](ConcatOp op) { return makeConcatRule(op); })
          .Case([](PadOp op) { return makePadRule(op); })
          .Case([](UpdateSliceOp op) { return makeUpdateSliceRule(op); })
          .Case([](GatherOp op) { return makeGatherRule(op); })
          .Case([](GatherNdOp op) { return makeGatherNdRule(op); })
          .Case([](ScatterOp op) { return makeScatterRule(op); })
          .Case([](ConvOp op) { return makeConvRule(op, 0, 1); })
          .Case([](ConvTransposeOp op) { return makeConvRule(op, 1, 0); })
          .Case<MaxPoolOp, AvgPoolOp>([](auto op) { return makePoolRule(op); })
          .Case<MaxPoolGradOp>([](auto op) { return makePoolRule(op); })
          .Case([](AttentionOp op) { return makeAttentionRule(op, {0}, {0}); })
          .Case([](AttentionGradOp op) {
            return makeAttentionRule(op, {0, 3}, {0});
          })
          .Case([](AfterOp op) { return makeAfterRule(op); })
          .Case([](RopeOp op) { return makeRopeRule(op); })
          .Case<ConstantOp, GetParameterOp, IotaOp>(
              [](Operation *op) { return makeSourceRule(op); })
          .Case([](FusableOpInterface op) { return makeInterfaceRule(op); })
          .Default([](Operation *op) { return makeWholeRule(op); });
  rule.linearity = getLinearity(op);
  rule.keepsStored = isa<ElementwiseOpInterface, ReduceOp, AfterOp>(op);
  return rule;
}
