//===- Compare.h - --check: outputs against expected files ------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_COMPARE_H
#define FUSION_RUNTIME_TOOLS_RUN_COMPARE_H

#include "Npy.h"

namespace fusion::rt {

/// How one tensor differs from another.
struct Difference {
  uint64_t count = 0;      ///< elements
  uint64_t differing = 0;  ///< elements beyond the tolerance
  uint64_t firstIndex = 0; ///< of those, the first (flat, row-major)
  double maxAbs = 0, maxRel = 0;
  uint64_t maxUlp = 0;          ///< floats: representable values between
  uint64_t maxAbsIndex = 0;     ///< where maxAbs is
  double got = 0, expected = 0; ///< at firstIndex
};

/// Compares all elements of two tensors of one type and shape with the
/// tolerance of that type (see --help).
Difference compareTensors(const Tensor &got, const Tensor &expected);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_COMPARE_H
