//===- ClipShares.h - Squares that ranks share ------------------*- C++ -*-===//
//
// What FuseClip squares, and the decision which of it a rank squares a part of:
// of a gradient that all ranks have, each may take its own part, if a number
// that goes over the ranks then takes less than reading the rest. Private to
// lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_CLIPSHARES_H
#define FUSION_LIB_FUSE_CLIPSHARES_H

#include "fusion/Analysis/CommModel.h"
#include "fusion/Analysis/FusionLegality.h"

namespace fusion {

/// A term of the sum under the root.
struct NormTerm {
  mlir::Value value;
  /// The sum over ranks that it is part of, or null.
  AllReduceOp overRanks;
  /// What `value` is the sum of squares of, or null; a cast of it is squared if
  /// `wide` differs from its element type.
  mlir::Value gradient;
  mlir::Type wide;
};

/// A tensor whose squares are summed: a gradient, or a part of one.
struct SquaredPart {
  mlir::Value value;
  /// The gradient's type, if it is a narrowed `value`: then that is what is
  /// read, and nobody writes the gradient for the sum.
  mlir::Type narrow;
  NormTerm *term = nullptr;
  /// Behind which op; null: at the start of the block.
  mlir::Operation *anchor = nullptr;
  /// Elements of each rank's part, if ranks share it; 0: all square it whole.
  int64_t share = 0;
  mlir::Value sum;
  mlir::Value restSum; ///< of what is in no rank's part, or null
};

/// The ranks that share squares, and what that is worth.
struct ClipShares {
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes;
  int64_t ranks = 1;
  int64_t parts = 0, bytes = 0; ///< that are shared
  /// Predicted: of reading, of the sum over ranks alone, and what of that and
  /// of its kernel the step is longer by.
  double savedUs = 0, joinUs = 0, costUs = 0;
  /// The last of the collectives that gradients come from: the ranks' sums are
  /// added behind it, so that none waits for them; or null.
  mlir::Operation *behind = nullptr;

  bool isProfitable() const { return savedUs > costUs; }
};

/// The collective that a part waits for: what reduces it, or gathers the
/// updates that are scattered into it; or null.
mlir::Operation *findCollective(const SquaredPart &part);

/// Bytes of values, as far as they are known.
int64_t countBytes(mlir::ValueRange values);

/// Chooses what to share of parts that have their places, as if their squares
/// were summed there, and sets `share` of it if that is profitable. Nullopt if
/// there is nothing to share. A pure function of the block and the device: the
/// same on all ranks.
std::optional<ClipShares> shareSquares(llvm::MutableArrayRef<SquaredPart> parts,
                                       mlir::Operation *root,
                                       const FusionLegality &legality,
                                       const CostModel &model);

} // namespace fusion

#endif // FUSION_LIB_FUSE_CLIPSHARES_H
