//===- Compare.cpp - --check: outputs against expected files --------------===//
//
// Every element is compared. The tolerances are those of composite float ops;
// NaN matches only NaN and an infinity only itself.
//
//===----------------------------------------------------------------------===//
#include "Compare.h"
#include "Checked.h"
#include "FloatBits.h"

#include <cmath>
#include <cstring>

using namespace fusion::rt;

namespace {
struct Tolerance {
  double absolute, relative;
};
} // namespace

static Tolerance toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return {1e-12, 1e-10};
  case DType::F32:
    return {1e-5, 1.3e-6};
  case DType::F16:
    return {1e-5, 1e-3};
  case DType::BF16:
    return {1e-5, 1.6e-2};
  default:
    return {0, 0};
  }
}

Difference fusion::rt::compareTensors(const Tensor &got,
                                      const Tensor &expected) {
  Difference result;
  size_t element = elementSize(got.dtype);
  result.count = got.bytes.size() / element;
  Tolerance tolerance = toleranceOf(got.dtype);
  for (uint64_t i = 0; i < result.count; ++i) {
    const uint8_t *a = &got.bytes[i * element];
    const uint8_t *b = &expected.bytes[i * element];
    double x = loadNumber(a, got.dtype), y = loadNumber(b, got.dtype);
    bool matches;
    if (!isFloat(got.dtype)) {
      matches = std::memcmp(a, b, element) == 0;
      double difference = std::fabs(x - y);
      if (!matches && difference == 0)
        difference = 1; // i64 beyond 2^53
      if (difference > result.maxAbs) {
        result.maxAbs = difference;
        result.maxAbsIndex = i;
      }
      result.maxRel =
          std::fmax(result.maxRel, y != 0 ? difference / std::fabs(y) : 0);
    } else if (std::isnan(x) || std::isnan(y)) {
      matches = std::isnan(x) && std::isnan(y);
      if (!matches && !(result.maxAbs == INFINITY)) {
        result.maxAbs = INFINITY;
        result.maxAbsIndex = i;
      }
    } else if (std::isinf(x) || std::isinf(y)) {
      matches = x == y;
      if (!matches && !(result.maxAbs == INFINITY)) {
        result.maxAbs = INFINITY;
        result.maxAbsIndex = i;
      }
    } else {
      double difference = std::fabs(x - y);
      matches =
          difference <= tolerance.absolute + tolerance.relative * std::fabs(y);
      if (difference > result.maxAbs) {
        result.maxAbs = difference;
        result.maxAbsIndex = i;
      }
      if (y != 0)
        result.maxRel = std::fmax(result.maxRel, difference / std::fabs(y));
      int64_t left = orderedBits(a, got.dtype),
              right = orderedBits(b, got.dtype);
      uint64_t ulp = left > right ? uint64_t(left) - uint64_t(right)
                                  : uint64_t(right) - uint64_t(left);
      result.maxUlp = std::max(result.maxUlp, ulp);
    }
    if (!matches && result.differing++ == 0) {
      result.firstIndex = i;
      result.got = x;
      result.expected = y;
    }
  }
  return result;
}
