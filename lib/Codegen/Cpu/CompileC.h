//===- CompileC.h - C to assembly, by the user's compiler -------*- C++ -*-===//
//
// Finds and runs an external C compiler. It only compiles: to text, with flags
// under which the same source gives the same text wherever it is done.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CPU_COMPILEC_H
#define FUSION_LIB_CODEGEN_CPU_COMPILEC_H

#include "fusion/Codegen/ChildProcess.h"

#include "llvm/Support/Error.h"

namespace fusion::codegen {

/// The path of the compiler that `wanted` means (see UserKernelOptions); the
/// error says what to do.
llvm::Expected<std::string> findCCompiler(llvm::StringRef wanted);

/// The first line of what the compiler says to --version, or the failure.
ChildResult readVersion(llvm::StringRef compiler, unsigned timeoutSeconds);

/// A source, as the compiler gets it.
struct CSource {
  std::string name;                    ///< that messages name it by
  std::string text;                    ///< the user's
  std::vector<std::string> prototypes; ///< of its entries
};

/// Compiles `source` for x86-64 with the instruction sets `features`; the
/// assembly is the result's output.
ChildResult compileC(llvm::StringRef compiler, const CSource &source,
                     llvm::ArrayRef<std::string> features, bool isClang,
                     unsigned timeoutSeconds);

/// The line of a compiler's messages that says what is wrong; "" if none does.
std::string findError(llvm::StringRef messages);

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_COMPILEC_H
