//===- Interrupt.cpp - Ordered stops on signals ---------------------------===//
//
// The handlers only set a flag; the executor looks at it between steps.
//
//===----------------------------------------------------------------------===//
#include "Interrupt.h"
#include "Process.h"

#include <initializer_list>
#include <unistd.h>

using namespace fusion::rt;

static volatile std::sig_atomic_t stopSignal = 0;

static void requestStop(int signal) { stopSignal = signal; }

static void reportTruncation(int) {
  static const char message[] =
      "error: module file: became shorter while it was mapped; load it again\n";
  ssize_t ignored = write(2, message, sizeof(message) - 1);
  (void)ignored;
  _exit(4);
}

void fusion::rt::installSignalHandling() {
  openStandardDescriptors();
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = int(SA_RESETHAND); // the second signal acts as usual
  action.sa_handler = requestStop;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old;
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN)
      continue; // nohup
    sigaction(signal, &action, nullptr);
  }
  action.sa_handler = reportTruncation;
  sigaction(SIGBUS, &action, nullptr);
  action.sa_flags = 0;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

int fusion::rt::interruptSignal() { return int(stopSignal); }

const volatile std::sig_atomic_t *fusion::rt::interruptFlag() {
  return &stopSignal;
}
