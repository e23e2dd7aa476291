//===- Passes.h - Passes of the codegen phase -------------------*- C++ -*-===//
//
// Declarations of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_PASSES_H
#define FUSION_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fusion/Codegen/Passes.h.inc"

struct CodegenOptions {
  /// A processor by LLVM's name, or `native`: it decides which conversions are
  /// instructions. An unknown name is compiled for like the least processor.
  std::string cpu = "native";
  std::string target = "cpu"; ///< or "cuda"
  std::string fp = "strict";  ///< or "fast"
  /// Of the files that hold weights; empty: the module's own.
  std::string parameterFolder = "";
};

/// The phase: from groups to kernels in the LLVM dialect.
void buildCodegenPipeline(mlir::OpPassManager &manager,
                          const CodegenOptions &options);

/// Makes the phase known as `--fusion-codegen="cpu=..."`.
void registerCodegenPipelines();

} // namespace fusion

#endif // FUSION_CODEGEN_PASSES_H
