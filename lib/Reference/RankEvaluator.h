//===- RankEvaluator.h - One rank's walk through a function -----*- C++ -*-===//
//
// Evaluates the ops of a function in order. Regions of groups and asynchronous
// ops are entered through a stack of frames, never by recursion, and a value is
// forgotten after its last use.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_RANKEVALUATOR_H
#define FUSION_LIB_REFERENCE_RANKEVALUATOR_H

#include "OpRules.h"
#include "fusion/Reference/Evaluator.h"

#include "llvm/ADT/DenseMap.h"

namespace fusion::reference {

class RankEvaluator {
public:
  RankEvaluator(mlir::func::FuncOp function, const Options &options,
                OpContext context)
      : function(function), options(options), context(std::move(context)) {}

  Results run(Tensors inputs);

private:
  /// A block that is being evaluated. `parent` gets its results: a group, an
  /// async, or null for the function's body.
  struct Frame {
    mlir::Operation *parent;
    mlir::Block::iterator next;
  };
  struct Slot {
    Tensor tensor;
    int64_t usesLeft;
  };
  struct Future {
    std::vector<Tensor> values;
    mlir::Operation *awaitedBy = nullptr;
  };

  llvm::Error checkDonations();
  llvm::Expected<std::vector<Tensor>> readOperands(mlir::Operation *op);
  void define(mlir::Value value, Tensor tensor);
  llvm::Error defineResults(mlir::Operation *op, Tensors results);
  llvm::Error evaluate(mlir::Operation *op);
  llvm::Error callKernel(mlir::Operation *op);
  llvm::Error enter(mlir::Operation *op);
  llvm::Error leave(mlir::Operation *parent, std::vector<Tensor> values);
  llvm::Error await(mlir::Operation *op);

  mlir::func::FuncOp function;
  const Options &options;
  OpContext context;
  std::vector<Frame> frames;
  llvm::DenseMap<mlir::Value, Slot> values;
  llvm::DenseMap<mlir::Value, Future> futures;
  std::vector<Tensor> returned;
};

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_RANKEVALUATOR_H
