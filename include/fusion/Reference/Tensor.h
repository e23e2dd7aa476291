//===- Tensor.h - A dense tensor of f64 or i64 ------------------*- C++ -*-===//
//
// The evaluator's value: a shape, an element kind, and one double or int64_t an
// element in row-major order. Every element is representable in the element
// kind, because the setters round or wrap. Copies share the elements: a tensor
// is filled by whoever made it and not changed after it was copied.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_TENSOR_H
#define FUSION_REFERENCE_TENSOR_H

#include "fusion/Reference/ElementKind.h"
#include "fusion/Reference/Failure.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/FunctionExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <atomic>
#include <memory>
#include <string>

namespace fusion::reference {

using Shape = llvm::SmallVector<int64_t, 6>;

/// "2x3x4", or "scalar"; a dynamic size is "?".
std::string toString(llvm::ArrayRef<int64_t> shape);

/// Bytes that live tensors may take together. Thread safe.
class MemoryBudget {
public:
  explicit MemoryBudget(uint64_t limit) : limit(limit) {}

  /// Counts `bytes`; false, and nothing counted, if they exceed the limit.
  bool take(uint64_t bytes);
  void giveBack(uint64_t bytes) { used -= bytes; }

  uint64_t getLimit() const { return limit; }
  uint64_t getUsed() const { return used; }
  uint64_t getPeak() const { return peak; }

private:
  const uint64_t limit;
  std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> peak{0};
};

class Tensor {
public:
  /// An empty handle; only assignment and `isValid` are allowed.
  Tensor() = default;

  /// All elements zero. Fails with `Resources` when the element count
  /// overflows, the budget is exceeded or the system has no memory.
  static llvm::Expected<Tensor>
  create(ElementKind kind, llvm::ArrayRef<int64_t> shape,
         std::shared_ptr<MemoryBudget> budget = nullptr);

  /// From values in row-major order, rounded or wrapped to `kind`. Their number
  /// must be that of the shape (else `Usage`).
  static llvm::Expected<Tensor> fromFloats(ElementKind kind,
                                           llvm::ArrayRef<int64_t> shape,
                                           llvm::ArrayRef<double> values);
  static llvm::Expected<Tensor> fromInts(ElementKind kind,
                                         llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<int64_t> values);

  /// From the little-endian bytes of the elements; fails with `Usage` if their
  /// number is not the shape's.
  static llvm::Expected<Tensor>
  fromBytes(ElementKind kind, llvm::ArrayRef<int64_t> shape,
            llvm::ArrayRef<char> bytes,
            std::shared_ptr<MemoryBudget> budget = nullptr);

  /// The little-endian bytes of the elements [begin, end).
  void appendBytes(int64_t begin, int64_t end, std::string &out) const;
  std::string toBytes() const;

  bool isValid() const { return storage != nullptr; }
  ElementKind getKind() const { return kind; }
  bool isFloat() const { return reference::isFloat(kind); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getRank() const { return shape.size(); }
  int64_t getDim(int64_t dim) const { return shape[dim]; }
  int64_t getNumElements() const { return count; }

  /// Elements of a tensor of floats, or of integers.
  llvm::ArrayRef<double> floats() const;
  llvm::ArrayRef<int64_t> ints() const;
  double getFloat(int64_t i) const { return floats()[i]; }
  int64_t getInt(int64_t i) const { return ints()[i]; }

  /// Rounds or wraps `value` to the element kind and stores it.
  void setFloat(int64_t i, double value);
  void setInt(int64_t i, int64_t value);

  /// Copies element `j` of `from`, which has the same kind, to position `i`.
  void setFrom(int64_t i, const Tensor &from, int64_t j);

  /// Position of an index in row-major order.
  int64_t offsetOf(llvm::ArrayRef<int64_t> index) const;

  /// The same elements, shared, under a shape of as many elements.
  Tensor withShape(llvm::ArrayRef<int64_t> newShape) const;

private:
  struct Storage;

  ElementKind kind = ElementKind::F32;
  Shape shape;
  int64_t count = 0;
  std::shared_ptr<Storage> storage;
};

/// Number of elements of a shape, or nullopt when it overflows or a size is
/// negative.
std::optional<int64_t> getNumElements(llvm::ArrayRef<int64_t> shape);

/// Calls `body` with each index of `shape` in row-major order; once, with an
/// empty index, for a scalar.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_TENSOR_H
