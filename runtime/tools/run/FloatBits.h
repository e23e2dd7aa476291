//===- FloatBits.h - Elements of any type as numbers ------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_FLOATBITS_H
#define FUSION_RUNTIME_TOOLS_RUN_FLOATBITS_H

#include "ModuleData.h"

#include <cstdint>

namespace fusion::rt {

inline bool isFloat(DType dtype) { return uint8_t(dtype) <= 3; }

/// The value at `at`. Exact for every type but i64 beyond 2^53.
double loadNumber(const void *at, DType dtype);

/// Stores a small integer value (representable in every type).
void storeNumber(void *at, DType dtype, double value);

/// Whether a float element is a NaN.
bool isNanAt(const void *at, DType dtype);

/// A float's bits as an integer that counts representable values in order:
/// equal for +0 and -0, adjacent floats differ by 1. f64 to bf16.
int64_t orderedBits(const void *at, DType dtype);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_FLOATBITS_H
