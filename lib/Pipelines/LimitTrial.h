//===- LimitTrial.h - What a module needs without a limit -------*- C++ -*-===//
//
// How much memory the module takes if nothing is decided for a limit: a result
// that fits is the one to take. Private to lib/Pipelines.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PIPELINES_LIMITTRIAL_H
#define FUSION_LIB_PIPELINES_LIMITTRIAL_H

#include "fusion/Pipelines/Compile.h"

namespace fusion {

/// Bytes of the arena of `module`, which is to be fused next, with the options
/// but without their limit; nullopt if no program comes of it. The module is
/// not changed, and nothing is told or written.
std::optional<uint64_t> findUnlimitedBytes(mlir::ModuleOp module,
                                           const CompileOptions &options);

} // namespace fusion

#endif // FUSION_LIB_PIPELINES_LIMITTRIAL_H
