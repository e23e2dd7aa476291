//===- RuntimeProgram.h - fusion.program as plain structs -------*- C++ -*-===//
//
// The runtime's schedule verifier and the module writer work on the plain
// structs of runtime/src/core/ModuleData.h. This is the one translation from
// the IR.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_RUNTIMEPROGRAM_H
#define FUSION_ANALYSIS_RUNTIMEPROGRAM_H

#include "fusion/IR/FusionDialect.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace fusion {
namespace rt {
struct Program;
enum class DType : unsigned char;
} // namespace rt

/// The runtime's element type, or nullopt for a type that modules can't hold.
std::optional<rt::DType> getRuntimeType(mlir::Type elementType);

/// Calls `visit` with the name of each kernel that `command`, a part of a
/// program, may run: launched, behind a library's call, or instead of it.
void forEachKernel(mlir::Operation *command,
                   llvm::function_ref<void(llvm::StringRef)> visit);

/// Translates `program` one to one. `kernels` gives the index of each kernel
/// symbol (the leaf of the reference). Reports what cannot be translated as an
/// error on the op.
mlir::FailureOr<rt::Program>
buildRuntimeProgram(ProgramOp program,
                    const llvm::StringMap<uint32_t> &kernels);

} // namespace fusion

#endif // FUSION_ANALYSIS_RUNTIMEPROGRAM_H
