//===- Evaluator.h - The reference evaluator --------------------*- C++ -*-===//
//
// Runs a function of the dialect's graph level, op by op, slowly and obviously:
// floats in f64, integers in i64, one rounding to the element type a result.
// It is the oracle of every other path and shares nothing with them but the
// types, attributes and SSA structure of the IR.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_EVALUATOR_H
#define FUSION_REFERENCE_EVALUATOR_H

#include "fusion/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <string>
#include <vector>

namespace fusion::reference {

struct Options {
  /// Folder that the files of parameters are relative to. Without one, a
  /// parameter from a file is an error.
  std::string moduleDirectory;

  /// Bytes that the live tensors of all ranks may take together (8 bytes an
  /// element, whatever its type).
  uint64_t memoryLimit = uint64_t(8) << 30;

  /// Seconds that a rank waits in one collective. A deadlock is seen at once,
  /// without waiting; this only bounds a peer that computes for too long.
  double collectiveTimeout = 600;

  /// Batch of a function without a `?` argument.
  int64_t batch = 1;

  /// Gives the results of a `fusion.kernel_call`, whose kernel can't be
  /// evaluated: values to go on with. Without it the op is an error.
  std::function<llvm::Expected<std::vector<Tensor>>(
      mlir::Operation *op, llvm::ArrayRef<Tensor> operands)>
      onKernelCall;

  /// Called after each op with its results; from the ranks' own threads.
  std::function<void(mlir::Operation *op, llvm::ArrayRef<Tensor> results,
                     int64_t rank)>
      onResult;
};

/// Evaluates `function` on one rank. `inputs` are the arguments in order; each
/// must have the argument's type, where `?` stands for one batch size that all
/// arguments share. The results are in the order of the `return`.
///
/// Fails with a `Failure`: `Usage` for inputs that do not fit, `Program` for a
/// program that has no meaning or a parameter that can't be read, `Resources`
/// for too much memory.
llvm::Expected<std::vector<Tensor>> evaluate(mlir::func::FuncOp function,
                                             llvm::ArrayRef<Tensor> inputs,
                                             const Options &options = {});

/// Evaluates one function a rank, each in a thread of its own, collectives
/// between them: rank i runs `functions[i]` on `inputs[i]`. The functions are
/// usually one and the same. When a rank fails the others end too, and the
/// error names the rank that failed first.
llvm::Expected<std::vector<std::vector<Tensor>>>
evaluateRanks(llvm::ArrayRef<mlir::func::FuncOp> functions,
              llvm::ArrayRef<std::vector<Tensor>> inputs,
              const Options &options = {});

/// Batch size that arguments of the given shapes imply for `function`: the size
/// of every `?`; `defaultBatch` if there is none. Checks ranks, sizes and the
/// bounds in `fusion.batch`; fails with `Usage`.
llvm::Expected<int64_t> inferBatch(mlir::func::FuncOp function,
                                   llvm::ArrayRef<Tensor> inputs,
                                   int64_t defaultBatch);

/// Name of an argument or a result: its `fusion.name`, else `arg0`... or
/// `out0`...
std::string getArgumentName(mlir::func::FuncOp function, unsigned index);
std::string getResultName(mlir::func::FuncOp function, unsigned index);

/// Whether the evaluator has a rule for ops of this name. False for the ops
/// that it refuses (`kernel_call`) and for those of the program level.
bool canEvaluate(llvm::StringRef opName);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_EVALUATOR_H
