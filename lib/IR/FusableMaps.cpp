//===- FusableMaps.cpp - How structural ops iterate -----------------------===//
//
// Iteration spaces, operand maps and costs of elementwise and structural ops.
//
// Conventions: the parallel dimensions of a space are the result's dimensions,
// in order; scatter alone iterates over its updates. A space without elements
// has maps to index 0: nothing is read. Moving data costs no flops.
//
//===----------------------------------------------------------------------===//
#include "FusableShapes.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

int64_t fusion::saturatingProduct(ArrayRef<int64_t> factors) {
  if (llvm::is_contained(factors, 0))
    return 0;
  int64_t product = 1;
  for (int64_t factor : factors)
    if (!ShapedType::isDynamic(factor) &&
        llvm::MulOverflow(product, factor, product))
      return std::numeric_limits<int64_t>::max();
  return product;
}

SmallVector<int64_t> fusion::shapeOf(Value value) {
  return llvm::to_vector(cast<RankedTensorType>(value.getType()).getShape());
}

int64_t fusion::countElements(Value value) {
  return saturatingProduct(shapeOf(value));
}

AffineMap fusion::mapOf(unsigned dims, ArrayRef<AffineExpr> results,
                        MLIRContext *context) {
  return AffineMap::get(dims, 0, results, context);
}

AffineMap fusion::selectDims(unsigned dims, ArrayRef<int64_t> selected,
                             MLIRContext *context) {
  SmallVector<AffineExpr> exprs;
  for (int64_t dim : selected)
    exprs.push_back(getAffineDimExpr(dim, context));
  return mapOf(dims, exprs, context);
}

/// Result shape and identity map: what ops without a reduction share.
static unsigned resultRank(Operation *op) {
  return cast<RankedTensorType>(op->getResult(0).getType()).getRank();
}

static AffineMap identity(Operation *op) {
  return AffineMap::getMultiDimIdentityMap(resultRank(op), op->getContext());
}

/// Every point reads the one element of a scalar.
static AffineMap scalarMap(Operation *op) {
  return mapOf(resultRank(op), {}, op->getContext());
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Type fusion::getComputeType(Type elementType) {
  if (elementType.isF16() || elementType.isBF16())
    return Float32Type::get(elementType.getContext());
  return elementType;
}

SmallVector<int64_t> fusion::detail::elementwiseShape(Operation *op) {
  return shapeOf(op->getResult(0));
}

AffineMap fusion::detail::elementwiseMap(Operation *op) { return identity(op); }

int64_t fusion::detail::elementwiseFlops(Operation *op,
                                         int64_t flopsPerElement) {
  return saturatingProduct({countElements(op->getResult(0)), flopsPerElement});
}

//===----------------------------------------------------------------------===//
// Broadcast, transpose, slice, reverse
//===----------------------------------------------------------------------===//

#define FUSION_RESULT_SPACE(OP)                                                \
  SmallVector<int64_t> OP::getIterationShape() {                               \
    return shapeOf(getResult());                                               \
  }                                                                            \
  SmallVector<int64_t> OP::getReductionDims() { return {}; }                   \
  int64_t OP::getFlops() { return 0; }

FUSION_RESULT_SPACE(BroadcastOp)
FUSION_RESULT_SPACE(ReshapeOp)
FUSION_RESULT_SPACE(TransposeOp)
FUSION_RESULT_SPACE(SliceOp)
FUSION_RESULT_SPACE(ReverseOp)
FUSION_RESULT_SPACE(ConcatOp)
FUSION_RESULT_SPACE(PadOp)
FUSION_RESULT_SPACE(GatherOp)
FUSION_RESULT_SPACE(GatherNdOp)
FUSION_RESULT_SPACE(UpdateSliceOp)
FUSION_RESULT_SPACE(IotaOp)

#undef FUSION_RESULT_SPACE

std::optional<AffineMap> BroadcastOp::getOperandMap(unsigned) {
  auto from = getInput().getType().getShape(),
       to = getResult().getType().getShape();
  SmallVector<AffineExpr> exprs;
  for (auto [size, dim] : llvm::zip_equal(from, getDims()))
    exprs.push_back(size == 1 && to[dim] != 1
                        ? getAffineConstantExpr(0, getContext())
                        : getAffineDimExpr(dim, getContext()));
  return mapOf(to.size(), exprs, getContext());
}

std::optional<AffineMap> TransposeOp::getOperandMap(unsigned) {
  SmallVector<int64_t> selected(getPermutation().size());
  for (auto [dim, operandDim] : llvm::enumerate(getPermutation()))
    selected[operandDim] = dim;
  return selectDims(selected.size(), selected, getContext());
}

std::optional<AffineMap> SliceOp::getOperandMap(unsigned) {
  SmallVector<AffineExpr> exprs;
  for (auto [dim, start, stride] : llvm::enumerate(getStarts(), getStrides()))
    exprs.push_back(getAffineDimExpr(dim, getContext()) * stride + start);
  return mapOf(exprs.size(), exprs, getContext());
}

std::optional<AffineMap> ReverseOp::getOperandMap(unsigned) {
  SmallVector<AffineExpr> exprs;
  for (auto [dim, size] : llvm::enumerate(getInput().getType().getShape())) {
    AffineExpr expr = getAffineDimExpr(dim, getContext());
    bool isReversed = llvm::is_contained(getDims(), int64_t(dim));
    // The last index of a `?` dimension is not a constant.
    if (isReversed && ShapedType::isDynamic(size))
      return std::nullopt;
    exprs.push_back(isReversed ? size - 1 - expr : expr);
  }
  return mapOf(exprs.size(), exprs, getContext());
}

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

namespace {

/// Dimensions [begin, end) of both shapes that hold the same elements.
struct ReshapeRun {
  ArrayRef<int64_t> from, to;
  int64_t toBegin;
};

/// Consumes the shortest prefix (or suffix, with `backwards`) of both shapes
/// with equal static products; nullopt at a `?`, at an end, or on overflow.
std::optional<ReshapeRun> takeRun(ArrayRef<int64_t> &from,
                                  ArrayRef<int64_t> &to, int64_t &toBegin,
                                  bool backwards) {
  size_t fromCount = 0, toCount = 0;
  int64_t fromProduct = 1, toProduct = 1;
  while (fromCount == 0 || toCount == 0 || fromProduct != toProduct) {
    bool growsFrom =
        fromCount == 0 || (toCount != 0 && fromProduct < toProduct);
    ArrayRef<int64_t> shape = growsFrom ? from : to;
    size_t &count = growsFrom ? fromCount : toCount;
    int64_t &product = growsFrom ? fromProduct : toProduct;
    if (count == shape.size())
      return std::nullopt;
    int64_t size = backwards ? shape[shape.size() - 1 - count] : shape[count];
    if (ShapedType::isDynamic(size) ||
        llvm::MulOverflow(product, size, product))
      return std::nullopt;
    ++count;
  }
  ReshapeRun run;
  if (backwards) {
    run = {from.take_back(fromCount), to.take_back(toCount),
           toBegin + int64_t(to.size() - toCount)};
    from = from.drop_back(fromCount);
    to = to.drop_back(toCount);
  } else {
    run = {from.take_front(fromCount), to.take_front(toCount), toBegin};
    from = from.drop_front(fromCount);
    to = to.drop_front(toCount);
    toBegin += toCount;
  }
  return run;
}

/// Whether only the first size, if any, is `?`.
bool isStaticBehindFirst(ArrayRef<int64_t> sizes) {
  return sizes.empty() ||
         llvm::none_of(sizes.drop_front(), ShapedType::isDynamic);
}

} // namespace

/// Appends the operand indices of the run: the row-major position within the
/// result's dimensions, taken apart by the operand's sizes.
static void appendRun(const ReshapeRun &run, MLIRContext *context,
                      SmallVectorImpl<AffineExpr> &exprs) {
  AffineExpr position = getAffineConstantExpr(0, context);
  int64_t stride = 1;
  for (size_t i = run.to.size(); i-- > 0;) {
    if (run.to[i] != 1)
      position = getAffineDimExpr(run.toBegin + i, context) * stride + position;
    if (!ShapedType::isDynamic(run.to[i]))
      stride *= run.to[i];
  }
  const auto *leading =
      llvm::find_if(run.from, [](int64_t size) { return size != 1; });
  size_t first = exprs.size(), leadingDim = leading - run.from.begin();
  exprs.resize(first + run.from.size(), getAffineConstantExpr(0, context));
  for (size_t i = run.from.size(); i-- > leadingDim;) {
    // The leading dimension takes what is left: it needs no bound and may be
    // `?`.
    exprs[first + i] = i == leadingDim ? position : position % run.from[i];
    if (i != leadingDim)
      position = position.floorDiv(run.from[i]);
  }
}

/// Reshapes fall apart into runs of dimensions with equal products, so that
/// most maps stay free of divisions. A `?` must lead its run on both sides.
std::optional<AffineMap> ReshapeOp::getOperandMap(unsigned) {
  MLIRContext *context = getContext();
  auto from = getInput().getType().getShape(),
       to = getResult().getType().getShape();
  SmallVector<AffineExpr> exprs;
  if (llvm::is_contained(to, 0) || llvm::is_contained(from, 0)) {
    exprs.assign(from.size(), getAffineConstantExpr(0, context));
    return mapOf(to.size(), exprs, context);
  }
  int64_t toBegin = 0, rank = to.size();
  while (auto run = takeRun(from, to, toBegin, /*backwards=*/false))
    appendRun(*run, context, exprs);
  SmallVector<ReshapeRun> tail;
  while (auto run = takeRun(from, to, toBegin, /*backwards=*/true))
    tail.push_back(*run);
  if (!isStaticBehindFirst(from) || !isStaticBehindFirst(to))
    return std::nullopt;
  bool leads = !from.empty() && ShapedType::isDynamic(from.front());
  if (leads != (!to.empty() && ShapedType::isDynamic(to.front())))
    return std::nullopt;
  appendRun({from, to, toBegin}, context, exprs);
  for (ReshapeRun &run : llvm::reverse(tail))
    appendRun(run, context, exprs);
  return mapOf(rank, exprs, context);
}

//===----------------------------------------------------------------------===//
// Concat, pad, gather, scatter
//===----------------------------------------------------------------------===//

std::optional<AffineMap> ConcatOp::getOperandMap(unsigned) {
  // Which operand a point reads depends on where it lies.
  if (getInputs().size() > 1)
    return std::nullopt;
  return identity(*this);
}

std::optional<AffineMap> PadOp::getOperandMap(unsigned operand) {
  if (operand == 1)
    return scalarMap(*this);
  auto isZero = [](int64_t amount) { return amount == 0; };
  if (llvm::all_of(getLow(), isZero) && llvm::all_of(getHigh(), isZero))
    return identity(*this);
  return std::nullopt;
}

std::optional<AffineMap> GatherOp::getOperandMap(unsigned operand) {
  if (operand == 0)
    return std::nullopt;
  int64_t axis = getAxis(), batch = getBatchDims();
  SmallVector<int64_t> selected = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  for (int64_t i = batch, e = getIndices().getType().getRank(); i < e; ++i)
    selected.push_back(axis + i - batch);
  return selectDims(resultRank(*this), selected, getContext());
}

/// Map to an index tensor whose last dimension holds an index vector: one
/// element a point only if the vector has one.
static std::optional<AffineMap> indexVectorMap(unsigned dims,
                                               RankedTensorType indices) {
  if (indices.getRank() == 0 || indices.getShape().back() != 1)
    return std::nullopt;
  SmallVector<AffineExpr> exprs;
  for (int64_t dim = 0; dim + 1 < indices.getRank(); ++dim)
    exprs.push_back(getAffineDimExpr(dim, indices.getContext()));
  exprs.push_back(getAffineConstantExpr(0, indices.getContext()));
  return mapOf(dims, exprs, indices.getContext());
}

std::optional<AffineMap> GatherNdOp::getOperandMap(unsigned operand) {
  if (operand == 0)
    return std::nullopt;
  return indexVectorMap(resultRank(*this), getIndices().getType());
}

/// One point an element of the updates; those of one slice position come in
/// order.
SmallVector<int64_t> ScatterOp::getIterationShape() {
  return shapeOf(getUpdates());
}

SmallVector<int64_t> ScatterOp::getReductionDims() {
  return llvm::to_vector(
      llvm::seq<int64_t>(0, getIndices().getType().getRank() - 1));
}

std::optional<AffineMap> ScatterOp::getOperandMap(unsigned operand) {
  unsigned rank = getUpdates().getType().getRank();
  if (operand == 2)
    return AffineMap::getMultiDimIdentityMap(rank, getContext());
  if (operand == 1)
    return indexVectorMap(rank, getIndices().getType());
  return std::nullopt;
}

int64_t ScatterOp::getFlops() {
  return getKind() == ScatterKind::Set ? 0 : countElements(getUpdates());
}

std::optional<AffineMap> UpdateSliceOp::getOperandMap(unsigned operand) {
  if (operand == 0)
    return identity(*this);
  if (operand == 1)
    return std::nullopt;
  return scalarMap(*this);
}

std::optional<AffineMap> IotaOp::getOperandMap(unsigned) {
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static AffineMap inputIdentity(Value input) {
  return AffineMap::getMultiDimIdentityMap(
      cast<RankedTensorType>(input.getType()).getRank(), input.getContext());
}

SmallVector<int64_t> ReduceOp::getIterationShape() {
  return shapeOf(getInput());
}
SmallVector<int64_t> ReduceOp::getReductionDims() {
  return llvm::to_vector(getDims());
}
std::optional<AffineMap> ReduceOp::getOperandMap(unsigned) {
  return inputIdentity(getInput());
}
int64_t ReduceOp::getFlops() { return countElements(getInput()); }

#define FUSION_ARG_REDUCE(OP)                                                  \
  SmallVector<int64_t> OP::getIterationShape() { return shapeOf(getInput()); } \
  SmallVector<int64_t> OP::getReductionDims() { return {int64_t(getAxis())}; } \
  std::optional<AffineMap> OP::getOperandMap(unsigned) {                       \
    return inputIdentity(getInput());                                          \
  }                                                                            \
  int64_t OP::getFlops() { return countElements(getInput()); }

FUSION_ARG_REDUCE(ArgMaxOp)
FUSION_ARG_REDUCE(ArgMinOp)

#undef FUSION_ARG_REDUCE
