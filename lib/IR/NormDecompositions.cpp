//===- NormDecompositions.cpp - Norms and softmax as primitives -----------===//
//
// Each decomposition follows the formula of its op's description term by term:
// reordering would change bits. f16 and bf16 are computed in f32 and rounded
// once, at the end.
//
//===----------------------------------------------------------------------===//
#include "DecompositionBuilder.h"

using namespace mlir;
using namespace fusion;

using Decomposition = FailureOr<SmallVector<Value>>;

static Type elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// sqrt(variance + epsilon), in the shape of `variance`.
static Value deviation(DecompositionBuilder &build, Value variance,
                       FloatAttr epsilon) {
  Value offset = build.splat(epsilon.getValueAsDouble(),
                             elementTypeOf(variance), ShapeSource(variance));
  return build.create<SqrtOp>(build.create<AddOp>(variance, offset));
}

/// `value * scale + bias`; `dims` are where scale and bias have their
/// dimensions. A null scale or bias leaves its step out.
static Value scaleAndShift(DecompositionBuilder &build, Value value,
                           Value scale, Value bias, ArrayRef<int64_t> dims,
                           const ShapeSource &shape) {
  Type type = elementTypeOf(value);
  if (scale)
    value = build.create<MulOp>(
        value, build.broadcast(build.cast(scale, type), dims, shape));
  if (bias)
    value = build.create<AddOp>(
        value, build.broadcast(build.cast(bias, type), dims, shape));
  return value;
}

Decomposition BatchNormOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  Type type = getCommonComputeType(
      {elementTypeOf(getInput()), elementTypeOf(getScale())});
  SmallVector<int64_t> dims{int64_t(getAxis())};
  Value mean = build.broadcast(build.cast(getMean(), type), dims, shape);
  Value centered = build.create<SubOp>(build.cast(getInput(), type), mean);
  Value divisor =
      deviation(build, build.cast(getVariance(), type), getEpsilonAttr());
  Value normalized =
      build.create<DivOp>(centered, build.broadcast(divisor, dims, shape));
  Value result =
      scaleAndShift(build, normalized, getScale(), getBias(), dims, shape);
  return build.finish(build.cast(result, elementTypeOf(getResult())));
}

Decomposition BatchNormTrainingOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  Type type = getCommonComputeType(
      {elementTypeOf(getInput()), elementTypeOf(getScale())});
  int64_t axis = getAxis();
  SmallVector<int64_t> dims{axis}, reduced = dimRange(0, axis);
  llvm::append_range(reduced, dimRange(axis + 1, shape.rank()));
  Value input = build.cast(getInput(), type);
  Value mean = build.reduce(ReduceKind::Mean, input, reduced);
  Value centered =
      build.create<SubOp>(input, build.broadcast(mean, dims, shape));
  Value squares = build.create<MulOp>(centered, centered);
  Value variance = build.reduce(ReduceKind::Mean, squares, reduced);
  Value divisor = deviation(build, variance, getEpsilonAttr());
  Value normalized =
      build.create<DivOp>(centered, build.broadcast(divisor, dims, shape));
  Value result =
      scaleAndShift(build, normalized, getScale(), getBias(), dims, shape);
  return build.finish(
      {build.cast(result, elementTypeOf(getResult())),
       build.cast(mean, elementTypeOf(getBatchMean())),
       build.cast(variance, elementTypeOf(getBatchVariance()))});
}

Decomposition LayerNormOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  Type type = getComputeType(elementTypeOf(getInput()));
  int64_t axis = getAxis();
  SmallVector<int64_t> rows = dimRange(0, axis),
                       columns = dimRange(axis, shape.rank());
  Value input = build.cast(getInput(), type);
  Value mean = build.reduce(ReduceKind::Mean, input, columns);
  Value centered =
      build.create<SubOp>(input, build.broadcast(mean, rows, shape));
  Value squares = build.create<MulOp>(centered, centered);
  Value variance = build.reduce(ReduceKind::Mean, squares, columns);
  Value divisor = deviation(build, variance, getEpsilonAttr());
  Value normalized =
      build.create<DivOp>(centered, build.broadcast(divisor, rows, shape));
  Value result =
      scaleAndShift(build, normalized, getScale(), getBias(), columns, shape);
  return build.finish(build.cast(result, elementTypeOf(getResult())));
}

Decomposition RmsNormOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  Type type = getComputeType(elementTypeOf(getInput()));
  int64_t axis = getAxis();
  SmallVector<int64_t> rows = dimRange(0, axis),
                       columns = dimRange(axis, shape.rank());
  Value input = build.cast(getInput(), type);
  Value meanSquare = build.reduce(ReduceKind::Mean,
                                  build.create<MulOp>(input, input), columns);
  Value divisor = deviation(build, meanSquare, getEpsilonAttr());
  Value normalized =
      build.create<DivOp>(input, build.broadcast(divisor, rows, shape));
  Value result =
      scaleAndShift(build, normalized, getScale(), getBias(), columns, shape);
  return build.finish(build.cast(result, elementTypeOf(getResult())));
}

namespace {
/// What softmax and log_softmax share: `x - max(x)`, its exponentials, and
/// their sum as a row shape.
struct ShiftedRow {
  Value shifted;
  Value exponentials;
  Value sum;
  SmallVector<int64_t> rows;

  ShiftedRow(DecompositionBuilder &build, Value operand, int64_t axis,
             const ShapeSource &shape) {
    Value input = build.cast(operand, getComputeType(elementTypeOf(operand)));
    rows = dimRange(0, axis);
    llvm::append_range(rows, dimRange(axis + 1, shape.rank()));
    Value largest = build.reduce(ReduceKind::Max, input, {axis});
    shifted = build.create<SubOp>(input, build.broadcast(largest, rows, shape));
    exponentials = build.create<ExpOp>(shifted);
    sum = build.reduce(ReduceKind::Sum, exponentials, {axis});
  }
};
} // namespace

Decomposition SoftmaxOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  // No row has a largest element when rows are empty; nor is there a result.
  if (shape.isEmpty())
    return build.finish(getInput());
  ShiftedRow row(build, getInput(), getAxis(), shape);
  Value result = build.create<DivOp>(row.exponentials,
                                     build.broadcast(row.sum, row.rows, shape));
  return build.finish(build.cast(result, elementTypeOf(getResult())));
}

Decomposition LogSoftmaxOp::decompose(OpBuilder &builder) {
  DecompositionBuilder build(builder, *this);
  ShapeSource shape(getInput());
  if (shape.isEmpty())
    return build.finish(getInput());
  ShiftedRow row(build, getInput(), getAxis(), shape);
  Value logarithm = build.create<LogOp>(row.sum);
  Value result = build.create<SubOp>(
      row.shifted, build.broadcast(logarithm, row.rows, shape));
  return build.finish(build.cast(result, elementTypeOf(getResult())));
}
