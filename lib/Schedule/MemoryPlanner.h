//===- MemoryPlanner.h - Where each value of a function lies ----*- C++ -*-===//
//
// The state of PlanMemory: storages by value, decided in PlanMemory.cpp, and
// the program that EmitProgram.cpp makes of them. Private to lib/Schedule.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_MEMORYPLANNER_H
#define FUSION_LIB_SCHEDULE_MEMORYPLANNER_H

#include "ArenaPlan.h"
#include "Donation.h"

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace fusion {

/// Where a value's bytes are. Several values (views) share one storage.
struct Storage {
  SegmentKind kind = SegmentKind::Private;
  std::string segment; ///< its symbol
  int64_t offset = 0;  ///< in the segment, or in the buffer of the arena
  int64_t size = 0;    ///< bytes at the largest batch
  int64_t buffer = -1; ///< index into the arena's buffers
  TurnAttr turn;       ///< of a part that lies elsewhere on each rank
};

/// What lies in a larger value.
struct Piece {
  mlir::Value whole;
  int64_t offset = 0;
  TurnAttr turn;
};

/// A copy behind all groups, of all bytes of `value` at the batch.
struct FinalCopy {
  mlir::Value value;      ///< for its size and place in the source
  int64_t source, target; ///< storages
};

/// Plans one function.
class MemoryPlanner {
public:
  /// `memoryLimit`: bytes that the arena should not exceed, 0 for none.
  MemoryPlanner(mlir::func::FuncOp function, mlir::ModuleOp module,
                uint64_t memoryLimit)
      : function(function), module(module), builder(function.getContext()),
        memoryLimit(memoryLimit) {}

  mlir::FailureOr<ProgramOp> plan();

  int64_t arenaBytes = 0;    ///< size of the arena
  int64_t valueBytes = 0;    ///< sum of all intermediates
  int64_t viewBytes = 0;     ///< of values that are parts of others
  int64_t gatheredBytes = 0; ///< of the region of gathers that start early

private:
  mlir::LogicalResult findCommands();
  mlir::LogicalResult bindInputs();
  mlir::LogicalResult bindValues();
  void bindOutputs();
  void orderFinalCopies();
  mlir::LogicalResult bindStep(mlir::Operation *op);
  mlir::LogicalResult emitCommands();
  mlir::LogicalResult emitGroup(GroupOp group, int64_t stream);
  mlir::LogicalResult emitCollective(mlir::Operation *op, int64_t stream);
  mlir::DictionaryAttr getDetails(mlir::Operation *op,
                                  llvm::ArrayRef<bool> inPlace);
  mlir::LogicalResult emitCopies();
  /// Moves that their readers want uncopied: DirectMoves.cpp.
  void findDirectMoves();
  void settleDirectMoves();
  std::string checkDirectReaders(mlir::Value result, int64_t pieces);
  void refuseDirectMove(mlir::Operation *op, llvm::StringRef reason);
  llvm::SmallVector<std::pair<int64_t, llvm::SmallVector<mlir::Operation *>>>
  getReleases();
  void emitRelease(int64_t stream, llvm::ArrayRef<mlir::Operation *> moves);

  mlir::FailureOr<int64_t> bytesOf(mlir::Value value);
  mlir::FailureOr<Extent> extentOf(mlir::Value value);
  int64_t add(Storage storage) {
    storages.push_back(std::move(storage));
    return storages.size() - 1;
  }
  /// Equal for values that are the same bytes, donated ones too.
  int64_t bytesIdOf(mlir::Value value) {
    int64_t storage = storageOf(value);
    auto found = donor.find(storage);
    return found == donor.end() ? storage : found->second;
  }
  /// Storage of `value`, through views.
  int64_t storageOf(mlir::Value value) { return valueStorage.lookup(value); }
  mlir::LogicalResult bindConstant(mlir::Value value);
  /// Equal for constants that are stored once; empty if `value` is none.
  static std::string constantKey(mlir::Value value);
  /// Binds constants that should lie side by side.
  mlir::LogicalResult bindNeighbours();
  /// Brings the parts of buckets into the order in which they are computed.
  void sortBuckets();
  /// Finds the values that buckets should hold side by side.
  void findBuckets();
  /// Buffers that lie side by side: those of each bucket's operands, and of
  /// its results.
  llvm::SmallVector<llvm::SmallVector<int64_t>> getBucketSets();
  /// Buffers of gathers that start early.
  llvm::SmallVector<int64_t> getGatheredBuffers();
  /// Plans the arena.
  void placeBuffers();
  mlir::LogicalResult bindView(GroupOp group);
  mlir::LogicalResult bindRankSlice(RankSliceOp slice);
  /// Finds the values that are computed where they lie in another.
  mlir::LogicalResult findPieces();
  /// Of the operands of a concat in rank order, those that can be computed in
  /// its result; the others are copied there.
  mlir::LogicalResult findTurnedPieces(RankConcatOp concat);
  /// Where operand `index` of `concat` lies in its result.
  mlir::FailureOr<Piece> getTurnedPiece(RankConcatOp concat, unsigned index);
  /// The copies of what is not computed in place; how many there were.
  mlir::FailureOr<int64_t> emitRankConcat(RankConcatOp concat, int64_t stream);
  /// The storage of a result of step `position` that is such a value, or has
  /// such values; -1 for all others.
  mlir::FailureOr<int64_t> bindPiece(mlir::Value output, int64_t position,
                                     int64_t last);
  std::optional<unsigned> findInPlace(mlir::Operation *op, unsigned output);
  bool reducesPart(mlir::Operation *op, mlir::Value part);
  RangeAttr rangeOf(int64_t storage) { return rangeOf(storages[storage]); }
  RangeAttr rangeOf(const Storage &storage);
  RangeAttr rangeOf(mlir::Value value) { return rangeOf(storageOf(value)); }
  mlir::ArrayAttr accesses(GroupOp group, llvm::ArrayRef<int64_t> operands,
                           bool ofKernel);
  PortOp emitPort(SegmentKind kind, llvm::StringRef name,
                  llvm::StringRef segment, mlir::Value value);
  ExtentAttr extentAttr(Extent extent) {
    return ExtentAttr::get(builder.getContext(), extent.scale, extent.base);
  }

  mlir::func::FuncOp function;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  uint64_t memoryLimit;
  BatchExtents extents;
  int64_t maxBatch = 1;
  CommandOrder commands;
  llvm::SmallVector<GroupOp> groups; ///< of the commands
  /// Values behind results -> the output whose bytes they get.
  llvm::DenseMap<mlir::Value, unsigned> resultOf;
  llvm::DenseMap<unsigned, mlir::Value> directDonor; ///< result -> argument
  /// Values of buckets whose producers may not compute in place: the bucket
  /// would be alive as long as what they overwrite.
  llvm::DenseSet<mlir::Value> freshValues;
  /// What lies in the result of a concat -> where.
  llvm::DenseMap<mlir::Value, Piece> pieceOf;
  /// Results of concats in rank order that hold such values.
  llvm::DenseSet<mlir::Value> turnedWholes;
  /// Values that are read once more by a copy at the end.
  llvm::SmallDenseSet<mlir::Value> copiedLast;
  /// Moves that copy nothing, and what they move, which stays to the end.
  llvm::DenseSet<mlir::Operation *> directMoves;
  llvm::DenseSet<mlir::Value> keptLast;
  llvm::SmallVector<Storage> storages;
  llvm::DenseMap<mlir::Value, int64_t> valueStorage;
  llvm::SmallVector<Lifetime> buffers;
  llvm::StringMap<int64_t> constants;
  llvm::SmallVector<mlir::Operation *>
      contents; ///< of the const segment, in order
  int64_t constBytes = 0;
  llvm::SmallVector<Donation> donations;
  llvm::DenseMap<int64_t, int64_t> donor; ///< result's storage -> argument's
  llvm::SmallVector<FinalCopy> copies;    ///< in order
  int64_t numStreams = 1, numEvents = 0;  ///< of what was emitted
};

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_MEMORYPLANNER_H
