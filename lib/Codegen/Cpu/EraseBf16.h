//===- EraseBf16.h - bf16 as the 16-bit integer it is stored as -*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_CPU_ERASEBF16_H
#define FUSION_LIB_CODEGEN_CPU_ERASEBF16_H

namespace mlir::LLVM {
class LLVMFuncOp;
} // namespace mlir::LLVM

namespace fusion::codegen {

/// Gives every bf16 value of `function`, scalar or vector, the type i16. No op
/// of the function may compute with bf16: it only loads, stores and moves it.
void eraseBf16(mlir::LLVM::LLVMFuncOp function);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_ERASEBF16_H
