//===- Process.cpp - What every tool's process owes its user --------------===//
//
// See Process.h.
//
//===----------------------------------------------------------------------===//
#include "Process.h"

#include <atomic>
#include <fcntl.h>
#include <unistd.h>

using namespace fusion::rt;

static std::atomic<const char *> temporary{nullptr};

void fusion::rt::openStandardDescriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) == -1) {
      int opened = open("/dev/null", O_RDONLY);
      (void)opened; // the lowest free number is `descriptor`
    }
}

void fusion::rt::removeTemporaryFile() {
  if (const char *path = temporary.load())
    unlink(path);
}

void fusion::rt::setTemporaryFile(const char *path) { temporary.store(path); }
