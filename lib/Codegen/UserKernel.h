//===- UserKernel.h - The declaration of a user's kernel --------*- C++ -*-===//
//
// What the emitter leaves for the step that compiles: an attribute on the
// declaration of the function in `@kernels`.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_USERKERNEL_H
#define FUSION_LIB_CODEGEN_USERKERNEL_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <optional>

namespace fusion::codegen {

/// What the declaration of a user's function says of it.
struct UserKernel {
  mlir::StringAttr entry;     ///< its name in the source
  mlir::StringAttr source;    ///< C text, or `file:` and a path
  mlir::StringAttr prototype; ///< of C, without names and semicolon
  bool isPure = false;        ///< some call of it has no side effects

  /// What `function` says, if it is such a declaration.
  static std::optional<UserKernel> get(mlir::LLVM::LLVMFuncOp function);
  void attach(mlir::LLVM::LLVMFuncOp function) const;
};

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_USERKERNEL_H
