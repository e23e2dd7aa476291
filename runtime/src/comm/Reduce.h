//===- Reduce.h - Combining what ranks brought ------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_COMM_REDUCE_H
#define FUSION_RUNTIME_COMM_REDUCE_H

#include "ModuleData.h"

#include <cstddef>
#include <cstdint>

namespace fusion::rt {

/// `output[i]` = the combination of `inputs[0][i]`, `inputs[1][i]`, ... in this
/// order, for `elements` elements. Floats are accumulated in f64 and rounded
/// once to nearest even; integers wrap; min and max are IEEE 754-2019's (a NaN
/// wins, -0 is below +0); `Mean` divides the sum by `count` before it rounds.
/// `output` may be one of the inputs.
void reduceElements(DType dtype, Reduction reduction, void *output,
                    const void *const *inputs, size_t count, uint64_t elements);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_REDUCE_H
