//===- Donation.h - Arguments that give their bytes to results --*- C++ -*-===//
//
// An argument with `fusion.donated = k` and result k are the same bytes. Where
// the last reader of the argument computes the result in place, or later than
// all readers, the result is written there at once; else it is computed in the
// arena and copied at the end. An argument that is another result too gets its
// old value copied there before anything is written over it. Private to
// lib/Schedule.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_SCHEDULE_DONATION_H
#define FUSION_LIB_SCHEDULE_DONATION_H

#include "CommandOrder.h"

namespace fusion {

struct Donation {
  unsigned argument, result;
  /// The command that gives the result may write it to the argument's bytes.
  bool isDirect = false;
  /// The result is the argument.
  bool isIdentity = false;
};

/// Donations of `function`, whose commands run in that order. Fails with an
/// error on a result that does not exist, has another type or two donors.
mlir::FailureOr<llvm::SmallVector<Donation>>
findDonations(mlir::func::FuncOp function, const CommandOrder &commands);

/// Copies, as indices, each in front of the one that overwrites its source.
struct CopyOrder {
  llvm::SmallVector<unsigned> order;
  /// Positions in `order` where a ring starts: each of its copies overwrites
  /// the source of the one in front, the first that of the last. They are the
  /// end of `order`; a ring ends where the next one starts.
  llvm::SmallVector<unsigned> rings;
};

/// Orders copies where `overwriters[i]` is the copy that writes over the source
/// of copy i, or -1. Copies that nothing orders keep theirs.
CopyOrder orderCopies(llvm::ArrayRef<int64_t> overwriters);

} // namespace fusion

#endif // FUSION_LIB_SCHEDULE_DONATION_H
