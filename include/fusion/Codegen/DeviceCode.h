//===- DeviceCode.h - Kernels as code of a GPU ------------------*- C++ -*-===//
//
// From kernels in the LLVM dialect to the PTX and the cubin that a module
// holds.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_DEVICECODE_H
#define FUSION_CODEGEN_DEVICECODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fusion {

/// What kernels are compiled for, and by what.
struct DeviceCodeOptions {
  std::string architecture = "sm_90"; ///< one of getArchitectures
  /// Products and sums of one expression may be rounded once.
  bool contract = false;
  std::string ptxas;        ///< path of the assembler; empty: PTX only
  std::string ptxasVersion; ///< of it, for the module's provenance
  std::string libdevice;    ///< path of libdevice.10.bc; empty: none was found
  unsigned timeoutSeconds = 300; ///< of the assembler
};

/// What the assembler says of a kernel.
struct KernelUsage {
  uint32_t registers = 0;   ///< 32-bit, of a thread
  uint32_t spillBytes = 0;  ///< stored and loaded, of a thread
  uint32_t stackBytes = 0;  ///< of memory of a thread's own, spills included
  uint32_t sharedBytes = 0; ///< of a block
};

struct DeviceCode {
  std::string ptx;
  bool usesLibdevice = false;
  /// Entries wait for the kernels before them, and may be launched early.
  bool waits = false;
  std::vector<uint8_t> cubin;               ///< empty without an assembler
  std::map<std::string, KernelUsage> usage; ///< by entry; as cubin
};

/// The architectures that kernels can be compiled for: "sm_80", ...
llvm::ArrayRef<llvm::StringLiteral> getArchitectures();

/// The assembler that `wanted` names (`off`: none; a path; empty: the first of
/// $CUDA_HOME/bin, PATH, /usr/local/cuda/bin and the wheel of PyPI). Empty if
/// there is none; an error if `wanted` is a path and no program.
llvm::Expected<std::string> findAssembler(llvm::StringRef wanted);

/// What the assembler at `path` says of its version: "13.0.88". An error if it
/// is something else.
llvm::Expected<std::string> getAssemblerVersion(llvm::StringRef path);

/// libdevice.10.bc of the same places; empty if there is none.
std::string findLibdevice();

/// Compiles `kernels` (entries in NVVM and what they call). The same input
/// gives the same bytes. The error's code is no_such_file_or_directory where a
/// kernel needs libdevice and there is none, or where the assembler is none or
/// too old, timed_out or not_enough_memory for the assembler, and none for a
/// fault of the compiler.
llvm::Expected<DeviceCode> compileDeviceCode(mlir::ModuleOp kernels,
                                             const DeviceCodeOptions &options);

} // namespace fusion

#endif // FUSION_CODEGEN_DEVICECODE_H
