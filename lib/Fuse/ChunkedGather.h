//===- ChunkedGather.h - One gather in front of products --------*- C++ -*-===//
//
// What ChunkGathers.cpp rewrites and ChunkTimes.cpp decides. Private to
// lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_CHUNKEDGATHER_H
#define FUSION_LIB_FUSE_CHUNKEDGATHER_H

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/FusionRules.h"

namespace fusion {

/// The type of a tensor.
inline mlir::RankedTensorType getTensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// A product of gathered rows, and the elementwise ops that alone read it, each
/// the one before it.
struct RowProduct {
  MatmulOp product;
  llvm::SmallVector<mlir::Operation *> epilogue;
  mlir::Operation *getLast() {
    return epilogue.empty() ? product.getOperation() : epilogue.back();
  }
  mlir::Value getResult() { return getLast()->getResult(0); }
};

/// In which way the rows come: those of each rank in chunks; or own rows first,
/// those of the other ranks by a move for each, or by gathers of all.
enum class RowWay { Chunks, OwnMoves, OwnGathers };

/// How the rows come.
struct RowPlan {
  RowWay way = RowWay::Chunks;
  /// Rows of each rank's part that come at once; by moves, of the rank that
  /// comes last. Empty: as the gather brings them.
  llvm::SmallVector<int64_t> chunks;
  double us = 0;
};

/// One gather and its readers.
class ChunkedGather {
public:
  ChunkedGather(AllGatherOp gather, StepPrices &prices,
                const DeviceModel &device, llvm::StringRef transport);

  /// Collects the readers; why it can't otherwise.
  std::optional<FusionRule> analyze();
  /// Microseconds of what can be computed while it is sent as it is.
  double getHiddenUs(mlir::Block &block);
  /// Whether a result takes an argument's bytes, which are read to the end.
  bool hasDonatedResult();
  /// Finds the best plan, with parts of `kParts`.
  void choose();
  void rewrite();

  static constexpr int64_t kParts = 8;
  /// A gain below this share of the time is none that a model can promise.
  static constexpr double kLeastGain = 0.03;
  RowPlan best;
  double wholeUs = 0, gatherUs = 0;

private:
  bool fits(llvm::ArrayRef<int64_t> shares,
            llvm::SmallVectorImpl<int64_t> &sizes);
  /// Whether each rank's part of such gathers begins where a kernel may read.
  bool fitsGathers(llvm::ArrayRef<int64_t> sizes);
  /// Puts this plan in the place of `plan` if it is better.
  void offer(RowPlan &plan, RowWay way, llvm::ArrayRef<int64_t> sizes);
  double simulateChunks(llvm::ArrayRef<int64_t> rows, Transport transport);
  double simulateOwnFirst(RowWay way, llvm::ArrayRef<int64_t> rows,
                          Transport transport);
  TimedStep makeMove(CommOp op, double bytes, Transport transport);
  /// Of `part` rows of `product` for each of `ranks` ranks, on all but `spared`
  /// multiprocessors.
  TimedStep makeProduct(MatmulOp product, int64_t part, int64_t ranks,
                        int64_t spared = 0);
  /// Whether what is sent needs multiprocessors that products hold to their
  /// end.
  bool waitsForProducts(Transport transport) const {
    return device.isGpu && transport == Transport::Nccl &&
           getSpared(transport) == 0;
  }
  /// Multiprocessors that products beside what is sent leave to it.
  int64_t getSpared(Transport transport) const {
    return device.isGpu && transport == Transport::Nccl
               ? prices.getComms().getUnits(getCommGroup(gather))
               : 0;
  }
  mlir::Value takeRows(mlir::OpBuilder &builder, mlir::Value value,
                       int64_t first, int64_t rows);
  /// The rows of `value`, which has pieces, that belong to operand `piece` of
  /// the products' results, wherever those are on this rank.
  mlir::Value takePiece(mlir::OpBuilder &builder, mlir::Value value,
                        unsigned piece, int64_t rows);
  bool hasPieces(mlir::Value value, const RowProduct &product);
  /// The ops behind the product that its rows go through where they are
  /// computed first; what reads other rows than all ranks have alike does not.
  llvm::ArrayRef<mlir::Operation *> getOwnEpilogue(const RowProduct &product);
  void rewriteChunks();
  /// Some rows of a rank, and which operand of the results they become.
  struct Arrival {
    mlir::Value rows;
    size_t piece;
  };
  /// What a plan of own rows first sends, in the order in which it comes.
  llvm::SmallVector<Arrival> makeMoves(mlir::OpBuilder &builder);
  llvm::SmallVector<Arrival> makeGathers(mlir::OpBuilder &builder);
  /// A gather of `size` rows of each rank's part, from row `first` on.
  AllGatherOp gatherRows(mlir::OpBuilder &builder, int64_t first, int64_t size,
                         int64_t number);
  void rewriteOwnFirst();

  AllGatherOp gather;
  StepPrices &prices;
  const DeviceModel &device;
  llvm::SmallVector<Transport> transports; ///< that may carry it
  llvm::SmallVector<RowProduct> products;
  llvm::SmallDenseSet<mlir::Value>
      joins;                       ///< results of products that were rewritten
  int64_t groupSize = 1, rows = 0; ///< of one rank's part
};

} // namespace fusion

#endif // FUSION_LIB_FUSE_CHUNKEDGATHER_H
