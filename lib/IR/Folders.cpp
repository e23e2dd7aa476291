//===- Folders.cpp - Local folds of structural ops ------------------------===//
//
// Folds that hold for every bit pattern: no arithmetic is done here, so NaNs,
// signed zeros and rounding stay. Of constants only splats are rebuilt, since
// they cost nothing at any size; evaluating other constants has a budget and is
// a pass of its own.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fusion;

Operation *FusionDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!elements || !tensor || !tensor.hasStaticShape() ||
      elements.getShapedType() != tensor)
    return nullptr;
  return ConstantOp::create(builder, loc, tensor, elements);
}

/// `attribute` if it is a splat with at least one element, else null.
static SplatElementsAttr asSplat(Attribute attribute) {
  auto splat = dyn_cast_or_null<SplatElementsAttr>(attribute);
  return splat && splat.getNumElements() > 0 ? splat : SplatElementsAttr();
}

/// A splat `attribute` with the shape of `type`: the result of any op that only
/// moves elements. Null for other constants and for empty results.
static Attribute resizeSplat(Attribute attribute, RankedTensorType type) {
  auto splat = asSplat(attribute);
  if (!splat || !type.hasStaticShape() ||
      llvm::is_contained(type.getShape(), 0))
    return {};
  return splat.resizeSplat(type);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getResult().getType()
             ? OpFoldResult(getInput())
             : OpFoldResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  // `dims` increase strictly, so equal types leave only the identity.
  if (getInput().getType() == getResult().getType())
    return getInput();
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  // With no elements and a `?`, types say too little about sizes.
  bool isUndetermined =
      llvm::is_contained(getResult().getType().getShape(), 0) &&
      !getResult().getType().hasStaticShape();
  if (isUndetermined)
    return {};
  if (getInput().getType() == getResult().getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    if (inner.getInput().getType() == getResult().getType())
      return inner.getInput();
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

static bool isIdentity(ArrayRef<int64_t> permutation) {
  return llvm::all_of(llvm::enumerate(permutation), [](auto entry) {
    return int64_t(entry.index()) == entry.value();
  });
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentity(getPermutation()))
    return getInput();
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t dim : getPermutation())
      composed.push_back(inner.getPermutation()[dim]);
    if (isIdentity(composed))
      return inner.getInput();
    setPermutation(composed);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  // As many elements along each dimension as there are: all of them, in order.
  if (getInput().getType() == getResult().getType())
    return getInput();
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult ReverseOp::fold(FoldAdaptor adaptor) {
  auto type = getInput().getType();
  if (llvm::all_of(getDims(),
                   [&](int64_t dim) { return type.getDimSize(dim) == 1; }))
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReverseOp>()) {
    SmallVector<int64_t> outerDims(getDims()), innerDims(inner.getDims());
    llvm::sort(outerDims);
    llvm::sort(innerDims);
    if (outerDims == innerDims)
      return inner.getInput();
  }
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult RankConcatOp::fold(FoldAdaptor) {
  // All rows of a group of one rank.
  return getInputs().size() == 1 &&
                 getInputs().front().getType() == getResult().getType()
             ? OpFoldResult(getInputs().front())
             : OpFoldResult();
}

OpFoldResult RankSliceOp::fold(FoldAdaptor adaptor) {
  // All rows, of a group of one rank.
  if (getInput().getType() == getResult().getType())
    return getInput();
  return resizeSplat(adaptor.getInput(), getResult().getType());
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  int64_t axis = getAxis();
  auto isEmpty = [&](Value input) {
    return cast<RankedTensorType>(input.getType()).getDimSize(axis) == 0;
  };
  SmallVector<Value> parts = llvm::to_vector(
      llvm::make_filter_range(getInputs(), std::not_fn(isEmpty)));
  if (parts.empty())
    parts.push_back(getInputs().front());
  if (parts.size() == 1 && parts.front().getType() == getResult().getType())
    return parts.front();
  if (parts.size() < getInputs().size()) {
    getInputsMutable().assign(parts);
    return getResult();
  }
  auto first = asSplat(adaptor.getInputs().front());
  bool isOneSplat =
      first && llvm::all_of(adaptor.getInputs(), [&](Attribute attribute) {
        auto splat = asSplat(attribute);
        return splat && splat.getSplatValue<Attribute>() ==
                            first.getSplatValue<Attribute>();
      });
  return isOneSplat ? resizeSplat(first, getResult().getType()) : Attribute();
}

OpFoldResult PadOp::fold(FoldAdaptor adaptor) {
  auto isZero = [](int64_t amount) { return amount == 0; };
  if (llvm::all_of(getLow(), isZero) && llvm::all_of(getHigh(), isZero))
    return getInput();
  auto input = asSplat(adaptor.getInput());
  auto value = asSplat(adaptor.getValue());
  if (input && value &&
      input.getSplatValue<Attribute>() == value.getSplatValue<Attribute>())
    return resizeSplat(input, getResult().getType());
  return {};
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  // Each element is combined with nothing: every kind leaves it as it is.
  return getDims().empty() ? OpFoldResult(getInput()) : OpFoldResult();
}
