//===- Optimizer.h - LLVM's passes over kernels -----------------*- C++ -*-===//
#ifndef FUSION_LIB_CODEGEN_OPTIMIZER_H
#define FUSION_LIB_CODEGEN_OPTIMIZER_H

#include "llvm/Passes/PassBuilder.h"

namespace fusion::codegen {

/// Runs LLVM's O3 over a module; `add` may register analyses first.
void optimizeModule(
    llvm::Module &module, llvm::TargetMachine &machine,
    const llvm::PipelineTuningOptions &tuning,
    llvm::function_ref<void(llvm::FunctionAnalysisManager &)> add = {});

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_OPTIMIZER_H
