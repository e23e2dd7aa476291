//===- PeerMutants.h - Peer collectives that are wrong on purpose -*- C++ -*-=//
//
// Whether the stress check finds what it is for. A mutant is the driver's table
// with an entry or two that change what a communicator asks for, so that the
// same code is wrong in a known way, on a GPU as on the tests' driver.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_PEER_PEERMUTANTS_H
#define FUSION_RUNTIME_TESTS_PEER_PEERMUTANTS_H

#include "Driver.h"

#include <vector>

namespace fusion::rt::test {

enum class Mutation {
  None,
  NoReadyWait,    ///< sends before the receiver is there
  NoReadyReset,   ///< the next time, too
  NoReadyTell,    ///< the sender waits for ever
  NoDoneWait,     ///< goes on before the bytes are there
  NoDoneReset,    ///< the next time, too
  NoDoneTell,     ///< the receiver waits for ever
  DoneBeforeCopy, ///< tells of bytes that are not there yet
  ResetBeforeWait,
  WordsOfOtherGroup, ///< two groups share their words
  WrongOffset,       ///< bytes of the others land beside their place
  ShortCopy,         ///< the last word of what is sent is missing
  NoCopyToSelf,
  NoJoin, ///< nobody waits for the copy to oneself
  // Not of the driver: what a test leaves out.
  NoDirectMove, ///< reads before the other rank has written
  NoRelease,    ///< writes before the other rank has read
};

struct Mutant {
  const char *name;
  Mutation mutation;
};
/// All but `None`.
const std::vector<Mutant> &peerMutants();

/// The driver as a communicator of `members` ranks shall see it, whose arena
/// lies at `arena`. One at a time in a process.
const cuda::Driver &mutate(const cuda::Driver &driver, Mutation mutation,
                           uint32_t members, const char *arena,
                           uint64_t arenaSize);

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_PEER_PEERMUTANTS_H
