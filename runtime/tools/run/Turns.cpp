//===- Turns.cpp - Runs on somebody's request -----------------------------===//
//
// Programs that are compared must take turns on the device, and starting one
// takes seconds. So each stays open, in a job of its own, and waits to be told
// on a socket how often to run. All ranks are told the same; they meet in the
// program's own collectives.
//
//===----------------------------------------------------------------------===//
#include "Turns.h"
#include "Interrupt.h"
#include "Text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace fusion::rt;

namespace {

/// How often a wait looks for a signal.
constexpr int kTickMilliseconds = 100;
/// A request is a word and a path.
constexpr size_t kLongestLine = 4096 + 16;

class Connection {
public:
  ~Connection() {
    if (socket >= 0)
      close(socket);
  }
  Status open(const std::string &path);
  /// The next line; `ended` if there is none.
  Status read(std::string &line, bool &ended);
  Status write(const std::string &line);

private:
  int socket = -1;
  std::string pending;
};

} // namespace

static Status socketError(const std::string &path, const char *what) {
  return Status(Code::Environment, std::string(what) + " '" + escape(path) +
                                       "': " + std::strerror(errno) +
                                       ", for --bench-turns; name the socket "
                                       "of a program that listens");
}

Status Connection::open(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Status(Code::Usage, "--bench-turns: '" + escape(path) +
                                   "' is longer than a socket's path may be");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0 || connect(socket, reinterpret_cast<sockaddr *>(&address),
                            sizeof(address)) < 0)
    return socketError(path, "can't connect to");
  return {};
}

Status Connection::read(std::string &line, bool &ended) {
  ended = false;
  while (true) {
    size_t end = pending.find('\n');
    if (end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return {};
    }
    if (pending.size() > kLongestLine)
      return Status(Code::Usage, "--bench-turns: a request is too long");
    if (interruptSignal())
      return Status(Code::Internal, "interrupted");
    pollfd entry{socket, POLLIN, 0};
    int ready = poll(&entry, 1, kTickMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR))
      continue;
    char buffer[1024];
    ssize_t count = recv(socket, buffer, sizeof(buffer), 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      // A request that was cut off asks for nothing.
      ended = true;
      return {};
    }
    pending.append(buffer, size_t(count));
  }
}

Status Connection::write(const std::string &line) {
  for (size_t at = 0; at < line.size();) {
    ssize_t count =
        send(socket, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return Status(Code::Environment,
                    "the other side of --bench-turns went away");
    at += size_t(count);
  }
  return {};
}

/// A number of runs, 0 if `text` isn't one.
static int64_t parseCount(const std::string &text) {
  bool plain = !text.empty() && text.size() <= 8 &&
               text.find_first_not_of("0123456789") == std::string::npos;
  return plain ? std::atoll(text.c_str()) : 0;
}

static std::string timesText(const std::vector<double> &micros) {
  std::string text = "{\"us\": [";
  for (size_t i = 0; i < micros.size(); ++i) {
    char number[48];
    std::snprintf(number, sizeof(number), "%s%.3f", i ? ", " : "", micros[i]);
    text += number;
  }
  return text + "]}\n";
}

Status fusion::rt::serveTurns(const std::string &path, uint32_t rank,
                              const TurnActions &actions) {
  Connection connection;
  FUSION_RT_TRY(connection.open(path));
  FUSION_RT_TRY(connection.write("rank " + std::to_string(rank) + "\n"));
  while (true) {
    std::string line;
    bool ended = false;
    FUSION_RT_TRY(connection.read(line, ended));
    if (ended)
      return {};
    size_t space = line.find(' ');
    std::string word = line.substr(0, space),
                rest = space == std::string::npos ? "" : line.substr(space + 1);
    int64_t count = word == "time" ? parseCount(rest) : 0;
    if (count > 0) {
      std::vector<double> micros;
      FUSION_RT_TRY(actions.time(count, micros));
      FUSION_RT_TRY(connection.write(timesText(micros)));
    } else if (word == "write" && !rest.empty()) {
      space = rest.find(' ');
      FUSION_RT_TRY(actions.write(
          rest.substr(0, space),
          space == std::string::npos ? "" : rest.substr(space + 1)));
      FUSION_RT_TRY(connection.write("{}\n"));
    } else {
      return Status(Code::Usage,
                    "--bench-turns: request '" + escape(line) +
                        "', expected 'time N' or 'write FOLDER [OUTPUT]'");
    }
  }
}
