//===- Join.cpp - Ranks that another launcher started ---------------------===//
//
// Nobody watches over these processes but themselves: rank 0 runs a hub on a
// thread, all others hear from it five times a second and it from them. A rank
// whose connection breaks, or that is silent, ends the job.
//
//===----------------------------------------------------------------------===//
#include "Join.h"
#include "Hub.h"
#include "Process.h"
#include "Ranks.h"
#include "Text.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;

static constexpr double kTickSeconds = 0.1, kBeatSeconds = 0.2,
                        kCauseSeconds = 0.5;

//===----------------------------------------------------------------------===//
// Where this process stands
//===----------------------------------------------------------------------===//

static bool readNumber(const char *text, unsigned long limit, uint32_t &value) {
  char *end = nullptr;
  if (!text || *text < '0' || *text > '9')
    return false;
  unsigned long number = std::strtoul(text, &end, 10);
  value = uint32_t(number);
  return *end == 0 && number <= limit;
}

/// A port that all ranks of one job of a launcher derive alike.
static uint16_t portOf(const char *job) {
  uint32_t hash = 2166136261; // FNV-1a
  for (const char *at = job; at && *at; ++at)
    hash = (hash ^ uint8_t(*at)) * 16777619;
  return uint16_t(20000 + hash % 40000);
}

Expected<std::optional<JobPlace>> fusion::rt::findJob() {
  struct Launcher {
    const char *name, *rank, *size, *job, *local;
  };
  static const Launcher launchers[] = {
      {"torchrun", "RANK", "WORLD_SIZE", nullptr, "LOCAL_RANK"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "PMIX_NAMESPACE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID",
       "SLURM_LOCALID"}};
  for (const Launcher &each : launchers) {
    const char *rank = std::getenv(each.rank), *size = std::getenv(each.size);
    if (!rank || !size)
      continue;
    JobPlace place;
    place.launcher = each.name;
    if (!readNumber(rank, 1 << 20, place.rank) ||
        !readNumber(size, 1 << 20, place.size) || place.rank >= place.size)
      return Status(Code::Usage, std::string(each.rank) + "='" +
                                     escape(rank, 64) + "' and " + each.size +
                                     "='" + escape(size, 64) +
                                     "' are no rank and number of ranks");
    const char *local = std::getenv(each.local);
    place.localRank = place.rank;
    if (local && !readNumber(local, 1 << 20, place.localRank))
      return Status(Code::Usage, std::string(each.local) + "='" +
                                     escape(local, 64) + "' is no rank");
    if (const char *address = std::getenv("MASTER_ADDR"))
      place.address = address;
    uint32_t port = portOf(each.job ? std::getenv(each.job) : nullptr);
    if (const char *text = std::getenv("MASTER_PORT")) {
      if (!readNumber(text, 65534, port) || port == 0)
        return Status(Code::Usage,
                      "MASTER_PORT='" + escape(text, 64) + "' is no port");
      // torchrun's own agent listens on it then.
      const char *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
      port += agent && std::strcmp(agent, "True") == 0;
    }
    place.port = uint16_t(port);
    return std::optional<JobPlace>(place);
  }
  return std::optional<JobPlace>();
}

/// The token's bytes: a file that only its owner can read.
static Expected<std::string> readToken(const std::string &path) {
  if (path.empty())
    return std::string();
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat info;
  char buffer[4097];
  ssize_t count = -1;
  if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode))
    count = read(file, buffer, sizeof(buffer));
  if (file >= 0)
    close(file);
  if (count < 0)
    return Status(Code::Usage, "can't read the token file '" + escape(path) +
                                   "'; it must be a file, not a link");
  if (info.st_mode & 077)
    return Status(Code::Usage, "the token file '" + escape(path) +
                                   "' can be read by others; chmod 600 it");
  if (count < 16 || count > 4096)
    return Status(Code::Usage, "the token file '" + escape(path) +
                                   "' must hold 16 to 4096 bytes; make one: "
                                   "head -c 32 /dev/urandom > FILE");
  return std::string(buffer, size_t(count));
}

//===----------------------------------------------------------------------===//
// Sockets
//===----------------------------------------------------------------------===//

/// Calls `use(address)` for each IPv4 or IPv6 address of a host until it
/// returns true.
template <typename Use>
static bool forAddresses(const std::string &host, uint16_t port, Use use) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list))
    return false;
  bool used = false;
  for (addrinfo *at = list; at && !used; at = at->ai_next)
    used = use(*at);
  freeaddrinfo(list);
  return used;
}

static bool isLoopback(const std::string &host) {
  bool all = true;
  bool any = forAddresses(host, 1, [&](const addrinfo &info) {
    if (info.ai_family == AF_INET)
      all &=
          ntohl(
              reinterpret_cast<sockaddr_in *>(info.ai_addr)->sin_addr.s_addr) >>
              24 ==
          127;
    else
      all &= IN6_IS_ADDR_LOOPBACK(
          &reinterpret_cast<sockaddr_in6 *>(info.ai_addr)->sin6_addr);
    return !all;
  });
  (void)any;
  return all;
}

static Expected<int> listenAt(const std::string &host, uint16_t port) {
  int result = -1, error = 0;
  forAddresses(host, port, [&](const addrinfo &info) {
    int socket = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0),
        on = 1;
    if (socket < 0)
      return false;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket, info.ai_addr, info.ai_addrlen) == 0 &&
        ::listen(socket, 64) == 0) {
      result = socket;
      return true;
    }
    error = errno;
    close(socket);
    return false;
  });
  if (result >= 0)
    return result;
  return Status(Code::Environment,
                "rank 0 can't listen on " + escape(host) + " port " +
                    std::to_string(port) + ": " +
                    (error ? std::strerror(error) : "no such address") +
                    "; set another MASTER_PORT");
}

/// Rank 0 may come later than the others.
static Expected<int> connectTo(const JobPlace &place, double seconds) {
  double end = monotonicSeconds() + seconds;
  while (true) {
    int result = -1;
    forAddresses(place.address, place.port, [&](const addrinfo &info) {
      int socket = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (socket < 0)
        return false;
      if (connect(socket, info.ai_addr, info.ai_addrlen) == 0) {
        int on = 1;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        result = socket;
        return true;
      }
      close(socket);
      return false;
    });
    if (result >= 0)
      return result;
    if (monotonicSeconds() >= end)
      return Status(Code::Timeout, "no rank 0 at " + escape(place.address) +
                                       " port " + std::to_string(place.port) +
                                       " (--init-timeout)");
    usleep(100000);
  }
}

//===----------------------------------------------------------------------===//
// The hub of rank 0
//===----------------------------------------------------------------------===//

namespace {

/// A hub on a thread of its own.
class HubThread {
public:
  HubThread(const RunOptions &options, const Program &program, uint32_t size,
            std::string token, int listener, int own)
      : options(options), hub(size, std::move(token)),
        watch(program, options.collectiveTimeout), listener(listener) {
    hub.listenOn(listener);
    hub.add(own, 0);
    thread = std::thread([this] { serve(); });
  }
  ~HubThread() {
    thread.join();
    close(listener);
  }
  /// Waits up to `seconds` until all have been told of the end.
  void wait(double seconds) {
    double end = monotonicSeconds() + seconds;
    while (!over && monotonicSeconds() < end)
      usleep(1000);
  }

private:
  void serve();
  Status findCause(double now);

  const RunOptions &options;
  Hub hub;
  Watch watch;
  int listener;
  double started = monotonicSeconds();
  std::atomic<bool> over{false};
  std::thread thread;
};

} // namespace

Status HubThread::findCause(double now) {
  FUSION_RT_TRY(hub.rejection());
  FUSION_RT_TRY(hub.firstError(now, kCauseSeconds));
  std::vector<RankView> views;
  for (size_t i = 0; i < hub.ranks.size(); ++i) {
    const Hub::Rank &rank = hub.ranks[i];
    views.push_back(rank.view);
    if (rank.done)
      views.back().phase = RankProgress::Done;
    views.back().stopped = rank.joined && now - rank.heard > 5 * kBeatSeconds;
    if (rank.joined && rank.closed && !rank.done && rank.error.ok())
      return Status(Code::PeerFailed,
                    "rank " + std::to_string(i) +
                        " is gone: its connection broke; it " +
                        watch.where(rank.view),
                    {}, int(i));
  }
  if (!hub.allJoined())
    return now - started > options.initTimeout ? hub.missingError() : Status();
  int late = Watch::lateStarter(views);
  if (late >= 0 && now - started > options.initTimeout)
    return Status(Code::Timeout,
                  "rank " + std::to_string(late) +
                      " did not prepare its run in time (--init-timeout)",
                  {}, late);
  return watch.look(views, now);
}

void HubThread::serve() {
  double beaten = 0, ended = 0;
  while (true) {
    std::vector<pollfd> list;
    hub.fillPoll(list);
    poll(list.data(), nfds_t(list.size()), int(kTickSeconds * 1000));
    hub.handle(list);
    double now = monotonicSeconds();
    if (ended > 0) {
      // Until all have gone: an early end here could lose what they are told.
      bool gone = true;
      for (const Hub::Rank &rank : hub.ranks)
        gone &= rank.closed || !rank.joined;
      over = true;
      if (gone || now - ended > 2)
        return;
      continue;
    }
    if (now - beaten > kBeatSeconds) {
      beaten = now;
      hub.beat();
    }
    Status cause = findCause(now);
    if (!cause.ok()) {
      Code code = cause.code() == Code::Timeout ||
                          cause.code() == Code::Rejected ||
                          cause.code() == Code::Usage
                      ? cause.code()
                      : Code::PeerFailed;
      hub.stop(Status(code, "stopped because " + cause.message(), cause.op(),
                      cause.rank()));
      hub.drain(1);
      ended = now;
    } else if (hub.allDone()) {
      hub.finish();
      ended = now;
    }
  }
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

Status fusion::rt::joinJob(const RunOptions &options, const JobPlace &place,
                           const std::shared_ptr<LoadedModule> &module) {
  for (const std::string &host : {place.address, options.listenAddress})
    if (!isLoopback(host) && options.tokenFile.empty())
      return Status(Code::Usage,
                    "'" + escape(host) +
                        "' is an address that other hosts reach: give all "
                        "ranks --token-file FILE, and --listen ADDRESS of "
                        "their host");
  auto token = readToken(options.tokenFile);
  if (!token)
    return token.status();
  std::unique_ptr<HubThread> hub;
  int socket = -1;
  if (place.rank == 0) {
    auto listener = listenAt(options.listenAddress, place.port);
    if (!listener)
      return listener.status();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Status(Code::Resources, std::string("can't make a socket: ") +
                                         std::strerror(errno));
    socket = ends[0];
    hub = std::make_unique<HubThread>(options, module->view.module.program,
                                      place.size, *token, *listener, ends[1]);
  } else {
    auto connected = connectTo(place, options.initTimeout);
    if (!connected)
      return connected.status();
    socket = *connected;
  }
  double silence =
      options.collectiveTimeout > 0 ? options.collectiveTimeout + 2 : 0;
  RankLink link(socket, *token, "rank 0", silence);
  auto progress = std::make_unique<RankProgress>();
  uint32_t streams = module->view.module.program.streams;
  link.view = [&] { return readProgress(*progress, streams); };
  link.onStop = [&](const Status &reason) {
    std::fprintf(stderr, "error: rank %u: %s\n", place.rank,
                 reason.message().c_str());
    if (hub)
      hub->wait(1);
    endProcess(reason);
  };
  RankContext context;
  context.rank = place.rank;
  context.localRank = place.localRank;
  context.size = place.size;
  context.link = &link;
  context.progress = progress.get();
  Status error;
  int code = runRank(options, module, context, options.listenAddress, &error);
  std::fflush(stdout);
  if (hub)
    hub->wait(1);
  if (code == 0)
    return {};
  return Status(Code(code),
                "rank " + std::to_string(place.rank) + ": " + error.message(),
                error.op(), int(place.rank));
}
