//===- Watchdog.cpp - The end of a run that does not end ------------------===//
//
// A thread that waits for the scope's end and, too late, ends the process: the
// thread that computes can't be stopped otherwise.
//
//===----------------------------------------------------------------------===//
#include "Watchdog.h"
#include "Status.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

using namespace fusion::rt;

/// More seconds, in which the executor says what it waits for.
static constexpr double kGrace = 2;

Watchdog::Watchdog(double seconds) {
  if (seconds > 0)
    thread = std::thread([this, seconds] { watch(seconds); });
}

Watchdog::~Watchdog() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isLeft = true;
  }
  left.notify_one();
  thread.join();
}

void Watchdog::watch(double seconds) {
  std::unique_lock<std::mutex> lock(mutex);
  if (left.wait_for(lock, std::chrono::duration<double>(seconds + kGrace),
                    [this] { return isLeft; }))
    return;
  std::fprintf(stderr,
               "error: a run did not end within %g s (--op-timeout); allow "
               "more time if it needs more\n",
               seconds);
  _exit(int(Code::Timeout));
}
