//===- NamedFusableMaps.cpp - How named ops iterate -----------------------===//
//
// Iteration spaces, operand maps and costs of contractions, pools, norms and
// attention. The parallel dimensions are the result's in order, the reduction
// dimensions follow; norms reduce dimensions of their own result. Windows over
// padding have no affine map: what a point reads is piecewise.
//
//===----------------------------------------------------------------------===//
#include "FusableShapes.h"

using namespace mlir;
using namespace fusion;

static SmallVector<int64_t> range(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

static int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

SmallVector<int64_t> MatmulOp::getIterationShape() {
  SmallVector<int64_t> shape = shapeOf(getResult()), lhs = shapeOf(getLhs());
  shape.push_back(lhs[lhs.size() - (getTransposeLhs() ? 2 : 1)]);
  return shape;
}

SmallVector<int64_t> MatmulOp::getReductionDims() {
  return {rankOf(getResult())};
}

std::optional<AffineMap> MatmulOp::getOperandMap(unsigned operand) {
  int64_t rank = rankOf(getResult()), m = rank - 2, n = rank - 1, k = rank;
  bool isShared = operand == 1 && rankOf(getRhs()) != rank;
  SmallVector<int64_t> selected = range(0, isShared ? 0 : rank - 2);
  bool isTransposed = operand == 0 ? getTransposeLhs() : getTransposeRhs();
  int64_t row = operand == 0 ? m : k, column = operand == 0 ? k : n;
  selected.push_back(isTransposed ? column : row);
  selected.push_back(isTransposed ? row : column);
  return selectDims(rank + 1, selected, getContext());
}

int64_t MatmulOp::getFlops() {
  return saturatingProduct({saturatingProduct(getIterationShape()), 2});
}

//===----------------------------------------------------------------------===//
// Convolutions and pools
//===----------------------------------------------------------------------===//

namespace {

/// Where the dimensions of an image stand: by the layout, the channel and the
/// first spatial dimension.
struct ImageDims {
  int64_t rank, channel, spatial;

  ImageDims(Value image, Layout layout)
      : rank(rankOf(image)), channel(layout == Layout::NCHW ? 1 : rank - 1),
        spatial(layout == Layout::NCHW ? 2 : 1) {}

  int64_t spatialCount() const { return rank - 2; }
};

} // namespace

static bool hasPadding(ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  auto isPadded = [](int64_t amount) { return amount != 0; };
  return llvm::any_of(low, isPadded) || llvm::any_of(high, isPadded);
}

/// Index along each spatial dimension: output * stride + window * dilation.
/// `window` is the first window dimension of the space.
static void setWindowExprs(SmallVectorImpl<AffineExpr> &exprs,
                           const ImageDims &dims, int64_t window,
                           ArrayRef<int64_t> strides,
                           ArrayRef<int64_t> dilations, MLIRContext *context) {
  for (int64_t i = 0; i < dims.spatialCount(); ++i)
    exprs[dims.spatial + i] =
        getAffineDimExpr(dims.spatial + i, context) * strides[i] +
        getAffineDimExpr(window + i, context) * dilations[i];
}

/// The result's dimensions, the input channels of a group, the window.
template <typename OpTy>
static SmallVector<int64_t> convShape(OpTy op, int64_t groupChannels) {
  SmallVector<int64_t> shape = shapeOf(op.getResult());
  shape.push_back(groupChannels);
  llvm::append_range(
      shape, ArrayRef(op.getWeights().getType().getShape()).drop_front(2));
  return shape;
}

template <typename OpTy>
static SmallVector<int64_t> convReductionDims(OpTy op) {
  int64_t rank = rankOf(op.getResult());
  return range(rank, rank + rank - 1);
}

SmallVector<int64_t> ConvOp::getIterationShape() {
  return convShape(*this, getWeights().getType().getDimSize(1));
}

SmallVector<int64_t> ConvOp::getReductionDims() {
  return convReductionDims(*this);
}

std::optional<AffineMap> ConvOp::getOperandMap(unsigned operand) {
  MLIRContext *context = getContext();
  ImageDims dims(getInput(), getLayout());
  int64_t rank = dims.rank, space = 2 * rank - 1;
  AffineExpr output = getAffineDimExpr(dims.channel, context);
  if (operand == 2)
    return mapOf(space, {output}, context);
  if (operand == 1) {
    SmallVector<int64_t> selected{dims.channel};
    llvm::append_range(selected, range(rank, space));
    return selectDims(space, selected, context);
  }
  if (hasPadding(getPadLow(), getPadHigh()))
    return std::nullopt;
  auto weights = getWeights().getType().getShape();
  SmallVector<AffineExpr> exprs(rank, getAffineDimExpr(0, context));
  exprs[dims.channel] = getAffineDimExpr(rank, context);
  int64_t groups = getGroups();
  if (groups != 1 && weights[0] >= groups)
    exprs[dims.channel] =
        output.floorDiv(weights[0] / groups) * weights[1] + exprs[dims.channel];
  setWindowExprs(exprs, dims, rank + 1, getStrides(), getDilations(), context);
  return mapOf(space, exprs, context);
}

int64_t ConvOp::getFlops() {
  return saturatingProduct({saturatingProduct(getIterationShape()), 2});
}

/// Channels that one group reads: all channels over the groups.
static int64_t channelsOfGroup(ConvTransposeOp op) {
  return op.getWeights().getType().getDimSize(0) /
         std::max<int64_t>(op.getGroups(), 1);
}

SmallVector<int64_t> ConvTransposeOp::getIterationShape() {
  return convShape(*this, channelsOfGroup(*this));
}

SmallVector<int64_t> ConvTransposeOp::getReductionDims() {
  return convReductionDims(*this);
}

std::optional<AffineMap> ConvTransposeOp::getOperandMap(unsigned operand) {
  MLIRContext *context = getContext();
  ImageDims dims(getInput(), getLayout());
  int64_t rank = dims.rank, space = 2 * rank - 1;
  AffineExpr output = getAffineDimExpr(dims.channel, context);
  if (operand == 2)
    return mapOf(space, {output}, context);
  // Only some window positions meet an input element: (o + low - w * dilation)
  // must be a multiple of the stride.
  if (operand == 0)
    return std::nullopt;
  int64_t groupOutputs = getWeights().getType().getDimSize(1);
  SmallVector<AffineExpr> exprs{getAffineDimExpr(rank, context), output};
  if (getGroups() != 1 && groupOutputs > 0) {
    exprs[0] =
        output.floorDiv(groupOutputs) * channelsOfGroup(*this) + exprs[0];
    exprs[1] = output % groupOutputs;
  }
  for (int64_t dim : range(rank + 1, space))
    exprs.push_back(getAffineDimExpr(dim, context));
  return mapOf(space, exprs, context);
}

/// Each input element meets each window position of each output of its group
/// once.
int64_t ConvTransposeOp::getFlops() {
  SmallVector<int64_t> factors{2, countElements(getInput())};
  llvm::append_range(factors,
                     ArrayRef(getWeights().getType().getShape()).drop_front(1));
  return saturatingProduct(factors);
}

template <typename OpTy> static SmallVector<int64_t> poolShape(OpTy op) {
  SmallVector<int64_t> shape = shapeOf(op.getResult());
  llvm::append_range(shape, op.getWindow());
  return shape;
}

template <typename OpTy> static std::optional<AffineMap> poolMap(OpTy op) {
  if (hasPadding(op.getPadLow(), op.getPadHigh()))
    return std::nullopt;
  MLIRContext *context = op.getContext();
  ImageDims dims(op.getInput(), op.getLayout());
  SmallVector<AffineExpr> exprs;
  for (int64_t dim : range(0, dims.rank))
    exprs.push_back(getAffineDimExpr(dim, context));
  setWindowExprs(exprs, dims, dims.rank, op.getStrides(), op.getDilations(),
                 context);
  return mapOf(dims.rank + dims.spatialCount(), exprs, context);
}

#define FUSION_POOL(OP)                                                        \
  SmallVector<int64_t> OP::getIterationShape() { return poolShape(*this); }    \
  SmallVector<int64_t> OP::getReductionDims() {                                \
    return range(rankOf(getResult()), 2 * rankOf(getResult()) - 2);            \
  }                                                                            \
  std::optional<AffineMap> OP::getOperandMap(unsigned) {                       \
    return poolMap(*this);                                                     \
  }                                                                            \
  int64_t OP::getFlops() { return saturatingProduct(getIterationShape()); }

FUSION_POOL(MaxPoolOp)
FUSION_POOL(AvgPoolOp)

#undef FUSION_POOL

/// Each element asks the windows that reach it, and each of these who its
/// largest element is.
SmallVector<int64_t> MaxPoolGradOp::getIterationShape() {
  return poolShape(*this);
}
SmallVector<int64_t> MaxPoolGradOp::getReductionDims() {
  return range(rankOf(getResult()), 2 * rankOf(getResult()) - 2);
}
/// Only some offsets in a window meet an output, as in conv_transpose.
std::optional<AffineMap> MaxPoolGradOp::getOperandMap(unsigned) {
  return std::nullopt;
}
int64_t MaxPoolGradOp::getFlops() {
  SmallVector<int64_t> factors{countElements(getGrad())};
  llvm::append_range(factors, getWindow());
  llvm::append_range(factors, getWindow());
  return saturatingProduct(factors);
}

//===----------------------------------------------------------------------===//
// Norms and softmax
//===----------------------------------------------------------------------===//

/// The identity for the input, the dimensions `parameterDims` for the others.
static AffineMap normMap(Value input, unsigned operand,
                         ArrayRef<int64_t> parameterDims) {
  int64_t rank = rankOf(input);
  return selectDims(rank,
                    operand == 0 ? ArrayRef(range(0, rank)) : parameterDims,
                    input.getContext());
}

static int64_t flopsPerElement(Value input, int64_t flops) {
  return saturatingProduct({countElements(input), flops});
}

SmallVector<int64_t> BatchNormOp::getIterationShape() {
  return shapeOf(getInput());
}
SmallVector<int64_t> BatchNormOp::getReductionDims() { return {}; }
std::optional<AffineMap> BatchNormOp::getOperandMap(unsigned operand) {
  return normMap(getInput(), operand, {int64_t(getAxis())});
}
/// Subtract, divide (4), multiply, add.
int64_t BatchNormOp::getFlops() { return flopsPerElement(getInput(), 7); }

SmallVector<int64_t> BatchNormTrainingOp::getIterationShape() {
  return shapeOf(getInput());
}
SmallVector<int64_t> BatchNormTrainingOp::getReductionDims() {
  SmallVector<int64_t> dims = range(0, rankOf(getInput()));
  llvm::erase(dims, int64_t(getAxis()));
  return dims;
}
std::optional<AffineMap> BatchNormTrainingOp::getOperandMap(unsigned operand) {
  return normMap(getInput(), operand, {int64_t(getAxis())});
}
/// As batch_norm, and two passes of statistics.
int64_t BatchNormTrainingOp::getFlops() {
  return flopsPerElement(getInput(), 10);
}

#define FUSION_ROW_NORM(OP, FLOPS)                                             \
  SmallVector<int64_t> OP::getIterationShape() { return shapeOf(getInput()); } \
  SmallVector<int64_t> OP::getReductionDims() {                                \
    return range(getAxis(), rankOf(getInput()));                               \
  }                                                                            \
  std::optional<AffineMap> OP::getOperandMap(unsigned operand) {               \
    return normMap(getInput(), operand, range(getAxis(), rankOf(getInput()))); \
  }                                                                            \
  int64_t OP::getFlops() { return flopsPerElement(getInput(), FLOPS); }

FUSION_ROW_NORM(LayerNormOp, 10)
FUSION_ROW_NORM(RmsNormOp, 8)

#undef FUSION_ROW_NORM

#define FUSION_SOFTMAX(OP, FLOPS)                                              \
  SmallVector<int64_t> OP::getIterationShape() { return shapeOf(getInput()); } \
  SmallVector<int64_t> OP::getReductionDims() { return {int64_t(getAxis())}; } \
  std::optional<AffineMap> OP::getOperandMap(unsigned operand) {               \
    return normMap(getInput(), operand, {});                                   \
  }                                                                            \
  int64_t OP::getFlops() { return flopsPerElement(getInput(), FLOPS); }

// Maximum, subtract, exponential (16), sum, and a quotient (4) or a difference.
FUSION_SOFTMAX(SoftmaxOp, 23)
FUSION_SOFTMAX(LogSoftmaxOp, 20)

#undef FUSION_SOFTMAX

//===----------------------------------------------------------------------===//
// Attention and rope
//===----------------------------------------------------------------------===//

/// [B, H, S, E], then T and D.
SmallVector<int64_t> AttentionOp::getIterationShape() {
  SmallVector<int64_t> shape = shapeOf(getResult()), key = shapeOf(getKey());
  shape.push_back(key[2]);
  shape.push_back(key[3]);
  return shape;
}

SmallVector<int64_t> AttentionOp::getReductionDims() { return {4, 5}; }

std::optional<AffineMap> AttentionOp::getOperandMap(unsigned operand) {
  MLIRContext *context = getContext();
  auto dim = [&](unsigned position) {
    return getAffineDimExpr(position, context);
  };
  enum { B, H, S, E, T, D, SpaceRank };
  if (operand == 0)
    return selectDims(SpaceRank, {B, H, S, D}, context);
  if (operand == 3) {
    auto mask = getMask().getType().getShape();
    AffineExpr zero = getAffineConstantExpr(0, context);
    return mapOf(SpaceRank,
                 {mask[0] == 1 ? zero : dim(B), mask[1] == 1 ? zero : dim(H),
                  dim(S), dim(T)},
                 context);
  }
  int64_t heads = getQuery().getType().getDimSize(1),
          groups = getKey().getType().getDimSize(1);
  if (ShapedType::isDynamic(heads) || ShapedType::isDynamic(groups))
    return std::nullopt;
  int64_t repeats = groups > 0 ? std::max<int64_t>(heads / groups, 1) : 1;
  return mapOf(
      SpaceRank,
      {dim(B), dim(H).floorDiv(repeats), dim(T), dim(operand == 1 ? D : E)},
      context);
}

/// Two products and the softmax of the scores.
int64_t AttentionOp::getFlops() {
  SmallVector<int64_t> query = shapeOf(getQuery());
  int64_t scores = saturatingProduct(
      {query[0], query[1], query[2], getKey().getType().getDimSize(2)});
  int64_t depth = saturatingProduct({query[3]}),
          width = saturatingProduct({getValue().getType().getDimSize(3)});
  int64_t perScore;
  if (llvm::AddOverflow(depth, width, perScore) ||
      llvm::MulOverflow(perScore, int64_t(2), perScore) ||
      llvm::AddOverflow(perScore, int64_t(24), perScore))
    return std::numeric_limits<int64_t>::max();
  return saturatingProduct({scores, perScore});
}

SmallVector<int64_t> RopeOp::getIterationShape() { return shapeOf(getInput()); }
SmallVector<int64_t> RopeOp::getReductionDims() { return {}; }

std::optional<AffineMap> RopeOp::getOperandMap(unsigned operand) {
  // A point reads both elements of its pair.
  if (operand == 0)
    return std::nullopt;
  MLIRContext *context = getContext();
  int64_t rank = rankOf(getInput()),
          half = getCosine().getType().getShape().back();
  AffineExpr element = getAffineDimExpr(rank - 1, context);
  AffineExpr pair = getAffineConstantExpr(0, context);
  if (half > 0)
    pair = getInterleaved() ? element.floorDiv(2) : element % half;
  return mapOf(rank, {getAffineDimExpr(rank - 2, context), pair}, context);
}

/// Two products and a sum.
int64_t RopeOp::getFlops() { return flopsPerElement(getInput(), 3); }
