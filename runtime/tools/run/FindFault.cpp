//===- FindFault.cpp - Which command a GPU failed at ----------------------===//
//
// A run is one graph: its error does not say where. The context is dead after
// it, so another process runs the commands one by one. It says nothing if the
// fault does not come back; then the first error stands.
//
//===----------------------------------------------------------------------===//
#include "FindFault.h"
#include "Interrupt.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace fusion::rt;

/// The other process has this long: the whole error comes within 5 s.
static constexpr std::chrono::milliseconds kLimit(4000);

/// Starts this program with --find-fault, its errors written to `output`.
static pid_t start(int argc, char **argv, int output) {
  static char option[] = "--find-fault";
  std::vector<char *> arguments{argv[0], option};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  arguments.push_back(nullptr);
  pid_t parent = getpid(), child = fork();
  if (child != 0)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int nothing = open("/dev/null", O_RDWR);
  if (getppid() == parent && nothing >= 0 && dup2(nothing, 0) == 0 &&
      dup2(nothing, 1) == 1 && dup2(output, 2) == 2)
    execv("/proc/self/exe", arguments.data());
  _exit(int(Code::Environment));
}

/// What comes from `input` until its end, the limit or a signal.
static std::string readAll(int input) {
  auto end = std::chrono::steady_clock::now() + kLimit;
  std::string text;
  while (!interruptSignal()) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      break;
    pollfd waited{input, POLLIN, 0};
    int ready = poll(&waited, 1, int(left.count()));
    if (ready < 0 && errno != EINTR)
      break;
    if (ready <= 0)
      continue;
    char buffer[4096];
    ssize_t count = read(input, buffer, sizeof(buffer));
    if (count == 0 || (count < 0 && errno != EINTR))
      break;
    if (count > 0)
      text.append(buffer, size_t(count));
  }
  return text;
}

Status fusion::rt::findFault(int argc, char **argv, const Status &failure) {
  Status unknown(failure.code(),
                 failure.message() +
                     "; 'fusion-run --find-fault' may find the command");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return unknown;
  pid_t child = start(argc, argv, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return unknown;
  }
  std::string text = readAll(ends[0]);
  close(ends[0]);
  kill(child, SIGKILL); // no effect once it has ended
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  // Notes may come before it, on lines of their own.
  const std::string prefix = "\nerror: ";
  text = "\n" + text;
  size_t at = text.find(prefix);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != int(failure.code()) ||
      at == std::string::npos)
    return unknown;
  at += prefix.size();
  return Status(failure.code(), text.substr(at, text.find('\n', at) - at));
}
