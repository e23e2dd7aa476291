//===- GeneratedInputs.h - Data to evaluate a function on -------*- C++ -*-===//
//
// What the checks of --verify-fusion evaluate functions on. Private to
// lib/Pipelines.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PIPELINES_GENERATEDINPUTS_H
#define FUSION_LIB_PIPELINES_GENERATEDINPUTS_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>
#include <vector>

namespace fusion {

/// 1, 2 and the largest batch, as far as the function takes them.
std::set<int64_t> getBatches(mlir::func::FuncOp function);

/// The arguments of a function: small integers if all its ops give integers for
/// integers, so that results can be checked by hand, else normally distributed
/// numbers. They follow from the seed and the batch. Emits an error at
/// `function` for an argument that the evaluator doesn't know, or without
/// memory.
mlir::FailureOr<std::vector<reference::Tensor>>
generateInputs(mlir::func::FuncOp function, int64_t batch, uint64_t seed);

/// Values that stand for the results of a user's kernel, which can't be
/// evaluated: the same whenever it reads the same bits.
llvm::Expected<std::vector<reference::Tensor>>
makeStandIns(KernelCallOp call, llvm::ArrayRef<reference::Tensor> operands,
             int64_t batch);

/// The evaluator's failure as an error at `function`, which can't be checked.
llvm::LogicalResult reportUnchecked(mlir::func::FuncOp function,
                                    llvm::Error error);

} // namespace fusion

#endif // FUSION_LIB_PIPELINES_GENERATEDINPUTS_H
