//===- RankLink.h - A rank's end of the control channel ---------*- C++ -*-===//
#ifndef FUSION_RUNTIME_COMM_RANKLINK_H
#define FUSION_RUNTIME_COMM_RANKLINK_H

#include "Frames.h"
#include "Transport.h"
#include "Watch.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace fusion::rt {

/// A rank's connection with its job's hub. A thread of its own listens, so that
/// a rank ends when the job does, whatever it is doing.
class RankLink final : public Rendezvous {
public:
  /// `socket` is connected and becomes the link's. `hubName` is for messages.
  /// `silence`: seconds without a sign of the hub that end the rank; 0: the
  /// hub sends none.
  RankLink(int socket, std::string token, std::string hubName, double silence);
  ~RankLink() override;

  /// Called on the link's thread when the rank must end: another rank failed,
  /// or the hub is gone. It does not return.
  std::function<void(const Status &)> onStop;
  /// Is 1 while the rank waits for a word of another, or null.
  std::atomic<uint32_t> *waiting = nullptr;
  /// What a beat says, or null.
  std::function<RankView()> view;

  /// Joins and waits until all ranks are there and agree.
  Status join(const Identity &identity, double seconds);

  Status set(const std::string &key, const std::vector<char> &value) override;
  Expected<std::vector<char>> get(const std::string &key) override;

  /// Tells of an error.
  Status report(const Status &error);
  /// Tells of an error, then waits for the end that the hub orders, up to
  /// `seconds`: gives what the job ends with.
  Status fail(const Status &error, double seconds);
  /// Tells the result and waits until all ranks are done.
  Status done(const Status &result);

  /// Closes the connection, as a broken network would.
  void cut();

private:
  void listen();
  void take(const Frame &frame);
  void beat();
  Status send(FrameType type, const std::string &payload);
  void end(const Status &reason);

  int socket;
  std::string token, hubName;
  double silence;
  std::string rankNonce, hubNonce;

  std::mutex mutex, sending;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool welcome = false, bye = false;
  bool finishing = false; ///< an end of the hub is expected
  Status stopped;
  std::atomic<bool> closing{false};
  std::thread thread;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_RANKLINK_H
