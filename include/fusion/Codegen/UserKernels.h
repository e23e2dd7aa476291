//===- UserKernels.h - Kernels that a model brings along --------*- C++ -*-===//
//
// A C kernel of a model is declared in `@kernels` by the emitter; here it is
// compiled, checked and made ready to be linked with the other kernels.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_USERKERNELS_H
#define FUSION_CODEGEN_USERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <utility>
#include <vector>

namespace fusion {

/// Start of a `source` that names a file beside the model.
inline constexpr llvm::StringLiteral kSourceFilePrefix = "file:";

struct UserKernelOptions {
  /// A path or a name on PATH; empty: the first of cc, clang and gcc that is
  /// on PATH; `off`: none may be run.
  std::string compiler;
  unsigned timeoutSeconds = 60; ///< for one source
  std::string folder;           ///< that source files are relative to
  std::vector<std::string> cpuFeatures;
};

/// How compiling the kernels ended. All but Ok are reported as errors.
enum class UserKernelStatus {
  Ok,
  BadProgram, ///< a kernel is wrong
  NoCompiler, ///< there is none, or it can't be run
  Timeout,    ///< it did not finish in time
  Resources,  ///< no memory, process or descriptor
};

/// The kernels as objects.
struct UserObjects {
  std::vector<llvm::SmallVector<char, 0>> objects;
  std::string compiler; ///< what it says of its version; empty if none ran
  /// Entry and SHA-256 of the source, in the order of the declarations.
  std::vector<std::pair<std::string, std::string>> sources;
};

/// Compiles what `@kernels`, in the LLVM dialect, declares: each distinct
/// source once. Objects define the declared symbols and nothing else, and what
/// they call of the runtime's table is added to `fusion.imports` and to the
/// array `fusion_imports`. Without declarations it does nothing and runs
/// nothing. The same sources, features and compiler give the same bytes.
UserKernelStatus compileUserKernels(mlir::ModuleOp kernels,
                                    const UserKernelOptions &options,
                                    UserObjects &result);

} // namespace fusion

#endif // FUSION_CODEGEN_USERKERNELS_H
