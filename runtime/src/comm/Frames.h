//===- Frames.h - Messages between a rank and its hub -----------*- C++ -*-===//
//
// Every rank of a job has one stream socket to the job's hub. A frame is a
// fixed head and at most 64 KiB; anything else ends the connection. The hub
// sends a challenge first, the rank answers with a proof that it knows the
// job's token and with who it is; the hub proves itself in turn.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_FRAMES_H
#define FUSION_RUNTIME_COMM_FRAMES_H

#include "Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fusion::rt {

enum class FrameType : uint16_t {
  Challenge, ///< hub: a nonce
  Hello,     ///< rank: a nonce, a proof, its identity
  Welcome,   ///< hub: a proof; all ranks are there and agree
  Set,       ///< rank: a key and a value
  Get,       ///< rank: a key
  Value,     ///< hub: a key and its value
  Failed,    ///< rank: an error; it waits for Stop
  Done,      ///< rank: its result; it waits for Bye
  Bye,       ///< hub: all ranks are done
  Stop,      ///< hub: end now, and why
  Beat,      ///< both: still here; of a rank: its progress
  Last = Beat
};

struct Frame {
  FrameType type = FrameType::Beat;
  std::string payload;
};

constexpr size_t kFrameHead = 12;
constexpr size_t kFramePayload = 64 << 10;
constexpr size_t kNonce = 32;

/// The bytes of a frame; the payload is cut to what a frame may hold.
std::string encodeFrame(FrameType type, const std::string &payload);

/// Takes a frame from the front of `bytes`: 1, or 0 if it is not complete, or
/// -1 if this is no frame.
int takeFrame(std::string &bytes, Frame &frame);

/// Strings put one after the other so that `splitFields` finds them again.
std::string joinFields(const std::vector<std::string> &fields);
/// False if `text` is not what `joinFields` makes, or of another count.
bool splitFields(const std::string &text, size_t count,
                 std::vector<std::string> &fields);

/// A status as a payload, and back; the latter never fails.
std::string encodeStatus(const Status &status);
Status decodeStatus(const std::string &payload);

/// What a rank says of itself, "key" and value, in a fixed order. All but
/// "rank" and "device" must be equal on all ranks.
using Identity = std::vector<std::pair<std::string, std::string>>;
std::string encodeIdentity(const Identity &identity);
bool decodeIdentity(const std::string &text, Identity &identity);
std::string identityValue(const Identity &identity, const std::string &key);

/// 32 random bytes.
std::string makeNonce();
/// HMAC-SHA-256 by `token` over the role and both nonces.
std::string makeProof(const std::string &token, const std::string &role,
                      const std::string &hubNonce,
                      const std::string &rankNonce);
/// Takes the same time whatever differs.
bool equalProofs(const std::string &a, const std::string &b);

/// Sends all bytes, waiting up to `seconds`; false if the peer is gone or does
/// not take them.
bool sendBytes(int socket, const std::string &bytes, double seconds);

/// Seconds of the monotonic clock.
double monotonicSeconds();

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_FRAMES_H
