//===- Assembler.h - PTX to machine code ------------------------*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CUDA_ASSEMBLER_H
#define FUSION_LIB_CODEGEN_CUDA_ASSEMBLER_H

#include "fusion/Codegen/DeviceCode.h"

namespace fusion {

/// Runs `options.ptxas` on `code.ptx`: fills `cubin` and `usage`.
llvm::Error assemble(const DeviceCodeOptions &options, DeviceCode &code);

} // namespace fusion

#endif // FUSION_LIB_CODEGEN_CUDA_ASSEMBLER_H
