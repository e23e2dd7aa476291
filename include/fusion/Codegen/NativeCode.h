//===- NativeCode.h - Kernels as machine code -------------------*- C++ -*-===//
//
// From kernels in the LLVM dialect to the ELF shared object that a module
// holds.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_NATIVECODE_H
#define FUSION_CODEGEN_NATIVECODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fusion {

/// A processor to compile for.
struct CpuTarget {
  std::string name; ///< LLVM's name: "x86-64-v3", "sapphirerapids"
  std::vector<std::string> features; ///< instruction sets used, LLVM's names
};

/// Resolves `name` (`native`: this machine) to a processor and the instruction
/// sets that kernels may use: those of the named processor that matter for
/// kernels, on `native` without those the machine hides. The error lists what
/// to write instead.
llvm::Expected<CpuTarget> resolveCpu(llvm::StringRef name);

/// Compiles `kernels` (functions in the LLVM dialect with the runtime's kernel
/// ABI) for `cpu` with exactly `features`, and links them, with the objects of
/// user's kernels (UserKernels.h) if there are any, to a shared object without
/// undefined symbols, dependencies or constructors. The same input gives the
/// same bytes. Floating point is never contracted or reassociated, and no loop
/// becomes a call. The error's code is executable_format_error where a user's
/// object can't be linked, another one where the machine lacks something, and
/// none for a fault of the compiler.
llvm::Expected<std::vector<uint8_t>>
compileNativeCode(mlir::ModuleOp kernels, llvm::StringRef cpu,
                  llvm::ArrayRef<std::string> features,
                  llvm::ArrayRef<llvm::SmallVector<char, 0>> userObjects = {});

} // namespace fusion

#endif // FUSION_CODEGEN_NATIVECODE_H
