//===- HostMemory.cpp - What memory a process can have --------------------===//
//
// Linux promises memory it doesn't have and kills later. A program that can't
// fit is refused instead, before anything is allocated.
//
//===----------------------------------------------------------------------===//
#include "HostMemory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

using namespace fusion::rt;

static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

/// Bytes of MemTotal and SwapTotal.
static uint64_t machineMemory(const std::string &root) {
  std::ifstream file(root + "/proc/meminfo");
  uint64_t total = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kibibytes = 0;
    if (words >> key >> kibibytes &&
        (key == "MemTotal:" || key == "SwapTotal:"))
      total += kibibytes * 1024;
  }
  return total == 0 ? kNone : total;
}

/// The number in a limit's file; "max" and files that aren't there limit
/// nothing.
static uint64_t readLimit(const std::string &path) {
  std::ifstream file(path);
  uint64_t limit = 0;
  return file >> limit ? limit : kNone;
}

/// The least limit of the group at `path` and those above it. In a container
/// the path may lie outside what is mounted; then only the mount's root counts.
static uint64_t groupLimit(const std::string &mount, std::string path,
                           const char *file) {
  uint64_t limit = kNone;
  for (;;) {
    limit = std::min(limit, readLimit(mount + path + "/" + file));
    if (path.empty())
      return limit;
    path.erase(path.rfind('/'));
  }
}

uint64_t fusion::rt::hostMemoryLimit(const std::string &root) {
  uint64_t limit = machineMemory(root);
  std::ifstream file(root + "/proc/self/cgroup");
  // "0::/path" of version 2, "4:memory:/path" of version 1.
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/')
      continue;
    if (path == "/")
      path.clear();
    std::string mounts = root + "/sys/fs/cgroup";
    if (controllers.empty())
      limit = std::min({limit, groupLimit(mounts, path, "memory.max"),
                        groupLimit(mounts + "/unified", path, "memory.max")});
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      limit = std::min(
          limit, groupLimit(mounts + "/memory", path, "memory.limit_in_bytes"));
  }
  return limit == kNone ? 0 : limit;
}
