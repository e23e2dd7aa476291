//===- Process.cpp - What every tool's process owes its user --------------===//
//
// See Process.h.
//
//===----------------------------------------------------------------------===//
#include "Process.h"

#include <atomic>
#include <fcntl.h>
#include <sys/stat.h>
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

/// Whether a path names a file, and which.
static bool findFile(const std::string &path, struct stat &info) {
  return !path.empty() && stat(path.c_str(), &info) == 0 &&
         S_ISREG(info.st_mode);
}

std::string
fusion::rt::findOverwritten(const std::vector<std::string> &outputs,
                            const std::vector<std::string> &inputs) {
  struct stat written, read;
  for (const std::string &output : outputs) {
    if (!findFile(output, written))
      continue;
    for (const std::string &input : inputs)
      if (findFile(input, read) && read.st_dev == written.st_dev &&
          read.st_ino == written.st_ino)
        return output;
  }
  return "";
}
