//===- LowerCudaKernels.h - Kernels to NVVM in the LLVM dialect -*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H
#define FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H

#include "Limits.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fusion::codegen {

/// What a launch takes at most, as the runtime verifies it: blocks of a grid,
/// and operands of a kernel.
inline constexpr int64_t kMostBlocks = rt::limits::kCudaBlocks,
                         kMostOperands = rt::limits::kCudaOperands;

/// Attribute of a kernel (i64): blocks that a multiprocessor should hold at
/// once, so that the assembler may use as many registers as that leaves.
/// Without it, it saves registers for full occupancy.
inline constexpr llvm::StringLiteral kResidentBlocksAttr = "fusion.resident";

/// Attribute of the module of kernels (i64): the largest batch of a run.
inline constexpr llvm::StringLiteral kMaxBatchAttr = "fusion.max_batch";

/// Lowers the functions that fusion-emit-kernels{target=cuda} makes. Each
/// becomes a private `NAME.body`; those that `isLaunched` asks for get an entry
/// NAME with the runtime's parameters: the operands' addresses by value, and
/// the batch. Math becomes calls of libdevice's functions. What has no code on
/// a GPU is an error.
mlir::LogicalResult
lowerCudaKernels(mlir::ModuleOp kernels,
                 llvm::function_ref<bool(llvm::StringRef)> isLaunched);

/// Turns the math ops that are no instruction into calls of libdevice's
/// functions, lane by lane. An op that there is no function for is an error.
mlir::LogicalResult callLibdevice(mlir::ModuleOp kernels);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H
