//===- FusionLegality.h - What may become one group -------------*- C++ -*-===//
//
// One question: would these ops, together, be a group that an emitter of code
// generation handles, that computes nothing dear twice and stays within the
// limits of granularity? The answer depends on the ops and on which of their
// values are read outside, not on how the set came about, so the same check
// serves the decision, the verification of finished groups and code generation.
//
// Cycles through ops outside the set are the caller's matter.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_FUSIONLEGALITY_H
#define FUSION_ANALYSIS_FUSIONLEGALITY_H

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/Analysis/FusionRules.h"
#include "fusion/IR/FusionDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace fusion {

/// How an op takes part in groups.
enum class OpFamily {
  Source,      ///< constant or parameter: no work
  View,        ///< reshape: no work outside a group
  Elementwise, ///< one element of each operand gives one element
  Injective,   ///< moves elements: broadcast, transpose, slice, gather, ...
  Reduction,   ///< reduce over rows or columns, softmax, norms over rows
  Contraction, ///< conv, conv_transpose, matmul
  Window,      ///< pools
  Scatter,
  Opaque,  ///< alone in its group
  Outside, ///< never in a group: has effects, regions, or is one already
};
OpFamily getOpFamily(mlir::Operation *op);

/// Whether repeating the op costs less than writing and reading its result:
/// it does no arithmetic, and reads no more bytes than it gives.
bool isCheapToClone(mlir::Operation *op);

/// Whether computing an element of the op's result again may cost less than
/// writing and reading it: elementwise, a few flops. Whether it does is the
/// cost model's question.
bool isCheapToRecompute(mlir::Operation *op);

/// Updates that a scatter has at most whose result its kernel narrows.
inline constexpr int64_t kMaxNarrowedUpdates = 65536;

/// Whether the kernel of `scatter` can write the result of `narrowed`, a cast
/// of what it gives, in its place: on a GPU a thread has an element's sum in
/// f32 until all its updates are added.
bool isNarrowedInPlace(ScatterOp scatter, CastOp narrowed);

/// How much the op counts against `max-ops`: 1 for named and arithmetic ops, 0
/// for those that only move or convert elements.
int64_t getOpWeight(mlir::Operation *op);

/// Dimensions that a reduction reduces, as a range [begin, end) of its input's
/// dimensions, or nullopt where they are not contiguous or there are none.
std::optional<std::pair<int64_t, int64_t>>
getReducedRange(mlir::Operation *reduction);

/// Whether a constant is small enough in the text of a kernel: one value.
bool isSplatConstant(mlir::Value value);

/// Limits of granularity.
struct GroupLimits {
  int64_t maxOps = 8; ///< consecutive ops on the longest path
  /// The same, of elementwise ops that write a donated argument: an optimizer's
  /// update is one pass over the parameter, or its moments are read again.
  int64_t maxUpdateOps = 32;
  int64_t maxInputs = 64;   ///< inputs and outputs
  int64_t maxGroupOps = 64; ///< ops in all
  int64_t maxLoads = 64;    ///< different reads of inputs for one element
  /// Scalar ops that the kernel is compiled from: an op counts once for each
  /// index map under which it is read.
  int64_t compileBudget = 256;
  int64_t argumentBytes = 4096; ///< of the kernel's arguments
};

/// Bytes of the arguments of a kernel: a pointer for each tensor, and two more.
inline int64_t getArgumentBytes(int64_t numTensors) {
  return 8 * numTensors + 16;
}

/// The answer: a kind, or the rule that refuses.
struct GroupVerdict {
  FusionRule rule = FusionRule::FuseLoop;
  GroupKind kind = GroupKind::Fallback;
  /// The number that the rule looked at, and its limit; both 0 if it has none.
  int64_t value = 0, limit = 0;
  /// The op of the set that the rule refuses, if one stands out.
  mlir::Operation *at = nullptr;
  /// What an accepted set counts against the compile budget.
  int64_t emittedOps = 0;

  bool isLegal() const { return getFusionRuleInfo(rule).accepts; }
  static GroupVerdict refuse(FusionRule rule, mlir::Operation *at,
                             int64_t value = 0, int64_t limit = 0) {
    return {rule, GroupKind::Fallback, value, limit, at, 0};
  }
  static GroupVerdict accept(FusionRule rule, GroupKind kind) {
    return {rule, kind, 0, 0, nullptr, 0};
  }
};

class FusionLegality {
public:
  /// Legality of groups in `func`, a function over tensors. Fails with an error
  /// where a `?` is not a function of the batch.
  static llvm::FailureOr<FusionLegality> create(mlir::Operation *func,
                                                GroupLimits limits);

  /// Checks the set `members`, in program order and without repetitions.
  /// Constants among them count nothing; a reshape of a value that is no member
  /// is taken as a view outside. `escapes` tells whether a member's value is
  /// read outside the set.
  GroupVerdict check(llvm::ArrayRef<mlir::Operation *> members,
                     llvm::function_ref<bool(mlir::Operation *)> escapes) const;

  /// Checks a finished group. Limits of granularity are not its matter.
  GroupVerdict check(GroupOp group) const;

  const GroupLimits &getLimits() const { return limits; }

  /// The sizes of a tensor as functions of the batch.
  llvm::SmallVector<Extent> getShape(mlir::Value value) const {
    return extents.getShape(value);
  }

  /// Whether two tensors have the same sizes for every batch.
  bool haveSameShape(mlir::Value a, mlir::Value b) const;

  /// Number of elements and bytes at the largest batch; they saturate.
  int64_t getNumElements(mlir::Value value) const;
  int64_t getByteSize(mlir::Value value) const;

  /// Whether the function returns the value in the place of a donated argument.
  bool isUpdated(mlir::Value value) const { return updated.contains(value); }

private:
  FusionLegality(BatchExtents extents, GroupLimits limits, int64_t maxBatch)
      : extents(std::move(extents)), limits(limits), maxBatch(maxBatch) {}

  /// Results of the function that take the bytes of an argument.
  llvm::DenseSet<mlir::Value> updated;
  BatchExtents extents;
  GroupLimits limits;
  int64_t maxBatch;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_FUSIONLEGALITY_H
