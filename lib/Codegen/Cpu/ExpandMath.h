//===- ExpandMath.h - Transcendentals on a CPU ------------------*- C++ -*-===//
//
// Replaces math ops (and float remainders) by arithmetic that LLVM compiles
// without a library, or by calls of imported functions. The choice is made by
// op, type and processor only, so scalar and vector code gives the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CPU_EXPANDMATH_H
#define FUSION_LIB_CODEGEN_CPU_EXPANDMATH_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>
#include <vector>

namespace fusion::codegen {

/// Functions called through the array `fusion_imports`: name and signature, in
/// ordinal order.
using ImportTable = std::vector<std::pair<std::string, std::string>>;

/// What the target can do without help.
struct CpuAbilities {
  bool rounding = false; ///< floor, ceil and round are instructions (SSE4.1)
  bool halfConversion = false;   ///< f32 <-> f16 are instructions (F16C)
  bool fusedMultiplyAdd = false; ///< one rounding for x * y + z (FMA)
};

/// Rewrites all functions of `kernels`; `imports` collects the calls.
mlir::LogicalResult expandMath(mlir::ModuleOp kernels,
                               const CpuAbilities &abilities,
                               ImportTable &imports);

/// Declares the array that imported functions are called through, and lists
/// them in `fusion.imports`; in place of what was declared before. Nothing if
/// there are none.
void declareImports(mlir::ModuleOp kernels, const ImportTable &imports);

/// Rewrites conversions from and to bf16, and f16 where the CPU has none.
void expandNarrowFloats(mlir::ModuleOp kernels, const CpuAbilities &abilities);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_EXPANDMATH_H
