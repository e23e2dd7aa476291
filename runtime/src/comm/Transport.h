//===- Transport.h - Bytes between the members of a group -------*- C++ -*-===//
//
// The border of what moves bytes: an implementation is a shared library that is
// opened when a program has ranks, so that a program without them needs none.
// Both sides are built together; no exception crosses.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_TRANSPORT_H
#define FUSION_RUNTIME_COMM_TRANSPORT_H

#include "Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fusion::rt {

/// Where the ranks of a job leave each other small values before they are
/// connected.
class Rendezvous {
public:
  virtual ~Rendezvous() = default;
  virtual Status set(const std::string &key,
                     const std::vector<char> &value) = 0;
  /// Waits until some rank has set it.
  virtual Expected<std::vector<char>> get(const std::string &key) = 0;
};

/// One message from or to a member.
struct Transfer {
  uint32_t peer = 0; ///< its number in the group
  void *data = nullptr;
  uint64_t size = 0;
  /// Messages of one tag between two members arrive in order.
  uint64_t tag = 0;
  /// Of a receive: `size` bytes that must arrive, or null. Others end the
  /// exchange with `mismatch` set.
  const void *expected = nullptr;
  /// Of a send: goes out even if another message was a mismatch.
  bool isHeader = false;
};

/// One member's end of a group. One thread at a time exchanges.
class Transport {
public:
  virtual ~Transport() = default;

  /// Posts everything, then waits for the receives in their order and for the
  /// sends. After an error the transport takes nothing more. `mismatch` gets
  /// the index of a receive that got other bytes than expected, with
  /// `Rejected`. `PeerFailed`: a connection broke; `Timeout`.
  virtual Status exchange(const std::vector<Transfer> &receives,
                          const std::vector<Transfer> &sends,
                          int &mismatch) = 0;
};

/// Makes transports of one process.
class TransportFactory {
public:
  virtual ~TransportFactory() = default;

  /// Connects the members of the group `name`, all of which call this. An
  /// exchange may wait `timeout` seconds for one message.
  virtual Expected<std::unique_ptr<Transport>>
  connect(const std::string &name, uint32_t position, uint32_t size,
          Rendezvous &rendezvous, double timeout) = 0;
};

/// What a transport library exports, by this name: a factory that binds to the
/// given local address, or null with the reason in `error` (of `size` bytes).
using MakeTransportFactory = TransportFactory *(const char *address,
                                                char *error, size_t size);
constexpr const char *kMakeTransportFactory = "fusion_rt_make_transports";

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_TRANSPORT_H
