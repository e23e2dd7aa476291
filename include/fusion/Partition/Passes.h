//===- Passes.h - Passes of the partition phase -----------------*- C++ -*-===//
#ifndef FUSION_PARTITION_PASSES_H
#define FUSION_PARTITION_PASSES_H

#include "mlir/Pass/Pass.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Partition/Passes.h.inc"

/// Axes and sizes of `dp=2,tp=1`: names are letters, digits and `_`, distinct;
/// sizes at least 1, their product at most 1,024. The error says what is wrong.
llvm::Expected<std::vector<std::pair<std::string, int64_t>>>
parseMesh(llvm::StringRef text);

/// Single-device program and shardings -> program of one rank.
void buildPartitionPipeline(mlir::OpPassManager &manager,
                            const PartitionOptions &options);

#define GEN_PASS_REGISTRATION
#include "fusion/Partition/Passes.h.inc"

} // namespace fusion

#endif // FUSION_PARTITION_PASSES_H
