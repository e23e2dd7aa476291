//===- GraphFingerprint.h - What a graph computes, as expressions ---------===//
//
// A graph as the set of expressions that it computes: two ops are the same
// expression if they are the same op with the same attributes and types on the
// same operands. A group is seen through. Recorded before a step and compared
// with the graph behind it, modulo what the step declares to be equal.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_GRAPHFINGERPRINT_H
#define FUSION_ANALYSIS_GRAPHFINGERPRINT_H

#include "mlir/IR/Operation.h"
#include "mlir/Pass/AnalysisManager.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

namespace fusion {

/// The expressions of a function over tensors. An analysis that stays valid
/// when the function changes: it describes the function as it was.
class GraphFingerprint {
public:
  /// With `withValues`, getNumber answers as long as the ops are there.
  explicit GraphFingerprint(mlir::Operation *function, bool withValues = false);

  /// A new value that a rewrite declares to equal a recorded one.
  struct Equation {
    unsigned number;
    mlir::Value now;
  };

  /// The number of a recorded value's expression.
  unsigned getNumber(mlir::Value value) const { return values.lookup(value); }

  /// Succeeds if `function` computes the recorded results by the recorded
  /// expressions or values that `equations` make equal to them, executes the
  /// same ops with effects in the same order, and repeats none but cheap
  /// expressions. Emits an error otherwise; `step` is what happened meanwhile.
  llvm::LogicalResult verify(mlir::Operation *function, llvm::StringRef step,
                             llvm::ArrayRef<Equation> equations = {}) const;

  bool isInvalidated(const mlir::AnalysisManager::PreservedAnalyses &) {
    return false;
  }

private:
  class Numbering;
  friend class Numbering;

  /// Name, attributes, types and operand numbers of an op -> number of its
  /// first result.
  llvm::DenseMap<llvm::ArrayRef<uintptr_t>, unsigned> expressions;
  /// How often an expression is computed, by that number.
  llvm::DenseMap<unsigned, unsigned> counts;
  /// Numbers of what the function returns.
  llvm::SmallVector<unsigned> results;
  unsigned numEffects = 0;
  unsigned numValues = 0;
  /// Empty unless they were asked for.
  llvm::DenseMap<mlir::Value, unsigned> values;
  /// Holds the keys of `expressions`.
  llvm::BumpPtrAllocator storage;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_GRAPHFINGERPRINT_H
