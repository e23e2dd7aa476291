//===- FloatBits.cpp - Elements of any type as numbers --------------------===//
//
// f16 and bf16 have no portable type in C++17; their bits are taken apart here.
//
//===----------------------------------------------------------------------===//
#include "FloatBits.h"

#include <cmath>
#include <cstring>

using namespace fusion::rt;

template <typename T> static T load(const void *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T> static void store(void *at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

static double fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

static double fromBfloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return double(value);
}

double fusion::rt::loadNumber(const void *at, DType dtype) {
  switch (dtype) {
  case DType::F64:
    return load<double>(at);
  case DType::F32:
    return double(load<float>(at));
  case DType::F16:
    return fromHalf(load<uint16_t>(at));
  case DType::BF16:
    return fromBfloat(load<uint16_t>(at));
  case DType::I1:
    return load<uint8_t>(at);
  case DType::I8:
    return load<int8_t>(at);
  case DType::I32:
    return load<int32_t>(at);
  case DType::I64:
    return double(load<int64_t>(at));
  }
  return 0;
}

/// Exact for integers below 2^11 and NaN.
static uint16_t toHalf(double value) {
  if (std::isnan(value))
    return 0x7e00;
  if (value == 0)
    return 0;
  int exponent;
  double fraction = std::frexp(std::fabs(value), &exponent); // [0.5, 1)
  uint16_t mantissa = uint16_t(std::lrint(fraction * 2048)) & 1023;
  return uint16_t((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | mantissa);
}

void fusion::rt::storeNumber(void *at, DType dtype, double value) {
  switch (dtype) {
  case DType::F64:
    return store(at, value);
  case DType::F32:
    return store(at, float(value));
  case DType::F16:
    return store(at, toHalf(value));
  case DType::BF16: {
    float narrow = float(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof(bits));
    return store(at, uint16_t(bits >> 16));
  }
  case DType::I1:
  case DType::I8:
    return store(at, int8_t(value));
  case DType::I32:
    return store(at, int32_t(value));
  case DType::I64:
    return store(at, int64_t(value));
  }
}

bool fusion::rt::isNanAt(const void *at, DType dtype) {
  return isFloat(dtype) && std::isnan(loadNumber(at, dtype));
}

int64_t fusion::rt::orderedBits(const void *at, DType dtype) {
  // Sign and magnitude to two's complement.
  auto order = [](int64_t magnitude, bool negative) {
    return negative ? -magnitude : magnitude;
  };
  switch (dtype) {
  case DType::F64: {
    uint64_t bits = load<uint64_t>(at);
    return order(int64_t(bits & ~(uint64_t(1) << 63)), bits >> 63);
  }
  case DType::F32: {
    uint32_t bits = load<uint32_t>(at);
    return order(bits & 0x7fffffff, bits >> 31);
  }
  default: {
    uint16_t bits = load<uint16_t>(at);
    return order(bits & 0x7fff, bits >> 15);
  }
  }
}
