//===- Hub.h - Where the ranks of a job meet --------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_COMM_HUB_H
#define FUSION_RUNTIME_COMM_HUB_H

#include "Frames.h"
#include "Watch.h"

#include <atomic>
#include <map>
#include <memory>
#include <poll.h>

namespace fusion::rt {

/// The centre of a job's control channel: lets ranks in, compares what they
/// are, keeps their small values, hears of their ends and errors, and tells
/// all to stop. Never blocks: its owner polls the descriptors that it gives,
/// and calls `handle` at least every 0.2 s. Peers that are not ranks of this
/// job (no proof of its token, no frames, silence) are dropped and counted.
class Hub {
public:
  struct Rank {
    bool joined = false, done = false, closed = false;
    Status error;  ///< what it failed with
    Status result; ///< what it was done with
    double errorTime = 0, heard = 0;
    Identity identity;
    RankView view; ///< from its beats
  };

  Hub(uint32_t world, std::string token)
      : ranks(world), token(std::move(token)) {}
  ~Hub();
  Hub(const Hub &) = delete;

  /// Takes a connected socket that only rank `expected` can have (-1: any).
  void add(int socket, int expected);
  /// Takes connections from a listening socket.
  void listenOn(int socket) { listener = socket; }

  void fillPoll(std::vector<pollfd> &list) const;
  /// Reads, answers and writes what can be; checks deadlines.
  void handle(const std::vector<pollfd> &list);

  bool allJoined() const { return joinedCount == ranks.size(); }
  bool allDone() const;
  /// `Rejected` or `Usage` once ranks that can't work together have joined.
  const Status &rejection() const { return rejected; }
  /// The error of a rank that explains the others': its own before one that it
  /// has because another is gone, which waits `patience` seconds for a better
  /// one. Ok if there is none.
  Status firstError(double now, double patience) const;
  /// Once the ranks had their time to join: the error that names the missing.
  Status missingError() const;
  /// The ranks that have not joined: "rank 3", "ranks 1, 3".
  std::string missing() const;

  /// Tells all ranks to end because of `reason`; later joins get the same.
  void stop(const Status &reason);
  /// Tells all ranks that all are done.
  void finish();
  /// Sends a sign of life to all.
  void beat();
  /// Writes what is still to be sent, up to `seconds`.
  void drain(double seconds);

  uint64_t droppedPeers() const { return dropped; }

  std::vector<Rank> ranks;

private:
  struct Peer {
    int socket = -1;
    int expected = -1;
    int rank = -1; ///< once joined
    double since = 0;
    std::string nonce, in, out;
    bool closing = false; ///< once `out` is sent
    std::vector<std::string> waitedKeys;
  };

  void readPeer(Peer &peer);
  void writePeer(Peer &peer);
  void take(Peer &peer, Frame &frame);
  void join(Peer &peer, const Frame &frame);
  void compare();
  void drop(Peer &peer, bool counts);
  void queue(Peer &peer, FrameType type, const std::string &payload);

  std::string token;
  int listener = -1;
  std::vector<std::unique_ptr<Peer>> peers;
  std::map<std::string, std::string> values;
  size_t joinedCount = 0;
  std::atomic<uint64_t> dropped{0};
  Status rejected, stopReason;
  std::vector<std::string> proofs; ///< of the welcome, by rank
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_HUB_H
