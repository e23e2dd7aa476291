//===- ElementKind.cpp - Rounding and bits of the element types -----------===//
//
// Floats are described by three numbers (significant digits, least and largest
// exponent) and rounded by one algorithm that follows IEEE 754's definition.
//
//===----------------------------------------------------------------------===//

#include "fusion/Reference/ElementKind.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace fusion::reference;

namespace {
/// A binary interchange format: 1 sign bit, then exponent, then fraction.
struct Format {
  int precision;   ///< significant digits, the hidden one included
  int minExponent; ///< of the least normal number
  int maxExponent; ///< of the largest number; also the exponent's bias
};
} // namespace

static Format getFormat(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
    return {53, -1022, 1023};
  case ElementKind::F32:
    return {24, -126, 127};
  case ElementKind::F16:
    return {11, -14, 15};
  case ElementKind::BF16:
    return {8, -126, 127};
  default:
    llvm_unreachable("not a float");
  }
}

bool fusion::reference::isFloat(ElementKind kind) {
  return kind <= ElementKind::BF16;
}

unsigned fusion::reference::getByteSize(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
  case ElementKind::I64:
    return 8;
  case ElementKind::F32:
  case ElementKind::I32:
    return 4;
  case ElementKind::F16:
  case ElementKind::BF16:
    return 2;
  case ElementKind::I1:
  case ElementKind::I8:
    return 1;
  }
  llvm_unreachable("covered above");
}

unsigned fusion::reference::getBitWidth(ElementKind kind) {
  return kind == ElementKind::I1 ? 1 : 8 * getByteSize(kind);
}

llvm::StringRef fusion::reference::getName(ElementKind kind) {
  static constexpr const char *names[] = {"f64", "f32", "f16", "bf16",
                                          "i1",  "i8",  "i32", "i64"};
  return names[static_cast<unsigned>(kind)];
}

std::optional<ElementKind> fusion::reference::getElementKind(mlir::Type type) {
  if (type.isF64())
    return ElementKind::F64;
  if (type.isF32())
    return ElementKind::F32;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (type.isSignlessInteger(1))
    return ElementKind::I1;
  if (type.isSignlessInteger(8))
    return ElementKind::I8;
  if (type.isSignlessInteger(32))
    return ElementKind::I32;
  if (type.isSignlessInteger(64))
    return ElementKind::I64;
  return std::nullopt;
}

unsigned fusion::reference::getPrecision(ElementKind kind) {
  return getFormat(kind).precision;
}

double fusion::reference::roundToKind(double value, ElementKind kind) {
  if (kind == ElementKind::F64 || value == 0 || !std::isfinite(value))
    return value;
  // The conversion instruction rounds to nearest even: the common case, fast.
  if (kind == ElementKind::F32)
    return static_cast<float>(value);
  Format format = getFormat(kind);
  int exponent; // |value| is in [2^(exponent - 1), 2^exponent)
  std::frexp(value, &exponent);
  // The last place: below the least normal number it stops moving.
  int lastPlace =
      std::max(exponent - 1, format.minExponent) - (format.precision - 1);
  // Scaling by a power of two is exact; nearbyint takes ties to even and keeps
  // the sign of a zero.
  double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, -lastPlace)), lastPlace);
  if (std::fabs(rounded) >= std::ldexp(1.0, format.maxExponent + 1))
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

double fusion::reference::roundToKind(int64_t value, ElementKind kind) {
  uint64_t magnitude = value < 0 ? -static_cast<uint64_t>(value) : value;
  int digits = 0; // of the magnitude, in binary
  while (digits < 64 && (magnitude >> digits) != 0)
    ++digits;
  int dropped = digits - getFormat(kind).precision;
  double rounded;
  if (dropped <= 0) {
    rounded = static_cast<double>(magnitude);
  } else {
    uint64_t kept = magnitude >> dropped;
    uint64_t rest = magnitude - (kept << dropped);
    uint64_t half = uint64_t(1) << (dropped - 1);
    if (rest > half || (rest == half && (kept & 1)))
      ++kept;
    rounded = std::ldexp(static_cast<double>(kept), dropped);
  }
  // Only f16 has integers beyond its largest number; this step does not round.
  return roundToKind(value < 0 ? -rounded : rounded, kind);
}

int64_t fusion::reference::wrapToKind(int64_t value, ElementKind kind) {
  switch (kind) {
  case ElementKind::I1:
    return value & 1;
  case ElementKind::I8:
    return static_cast<int8_t>(value);
  case ElementKind::I32:
    return static_cast<int32_t>(value);
  case ElementKind::I64:
    return value;
  default:
    llvm_unreachable("not an integer");
  }
}

uint64_t fusion::reference::encodeFloat(double value, ElementKind kind) {
  if (kind == ElementKind::F64) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  Format format = getFormat(kind);
  int fractionBits = format.precision - 1;
  uint64_t exponentMask = 2 * format.maxExponent + 1;
  uint64_t signBit =
      std::signbit(value) ? (exponentMask + 1) << fractionBits : 0;
  if (std::isnan(value)) {
    uint64_t payload = encodeFloat(value, ElementKind::F64);
    payload &= (uint64_t(1) << 52) - 1;
    uint64_t quiet = uint64_t(1) << (fractionBits - 1);
    return signBit | (exponentMask << fractionBits) |
           (payload >> (52 - fractionBits)) | quiet;
  }
  if (std::isinf(value))
    return signBit | (exponentMask << fractionBits);
  if (value == 0)
    return signBit;
  int exponent;
  double fraction = std::frexp(std::fabs(value), &exponent); // in [1/2, 1)
  if (exponent - 1 < format.minExponent) {
    // Subnormal: the fraction counts least places, the exponent field is 0.
    double places =
        std::ldexp(std::fabs(value), fractionBits - format.minExponent);
    return signBit | static_cast<uint64_t>(places);
  }
  uint64_t significand =
      static_cast<uint64_t>(std::ldexp(fraction, format.precision));
  uint64_t field = exponent - 1 + format.maxExponent;
  return signBit | (field << fractionBits) |
         (significand & ((uint64_t(1) << fractionBits) - 1));
}

uint64_t fusion::reference::encodeInteger(int64_t value, ElementKind kind) {
  unsigned bits = 8 * getByteSize(kind);
  return bits == 64
             ? value
             : static_cast<uint64_t>(value) & ((uint64_t(1) << bits) - 1);
}

double fusion::reference::decodeFloat(uint64_t bits, ElementKind kind) {
  if (kind == ElementKind::F64) {
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  Format format = getFormat(kind);
  int fractionBits = format.precision - 1;
  uint64_t exponentMask = 2 * format.maxExponent + 1;
  uint64_t fraction = bits & ((uint64_t(1) << fractionBits) - 1);
  uint64_t field = (bits >> fractionBits) & exponentMask;
  bool negative = (bits >> fractionBits) > exponentMask;
  double magnitude;
  if (field == exponentMask && fraction != 0) {
    uint64_t wide = (uint64_t(0x7ff) << 52) | (fraction << (52 - fractionBits));
    magnitude = decodeFloat(wide, ElementKind::F64);
  } else if (field == exponentMask) {
    magnitude = std::numeric_limits<double>::infinity();
  } else if (field == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction),
                           format.minExponent - fractionBits);
  } else {
    uint64_t significand = fraction | (uint64_t(1) << fractionBits);
    magnitude =
        std::ldexp(static_cast<double>(significand),
                   static_cast<int>(field) - format.maxExponent - fractionBits);
  }
  return negative ? -magnitude : magnitude;
}

int64_t fusion::reference::decodeInteger(uint64_t bits, ElementKind kind) {
  // Bytes from outside may hold any value for i1: all but zero are true.
  if (kind == ElementKind::I1)
    return bits != 0;
  return wrapToKind(static_cast<int64_t>(bits), kind);
}
