//===- NamedInference.cpp - Result types of named ops ---------------------===//
//
// Type inference of contractions, pools, training batch norm and attention;
// their shape constraints are checked here.
//
//===----------------------------------------------------------------------===//
#include "ShapeInference.h"

using namespace mlir;
using namespace fusion;
using shape::error;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static LogicalResult infer(std::optional<Location> loc, Type elementType,
                           ArrayRef<int64_t> sizes,
                           SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = shape::withShape(loc, elementType, sizes);
  if (failed(type))
    return failure();
  results.push_back(*type);
  return success();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  auto lhs = typeOf(adaptor.getLhs()), rhs = typeOf(adaptor.getRhs());
  if (lhs.getRank() < 2 || rhs.getRank() < 2 ||
      (rhs.getRank() != 2 && rhs.getRank() != lhs.getRank()))
    return error(loc, "needs ranks >= 2 that are equal, or a rhs of rank 2");
  if (lhs.getElementType() != rhs.getElementType())
    return error(loc, "element types differ");
  auto lhsMatrix = lhs.getShape().take_back(2),
       rhsMatrix = rhs.getShape().take_back(2);
  bool lhsSwapped =
      shape::hasUnit(adaptor, adaptor.getTransposeLhs(), "transpose_lhs");
  bool rhsSwapped =
      shape::hasUnit(adaptor, adaptor.getTransposeRhs(), "transpose_rhs");
  int64_t m = lhsMatrix[lhsSwapped ? 1 : 0], k = lhsMatrix[lhsSwapped ? 0 : 1];
  int64_t rhsK = rhsMatrix[rhsSwapped ? 1 : 0],
          n = rhsMatrix[rhsSwapped ? 0 : 1];
  if (!shape::agree(k, rhsK))
    return error(loc, "contracted sizes differ: " + Twine(k) + " and " +
                          Twine(rhsK));
  if (ShapedType::isDynamic(k))
    return error(loc, "the contracted size must be static");
  SmallVector<int64_t> sizes(lhs.getShape().drop_back(2));
  if (rhs.getRank() != 2)
    for (auto [d, size] : llvm::enumerate(rhs.getShape().drop_back(2)))
      if (!shape::agree(size, sizes[d]))
        return error(loc, "the batch dimension " + Twine(d) + " differs");
  sizes.append({m, n});
  return infer(loc, lhs.getElementType(), sizes, results);
}

/// The position of the channels and of the first spatial dimension.
static std::pair<int64_t, int64_t> positions(Layout layout, int64_t rank) {
  return layout == Layout::NHWC ? std::make_pair(rank - 1, int64_t(1))
                                : std::make_pair(int64_t(1), int64_t(2));
}

/// What conv and conv_transpose check alike: ranks, lists, groups, static
/// sizes.
template <typename AdaptorT>
static LogicalResult checkConv(std::optional<Location> loc, AdaptorT adaptor) {
  auto input = typeOf(adaptor.getInput()),
       weights = typeOf(adaptor.getWeights());
  int64_t rank = input.getRank();
  if (rank < 3 || rank > 5 || weights.getRank() != rank)
    return error(loc, "input and weights need one rank from 3 to 5");
  if (input.getElementType() != weights.getElementType())
    return error(loc, "element types of input and weights differ");
  size_t spatial = rank - 2;
  if (failed(
          shape::checkList(loc, "strides", adaptor.getStrides(), spatial, 1)) ||
      failed(
          shape::checkList(loc, "pad_low", adaptor.getPadLow(), spatial, 0)) ||
      failed(shape::checkList(loc, "pad_high", adaptor.getPadHigh(), spatial,
                              0)) ||
      failed(shape::checkList(loc, "dilations", adaptor.getDilations(), spatial,
                              1)))
    return failure();
  if (!weights.hasStaticShape())
    return error(loc, "the weights' shape must be static");
  auto [channel, first] = positions(adaptor.getLayout(), rank);
  if (input.isDynamicDim(channel))
    return error(loc, "the channel dimension must be static");
  if (adaptor.getGroups() < 1)
    return error(loc, "'groups' must be at least 1");
  return success();
}

static LogicalResult checkBias(std::optional<Location> loc, Value bias,
                               RankedTensorType input, int64_t channels) {
  if (!bias)
    return success();
  auto type = typeOf(bias);
  if (type.getRank() != 1 || type.getDimSize(0) != channels ||
      type.getElementType() != input.getElementType())
    return error(loc, "the bias must have the shape [" + Twine(channels) +
                          "] and the input's element type");
  return success();
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  if (failed(checkConv(loc, adaptor)))
    return failure();
  auto input = typeOf(adaptor.getInput()),
       weights = typeOf(adaptor.getWeights());
  auto [channel, first] = positions(adaptor.getLayout(), input.getRank());
  int64_t groups = adaptor.getGroups(), channels = input.getDimSize(channel);
  int64_t features = weights.getDimSize(0);
  if (channels % groups != 0 || features % groups != 0 ||
      weights.getDimSize(1) != channels / groups)
    return error(loc, "groups = " + Twine(groups) + " must divide " +
                          Twine(channels) + " input and " + Twine(features) +
                          " output channels, with " + Twine(channels / groups) +
                          " input channels a group in the weights");
  if (failed(checkBias(loc, adaptor.getBias(), input, features)))
    return failure();
  SmallVector<int64_t> sizes(input.getShape());
  sizes[channel] = features;
  for (int64_t i = 0, e = input.getRank() - 2; i < e; ++i) {
    FailureOr<int64_t> size = shape::slide(
        loc, input.getDimSize(first + i), weights.getDimSize(2 + i),
        adaptor.getStrides()[i], adaptor.getPadLow()[i],
        adaptor.getPadHigh()[i], adaptor.getDilations()[i]);
    if (failed(size))
      return failure();
    sizes[first + i] = *size;
  }
  return infer(loc, input.getElementType(), sizes, results);
}

LogicalResult
ConvTransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                  Adaptor adaptor,
                                  SmallVectorImpl<Type> &results) {
  if (failed(checkConv(loc, adaptor)))
    return failure();
  auto input = typeOf(adaptor.getInput()),
       weights = typeOf(adaptor.getWeights());
  auto [channel, first] = positions(adaptor.getLayout(), input.getRank());
  int64_t groups = adaptor.getGroups(), channels = input.getDimSize(channel);
  if (channels % groups != 0 || weights.getDimSize(0) != channels)
    return error(loc, "groups = " + Twine(groups) + " must divide " +
                          Twine(channels) +
                          " input channels, which are the "
                          "weights' first dimension");
  std::optional<int64_t> features =
      shape::multiply(weights.getDimSize(1), groups);
  if (!features)
    return error(loc, "the number of output channels overflows");
  if (failed(checkBias(loc, adaptor.getBias(), input, *features)) ||
      failed(shape::checkList(loc, "output_padding", adaptor.getOutputPadding(),
                              input.getRank() - 2, 0)))
    return failure();
  SmallVector<int64_t> sizes(input.getShape());
  sizes[channel] = *features;
  for (int64_t i = 0, e = input.getRank() - 2; i < e; ++i) {
    int64_t stride = adaptor.getStrides()[i],
            dilation = adaptor.getDilations()[i];
    int64_t extra = adaptor.getOutputPadding()[i],
            in = input.getDimSize(first + i);
    if (ShapedType::isDynamic(in))
      return error(loc, "spatial dimensions must be static");
    if (extra >= std::max(stride, dilation))
      return error(loc,
                   "'output_padding' must be below the stride or the dilation");
    if (in < 1 || weights.getDimSize(2 + i) < 1)
      return error(loc, "spatial dimensions and the window must not be empty");
    std::optional<int64_t> size = shape::multiply(in - 1, stride);
    std::optional<int64_t> reach =
        shape::multiply(dilation, weights.getDimSize(2 + i) - 1);
    if (size && reach)
      size = shape::add(*size, *reach);
    if (!size || !reach || !(size = shape::add(*size, 1 + extra)))
      return error(loc, "window sizes overflow");
    std::optional<int64_t> pads =
        shape::add(adaptor.getPadLow()[i], adaptor.getPadHigh()[i]);
    if (!pads || *pads > *size)
      return error(loc, "the padding removes more than the whole result");
    sizes[first + i] = *size - *pads;
  }
  return infer(loc, input.getElementType(), sizes, results);
}

/// Checks that each of `count` windows along spatial dimension `dim` holds an
/// element of the input of size `in`. The parameters passed `shape::slide`: the
/// reach of a window and the position of the last one don't overflow.
static LogicalResult checkWindows(std::optional<Location> loc, int64_t dim,
                                  int64_t in, int64_t count, int64_t window,
                                  int64_t stride, int64_t low,
                                  int64_t dilation) {
  auto holdsElement = [&](int64_t o) {
    int64_t begin = o * stride - low;
    int64_t skip = begin < 0 ? -begin / dilation + (-begin % dilation != 0) : 0;
    return skip < window && begin + skip * dilation < in;
  };
  auto fail = [&]() -> LogicalResult {
    return error(loc, "a window along spatial dimension " + Twine(dim) +
                          " holds no element of the input");
  };
  // Only the first window can lie before the input, only the last one behind.
  if (!holdsElement(0) || !holdsElement(count - 1))
    return fail();
  // A dilated window that begins in the padding can step over a small input.
  if (dilation <= in)
    return success();
  constexpr int64_t kMaxChecked = 1 << 16;
  int64_t inPadding = std::min(count, low / stride + 1);
  if (inPadding > kMaxChecked)
    return error(loc, "with a dilation above the input's size, more than 65536 "
                      "windows begin in the padding");
  for (int64_t o = 1; o < inPadding; ++o)
    if (!holdsElement(o))
      return fail();
  return success();
}

template <typename AdaptorT>
static LogicalResult inferPool(std::optional<Location> loc, AdaptorT adaptor,
                               SmallVectorImpl<Type> &results) {
  auto input = typeOf(adaptor.getInput());
  int64_t rank = input.getRank();
  if (rank < 3 || rank > 5)
    return error(loc, "the input needs a rank from 3 to 5");
  size_t spatial = rank - 2;
  if (failed(
          shape::checkList(loc, "window", adaptor.getWindow(), spatial, 1)) ||
      failed(
          shape::checkList(loc, "strides", adaptor.getStrides(), spatial, 1)) ||
      failed(
          shape::checkList(loc, "pad_low", adaptor.getPadLow(), spatial, 0)) ||
      failed(shape::checkList(loc, "pad_high", adaptor.getPadHigh(), spatial,
                              0)) ||
      failed(shape::checkList(loc, "dilations", adaptor.getDilations(), spatial,
                              1)))
    return failure();
  auto [channel, first] = positions(adaptor.getLayout(), rank);
  if (input.isDynamicDim(channel))
    return error(loc, "the channel dimension must be static");
  SmallVector<int64_t> sizes(input.getShape());
  for (size_t i = 0; i < spatial; ++i) {
    int64_t in = input.getDimSize(first + i), low = adaptor.getPadLow()[i];
    int64_t window = adaptor.getWindow()[i], stride = adaptor.getStrides()[i];
    int64_t dilation = adaptor.getDilations()[i];
    FailureOr<int64_t> size = shape::slide(loc, in, window, stride, low,
                                           adaptor.getPadHigh()[i], dilation);
    if (failed(size))
      return failure();
    if (failed(checkWindows(loc, i, in, *size, window, stride, low, dilation)))
      return failure();
    sizes[first + i] = *size;
  }
  return infer(loc, input.getElementType(), sizes, results);
}

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  return inferPool(loc, adaptor, results);
}

LogicalResult MaxPoolGradOp::verify() {
  // The gradient's type and the pool's constraints are one question.
  SmallVector<Type, 1> pooled;
  if (failed(inferPool(getLoc(), *this, pooled)))
    return failure();
  if (getGrad().getType() != pooled.front())
    return emitOpError("the gradient must have the type of max_pool's result, ")
           << pooled.front();
  return success();
}

LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  return inferPool(loc, adaptor, results);
}

LogicalResult BatchNormTrainingOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
    SmallVectorImpl<Type> &results) {
  auto input = typeOf(adaptor.getInput()), scale = typeOf(adaptor.getScale());
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= input.getRank())
    return error(loc, "axis " + Twine(axis) + " is outside the rank " +
                          Twine(input.getRank()));
  int64_t channels = input.getDimSize(axis);
  if (ShapedType::isDynamic(channels))
    return error(loc, "the axis must be static");
  if (scale.getRank() != 1 || scale.getDimSize(0) != channels)
    return error(loc, "scale and bias must have the shape [" + Twine(channels) +
                          "]");
  if (adaptor.getBias().getType() != scale)
    return error(loc, "scale and bias must share one type");
  if (!shape::isSameOrWider(scale.getElementType(), input.getElementType()))
    return error(
        loc, "the parameters' element type must be the input's or a wider one");
  if (!(adaptor.getEpsilon().convertToDouble() >= 0))
    return error(loc, "epsilon must not be negative");
  results.append({input, scale, scale});
  return success();
}

/// What attention and its gradient check alike; the type of attention's result.
template <typename AdaptorT>
static FailureOr<RankedTensorType> inferAttention(std::optional<Location> loc,
                                                  AdaptorT adaptor) {
  auto q = typeOf(adaptor.getQuery()), k = typeOf(adaptor.getKey()),
       v = typeOf(adaptor.getValue());
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4)
    return error(loc, "query, key and value need rank 4");
  if (q.getElementType() != k.getElementType() ||
      q.getElementType() != v.getElementType())
    return error(loc, "element types differ");
  for (auto type : {q, k, v})
    for (int64_t d = 1; d < 4; ++d)
      if (type.isDynamicDim(d))
        return error(loc, "only dimension 0 may be the batch");
  int64_t heads = q.getDimSize(1), groups = k.getDimSize(1);
  if (q.getDimSize(0) != k.getDimSize(0) ||
      q.getDimSize(0) != v.getDimSize(0) ||
      q.getDimSize(3) != k.getDimSize(3) ||
      k.getDimSize(2) != v.getDimSize(2) || groups != v.getDimSize(1) ||
      groups == 0 || heads % groups != 0)
    return error(loc, "batch, depth and key length must agree, and the number "
                      "of key heads must divide that of query heads");
  if (Value mask = adaptor.getMask()) {
    auto type = typeOf(mask);
    auto fits = [&](int64_t d) {
      return type.getDimSize(d) == 1 || type.getDimSize(d) == q.getDimSize(d);
    };
    if (type.getRank() != 4 || type.getElementType() != q.getElementType() ||
        !fits(0) || !fits(1) || type.getDimSize(2) != q.getDimSize(2) ||
        type.getDimSize(3) != k.getDimSize(2))
      return error(loc, "the mask must have the shape [B or 1, H or 1, S, T] "
                        "and the query's element type");
  }
  return shape::withShape(
      loc, q.getElementType(),
      {q.getDimSize(0), heads, q.getDimSize(2), v.getDimSize(3)});
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = inferAttention(loc, adaptor);
  if (failed(type))
    return failure();
  results.push_back(*type);
  return success();
}

LogicalResult
AttentionGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                  Adaptor adaptor,
                                  SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = inferAttention(loc, adaptor);
  if (failed(type))
    return failure();
  if (adaptor.getGrad().getType() != *type)
    return error(loc, "the gradient must have the type of attention's result");
  results.append({adaptor.getQuery().getType(), adaptor.getKey().getType(),
                  adaptor.getValue().getType()});
  return success();
}
