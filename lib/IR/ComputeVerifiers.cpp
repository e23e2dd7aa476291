//===- ComputeVerifiers.cpp - Verifiers of structural and named ops -------===//
//
// The constraints that inference does not already check: of ops whose result
// type is written, not inferred. Always local to the op.
//
//===----------------------------------------------------------------------===//
#include "ShapeInference.h"

#include "fusion/IR/TensorData.h"

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Checks that `axis` names one of `rank` dimensions.
static LogicalResult verifyAxis(Operation *op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank)
    return op->emitOpError("axis ") << axis << " is outside the rank " << rank;
  return success();
}

LogicalResult fusion::detail::verifyOneShape(Operation *op) {
  auto shape = typeOf(op->getResult(0)).getShape();
  for (Value operand : op->getOperands())
    if (typeOf(operand).getShape() != shape)
      return op->emitOpError("operands and result must have one shape, but ")
             << operand.getType() << " and " << op->getResult(0).getType()
             << " differ";
  return success();
}

LogicalResult RngUniformOp::verify() {
  if (!typeOf(getResult()).hasStaticShape())
    return emitOpError(
        "must have a static result: a batch's random numbers would "
        "depend on its size");
  return success();
}

LogicalResult ConstantOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getValue().getType());
  if (!type || !type.hasStaticShape())
    return emitOpError(
        "must have a static shape; broadcast a constant to get a "
        "batch dimension");
  // The bytes of a resource come from elsewhere in the file, or from nowhere.
  if (isa<DenseResourceElementsAttr>(getValue()) &&
      !TensorData::get(getValue()))
    return emitOpError(
               "names a resource that is missing or has another size than ")
           << type;
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto input = typeOf(getInput()), result = getType();
  ArrayRef<int64_t> dims = getDims();
  if (input.getElementType() != result.getElementType())
    return emitOpError("element types of operand and result differ");
  if (int64_t(dims.size()) != input.getRank())
    return emitOpError("'dims' must have one entry for each of the ")
           << input.getRank() << " operand dimensions, but has " << dims.size();
  if (int64_t(getBatchScale()) < 1)
    return emitOpError("'batch_scale' must be at least 1");
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || dim >= result.getRank() || (i > 0 && dims[i - 1] >= dim))
      return emitOpError("'dims' must be strictly increasing and below the "
                         "result's rank ")
             << result.getRank();
    int64_t from = input.getDimSize(i), to = result.getDimSize(dim);
    if (from != to && from != 1)
      return emitOpError("operand dimension ")
             << i << " has another size than result dimension " << dim;
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto input = typeOf(getInput()), result = getType();
  if (input.getElementType() != result.getElementType())
    return emitOpError("element types of operand and result differ");
  int64_t inputDynamic = input.getNumDynamicDims(),
          resultDynamic = result.getNumDynamicDims();
  if (inputDynamic > 1 || resultDynamic > 1)
    return emitOpError("at most one batch dimension on each side");
  if (inputDynamic != resultDynamic)
    return emitOpError("a batch dimension on one side needs one on the other");
  std::optional<int64_t> from = shape::staticProduct(input.getShape());
  std::optional<int64_t> to = shape::staticProduct(result.getShape());
  if (!from || !to)
    return emitOpError("the number of elements overflows");
  if (inputDynamic == 0 && *from != *to)
    return emitOpError("cannot reshape ") << *from << " elements to " << *to;
  if (inputDynamic == 1 && (*from == 0) != (*to == 0))
    return emitOpError("cannot reshape between empty and not empty");
  // With a batch on both sides its scale changes by from / to. That the scale
  // stays a whole number is known only with the operand's scale, which is not
  // local: when neither divides the other, no scale makes both whole for B = 1.
  if (inputDynamic == 1 && *to != 0 && *from % *to != 0 && *to % *from != 0)
    return emitOpError("the batch's elements cannot be divided: ")
           << *from << " against " << *to << " besides it";
  return success();
}

LogicalResult ReverseOp::verify() {
  int64_t rank = getType().getRank();
  SmallVector<bool> seen(rank, false);
  for (int64_t dim : getDims()) {
    if (dim < 0 || dim >= rank || seen[dim])
      return emitOpError("'dims' must be distinct and below the rank ") << rank;
    seen[dim] = true;
  }
  return success();
}

LogicalResult ScatterOp::verify() {
  auto input = typeOf(getInput()), indices = typeOf(getIndices()),
       updates = typeOf(getUpdates());
  if (indices.getRank() < 1 || indices.isDynamicDim(indices.getRank() - 1))
    return emitOpError("the indices need a static last dimension");
  int64_t depth = indices.getShape().back();
  if (depth > input.getRank())
    return emitOpError("index vectors of ")
           << depth << " entries for an input of rank " << input.getRank();
  if (updates.getElementType() != input.getElementType())
    return emitOpError("element types of input and updates differ");
  SmallVector<int64_t> expected(indices.getShape().drop_back());
  llvm::append_range(expected, input.getShape().drop_front(depth));
  if (updates.getShape() != ArrayRef(expected))
    return emitOpError("the updates' shape must be the indices' without the "
                       "last dimension, then the input's from dimension ")
           << depth << " on";
  if (getKind() != ScatterKind::Set && input.getElementType().isInteger(1))
    return emitOpError("i1 can only be set");
  return success();
}

LogicalResult UpdateSliceOp::verify() {
  auto input = typeOf(getInput()), update = typeOf(getUpdate());
  if (int64_t(getStarts().size()) != input.getRank())
    return emitOpError("needs one start for each of the ")
           << input.getRank() << " dimensions, but has " << getStarts().size();
  if (update.getRank() != input.getRank() ||
      update.getElementType() != input.getElementType())
    return emitOpError("input and update differ in rank or element type");
  for (int64_t d = 0; d < input.getRank(); ++d) {
    int64_t size = input.getDimSize(d), part = update.getDimSize(d);
    if (ShapedType::isDynamic(size)
            ? !ShapedType::isDynamic(part)
            : ShapedType::isDynamic(part) || part > size)
      return emitOpError("the update does not fit dimension ") << d;
  }
  return success();
}

LogicalResult IotaOp::verify() {
  if (failed(verifyAxis(*this, getAxis(), typeOf(getResult()).getRank())))
    return failure();
  if (int64_t(getBatchScale()) < 1)
    return emitOpError("'batch_scale' must be at least 1");
  return success();
}

LogicalResult BatchNormOp::verify() {
  auto input = typeOf(getInput()), scale = typeOf(getScale());
  if (failed(verifyAxis(*this, getAxis(), input.getRank())))
    return failure();
  int64_t channels = input.getDimSize(getAxis());
  if (ShapedType::isDynamic(channels))
    return emitOpError("the axis must be static");
  for (Value vector : {getScale(), getBias(), getMean(), getVariance()}) {
    auto type = typeOf(vector);
    if (type.getRank() != 1 || type.getDimSize(0) != channels)
      return emitOpError("scale, bias, mean and variance must have the shape [")
             << channels << "]";
    if (type != scale)
      return emitOpError("scale, bias, mean and variance must share one type");
  }
  if (!shape::isSameOrWider(scale.getElementType(), input.getElementType()))
    return emitOpError("the parameters' element type must be the input's or a "
                       "wider one");
  if (!(getEpsilon().convertToDouble() >= 0))
    return emitOpError("epsilon must not be negative");
  return success();
}

template <typename OpT> static LogicalResult verifyRowNorm(OpT op) {
  auto input = typeOf(op.getInput());
  int64_t axis = op.getAxis();
  if (failed(verifyAxis(op, axis, input.getRank())))
    return failure();
  auto row = input.getShape().drop_front(axis);
  if (llvm::is_contained(row, ShapedType::kDynamic))
    return op.emitOpError("the normalized dimensions must be static");
  for (Value vector : {op.getScale(), op.getBias()})
    if (vector && (typeOf(vector).getShape() != row ||
                   typeOf(vector).getElementType() != input.getElementType()))
      return op.emitOpError(
          "scale and bias must have the input's shape from the "
          "axis on, and its element type");
  if (!(op.getEpsilon().convertToDouble() >= 0))
    return op.emitOpError("epsilon must not be negative");
  return success();
}

LogicalResult LayerNormOp::verify() { return verifyRowNorm(*this); }
LogicalResult RmsNormOp::verify() { return verifyRowNorm(*this); }

template <typename OpT> static LogicalResult verifySoftmax(OpT op) {
  return verifyAxis(op, op.getAxis(), typeOf(op.getInput()).getRank());
}

LogicalResult SoftmaxOp::verify() { return verifySoftmax(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifySoftmax(*this); }

LogicalResult RopeOp::verify() {
  auto input = typeOf(getInput()), cosine = typeOf(getCosine());
  int64_t rank = input.getRank();
  if (rank < 2 || input.isDynamicDim(rank - 1) ||
      input.isDynamicDim(rank - 2) || input.getDimSize(rank - 1) % 2 != 0)
    return emitOpError(
        "the input needs rank >= 2 and an even, static last dimension");
  if (cosine.getShape() != ArrayRef<int64_t>{input.getDimSize(rank - 2),
                                             input.getDimSize(rank - 1) / 2} ||
      cosine.getElementType() != input.getElementType())
    return emitOpError("cosine and sine must have the shape [S, D / 2] and the "
                       "input's element type");
  return success();
}
