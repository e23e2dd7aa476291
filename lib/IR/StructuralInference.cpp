//===- StructuralInference.cpp - Result types of structural ops -----------===//
//
// Type inference of the ops that move or reduce elements; the constraints
// C1... of each op's description that concern shapes are checked here, so that
// parsing, building and verifying agree.
//
//===----------------------------------------------------------------------===//
#include "ShapeInference.h"

using namespace mlir;
using namespace fusion;
using shape::error;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Infers `elementType` with `sizes` as the only result.
static LogicalResult infer(std::optional<Location> loc, Type elementType,
                           ArrayRef<int64_t> sizes,
                           SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = shape::withShape(loc, elementType, sizes);
  if (failed(type))
    return failure();
  results.push_back(*type);
  return success();
}

/// Checks that `dims` are strictly increasing and below `rank`.
static LogicalResult checkIncreasing(std::optional<Location> loc,
                                     ArrayRef<int64_t> dims, int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || dim >= rank)
      return error(loc, "dimension " + Twine(dim) + " is outside the rank " +
                            Twine(rank));
    if (i > 0 && dims[i - 1] >= dim)
      return error(loc, "'dims' must be strictly increasing");
  }
  return success();
}

static LogicalResult inferPredicate(std::optional<Location> loc, Value input,
                                    SmallVectorImpl<Type> &results) {
  auto type = typeOf(input);
  return infer(loc, IntegerType::get(type.getContext(), 1), type.getShape(),
               results);
}

LogicalResult IsNanOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  return inferPredicate(loc, adaptor.getInput(), results);
}

LogicalResult IsInfOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  return inferPredicate(loc, adaptor.getInput(), results);
}

LogicalResult CompareOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  return inferPredicate(loc, adaptor.getLhs(), results);
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (int64_t(permutation.size()) != type.getRank())
    return error(loc, "'permutation' must have " + Twine(type.getRank()) +
                          " entries, but has " + Twine(permutation.size()));
  SmallVector<bool> seen(type.getRank(), false);
  SmallVector<int64_t> sizes;
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= type.getRank() || seen[dim])
      return error(loc, "'permutation' is not a permutation of the operand's "
                        "dimensions");
    seen[dim] = true;
    sizes.push_back(type.getDimSize(dim));
  }
  return infer(loc, type.getElementType(), sizes, results);
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  size_t rank = type.getRank();
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(),
                    strides = adaptor.getStrides();
  if (failed(shape::checkList(loc, "starts", starts, rank, 0)) ||
      failed(shape::checkList(loc, "limits", limits, rank, -1)) ||
      failed(shape::checkList(loc, "strides", strides, rank, 1)))
    return failure();
  SmallVector<int64_t> sizes;
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = type.getDimSize(d);
    if (ShapedType::isDynamic(size)) {
      if (starts[d] != 0 || limits[d] != -1 || strides[d] != 1)
        return error(loc,
                     "the batch dimension " + Twine(d) +
                         " must be taken whole: start 0, limit -1, stride 1");
      sizes.push_back(size);
      continue;
    }
    if (limits[d] < starts[d] || limits[d] > size)
      return error(loc, "dimension " + Twine(d) + " of size " + Twine(size) +
                            " cannot be cut to [" + Twine(starts[d]) + ", " +
                            Twine(limits[d]) + ")");
    int64_t extent = limits[d] - starts[d];
    sizes.push_back(extent == 0 ? 0 : (extent - 1) / strides[d] + 1);
  }
  return infer(loc, type.getElementType(), sizes, results);
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  if (adaptor.getInputs().empty())
    return error(loc, "needs at least one operand");
  auto first = typeOf(adaptor.getInputs().front());
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= first.getRank())
    return error(loc, "axis " + Twine(axis) + " is outside the rank " +
                          Twine(first.getRank()));
  SmallVector<int64_t> sizes(first.getShape());
  for (auto [i, input] : llvm::enumerate(adaptor.getInputs())) {
    auto type = typeOf(input);
    if (type.getRank() != first.getRank() ||
        type.getElementType() != first.getElementType())
      return error(loc, "operand " + Twine(i) +
                            " differs from the first in rank or element type");
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (d != axis && !shape::agree(type.getDimSize(d), first.getDimSize(d)))
        return error(loc, "operand " + Twine(i) +
                              " differs from the first in dimension " +
                              Twine(d));
    if (i == 0)
      continue;
    if (type.isDynamicDim(axis) || ShapedType::isDynamic(sizes[axis])) {
      sizes[axis] = ShapedType::kDynamic;
      continue;
    }
    std::optional<int64_t> sum = shape::add(sizes[axis], type.getDimSize(axis));
    if (!sum)
      return error(loc, "the sizes along the axis overflow");
    sizes[axis] = *sum;
  }
  return infer(loc, first.getElementType(), sizes, results);
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  auto value = typeOf(adaptor.getValue());
  size_t rank = type.getRank();
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  if (failed(shape::checkList(loc, "low", low, rank, 0)) ||
      failed(shape::checkList(loc, "high", high, rank, 0)))
    return failure();
  if (value.getRank() != 0 || value.getElementType() != type.getElementType())
    return error(loc, "the padding value must be a scalar of the operand's "
                      "element type");
  SmallVector<int64_t> sizes;
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = type.getDimSize(d);
    if (ShapedType::isDynamic(size)) {
      if (low[d] != 0 || high[d] != 0)
        return error(loc,
                     "the batch dimension " + Twine(d) + " cannot be padded");
      sizes.push_back(size);
      continue;
    }
    std::optional<int64_t> sum = shape::add(size, low[d]);
    if (sum)
      sum = shape::add(*sum, high[d]);
    if (!sum)
      return error(loc, "the padded size overflows");
    sizes.push_back(*sum);
  }
  return infer(loc, type.getElementType(), sizes, results);
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  auto indices = typeOf(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  int64_t batch =
      shape::getInteger(adaptor, adaptor.getBatchDims(), "batch_dims");
  if (batch < 0 || batch > axis || axis >= type.getRank() ||
      batch > indices.getRank())
    return error(loc, "needs 0 <= batch_dims <= axis < rank, and batch_dims <= "
                      "rank of the indices");
  SmallVector<int64_t> sizes;
  for (int64_t d = 0; d < batch; ++d)
    if (!shape::agree(type.getDimSize(d), indices.getDimSize(d)))
      return error(loc, "the batch dimension " + Twine(d) + " differs");
  llvm::append_range(sizes, type.getShape().take_front(axis));
  llvm::append_range(sizes, indices.getShape().drop_front(batch));
  llvm::append_range(sizes, type.getShape().drop_front(axis + 1));
  if (type.isDynamicDim(axis))
    return error(loc, "the gathered dimension must be static");
  if (type.getDimSize(axis) == 0 && !llvm::is_contained(sizes, 0))
    return error(loc, "cannot gather from the empty dimension " + Twine(axis));
  return infer(loc, type.getElementType(), sizes, results);
}

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location> loc,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  auto indices = typeOf(adaptor.getIndices());
  int64_t batch =
      shape::getInteger(adaptor, adaptor.getBatchDims(), "batch_dims");
  if (indices.getRank() < 1 || indices.isDynamicDim(indices.getRank() - 1))
    return error(loc, "the indices need a static last dimension");
  int64_t depth = indices.getShape().back();
  if (batch < 0 || batch >= indices.getRank() || depth > type.getRank() ||
      batch > type.getRank() - depth)
    return error(loc, "needs batch_dims + k <= rank of the input and "
                      "batch_dims < rank of the indices");
  for (int64_t d = 0; d < batch; ++d)
    if (!shape::agree(type.getDimSize(d), indices.getDimSize(d)))
      return error(loc, "the batch dimension " + Twine(d) + " differs");
  SmallVector<int64_t> sizes(indices.getShape().drop_back());
  llvm::append_range(sizes, type.getShape().drop_front(batch + depth));
  for (int64_t d = batch; d < batch + depth; ++d) {
    if (type.isDynamicDim(d))
      return error(loc, "the gathered dimensions must be static");
    if (type.getDimSize(d) == 0 && !llvm::is_contained(sizes, 0))
      return error(loc, "cannot gather from the empty dimension " + Twine(d));
  }
  return infer(loc, type.getElementType(), sizes, results);
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  auto type = typeOf(adaptor.getInput());
  ArrayRef<int64_t> dims = adaptor.getDims();
  if (failed(checkIncreasing(loc, dims, type.getRank())))
    return failure();
  SmallVector<int64_t> sizes;
  bool reducesEmpty = false;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (!llvm::is_contained(dims, d))
      sizes.push_back(type.getDimSize(d));
    else if (type.getDimSize(d) == 0)
      reducesEmpty = true;
  }
  ReduceKind kind = adaptor.getKind();
  bool extremum = kind == ReduceKind::Max || kind == ReduceKind::Min;
  if (extremum && reducesEmpty && !llvm::is_contained(sizes, 0))
    return error(loc, "'" + stringifyReduceKind(kind) +
                          "' along an empty dimension has no value");
  if (kind == ReduceKind::Mean && !isa<FloatType>(type.getElementType()))
    return error(loc, "'mean' needs floats");
  if (type.getElementType().isInteger(1) && !extremum)
    return error(loc, "i1 reduces only with 'max' (or) and 'min' (and)");
  return infer(loc, type.getElementType(), sizes, results);
}

static LogicalResult inferArgReduce(std::optional<Location> loc, Value input,
                                    int64_t axis,
                                    SmallVectorImpl<Type> &results) {
  auto type = typeOf(input);
  if (axis < 0 || axis >= type.getRank())
    return error(loc, "axis " + Twine(axis) + " is outside the rank " +
                          Twine(type.getRank()));
  SmallVector<int64_t> sizes(type.getShape());
  sizes.erase(sizes.begin() + axis);
  if (type.getDimSize(axis) == 0)
    return error(loc, "the dimension " + Twine(axis) + " is empty");
  return infer(loc, IntegerType::get(type.getContext(), 64), sizes, results);
}

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  return inferArgReduce(loc, adaptor.getInput(), adaptor.getAxis(), results);
}

LogicalResult ArgMinOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  return inferArgReduce(loc, adaptor.getInput(), adaptor.getAxis(), results);
}
