//===- AttentionDecompositions.cpp - Attention and rope as primitives -----===//
//
// Attention becomes matmul, softmax, matmul, in f32 for f16 and bf16; softmax
// stays named, since it is decomposable in turn. Its gradient computes the
// softmax again and becomes four products more. Rope becomes slices, products
// and a concat.
//
//===----------------------------------------------------------------------===//
#include "DecompositionBuilder.h"

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isDynamic(int64_t size) { return ShapedType::isDynamic(size); }

namespace {

/// The parts of one attention op or of its gradient, in the compute type.
template <typename OpTy> class AttentionBuilder {
public:
  AttentionBuilder(OpTy op, DecompositionBuilder &build)
      : op(op), build(build),
        type(getComputeType(typeOf(op.getQuery()).getElementType())) {
    for (unsigned dim = 0; dim < 3; ++dim)
      scoreShape.append(op.getQuery(), dim);
    resultShape = scoreShape;
    scoreShape.append(op.getKey(), 2);
    resultShape.append(op.getValue(), 3);
    heads = scoreShape.sizes[1];
    groups = typeOf(op.getKey()).getDimSize(1);
  }

  Value forward() {
    if (isDynamic(heads) || isDynamic(groups)) {
      build.fail();
      return op.getQuery();
    }
    // Without groups there are no heads, hence no elements.
    if (resultShape.isEmpty())
      return build.splat(0.0, elementOf(op.getQuery()), resultShape);
    Value result =
        matmul(weights(), op.getValue(), /*transposed=*/false, resultShape);
    return build.cast(result, elementOf(op.getQuery()));
  }

  /// The gradients of query, key and value.
  SmallVector<Value, 3> backward() {
    SmallVector<Value, 3> inputs{op.getQuery(), op.getKey(), op.getValue()};
    if (isDynamic(heads) || isDynamic(groups)) {
      build.fail();
      return inputs;
    }
    if (resultShape.isEmpty() || llvm::is_contained(scoreShape.sizes, 0)) {
      SmallVector<Value, 3> zeros;
      for (Value input : inputs)
        zeros.push_back(build.splat(0.0, elementOf(input), ShapeSource(input)));
      return zeros;
    }
    Value probabilities = weights();
    Value grad = build.cast(op.getGrad(), type);
    Value valueGrad = matmulOverRows(probabilities, grad, op.getValue());
    Value weightGrad =
        matmul(grad, op.getValue(), /*transposed=*/true, scoreShape);
    // What softmax's own sum takes back from each row.
    Value mean = build.reduce(
        ReduceKind::Sum, build.create<MulOp>(probabilities, weightGrad), {3});
    Value scoreGrad = build.create<MulOp>(
        probabilities,
        build.create<SubOp>(weightGrad,
                            build.broadcast(mean, {0, 1, 2}, scoreShape)));
    Value factor =
        build.splat(op.getScaleAttr().getValueAsDouble(), type, scoreShape);
    scoreGrad = build.create<MulOp>(scoreGrad, factor);
    Value queryGrad = matmul(scoreGrad, op.getKey(), /*transposed=*/false,
                             ShapeSource(op.getQuery()));
    Value keyGrad = matmulOverRows(scoreGrad, op.getQuery(), op.getKey());
    SmallVector<Value, 3> grads{queryGrad, keyGrad, valueGrad};
    for (auto [grad, input] : llvm::zip_equal(grads, inputs))
      grad = build.cast(grad, elementOf(input));
    return grads;
  }

private:
  static Type elementOf(Value value) { return typeOf(value).getElementType(); }

  /// softmax(scale * q k^T + mask), [B, H, S, T].
  Value weights() {
    Value scores =
        matmul(op.getQuery(), op.getKey(), /*transposed=*/true, scoreShape);
    Value factor =
        build.splat(op.getScaleAttr().getValueAsDouble(), type, scoreShape);
    scores = build.create<MulOp>(scores, factor);
    if (op.getMask())
      scores = build.create<AddOp>(
          scores, build.broadcast(build.cast(op.getMask(), type), {0, 1, 2, 3},
                                  scoreShape));
    if (op.getCausal())
      scores = maskFuture(scores);
    return build.create<SoftmaxOp>(scores, int64_t(3));
  }

  /// Sum over queries, and over the heads of each group, of `lhs` [B, H, S, T]
  /// by `rhs` [B, H, S, K]: [B, G, T, K], the shape of `like`.
  Value matmulOverRows(Value lhs, Value rhs, Value like) {
    auto fold = [&](Value value) {
      value = build.cast(value, type);
      SmallVector<int64_t> sizes(typeOf(value).getShape());
      sizes[1] = groups;
      sizes[2] *= heads / groups;
      return build.reshape(value, sizes);
    };
    if (isDynamic(scoreShape.sizes[2]))
      build.fail();
    return build.create<MatmulOp>(typeOf(like).clone(type), fold(lhs),
                                  fold(rhs), /*transpose_lhs=*/true,
                                  /*transpose_rhs=*/false);
  }

  /// Per head product of `lhs` [B, H, S, K] with that head's group of `rhs`.
  Value matmul(Value lhs, Value rhs, bool transposed,
               const ShapeSource &shape) {
    lhs = build.cast(lhs, type);
    rhs = build.cast(rhs, type);
    SmallVector<int64_t> sizes(typeOf(lhs).getShape());
    // The heads of a group are neighbours: their rows are one taller matrix.
    bool folds = heads != groups && llvm::count_if(sizes, isDynamic) <= 1 &&
                 llvm::count_if(shape.sizes, isDynamic) <= 1;
    if (folds) {
      int64_t repeats = heads / groups;
      sizes[1] = groups;
      sizes[2] = isDynamic(sizes[2]) ? sizes[2] : sizes[2] * repeats;
      lhs = build.reshape(lhs, sizes);
    } else if (heads != groups) {
      rhs = repeatGroups(rhs);
    }
    auto productType = RankedTensorType::get(
        {sizes[0], sizes[1], sizes[2], shape.sizes[3]}, type);
    Value product = build.create<MatmulOp>(productType, lhs, rhs,
                                           /*transpose_lhs=*/false, transposed);
    return folds ? build.reshape(product, shape.sizes) : product;
  }

  /// `rhs` with each group's matrix once a head. Several `?` rule a reshape
  /// out.
  Value repeatGroups(Value rhs) {
    SmallVector<int64_t> indices;
    for (int64_t head = 0; head < heads; ++head)
      indices.push_back(head / (heads / groups));
    auto indexType =
        RankedTensorType::get({heads}, IntegerType::get(op.getContext(), 64));
    Value table = build.create<ConstantOp>(
        indexType, DenseElementsAttr::get(indexType, ArrayRef(indices)));
    SmallVector<int64_t> sizes(typeOf(rhs).getShape());
    sizes[1] = heads;
    return build.create<GatherOp>(typeOf(rhs).clone(sizes), rhs, table,
                                  /*axis=*/int64_t(1),
                                  /*batch_dims=*/int64_t(0));
  }

  /// Positions counted from the end, [size]: the last is 0. Counting backwards
  /// lines the ends of queries and keys up whatever their lengths are.
  Value countdown(unsigned dim) {
    auto indexType = RankedTensorType::get(
        {scoreShape.sizes[dim]}, IntegerType::get(op.getContext(), 64));
    int64_t batchScale = 1;
    if (isDynamic(scoreShape.sizes[dim])) {
      auto extent = getBatchExtent(scoreShape.sources[dim].first,
                                   scoreShape.sources[dim].second);
      if (!extent || extent->base != 0)
        build.fail();
      else
        batchScale = extent->scale;
    }
    Value forward = build.create<IotaOp>(indexType, int64_t(0), batchScale);
    return build.create<ReverseOp>(forward, ArrayRef<int64_t>{0});
  }

  /// -inf where the key lies behind the query: t > s + (T - S).
  Value maskFuture(Value scores) {
    ShapeSource plane;
    for (unsigned dim : {2, 3}) {
      plane.sizes.push_back(scoreShape.sizes[dim]);
      plane.sources.push_back(scoreShape.sources[dim]);
    }
    Value fromQueryEnd = build.broadcast(countdown(2), {0}, plane);
    Value fromKeyEnd = build.broadcast(countdown(3), {1}, plane);
    Value isFuture =
        build.create<CompareOp>(CompareKind::Lt, fromKeyEnd, fromQueryEnd);
    Value infinity =
        build.splat(-std::numeric_limits<double>::infinity(), type, scoreShape);
    return build.create<SelectOp>(build.broadcast(isFuture, {2, 3}, scoreShape),
                                  infinity, scores);
  }

  OpTy op;
  DecompositionBuilder &build;
  Type type;
  ShapeSource scoreShape;  // [B, H, S, T]
  ShapeSource resultShape; // [B, H, S, E]
  int64_t heads, groups;
};

} // namespace

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  Value result = AttentionBuilder(*this, build).forward();
  return build.finish(result);
}

FailureOr<SmallVector<Value>> AttentionGradOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  return build.finish(AttentionBuilder(*this, build).backward());
}

/// Every `stride`-th element from `start` on of the last dimension below
/// `limit`.
static Value sliceLast(DecompositionBuilder &build, Value value, int64_t start,
                       int64_t limit, int64_t stride) {
  SmallVector<int64_t> sizes(typeOf(value).getShape());
  SmallVector<int64_t> starts(sizes.size(), 0), limits,
      strides(sizes.size(), 1);
  for (int64_t size : sizes)
    limits.push_back(isDynamic(size) ? -1 : size);
  starts.back() = start;
  limits.back() = limit;
  strides.back() = stride;
  sizes.back() = (limit - start + stride - 1) / stride;
  return build.create<SliceOp>(typeOf(value).clone(sizes), value, starts,
                               limits, strides);
}

FailureOr<SmallVector<Value>> RopeOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  RankedTensorType type = typeOf(getInput());
  int64_t rank = type.getRank(), width = type.getShape().back(),
          half = width / 2;
  Type computeType = getComputeType(type.getElementType());
  Value input = build.cast(getInput(), computeType);

  bool interleaved = getInterleaved();
  Value a = sliceLast(build, input, 0, interleaved ? width : half,
                      interleaved ? 2 : 1);
  // No width: nothing to cut, from a begin that is inside.
  Value b =
      sliceLast(build, input, interleaved ? std::min<int64_t>(1, width) : half,
                width, interleaved ? 2 : 1);
  // The slices have the input's sizes up to the last dimension, whose size is
  // static.
  ShapeSource shape(getInput());
  shape.sizes.back() = half;
  SmallVector<int64_t> dims{rank - 2, rank - 1};
  Value cosine =
      build.broadcast(build.cast(getCosine(), computeType), dims, shape);
  Value sine = build.broadcast(build.cast(getSine(), computeType), dims, shape);
  Value first = build.create<SubOp>(build.create<MulOp>(a, cosine),
                                    build.create<MulOp>(b, sine));
  Value second = build.create<AddOp>(build.create<MulOp>(b, cosine),
                                     build.create<MulOp>(a, sine));

  Value result;
  auto resultType = type.clone(computeType);
  if (!interleaved) {
    result =
        build.create<ConcatOp>(resultType, ValueRange{first, second}, rank - 1);
  } else {
    // [..., D / 2] twice -> [..., D / 2, 2], whose rows in order are the pairs.
    SmallVector<int64_t> sizes(shape.sizes);
    sizes.push_back(1);
    first = build.reshape(first, sizes);
    second = build.reshape(second, sizes);
    sizes.back() = 2;
    Value pairs = build.create<ConcatOp>(resultType.clone(sizes),
                                         ValueRange{first, second}, rank);
    result = build.reshape(pairs, type.getShape());
  }
  return build.finish(build.cast(result, type.getElementType()));
}
