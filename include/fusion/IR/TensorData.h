//===- TensorData.h - Elements of a tensor known at compile time ----------===//
//
// One representation for the elements of constants and parameters, whatever
// attribute or file they came from: row-major, little-endian, i1 as one byte,
// a splat as one element. Copies share the bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_TENSORDATA_H
#define FUSION_IR_TENSORDATA_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>
#include <optional>
#include <vector>

namespace fusion {

/// Bytes of one element in memory: i1 takes one byte.
int64_t getElementBytes(mlir::Type elementType);

/// Bytes of all elements of a static shape, or nullopt if the type has a `?` or
/// the size does not fit in 63 bits.
std::optional<int64_t> getByteSize(mlir::ShapedType type);

/// Elements of a tensor of static shape.
class TensorData {
public:
  TensorData() = default;

  /// Refers to `bytes`, which `owner` keeps alive (null: they live as long as
  /// the context). `bytes` holds one element for a splat, else all of them.
  TensorData(mlir::RankedTensorType type, llvm::ArrayRef<char> bytes,
             bool isSplat, std::shared_ptr<const void> owner = nullptr);

  /// Takes `bytes` over: one element for a splat, else all of them. Equal
  /// elements become a splat.
  static TensorData own(mlir::RankedTensorType type, std::vector<char> bytes,
                        bool isSplat);

  /// The elements of an attribute, or nullopt if it holds none that can be read
  /// (a resource that is missing or has the wrong size, a foreign attribute).
  static std::optional<TensorData> get(mlir::ElementsAttr attr);

  explicit operator bool() const { return static_cast<bool>(type); }
  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  int64_t getNumElements() const { return type.getNumElements(); }
  bool isSplat() const { return splat; }
  /// Bytes that are stored: one element's for a splat.
  llvm::ArrayRef<char> getBytes() const { return bytes; }
  int64_t getStoredBytes() const { return bytes.size(); }
  /// First byte of element `i`.
  const char *getElement(int64_t i) const {
    return bytes.data() + (splat ? 0 : i * elementBytes);
  }
  /// Element `i` of a float tensor (f64, f32, f16, bf16), exactly.
  double getFloat(int64_t i) const;
  /// Element `i` of an integer tensor, sign-extended; i1 is 0 or 1.
  int64_t getInt(int64_t i) const;

  /// The same elements under another type of the same element type and count.
  TensorData withType(mlir::RankedTensorType newType) const;

  /// An attribute with these elements: dense when splat or at most
  /// `kInlineBytes`, else a resource whose key starts with `name`.
  mlir::ElementsAttr getAttr(llvm::StringRef name) const;
  static constexpr int64_t kInlineBytes = 4096;

private:
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> bytes;
  int64_t elementBytes = 0;
  bool splat = false;
  std::shared_ptr<const void> owner;
};

/// Reads one float element (f64, f32, f16, bf16) at `from`, exactly.
double loadFloat(mlir::Type elementType, const char *from);
/// Rounds `value` once, to nearest even, to the element type and stores it.
void storeFloat(mlir::Type elementType, double value, char *to);
/// Reads one integer element, sign-extended; i1 is 0 or 1.
int64_t loadInt(mlir::Type elementType, const char *from);
/// Stores the low bits of `value`; for i1 whether it is odd.
void storeInt(mlir::Type elementType, int64_t value, char *to);

} // namespace fusion

#endif // FUSION_IR_TENSORDATA_H
