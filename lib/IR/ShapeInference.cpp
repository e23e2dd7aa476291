//===- ShapeInference.cpp - Checked arithmetic on shapes ------------------===//
//
// See ShapeInference.h.
//
//===----------------------------------------------------------------------===//
#include "ShapeInference.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace fusion::shape {

std::optional<int64_t> multiply(int64_t a, int64_t b) {
  int64_t result;
  if (llvm::MulOverflow(a, b, result))
    return std::nullopt;
  return result;
}

std::optional<int64_t> add(int64_t a, int64_t b) {
  int64_t result;
  if (llvm::AddOverflow(a, b, result))
    return std::nullopt;
  return result;
}

std::optional<int64_t> staticProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (ShapedType::isDynamic(size))
      continue;
    std::optional<int64_t> next = multiply(product, size);
    if (!next)
      return std::nullopt;
    product = *next;
  }
  return product;
}

LogicalResult error(std::optional<Location> loc, const Twine &message) {
  return emitOptionalError(loc, message);
}

FailureOr<int64_t> slide(std::optional<Location> loc, int64_t in,
                         int64_t window, int64_t stride, int64_t low,
                         int64_t high, int64_t dilation) {
  if (ShapedType::isDynamic(in) || ShapedType::isDynamic(window))
    return error(loc, "spatial dimensions must be static");
  if (window < 1)
    return error(loc, "an empty window does not fit the input");
  std::optional<int64_t> reach = multiply(dilation, window - 1);
  std::optional<int64_t> padded = add(in, low);
  if (padded)
    padded = add(*padded, high);
  if (!reach || !padded)
    return error(loc, "window sizes overflow");
  int64_t room = *padded - *reach - 1;
  if (room < 0)
    return error(loc, "the window (reach " + Twine(*reach + 1) +
                          ") does not fit the padded input of size " +
                          Twine(*padded));
  return room / stride + 1;
}

LogicalResult checkList(std::optional<Location> loc, StringRef name,
                        ArrayRef<int64_t> list, size_t count, int64_t least) {
  if (list.size() != count)
    return error(loc, "'" + name + "' must have " + Twine(count) +
                          " entries, but has " + Twine(list.size()));
  for (int64_t value : list)
    if (value < least)
      return error(loc, "'" + name + "' has the entry " + Twine(value) +
                            "; the least allowed is " + Twine(least));
  return success();
}

FailureOr<RankedTensorType> withShape(std::optional<Location> loc,
                                      Type elementType,
                                      ArrayRef<int64_t> shape) {
  for (int64_t size : shape)
    if (size < 0 && !ShapedType::isDynamic(size))
      return error(loc, "negative size " + Twine(size));
  // A zero anywhere hides an overflow of the other sizes.
  int64_t product = 1;
  for (int64_t size : shape) {
    if (ShapedType::isDynamic(size) || size == 0)
      continue;
    std::optional<int64_t> next = multiply(product, size);
    if (!next || *next > kMaxElements)
      return error(loc, "the result has more than 2^48 elements");
    product = *next;
  }
  return RankedTensorType::get(shape, elementType);
}

} // namespace fusion::shape

bool fusion::hasSupportedElement(ShapedType type) {
  Type element = type.getElementType();
  return element.isF64() || element.isF32() || element.isF16() ||
         element.isBF16() || element.isSignlessInteger(1) ||
         element.isSignlessInteger(8) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

bool fusion::hasSupportedSize(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         succeeded(shape::withShape(std::nullopt, tensor.getElementType(),
                                    tensor.getShape()));
}
