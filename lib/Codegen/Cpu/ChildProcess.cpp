//===- ChildProcess.cpp - Another program, run to its end -----------------===//
//
// stdin, stdout and stderr are anonymous files: nothing blocks on a full pipe,
// nobody gets SIGPIPE, and nothing is left on disk whoever is killed. The
// program is waited for in small steps, with an eye on the clock and on the
// size of what it prints.
//
//===----------------------------------------------------------------------===//
#include "fusion/Codegen/ChildProcess.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fusion;
using llvm::StringRef;

/// The most that a program may print.
static constexpr off_t kMostBytes = off_t(256) << 20;

/// Process groups that run, 0 where a place is free.
static std::atomic<pid_t> running[16];

void fusion::killChildren() {
  for (std::atomic<pid_t> &place : running)
    if (pid_t group = place.load())
      kill(-group, SIGKILL);
}

namespace {

/// Makes a process group known to killChildren.
class Registered {
public:
  explicit Registered(pid_t group) {
    for (std::atomic<pid_t> &candidate : running) {
      pid_t free = 0;
      if (candidate.compare_exchange_strong(free, group)) {
        place = &candidate;
        return;
      }
    }
  }
  ~Registered() {
    if (place)
      place->store(0);
  }
  Registered(const Registered &) = delete;
  Registered &operator=(const Registered &) = delete;

private:
  std::atomic<pid_t> *place = nullptr;
};

/// An anonymous file, closed at the end of its life and in the program.
class MemoryFile {
public:
  MemoryFile() : number(memfd_create("fusion-child", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (number >= 0)
      close(number);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  int get() const { return number; }
  off_t size() const {
    struct stat status;
    return fstat(number, &status) == 0 ? status.st_size : 0;
  }
  bool write(StringRef text) {
    while (!text.empty()) {
      ssize_t written = ::write(number, text.data(), text.size());
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return false;
      text = text.drop_front(size_t(written));
    }
    return lseek(number, 0, SEEK_SET) == 0;
  }
  std::string read() const {
    std::string text(size_t(size()), '\0');
    size_t done = 0;
    while (done < text.size()) {
      ssize_t got =
          pread(number, text.data() + done, text.size() - done, off_t(done));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        break;
      done += size_t(got);
    }
    text.resize(done);
    return text;
  }

private:
  int number;
};

/// What posix_spawn is told, freed at the end.
struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

} // namespace

static ChildResult failWith(ChildResult::Kind kind, int error) {
  ChildResult result;
  result.kind = kind;
  result.error = std::strerror(error);
  return result;
}

static bool isLimit(int error) {
  return error == ENOMEM || error == EAGAIN || error == EMFILE ||
         error == ENFILE || error == ENOSPC;
}

/// The variables that a compiler needs to find its parts, and no other: what
/// it makes must not depend on them.
static std::vector<std::string> getEnvironment() {
  std::vector<std::string> environment{"LC_ALL=C"};
  for (const char *name : {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"})
    if (const char *value = std::getenv(name))
      environment.push_back(std::string(name) + "=" + value);
  return environment;
}

static std::vector<char *> getPointers(llvm::ArrayRef<std::string> strings) {
  std::vector<char *> pointers;
  for (const std::string &string : strings)
    pointers.push_back(const_cast<char *>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

ChildResult fusion::runChild(StringRef path,
                             llvm::ArrayRef<std::string> arguments,
                             StringRef input, unsigned timeoutSeconds) {
  MemoryFile in, out, messages;
  if (in.get() < 0 || out.get() < 0 || messages.get() < 0 || !in.write(input))
    return failWith(ChildResult::NoResources, errno);

  SpawnSettings settings;
  posix_spawn_file_actions_adddup2(&settings.actions, in.get(), 0);
  posix_spawn_file_actions_adddup2(&settings.actions, out.get(), 1);
  posix_spawn_file_actions_adddup2(&settings.actions, messages.get(), 2);
  posix_spawn_file_actions_addchdir_np(&settings.actions, "/");
  sigset_t noSignals, byDefault;
  sigemptyset(&noSignals);
  sigemptyset(&byDefault);
  for (int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGCHLD})
    sigaddset(&byDefault, signal);
  posix_spawnattr_setsigmask(&settings.attributes, &noSignals);
  posix_spawnattr_setsigdefault(&settings.attributes, &byDefault);
  posix_spawnattr_setpgroup(&settings.attributes, 0);
  posix_spawnattr_setflags(&settings.attributes, POSIX_SPAWN_SETPGROUP |
                                                     POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> environment = getEnvironment();
  pid_t child;
  int error = posix_spawn(&child, path.str().c_str(), &settings.actions,
                          &settings.attributes, getPointers(arguments).data(),
                          getPointers(environment).data());
  if (error != 0)
    return failWith(isLimit(error) ? ChildResult::NoResources
                                   : ChildResult::NotStarted,
                    error);

  Registered registered(child);
  ChildResult result;
  auto start = std::chrono::steady_clock::now();
  auto pause = std::chrono::microseconds(200);
  bool ended = false;
  for (;;) {
    int status;
    pid_t waited = waitpid(child, &status, WNOHANG);
    if (waited < 0 && errno == EINTR)
      continue;
    if (waited < 0) // a host that reaps all children itself
      return failWith(ChildResult::NotStarted, errno);
    if (waited == child) {
      if (ended)
        return result;
      result.kind =
          WIFSIGNALED(status) ? ChildResult::Signaled : ChildResult::Exited;
      result.status =
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
      break;
    }
    bool late = std::chrono::steady_clock::now() - start >=
                std::chrono::seconds(timeoutSeconds);
    bool large = out.size() > kMostBytes || messages.size() > kMostBytes;
    if (!ended && (late || large)) {
      result.kind = large ? ChildResult::TooMuch : ChildResult::TimedOut;
      kill(-child, SIGKILL);
      ended = true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
  result.output = out.read();
  result.messages = messages.read();
  return result;
}
