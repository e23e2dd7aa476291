//===- PeerPlan.h - Which bytes of a collective go where --------*- C++ -*-===//
//
// A collective that only moves bytes is, for each pair of members, one box of
// bytes of an input that becomes a box of bytes of an output. Plain arithmetic:
// every rank computes the same for every pair.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_PEERPLAN_H
#define FUSION_RUNTIME_COMM_PEERPLAN_H

#include "Communicator.h"

namespace fusion::rt::peer {

/// `depth` slices of `height` rows of `width` bytes. Offsets, pitches and
/// slices are bytes; slices are whole numbers of pitches.
struct Box {
  uint64_t source = 0, target = 0; ///< where it starts in input and output
  uint64_t width = 0, height = 1, depth = 1;
  uint64_t sourcePitch = 0, sourceSlice = 0;
  uint64_t targetPitch = 0, targetSlice = 0;

  uint64_t bytes() const { return width * height * depth; }
  bool isOneRow() const { return height == 1 && depth == 1; }
};

/// One copy; the box's own offsets are in the pointers.
struct Copy {
  const char *source;
  char *target;
  Box box;
};

/// The same bytes in fewer copies: short rows of one width at equal distances
/// are one box, and so are boxes of such rows. A copy takes some microseconds
/// to start, whatever its size. All must lie in one allocation on each side.
std::vector<Copy> joinCopies(const std::vector<Copy> &copies);

/// All-gather, all-to-all, broadcast and permute.
bool isMove(CollectiveOp op);

/// What member `from` brings to the output of member `to` (which may be the
/// same) in a group of `members`; no bytes if nothing.
Box boxOf(const CollectiveCall &call, const PartBuffer &part, uint32_t from,
          uint32_t to, uint32_t members);

/// Bytes of a part's output in a group of `members`.
uint64_t outputBytes(const CollectiveCall &call, const PartBuffer &part,
                     uint32_t members);

/// Whether member `to` gets nothing at all, which means zeros.
bool getsZeros(const CollectiveCall &call, uint32_t to);

} // namespace fusion::rt::peer

#endif // FUSION_RUNTIME_COMM_PEERPLAN_H
