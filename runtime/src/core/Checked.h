//===- Checked.h - Arithmetic on sizes that came from a file ----*- C++ -*-===//
//
// Every size, offset and shape that a module, a .npy file or a caller gives is
// added and multiplied through these functions; none of them wraps. A failed
// operation returns no value instead of a wrong one.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_CHECKED_H
#define FUSION_RUNTIME_CORE_CHECKED_H

#include "ModuleData.h"

#include <cstdint>
#include <optional>

namespace fusion::rt {

template <typename T> std::optional<T> checkedAdd(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

template <typename T> std::optional<T> checkedSub(T a, T b) {
  T result;
  if (__builtin_sub_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

template <typename T> std::optional<T> checkedMul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

/// Whether [offset, offset + size) lies inside [0, limit).
inline bool rangeFits(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

/// `value` rounded up to a multiple of `alignment` (a power of two).
inline std::optional<uint64_t> checkedAlign(uint64_t value,
                                            uint64_t alignment) {
  auto sum = checkedAdd<uint64_t>(value, alignment - 1);
  if (!sum)
    return std::nullopt;
  return *sum & ~(alignment - 1);
}

/// `scale * batch + base`, or nothing if it wraps or is negative.
inline std::optional<int64_t> evaluate(Affine size, int64_t batch) {
  auto product = checkedMul<int64_t>(size.scale, batch);
  if (!product)
    return std::nullopt;
  auto sum = checkedAdd<int64_t>(*product, size.base);
  if (!sum || *sum < 0)
    return std::nullopt;
  return sum;
}

/// The bytes of one element.
inline uint64_t elementSize(DType dtype) {
  switch (dtype) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
    return 2;
  case DType::I1:
  case DType::I8:
    return 1;
  }
  return 0;
}

/// The name of an element type as it is printed: "f32", "i1", ...
inline const char *dtypeName(DType dtype) {
  static const char *const names[] = {"f64", "f32", "f16", "bf16",
                                      "i1",  "i8",  "i32", "i64"};
  return uint8_t(dtype) < 8 ? names[uint8_t(dtype)] : "?";
}

/// The elements of a tensor of this shape at `batch`; nothing if a dimension
/// is negative or the product exceeds 2^48 (the format's limit).
template <typename Shape>
std::optional<uint64_t> elementCount(const Shape &shape, int64_t batch) {
  // A zero anywhere makes the product zero, yet the other factors still must
  // not wrap: multiply them first and apply zeros last.
  uint64_t product = 1;
  bool empty = false;
  for (Affine dim : shape) {
    auto size = evaluate(dim, batch);
    if (!size)
      return std::nullopt;
    if (*size == 0) {
      empty = true;
      continue;
    }
    auto next = checkedMul<uint64_t>(product, uint64_t(*size));
    if (!next || *next > (uint64_t(1) << 48))
      return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

/// The bytes of a dense tensor at `batch`, or nothing (see `elementCount`).
template <typename Shape>
std::optional<uint64_t> byteCount(const Shape &shape, DType dtype,
                                  int64_t batch) {
  auto count = elementCount(shape, batch);
  if (!count)
    return std::nullopt;
  return checkedMul<uint64_t>(*count, elementSize(dtype));
}

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_CHECKED_H
