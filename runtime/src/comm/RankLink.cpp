//===- RankLink.cpp - A rank's end of the control channel -----------------===//
#include "RankLink.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace fusion::rt;

static constexpr double kBeatSeconds = 0.2;

RankLink::RankLink(int socket, std::string token, std::string hubName,
                   double silence)
    : socket(socket), token(std::move(token)), hubName(std::move(hubName)),
      silence(silence) {}

RankLink::~RankLink() {
  closing = true;
  shutdown(socket, SHUT_RDWR);
  if (thread.joinable())
    thread.join();
  close(socket);
}

void RankLink::cut() { shutdown(socket, SHUT_RDWR); }

Status RankLink::send(FrameType type, const std::string &payload) {
  std::lock_guard<std::mutex> lock(sending);
  if (sendBytes(socket, encodeFrame(type, payload), 5))
    return {};
  return Status(Code::PeerFailed, hubName + " is gone");
}

/// The rank ends: at once if it works, else its waits do.
void RankLink::end(const Status &reason) {
  std::function<void(const Status &)> stop;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (stopped.ok())
      stopped = reason;
    if (welcome && !finishing && !closing)
      stop = onStop;
  }
  changed.notify_all();
  if (stop)
    stop(reason);
}

void RankLink::take(const Frame &frame) {
  std::vector<std::string> fields;
  std::unique_lock<std::mutex> lock(mutex);
  switch (frame.type) {
  case FrameType::Challenge:
    hubNonce = frame.payload;
    break;
  case FrameType::Welcome:
    welcome = equalProofs(frame.payload,
                          makeProof(token, "hub", hubNonce, rankNonce));
    if (!welcome)
      stopped =
          Status(Code::Rejected, hubName + " does not know the job's token");
    break;
  case FrameType::Value:
    if (splitFields(frame.payload, 2, fields))
      values[fields[0]] = fields[1];
    break;
  case FrameType::Bye:
    bye = true;
    break;
  case FrameType::Stop:
    lock.unlock();
    end(decodeStatus(frame.payload));
    return;
  default:
    break;
  }
  lock.unlock();
  changed.notify_all();
}

void RankLink::beat() {
  if (silence <= 0)
    return;
  bool ready;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ready = welcome;
  }
  if (ready)
    (void)send(FrameType::Beat, view ? encodeView(view()) : std::string());
}

void RankLink::listen() {
  pthread_setname_np(pthread_self(), "control");
  std::string bytes;
  char buffer[16384];
  double beaten = monotonicSeconds(), last = beaten, quiet = 0;
  while (!closing) {
    pollfd waited{socket, POLLIN, 0};
    int ready = poll(&waited, 1, int(kBeatSeconds * 1000));
    double now = monotonicSeconds();
    // Time that this process slept through says nothing of the hub.
    quiet += std::min(now - last, 2 * kBeatSeconds);
    last = now;
    if (now - beaten >= kBeatSeconds) {
      beaten = now;
      beat();
    }
    if (silence > 0 && welcome && quiet > silence)
      return end(Status(Code::Timeout, hubName + " does not answer"));
    if (ready <= 0)
      continue;
    ssize_t count = recv(socket, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (count <= 0)
      return end(Status(Code::PeerFailed, hubName + " is gone"));
    quiet = 0;
    bytes.append(buffer, size_t(count));
    Frame frame;
    int taken;
    while ((taken = takeFrame(bytes, frame)) == 1)
      take(frame);
    if (taken < 0)
      return end(
          Status(Code::PeerFailed, hubName + " speaks another protocol"));
  }
}

Status RankLink::join(const Identity &identity, double seconds) {
  rankNonce = makeNonce();
  thread = std::thread([this] { listen(); });
  auto until = std::chrono::steady_clock::now() +
               std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   std::chrono::duration<double>(seconds));
  std::unique_lock<std::mutex> lock(mutex);
  auto wait = [&](auto done) {
    return changed.wait_until(lock, until,
                              [&] { return !stopped.ok() || done(); });
  };
  if (!wait([&] { return hubNonce.size() == kNonce; }))
    return Status(Code::Timeout, hubName + " does not answer (--init-timeout)");
  if (!stopped.ok())
    return stopped;
  std::string hello =
      joinFields({rankNonce, makeProof(token, "rank", hubNonce, rankNonce),
                  encodeIdentity(identity)});
  lock.unlock();
  FUSION_RT_TRY(send(FrameType::Hello, hello));
  lock.lock();
  if (!wait([&] { return welcome; }))
    return Status(Code::Timeout, "not all ranks joined (--init-timeout)");
  return stopped;
}

Status RankLink::set(const std::string &key, const std::vector<char> &value) {
  return send(FrameType::Set,
              joinFields({key, std::string(value.begin(), value.end())}));
}

Expected<std::vector<char>> RankLink::get(const std::string &key) {
  FUSION_RT_TRY(send(FrameType::Get, key));
  std::unique_lock<std::mutex> lock(mutex);
  if (waiting)
    *waiting = 1;
  changed.wait(lock, [&] { return !stopped.ok() || values.count(key); });
  if (waiting)
    *waiting = 0;
  if (!stopped.ok())
    return stopped;
  const std::string &value = values[key];
  return std::vector<char>(value.begin(), value.end());
}

Status RankLink::report(const Status &error) {
  return send(FrameType::Failed, encodeStatus(error));
}

Status RankLink::fail(const Status &error, double seconds) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    finishing = true;
  }
  if (!report(error).ok())
    return error;
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, std::chrono::duration<double>(seconds),
                   [&] { return !stopped.ok(); });
  return stopped.ok() ? error : stopped;
}

Status RankLink::done(const Status &result) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    finishing = true;
  }
  FUSION_RT_TRY(send(FrameType::Done, encodeStatus(result)));
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return bye || !stopped.ok(); });
  return bye ? Status() : stopped;
}
