//===- Reduce.cpp - Combining what ranks brought --------------------------===//
//
// Blocks of accumulators in the first-level cache; each input is read once. The
// loops have no calls inside for f64, f32 and integers, so they are vectorized.
//
//===----------------------------------------------------------------------===//
#include "Reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

using namespace fusion::rt;

namespace {

/// The bits of a 16-bit float with `Mantissa` stored bits.
template <int Mantissa> struct Small {
  static constexpr int kExponentBits = 15 - Mantissa;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  uint16_t bits;

  static double load(Small value) {
    int exponent = (value.bits >> Mantissa) & ((1 << kExponentBits) - 1);
    int mantissa = value.bits & ((1 << Mantissa) - 1);
    double magnitude;
    if (exponent == (1 << kExponentBits) - 1)
      magnitude = mantissa ? std::nan("") : HUGE_VAL;
    else if (exponent == 0)
      magnitude = std::ldexp(double(mantissa), 1 - kBias - Mantissa);
    else
      magnitude = std::ldexp(double(mantissa + (1 << Mantissa)),
                             exponent - kBias - Mantissa);
    return value.bits & 0x8000 ? -magnitude : magnitude;
  }

  static Small store(double value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    constexpr uint16_t infinity =
        uint16_t(((1 << kExponentBits) - 1) << Mantissa);
    if (std::isnan(value))
      return {uint16_t(sign | infinity | 1 << (Mantissa - 1))};
    double magnitude = std::fabs(value);
    if (magnitude == 0)
      return {sign};
    int exponent;
    std::frexp(magnitude, &exponent); // in [2^(exponent-1), 2^exponent)
    // In units of the last place; nearbyint rounds to even. A carry into the
    // next power of two continues the encoding, up to infinity.
    int unit = std::max(exponent - 1, 1 - kBias) - Mantissa;
    double scaled = magnitude > 1e300 ? HUGE_VAL : std::ldexp(magnitude, -unit);
    if (scaled >= 1 << (Mantissa + 2))
      return {uint16_t(sign | infinity)};
    uint32_t rounded = uint32_t(std::nearbyint(scaled));
    uint32_t base = uint32_t(unit + Mantissa + kBias - 1) << Mantissa;
    return {uint16_t(sign | std::min<uint32_t>(base + rounded, infinity))};
  }
};
using Half = Small<10>;
using Brain = Small<7>;

template <typename T> struct Traits {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  static Sum load(T value) { return Sum(value); }
  static T store(Sum value) { return T(value); }
};
template <int M> struct Traits<Small<M>> {
  using Sum = double;
  static double load(Small<M> value) { return Small<M>::load(value); }
  static Small<M> store(double value) { return Small<M>::store(value); }
};

inline double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
inline double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
inline int64_t maximum(int64_t a, int64_t b) { return std::max(a, b); }
inline int64_t minimum(int64_t a, int64_t b) { return std::min(a, b); }
inline double plus(double a, double b) { return a + b; }
inline double times(double a, double b) { return a * b; }
inline int64_t plus(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) + uint64_t(b));
}
inline int64_t times(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) * uint64_t(b));
}

constexpr uint64_t kBlock = 512;

template <typename T, typename Combine>
void reduceBlocks(T *output, const void *const *inputs, size_t count,
                  uint64_t elements, bool mean, Combine combine) {
  using Sum = typename Traits<T>::Sum;
  Sum sums[kBlock];
  for (uint64_t from = 0; from < elements; from += kBlock) {
    uint64_t size = std::min(kBlock, elements - from);
    const T *first = static_cast<const T *>(inputs[0]) + from;
    for (uint64_t i = 0; i < size; ++i)
      sums[i] = Traits<T>::load(first[i]);
    for (size_t k = 1; k < count; ++k) {
      const T *next = static_cast<const T *>(inputs[k]) + from;
      for (uint64_t i = 0; i < size; ++i)
        sums[i] = combine(sums[i], Traits<T>::load(next[i]));
    }
    if (mean)
      for (uint64_t i = 0; i < size; ++i)
        sums[i] = sums[i] / Sum(count);
    for (uint64_t i = 0; i < size; ++i)
      output[from + i] = Traits<T>::store(sums[i]);
  }
}

template <typename T>
void reduceTyped(Reduction reduction, void *output, const void *const *inputs,
                 size_t count, uint64_t elements) {
  T *to = static_cast<T *>(output);
  switch (reduction) {
  case Reduction::Sum:
  case Reduction::Mean:
    return reduceBlocks(to, inputs, count, elements,
                        reduction == Reduction::Mean,
                        [](auto a, auto b) { return plus(a, b); });
  case Reduction::Min:
    return reduceBlocks(to, inputs, count, elements, false,
                        [](auto a, auto b) { return minimum(a, b); });
  case Reduction::Max:
    return reduceBlocks(to, inputs, count, elements, false,
                        [](auto a, auto b) { return maximum(a, b); });
  case Reduction::Prod:
    return reduceBlocks(to, inputs, count, elements, false,
                        [](auto a, auto b) { return times(a, b); });
  }
}

} // namespace

void fusion::rt::reduceElements(DType dtype, Reduction reduction, void *output,
                                const void *const *inputs, size_t count,
                                uint64_t elements) {
  switch (dtype) {
  case DType::F64:
    return reduceTyped<double>(reduction, output, inputs, count, elements);
  case DType::F32:
    return reduceTyped<float>(reduction, output, inputs, count, elements);
  case DType::F16:
    return reduceTyped<Half>(reduction, output, inputs, count, elements);
  case DType::BF16:
    return reduceTyped<Brain>(reduction, output, inputs, count, elements);
  case DType::I1:
  case DType::I8:
    return reduceTyped<int8_t>(reduction, output, inputs, count, elements);
  case DType::I32:
    return reduceTyped<int32_t>(reduction, output, inputs, count, elements);
  case DType::I64:
    return reduceTyped<int64_t>(reduction, output, inputs, count, elements);
  }
}
