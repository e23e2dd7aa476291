//===- FusionCertificate.h - Proof that grouping changed nothing ----------===//
//
// A graph as the set of expressions that it computes: two ops are the same
// expression if they are the same op with the same attributes and types on the
// same operands. A group is seen through. Recorded before the fuse phase and
// compared with the graph behind it.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_FUSE_FUSIONCERTIFICATE_H
#define FUSION_FUSE_FUSIONCERTIFICATE_H

#include "mlir/IR/Operation.h"
#include "mlir/Pass/AnalysisManager.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

namespace fusion {

/// The expressions of a function over tensors. An analysis that stays valid
/// when the function changes: it describes the function as it was.
class GraphFingerprint {
public:
  explicit GraphFingerprint(mlir::Operation *function);

  /// Succeeds if `function` computes the recorded results by the recorded
  /// expressions, executes the same ops with effects in the same order, and
  /// repeats none but cheap expressions. Emits an error otherwise.
  llvm::LogicalResult verify(mlir::Operation *function) const;

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
  /// Holds the keys of `expressions`.
  llvm::BumpPtrAllocator storage;
};

} // namespace fusion

#endif // FUSION_FUSE_FUSIONCERTIFICATE_H
