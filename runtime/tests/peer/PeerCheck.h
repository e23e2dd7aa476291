//===- PeerCheck.h - Parts of the check of peer collectives -----*- C++ -*-===//
#ifndef FUSION_RUNTIME_TESTS_PEER_PEERCHECK_H
#define FUSION_RUNTIME_TESTS_PEER_PEERCHECK_H

#include "DeviceRank.h"
#include "PeerMutants.h"

#include <string>

namespace fusion::rt::test {

struct PeerMode {
  const char *name;
  PeerOptions options;
};
/// All ways to wait and to tell.
const std::vector<PeerMode> &peerModes();

/// What a job reports: lines of JSON.
using Rows = std::vector<std::string>;

/// A rank of the check: its device, and words with the others.
class CheckRank {
public:
  CheckRank(uint32_t rank, uint32_t size,
            std::shared_ptr<Rendezvous> rendezvous, uint64_t arenaSize)
      : rank(rank), size(size), rendezvous(std::move(rendezvous)),
        device(rank, arenaSize) {}

  uint32_t rank, size;
  std::shared_ptr<Rendezvous> rendezvous;
  DeviceRank device;
  /// What is wrong with communicators that are made from now on.
  Mutation mutation = Mutation::None;
  /// Of the stress check: words of a tensor in each round of a replay.
  std::vector<uint64_t> rounds = {1000, 100003, 16, 1 << 20};
  double patience = 20; ///< seconds for graphs that should have ended

  /// The largest value of all ranks, which all call this.
  double largest(double value);
  void barrier() { (void)largest(0); }
  /// A communicator of one group of all ranks a stream number from 0 on.
  std::unique_ptr<DeviceCommunicator> connect(const PeerOptions &options,
                                              uint32_t streams);

private:
  uint64_t steps = 0;
  Program program;
};

/// Runs `body` as each of `ranks` ranks, in a process of its own. What went
/// wrong, by rank; rank 0's rows are added to `rows`.
std::vector<std::string>
onDevices(uint32_t ranks, uint64_t arena,
          const std::function<std::string(CheckRank &, Rows &)> &body,
          Rows &rows);

/// Times graphs by events.
class Timer {
public:
  Timer(CheckRank &self, CUstream stream)
      : self(self), stream(stream), begin(self.device.makeEvent(0)),
        end(self.device.makeEvent(0)) {}
  /// Microseconds of a run, the slowest rank's; negative if it hangs.
  double run(CUgraphExec graph);

private:
  CheckRank &self;
  CUstream stream;
  CUevent begin, end;
};

double median(std::vector<double> values);

/// Ends the process of a rank whose device hangs: whatever is asked of the
/// device may wait for ever.
[[noreturn]] void giveUp(const CheckRank &self, const std::string &why);

/// Each of these gives what went wrong, or nothing, and adds to `rows`.
std::string checkStress(CheckRank &self, const PeerMode &mode, int replays,
                        bool isLoaded, Rows &rows);
/// A stream that waits for another rank goes on within a second of `abort`.
std::string checkAbort(CheckRank &self, const PeerMode &mode);
std::string checkRaw(CheckRank &self, Rows &rows);
std::string checkRates(CheckRank &self, const PeerMode &mode, Rows &rows);
std::string checkOverlap(CheckRank &self, const PeerMode &mode, Rows &rows);

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_PEER_PEERCHECK_H
