//===- SplitKernels.h - Kernels in parts to compile side by side *- C++ -*-===//
//
// Optimizing and generating code is nearly all the time of a compilation, and
// kernels know nothing of each other.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CPU_SPLITKERNELS_H
#define FUSION_LIB_CODEGEN_CPU_SPLITKERNELS_H

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace fusion {

/// Definitions that are compiled together.
using KernelPart = llvm::DenseSet<const llvm::GlobalValue *>;

/// Splits the definitions of `module` so that a function is in one part with
/// what it calls and with the constants it reads; each definition is in exactly
/// one part. The split follows the order in the module and sizes alone, never
/// the machine. Small modules stay whole.
std::vector<KernelPart> splitKernels(const llvm::Module &module);

} // namespace fusion

#endif // FUSION_LIB_CODEGEN_CPU_SPLITKERNELS_H
