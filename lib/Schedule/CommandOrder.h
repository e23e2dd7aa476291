//===- CommandOrder.h - Commands, their streams, who waits ------*- C++ -*-===//
//
// The ops of a function that become commands, in list order: groups and
// collectives, those of asynchronous regions on the region's stream, and the
// awaits between them. A region starts behind everything that the list has
// before it on stream 0, and what it touches is free for others behind its
// await. So a lifetime is an interval of the list, whatever runs beside what.
// Private to lib/Schedule.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_COMMANDORDER_H
#define FUSION_LIB_SCHEDULE_COMMANDORDER_H

#include "fusion/Analysis/CommSchedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion {

/// Of a collective whose operands are to lie one behind the other: the number
/// of its bucket.
inline constexpr llvm::StringLiteral kBucketAttr = "fusion.bucket";
/// On a part of a gather that products wait for piece by piece.
inline constexpr llvm::StringLiteral kChunkAttr = "fusion.chunk";

/// Of a gather that starts early: its bytes are in a part of the arena that it
/// shares with others, and the function's attribute bounds those alive at once.
inline constexpr llvm::StringLiteral kPrefetchedAttr = "fusion.prefetched";
inline constexpr llvm::StringLiteral kPrefetchBudgetAttr =
    "fusion.prefetch_budget";

/// The producer behind reshapes and awaits: its value has the same bytes.
mlir::Value rootOf(mlir::Value value);

/// The producer behind reshapes, awaits and parts that are views: its value has
/// these bytes among its own.
mlir::Value baseOf(mlir::Value value);

/// Bytes of `baseOf(value)` that `value` has: an offset, or nullopt if an
/// offset of a view between them is missing or differs from rank to rank.
std::optional<int64_t> offsetInBase(mlir::Value value);

/// Pairs (output, input) of `op` where the output may be computed over the
/// input's bytes if no one else reads these any more: what code generation
/// allows; of a collective whose results have its operands' places, each of its
/// own.
llvm::SmallVector<int64_t> getInPlacePairs(mlir::Operation *op);

/// A group that is no view, a collective, `axis_index`, `rank_concat` or an
/// await.
struct Step {
  mlir::Operation *op = nullptr;
  int64_t stream = 0;
  AsyncOp region; ///< the one it is in, or null
  /// The first step that is ordered behind it on stream 0, itself if it is on
  /// that stream.
  int64_t release = 0;
};

class CommandOrder {
public:
  /// Fails with an error on what is no command, no part of one, or a future
  /// that is not awaited exactly once.
  static mlir::FailureOr<CommandOrder> analyze(mlir::func::FuncOp function);

  llvm::ArrayRef<Step> getSteps() const { return steps; }
  int64_t size() const { return steps.size(); }
  /// The step of `op`, or -1.
  int64_t find(mlir::Operation *op) const {
    auto it = op ? positions.find(op) : positions.end();
    return it == positions.end() ? -1 : it->second;
  }
  /// Steps that read bytes of `base` (see baseOf), in list order.
  llvm::ArrayRef<int64_t> getUses(mlir::Value base) const {
    auto it = uses.find(base);
    return it == uses.end() ? llvm::ArrayRef<int64_t>() : it->second;
  }
  /// The last step at which bytes of `base` are read or in flight, or -1.
  int64_t getLastUse(mlir::Value base) const;
  /// Whether every other step that reads `base` is done when `step` starts,
  /// and `step` reads it.
  bool isLastReader(mlir::Value base, int64_t step) const;
  /// The same of `bytes` bytes at `offset` of `base`, which `step` reads:
  /// others may read other parts.
  bool isLastReaderOf(mlir::Value base, int64_t offset, int64_t bytes,
                      int64_t step,
                      llvm::function_ref<int64_t(mlir::Value)> bytesOf) const;

private:
  mlir::LogicalResult addOp(mlir::Operation &op, AsyncOp region);
  mlir::LogicalResult addRegion(AsyncOp async);

  llvm::SmallVector<Step> steps;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t, 2>> uses;
};

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_COMMANDORDER_H
