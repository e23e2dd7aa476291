//===- Hub.cpp - Where the ranks of a job meet ----------------------------===//
#include "Hub.h"
#include "Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

using namespace fusion::rt;

static constexpr double kHandshakeSeconds = 5;
static constexpr size_t kHalfOpen = 64;
/// What one rank may leave for others.
static constexpr size_t kValues = 1 << 20;
static constexpr size_t kUnsentBytes = 16 << 20;

Hub::~Hub() {
  for (auto &peer : peers)
    if (peer->socket >= 0)
      close(peer->socket);
}

void Hub::queue(Peer &peer, FrameType type, const std::string &payload) {
  if (peer.socket >= 0 && peer.out.size() < kUnsentBytes)
    peer.out += encodeFrame(type, payload);
}

void Hub::add(int socket, int expected) {
  auto peer = std::make_unique<Peer>();
  peer->socket = socket;
  peer->expected = expected;
  peer->since = monotonicSeconds();
  peer->nonce = makeNonce();
  queue(*peer, FrameType::Challenge, peer->nonce);
  peers.push_back(std::move(peer));
}

void Hub::drop(Peer &peer, bool counts) {
  if (peer.socket >= 0)
    close(peer.socket);
  peer.socket = -1;
  dropped += counts;
  if (peer.rank >= 0)
    ranks[size_t(peer.rank)].closed = true;
  else if (peer.expected >= 0)
    ranks[size_t(peer.expected)].closed = true;
}

void Hub::fillPoll(std::vector<pollfd> &list) const {
  for (const auto &peer : peers)
    if (peer->socket >= 0)
      list.push_back(
          {peer->socket, short(POLLIN | (peer->out.empty() ? 0 : POLLOUT)), 0});
  if (listener >= 0)
    list.push_back({listener, POLLIN, 0});
}

void Hub::handle(const std::vector<pollfd> &list) {
  double now = monotonicSeconds();
  std::map<int, short> ready;
  for (const pollfd &entry : list)
    if (entry.revents)
      ready[entry.fd] = entry.revents;
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer &peer = *peers[i];
    auto it = ready.find(peer.socket);
    if (peer.socket >= 0 && it != ready.end())
      readPeer(peer);
    if (peer.socket >= 0)
      writePeer(peer);
    if (peer.socket >= 0 && peer.rank < 0 && peer.expected < 0 &&
        now - peer.since > kHandshakeSeconds)
      drop(peer, true);
  }
  if (listener >= 0 && ready.count(listener)) {
    size_t halfOpen = 0;
    for (const auto &peer : peers)
      halfOpen += peer->socket >= 0 && peer->rank < 0;
    int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0 && halfOpen >= kHalfOpen) {
      close(socket);
      ++dropped;
    } else if (socket >= 0) {
      add(socket, -1);
      writePeer(*peers.back());
    }
  }
  peers.erase(std::remove_if(peers.begin(), peers.end(),
                             [](const auto &peer) { return peer->socket < 0; }),
              peers.end());
}

void Hub::readPeer(Peer &peer) {
  char buffer[16384];
  for (int i = 0; i < 16; ++i) {
    ssize_t count = recv(peer.socket, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (count <= 0) {
      drop(peer, peer.rank < 0);
      return;
    }
    peer.in.append(buffer, size_t(count));
    Frame frame;
    int taken;
    while (peer.socket >= 0 && (taken = takeFrame(peer.in, frame)) == 1)
      take(peer, frame);
    if (peer.socket < 0)
      return;
    if (taken < 0) {
      drop(peer, true);
      return;
    }
  }
}

void Hub::writePeer(Peer &peer) {
  while (!peer.out.empty()) {
    ssize_t count = send(peer.socket, peer.out.data(), peer.out.size(),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return;
    if (count < 0) {
      drop(peer, peer.rank < 0);
      return;
    }
    peer.out.erase(0, size_t(count));
  }
  if (peer.closing)
    drop(peer, false);
}

void Hub::take(Peer &peer, Frame &frame) {
  if (peer.rank < 0) {
    if (frame.type == FrameType::Hello)
      join(peer, frame);
    else
      drop(peer, true);
    return;
  }
  Rank &rank = ranks[size_t(peer.rank)];
  rank.heard = monotonicSeconds();
  std::vector<std::string> fields;
  switch (frame.type) {
  case FrameType::Set:
    if (!splitFields(frame.payload, 2, fields) || values.size() >= kValues)
      return drop(peer, true);
    values[fields[0]] = fields[1];
    for (auto &other : peers) {
      auto &keys = other->waitedKeys;
      auto it = std::find(keys.begin(), keys.end(), fields[0]);
      if (it == keys.end())
        continue;
      keys.erase(it);
      queue(*other, FrameType::Value, frame.payload);
      if (other.get() != &peer && other->socket >= 0)
        writePeer(*other);
    }
    return;
  case FrameType::Get: {
    auto it = values.find(frame.payload);
    if (it != values.end())
      queue(peer, FrameType::Value, joinFields({it->first, it->second}));
    else
      peer.waitedKeys.push_back(frame.payload);
    return;
  }
  case FrameType::Failed:
    if (rank.error.ok()) {
      rank.error = decodeStatus(frame.payload);
      rank.errorTime = rank.heard;
    }
    return;
  case FrameType::Done:
    rank.done = true;
    rank.result = decodeStatus(frame.payload);
    return;
  case FrameType::Beat:
    if (!frame.payload.empty())
      decodeView(frame.payload, rank.view);
    return;
  default:
    return drop(peer, true);
  }
}

void Hub::join(Peer &peer, const Frame &frame) {
  std::vector<std::string> fields;
  Identity identity;
  if (!splitFields(frame.payload, 3, fields) || fields[0].size() != kNonce ||
      !equalProofs(fields[1],
                   makeProof(token, "rank", peer.nonce, fields[0])) ||
      !decodeIdentity(fields[2], identity))
    return drop(peer, true);
  auto refuse = [&](const std::string &why) {
    Status status(Code::Rejected, why);
    queue(peer, FrameType::Stop, encodeStatus(status));
    peer.closing = true;
    // The job can't become complete: the other ranks need not wait for that.
    if (!allJoined() && rejected.ok())
      rejected = status;
  };
  const std::string text = identityValue(identity, "rank");
  char *end = nullptr;
  unsigned long rank = std::strtoul(text.c_str(), &end, 10);
  std::string world = identityValue(identity, "ranks");
  if (world != std::to_string(ranks.size()))
    return refuse("a rank joined that is one of " + escape(world, 32) +
                  ", this job has " + std::to_string(ranks.size()) +
                  "; start all ranks with the same number");
  if (text.empty() || *end || rank >= ranks.size())
    return refuse("rank '" + escape(text, 32) + "' joined a job of " +
                  std::to_string(ranks.size()) +
                  " ranks; they are numbered "
                  "from 0");
  if (ranks[rank].joined || (peer.expected >= 0 && peer.expected != int(rank)))
    return refuse("rank " + text +
                  " joined twice; give each process a rank of "
                  "its own");
  peer.rank = int(rank);
  ranks[rank].joined = true;
  ranks[rank].heard = monotonicSeconds();
  ranks[rank].view.phase = RankProgress::Loading;
  ranks[rank].identity = std::move(identity);
  ++joinedCount;
  proofs.resize(ranks.size());
  proofs[rank] = makeProof(token, "hub", peer.nonce, fields[0]);
  if (!stopReason.ok())
    queue(peer, FrameType::Stop, encodeStatus(stopReason));
  else if (allJoined() && rejected.ok())
    compare();
}

/// "ranks 0 to 2".
static std::string rankList(const std::vector<size_t> &list) {
  std::string text = list.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < list.size(); ++i) {
    size_t last = i;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1)
      ++last;
    text += (i ? ", " : "") + std::to_string(list[i]);
    if (last > i)
      text += (last > i + 1 ? " to " : ", ") + std::to_string(list[last]);
    i = last;
  }
  return text;
}

std::string Hub::missing() const {
  std::vector<size_t> list;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!ranks[i].joined)
      list.push_back(i);
  return rankList(list);
}

/// Lets all ranks in, or none if they differ.
void Hub::compare() {
  std::string table;
  Code code = Code::Rejected;
  for (const auto &[key, value] : ranks[0].identity) {
    if (key == "rank")
      continue;
    std::map<std::string, std::vector<size_t>> having;
    for (size_t i = 0; i < ranks.size(); ++i)
      having[identityValue(ranks[i].identity, key)].push_back(i);
    if (key == "device") {
      for (const auto &[device, list] : having)
        if (!device.empty() && list.size() > 1) {
          table += "; " + rankList(list) + " have one device, " +
                   escape(device, 64) + ", give each its own";
          code = Code::Usage;
        }
      continue;
    }
    if (having.size() == 1)
      continue;
    table += "; " + key + ": ";
    std::map<std::vector<size_t>, std::string> byRanks;
    for (const auto &[each, list] : having)
      byRanks[list] = each;
    const char *comma = "";
    for (const auto &[list, each] : byRanks) {
      table += comma + rankList(list) +
               (list.size() == 1 ? " has " : " have ") + escape(each, 80);
      comma = ", ";
    }
  }
  if (!table.empty()) {
    rejected = Status(code, "the ranks differ" + table +
                                (code == Code::Usage
                                     ? ""
                                     : "; run one module with one version of "
                                       "this program on all ranks"));
    return;
  }
  for (auto &peer : peers)
    if (peer->rank >= 0) {
      queue(*peer, FrameType::Welcome, proofs[size_t(peer->rank)]);
      if (peer->socket >= 0)
        writePeer(*peer);
    }
}

Status Hub::firstError(double now, double patience) const {
  int first = -1;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!ranks[i].error.ok() &&
        (first < 0 || (ranks[size_t(first)].error.code() == Code::PeerFailed &&
                       ranks[i].error.code() != Code::PeerFailed)))
      first = int(i);
  if (first < 0)
    return {};
  const Rank &rank = ranks[size_t(first)];
  if (rank.error.code() == Code::PeerFailed && now - rank.errorTime <= patience)
    return {};
  return Status(rank.error.code(),
                "rank " + std::to_string(first) + ": " + rank.error.message(),
                rank.error.op(), first);
}

Status Hub::missingError() const {
  size_t count = ranks.size() - joinedCount;
  return Status(Code::Timeout,
                std::to_string(count) + " of " + std::to_string(ranks.size()) +
                    " ranks missing: " + missing() + " (--init-timeout)");
}

bool Hub::allDone() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const Rank &rank) { return rank.done; });
}

void Hub::stop(const Status &reason) {
  stopReason = reason;
  for (auto &peer : peers)
    queue(*peer, FrameType::Stop, encodeStatus(reason));
  drain(0);
}

void Hub::finish() {
  for (auto &peer : peers)
    queue(*peer, FrameType::Bye, "");
  drain(0);
}

void Hub::beat() {
  for (auto &peer : peers)
    if (peer->rank >= 0)
      queue(*peer, FrameType::Beat, "");
}

void Hub::drain(double seconds) {
  double end = monotonicSeconds() + seconds;
  while (true) {
    std::vector<pollfd> waited;
    for (auto &peer : peers) {
      if (peer->socket >= 0 && !peer->out.empty())
        writePeer(*peer);
      if (peer->socket >= 0 && !peer->out.empty())
        waited.push_back({peer->socket, POLLOUT, 0});
    }
    double left = end - monotonicSeconds();
    if (waited.empty() || left <= 0)
      return;
    poll(waited.data(), nfds_t(waited.size()), int(left * 1000) + 1);
  }
}
