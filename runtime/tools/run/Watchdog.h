//===- Watchdog.h - The end of a run that does not end ----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_WATCHDOG_H
#define FUSION_RUNTIME_TOOLS_RUN_WATCHDOG_H

#include <condition_variable>
#include <mutex>
#include <thread>

namespace fusion::rt {

/// For a scope: ends the process with `Timeout` and an error if the scope is
/// not left in `seconds` and a grace of some more; 0: does nothing. The
/// executor of a GPU has the same limit and says more, so it comes first; this
/// one is for code of a module, and for a driver, that do not come back.
class Watchdog {
public:
  explicit Watchdog(double seconds);
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;

private:
  void watch(double seconds);

  std::mutex mutex;
  std::condition_variable left;
  bool isLeft = false;
  std::thread thread;
};

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_WATCHDOG_H
