//===- PeerCommunicator.h - Collectives by copy engines ---------*- C++ -*-===//
//
// Ranks that are processes of one host, a GPU each, with access to each
// other's memory. Bytes are pushed by copy engines and ranks wait by stream
// memory operations, so no multiprocessor is taken from the kernels beside
// them. Only what moves bytes is done here; nothing is added up.
//
// The protocol. In each group every ordered pair (sender S, receiver R) has
// two words: `ready`, in S's memory, and `done`, in R's. They are 0 at first.
// A collective puts on the group's stream, on S for R and on R for S:
//
//   R: [r1] write S.ready = 1      S: [s1] wait until ready == 1
//                                     [s2] write ready = 0 (its own)
//                                     [s3] copy the bytes to R
//   R: [r2] wait until done == 1   S: [s4] write R.done = 1
//      [r3] write done = 0 (its own)
//
// All of a rank's r1 come before its first wait, its r2 after all it sends.
// Values are constant, so that a captured graph can be replayed.
//
// Why nothing is overwritten before it was read. A collective comes after all
// earlier uses of its output in the rank's own order (the schedule says so),
// and r1 after those; s3 is after s1, which saw r1. What lands elsewhere than
// in the output is taken there on the same stream before the next r1 of a
// collective that lands there: staging belongs to one group, and a collective
// of another group with the same output comes after this one. S changes its
// input only after s3 ended. R uses its output after r2, which saw s4, which is
// after s3. What a rank brings to itself begins and ends with the collective.
//
// Why no word is written while the other side still needs its old value. Let
// k be a collective of the group in which S sends to R, k+1 the next such.
// - ready: r1 of k+1 follows r2 of k on R's stream; r2 of k saw s4 of k, which
//   follows s2 of k on S's stream. So ready is 0 before it becomes 1 again.
// - done: s4 of k+1 follows s1 of k+1, which saw r1 of k+1, which follows r3
//   of k on R's stream. So done is 0 before it becomes 1 again.
// Both hold across replays, as runs of one session follow each other on a
// device, and across batches and sets of addresses. Groups share no word, so
// collectives of several groups may be under way at once.
//
// Why waits end. r1 needs nobody. s1 needs only that R came to this collective;
// r2 only that S did, and that those whom S serves before R did. A group's
// collectives have one order, the same on all ranks, so the first one not
// finished on all has members all of which come to it, unless something else
// holds their streams up. Groups are independent as long as the device runs
// their streams independently: see CUDA_DEVICE_MAX_CONNECTIONS in
// docs/running-on-ranks.md. If it runs all streams as one queue, its order is
// the one of the captured graph, the same on all ranks, and the argument holds
// for that one order.
//
// Direct moves and releases. Both are this protocol without s3. What S put into
// an input before its direct move is there after r2 on R, which sees s4, which
// is after s1 on S and all that came before it. R reads it in its place, and
// then comes to the release: its r1 is after those reads, S's s1 sees it, and S
// writes the input again only after its release. Which of a rank's own commands
// come before and after is proved of the program (VerifySchedule.h, S9).
//
// Order of memory. A write of a stream memory operation comes after a fence of
// the whole system over what the stream did before, and a copy is done when
// its bytes have arrived: s4 is seen after the bytes of s3. A kernel begins
// with empty first-level caches, so that what follows r2 reads them; another
// GPU's memory is in that GPU's second-level cache only.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_PEERCOMMUNICATOR_H
#define FUSION_RUNTIME_COMM_PEERCOMMUNICATOR_H

#include "DeviceCommunicator.h"

namespace fusion::rt {

/// Members of the largest group that `makePeerCommunicator` serves.
constexpr uint32_t kMostPeers = 64;

/// Whether the transport does this collective in a group of `members`.
bool isPeerCollective(const CollectiveCall &call, size_t members);

/// How ranks wait and tell. A driver without stream memory operations gets the
/// other way of both, whatever is asked for. Ranks may differ.
struct PeerOptions {
  /// Waits are a kernel of one warp that spins, not the device's front end.
  bool spins = false;
  /// Flags are written by copy engine, behind the bytes they speak of.
  bool copiesFlags = false;

  /// FUSION_PEER_WAIT=spin|value, FUSION_PEER_FLAG=copy|write. Who spins
  /// copies.
  static PeerOptions fromEnvironment();
};

/// `connect` gives `Environment` on all ranks if one of them can't open
/// another's memory. Collectives that are no moves are refused by `enqueue`.
std::unique_ptr<DeviceCommunicator>
makePeerCommunicator(uint32_t rank, uint32_t size,
                     std::shared_ptr<Rendezvous> rendezvous,
                     PeerOptions options = PeerOptions::fromEnvironment());

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_PEERCOMMUNICATOR_H
