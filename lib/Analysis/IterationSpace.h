//===- IterationSpace.h - Spaces that loops and reductions share ----------===//
//
// The parts of the legality check that follow index maps through a set of ops.
// Private to lib/Analysis.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_ANALYSIS_ITERATIONSPACE_H
#define FUSION_LIB_ANALYSIS_ITERATIONSPACE_H

#include "fusion/Analysis/FusionLegality.h"

namespace fusion {

/// A candidate set of ops, without constants and without views of values
/// outside.
struct MemberSet {
  /// See FusionLegality::check.
  MemberSet(llvm::ArrayRef<mlir::Operation *> members,
            llvm::function_ref<bool(mlir::Operation *)> escapes);

  /// The member that computes `value`, or null.
  mlir::Operation *getProducer(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    return op && index.contains(op) ? op : nullptr;
  }

  /// In program order.
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> index;
  /// Whether a member's value is read outside.
  llvm::function_ref<bool(mlir::Operation *)> escapes;
};

/// Whether the op reads its operands at other positions than its own: what it
/// reads of an input counts as a load of its own.
bool selectsPosition(mlir::Operation *op);

/// Whether the op only widens what the set's broadcasts repeat, a scale or a
/// bias: it is evaluated where they are read, whatever its own shape.
bool isWidenedToRepeat(mlir::Operation *op, const MemberSet &members);

/// Elementwise and injective ops under one rectangular space: all values read
/// outside have its shape, and nothing that is dear is evaluated twice. Of a
/// legal set, `evaluations` gets how many elements of each member are computed.
GroupVerdict
checkLoopSpace(const MemberSet &members, const FusionLegality &legality,
               llvm::SmallVectorImpl<double> *evaluations = nullptr);

/// Ops around `reduction`: rows (its trailing dimensions) or columns.
GroupVerdict checkReductionSpace(const MemberSet &members,
                                 mlir::Operation *reduction,
                                 const FusionLegality &legality);

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_ITERATIONSPACE_H
