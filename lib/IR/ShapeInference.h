//===- ShapeInference.h - Checked arithmetic on shapes ----------*- C++ -*-===//
//
// What type inference and verifiers share. Sizes come from untrusted text: all
// arithmetic is checked, and no function asserts on its input.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_IR_SHAPEINFERENCE_H
#define FUSION_LIB_IR_SHAPEINFERENCE_H

#include "fusion/IR/FusionDialect.h"

namespace fusion::shape {

/// Largest number of elements of a tensor that the dialect accepts: 2^48.
constexpr int64_t kMaxElements = int64_t(1) << 48;

/// a * b and a + b, or nullopt on overflow of int64.
std::optional<int64_t> multiply(int64_t a, int64_t b);
std::optional<int64_t> add(int64_t a, int64_t b);

/// Product of the static sizes (a `?` counts 1), or nullopt on overflow.
std::optional<int64_t> staticProduct(llvm::ArrayRef<int64_t> sizes);

/// Emits an error at `loc` (if any) and returns failure.
mlir::LogicalResult error(std::optional<mlir::Location> loc,
                          const llvm::Twine &message);

/// Whether `a` and `b` are equal; `?` equals only `?`.
inline bool agree(int64_t a, int64_t b) { return a == b; }

/// The result size of a window that slides over a spatial dimension, or
/// failure with an error: window parameters as in `fusion.conv`.
mlir::FailureOr<int64_t> slide(std::optional<mlir::Location> loc, int64_t in,
                               int64_t window, int64_t stride, int64_t low,
                               int64_t high, int64_t dilation);

/// Checks that each list has `count` entries and each entry is at least
/// `least`. `name` is the attribute's name for messages.
mlir::LogicalResult checkList(std::optional<mlir::Location> loc,
                              llvm::StringRef name,
                              llvm::ArrayRef<int64_t> list, size_t count,
                              int64_t least);

/// `type` with a new shape, keeping the element type; refuses too large ones.
mlir::FailureOr<mlir::RankedTensorType>
withShape(std::optional<mlir::Location> loc, mlir::Type elementType,
          llvm::ArrayRef<int64_t> shape);

/// Whether the float type `wide` is `narrow` or has more bits.
inline bool isSameOrWider(mlir::Type wide, mlir::Type narrow) {
  return wide == narrow ||
         wide.getIntOrFloatBitWidth() > narrow.getIntOrFloatBitWidth();
}

/// Whether the unit attribute `name` is set. The parser infers types before it
/// moves the attribute dictionary into the properties: both places count.
template <typename AdaptorT>
bool hasUnit(AdaptorT adaptor, bool property, llvm::StringRef name) {
  mlir::DictionaryAttr attributes = adaptor.getAttributes();
  return property || (attributes && attributes.contains(name));
}

/// The integer attribute `name`, whose property has the value `property`; see
/// `hasUnit`.
template <typename AdaptorT>
int64_t getInteger(AdaptorT adaptor, int64_t property, llvm::StringRef name) {
  mlir::DictionaryAttr attributes = adaptor.getAttributes();
  auto value = attributes ? attributes.getAs<mlir::IntegerAttr>(name)
                          : mlir::IntegerAttr();
  return value && value.getType().isInteger(64) ? value.getInt() : property;
}

} // namespace fusion::shape

#endif // FUSION_LIB_IR_SHAPEINFERENCE_H
