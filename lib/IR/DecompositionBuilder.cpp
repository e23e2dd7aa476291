//===- DecompositionBuilder.cpp - Builds compositions of ops --------------===//
//
// Broadcasts to shapes with `?` are the only delicate part: `broadcast` can
// make a new `?` of size `scale * B` only, so each distinct size takes one
// broadcast, and a size `scale * B + base` is the concat of two.
//
//===----------------------------------------------------------------------===//
#include "DecompositionBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fusion;

ShapeSource::ShapeSource(Value value) {
  for (int64_t dim = 0, e = cast<RankedTensorType>(value.getType()).getRank();
       dim < e; ++dim)
    append(value, dim);
}

void ShapeSource::append(Value value, unsigned dim) {
  sizes.push_back(cast<RankedTensorType>(value.getType()).getDimSize(dim));
  sources.emplace_back(value, dim);
}

Type fusion::getCommonComputeType(ArrayRef<Type> elementTypes) {
  Type widest;
  for (Type elementType : elementTypes) {
    Type type = getComputeType(elementType);
    if (!widest ||
        type.getIntOrFloatBitWidth() > widest.getIntOrFloatBitWidth())
      widest = type;
  }
  return widest;
}

SmallVector<int64_t> fusion::dimRange(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

Value DecompositionBuilder::cast(Value value, Type elementType) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  if (type.getElementType() == elementType)
    return value;
  return create<CastOp>(type.clone(elementType), value);
}

Value DecompositionBuilder::reshape(Value value, ArrayRef<int64_t> sizes) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  if (type.getShape() == sizes)
    return value;
  if (llvm::count_if(sizes, ShapedType::isDynamic) > 1)
    fail();
  return create<ReshapeOp>(type.clone(sizes), value);
}

Value DecompositionBuilder::reduce(ReduceKind kind, Value value,
                                   ArrayRef<int64_t> dims) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> sizes;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (!llvm::is_contained(dims, int64_t(dim)))
      sizes.push_back(size);
  return create<ReduceOp>(type.clone(sizes), kind, value, dims);
}

Value DecompositionBuilder::splat(double number, Type elementType,
                                  const ShapeSource &shape) {
  llvm::APFloat exact(number);
  bool losesInfo;
  exact.convert(llvm::cast<FloatType>(elementType).getFloatSemantics(),
                llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  bool isStatic = llvm::none_of(shape.sizes, ShapedType::isDynamic);
  auto type = RankedTensorType::get(
      isStatic ? ArrayRef(shape.sizes) : ArrayRef<int64_t>(), elementType);
  Value constant =
      create<ConstantOp>(type, DenseElementsAttr::get(type, exact));
  return isStatic ? constant : broadcast(constant, {}, shape);
}

/// Gives `value`, whose dimension i stands for dimension `dims[i]` of the
/// target, a new dimension `dim` of size `extent`.
Value DecompositionBuilder::appendBatchDim(Value value,
                                           SmallVectorImpl<int64_t> &dims,
                                           int64_t dim, Extent extent) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  int64_t axis = llvm::lower_bound(dims, dim) - dims.begin();
  SmallVector<int64_t> operandDims = dimRange(0, axis);
  llvm::append_range(operandDims, dimRange(axis + 1, type.getRank() + 1));
  dims.insert(dims.begin() + axis, dim);
  auto part = [&](int64_t size, int64_t batchScale) -> Value {
    SmallVector<int64_t> sizes(type.getShape());
    sizes.insert(sizes.begin() + axis, size);
    return create<BroadcastOp>(type.clone(sizes), value, operandDims,
                               batchScale);
  };
  Value multiple = part(ShapedType::kDynamic, extent.scale);
  if (extent.base == 0)
    return multiple;
  return create<ConcatOp>(multiple.getType(),
                          ValueRange{multiple, part(extent.base, 1)}, axis);
}

/// `value` without the unit dimensions that stand for a `?` of `shape`: they do
/// not give its size, and `dims` then tells so.
Value DecompositionBuilder::dropUnitDims(Value value,
                                         SmallVectorImpl<int64_t> &dims,
                                         const ShapeSource &shape) {
  SmallVector<int64_t> keptDims, sizes;
  for (auto [dim, size] : llvm::zip_equal(
           dims, llvm::cast<RankedTensorType>(value.getType()).getShape())) {
    if (size == 1 && ShapedType::isDynamic(shape.sizes[dim]))
      continue;
    keptDims.push_back(dim);
    sizes.push_back(size);
  }
  dims.assign(keptDims);
  return reshape(value, sizes);
}

Value DecompositionBuilder::broadcast(Value value, ArrayRef<int64_t> dims,
                                      const ShapeSource &shape) {
  Type elementType =
      llvm::cast<RankedTensorType>(value.getType()).getElementType();
  auto resultType = RankedTensorType::get(shape.sizes, elementType);
  SmallVector<int64_t> present(dims);
  if (ok)
    value = dropUnitDims(value, present, shape);
  // The missing `?`, each with its size.
  SmallVector<std::pair<int64_t, Extent>> missing;
  for (int64_t dim = 0; dim < shape.rank(); ++dim) {
    if (!ShapedType::isDynamic(shape.sizes[dim]) ||
        llvm::is_contained(present, dim))
      continue;
    auto extent =
        getBatchExtent(shape.sources[dim].first, shape.sources[dim].second);
    if (!extent || extent->scale < 1 || extent->base < 0)
      fail();
    else
      missing.emplace_back(dim, *extent);
  }
  // After a failure only the types of what is built matter.
  if (!ok)
    return create<BroadcastOp>(resultType, value, dims, int64_t(1));
  // One broadcast makes them all when they are the same multiple of B.
  int64_t batchScale = missing.empty() ? 1 : missing.front().second.scale;
  bool isUniform = llvm::all_of(missing, [&](auto &entry) {
    return entry.second == Extent{batchScale, 0};
  });
  if (!isUniform)
    for (auto [dim, extent] : missing)
      value = appendBatchDim(value, present, dim, extent);
  if (value.getType() == resultType)
    return value;
  return create<BroadcastOp>(resultType, value, present,
                             isUniform ? batchScale : int64_t(1));
}

FailureOr<SmallVector<Value>> DecompositionBuilder::finish(ValueRange values) {
  if (ok)
    return llvm::to_vector(values);
  for (Operation *op : llvm::reverse(created))
    op->erase();
  return failure();
}
