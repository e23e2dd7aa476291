//===- LowerCudaKernels.h - Kernels to NVVM in the LLVM dialect -*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H
#define FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fusion::codegen {

/// Lowers the functions that fusion-emit-kernels{target=cuda} makes. Each
/// becomes a private `NAME.body`; those that `isLaunched` asks for get an entry
/// NAME with the runtime's parameters: the operands' addresses by value, and
/// the batch. Math becomes calls of libdevice's functions.
mlir::LogicalResult
lowerCudaKernels(mlir::ModuleOp kernels,
                 llvm::function_ref<bool(llvm::StringRef)> isLaunched);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CUDA_LOWERCUDAKERNELS_H
