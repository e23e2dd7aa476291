//===- Launcher.cpp - Ranks as processes of this host ---------------------===//
//
// The parent holds no thread and runs nothing of the module: it watches. Three
// things tell it of a rank: its process, its control socket, and words in
// memory that they share. The first cause that it sees is the job's error.
//
//===----------------------------------------------------------------------===//
#include "Launcher.h"
#include "FaultReport.h"
#include "Hub.h"
#include "Interrupt.h"
#include "Observers.h"
#include "Ranks.h"
#include "Text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

using namespace fusion::rt;

/// Between the order to end and SIGKILL.
static constexpr double kGraceSeconds = 3;
/// An error that another rank's end may explain waits so long for it.
static constexpr double kCauseSeconds = 0.3;
/// A process that has run all takes so long to end: a driver may have much to
/// give back, after the sockets are closed.
static constexpr double kExitSeconds = 60;
static constexpr int kTickMilliseconds = 50;

namespace {

struct Child {
  pid_t pid = -1;
  int handle = -1; ///< pidfd, or -1
  int out = -1, err = -1, trace = -1;
  bool ended = false;
  int status = 0;
  double closedAt = 0;
};

class Launcher {
public:
  Launcher(const RunOptions &options,
           const std::shared_ptr<LoadedModule> &module)
      : options(options), module(module), program(module->view.module.program),
        hub(options.ranks, ""), watch(program, options.collectiveTimeout),
        children(options.ranks) {}
  ~Launcher();

  Status run();

private:
  Status start();
  [[noreturn]] void runChild(uint32_t rank, int socket);
  Status supervise();
  Status findCause();
  Status endOf(uint32_t rank);
  void reap();
  void stopAll(const Status &reason);
  void printResults();
  std::vector<RankView> views();
  std::string errors() const;
  Status writeTrace();

  const RunOptions &options;
  std::shared_ptr<LoadedModule> module;
  const Program &program;
  Hub hub;
  Watch watch;
  std::vector<Child> children;
  RankProgress *progress = nullptr;
  double started = 0;
  bool finishing = false;
  std::string warnings; ///< printed at the end: an error comes first
};

} // namespace

/// What a rank printed, from its own file in memory.
static std::string readAll(int file) {
  std::string text;
  char buffer[16384];
  ssize_t count;
  while ((count = pread(file, buffer, sizeof(buffer), off_t(text.size()))) > 0)
    text.append(buffer, size_t(count));
  return text;
}

/// Whether a process stands still by a signal: it will not hear of anything.
static bool isStopped(pid_t pid) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  std::string text = readAll(file);
  close(file);
  size_t name = text.rfind(')');
  return name != std::string::npos && text.size() > name + 2 &&
         (text[name + 2] == 'T' || text[name + 2] == 't');
}

Launcher::~Launcher() {
  for (Child &child : children) {
    if (child.pid > 0 && !child.ended) {
      kill(-child.pid, SIGKILL);
      kill(child.pid, SIGKILL);
      while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR)
        ;
    }
    for (int file : {child.handle, child.out, child.err, child.trace})
      if (file >= 0)
        close(file);
  }
  if (progress)
    munmap(progress, sizeof(RankProgress) * children.size());
}

void Launcher::runChild(uint32_t rank, int socket) {
  // The terminal's signals go to the parent, which ends the ranks in order.
  setpgid(0, 0);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    std::signal(signal, SIG_DFL);
  int code = int(Code::Internal);
  try {
    const Child &own = children[rank];
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(own.out, 1) < 0 ||
        dup2(own.err, 2) < 0)
      _exit(int(Code::Resources));
    RankLink link(socket, "", "the launcher", 0);
    link.onStop = [&](const Status &reason) {
      while (isDeaf(options.faults, rank))
        pause();
      endProcess(reason);
    };
    RankContext context;
    context.rank = context.localRank = rank;
    context.size = options.ranks;
    context.link = &link;
    context.progress = &progress[rank];
    context.traceFile = own.trace;
    context.traceOrigin = started * 1e6;
    RunOptions own_options = options;
    if (own_options.threads == 0)
      own_options.threads =
          std::max(1, int(std::thread::hardware_concurrency() / options.ranks));
    code = runRank(own_options, module, context, "127.0.0.1");
    std::fflush(stdout);
    injectAt(Stage::Exit, options.faults, rank, &link);
    _exit(code);
    // The parent reads this.
  } catch (const std::bad_alloc &) {
    code = int(Code::Resources);
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::system_error &error) {
    code = int(Code::Resources);
    std::fprintf(stderr,
                 "error: can't start a thread: %s; raise the process's "
                 "limits or run fewer ranks\n",
                 error.what());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  std::fflush(stderr);
  _exit(code);
}

Status Launcher::start() {
  started = monotonicSeconds();
  void *memory =
      mmap(nullptr, sizeof(RankProgress) * children.size(),
           PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Status(Code::Resources, "out of memory for the ranks' progress");
  progress = static_cast<RankProgress *>(memory);
  for (size_t i = 0; i < children.size(); ++i)
    new (&progress[i]) RankProgress;
  // Some descriptors a rank: as many as we may have.
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  auto failed = [](const char *what, size_t rank) {
    bool isLimit = errno == EMFILE || errno == ENFILE || errno == EAGAIN ||
                   errno == ENOMEM || errno == ENOSPC;
    return Status(isLimit ? Code::Resources : Code::Environment,
                  std::string("can't make ") + what + " of rank " +
                      std::to_string(rank) + ": " + std::strerror(errno) +
                      "; raise the process's limits or run fewer ranks");
  };
  std::fflush(nullptr);
  pid_t parent = getpid();
  std::vector<int> ours;
  for (uint32_t rank = 0; rank < children.size(); ++rank) {
    Child &child = children[rank];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return failed("the control socket", rank);
    child.out = memfd_create("stdout", MFD_CLOEXEC);
    child.err = memfd_create("stderr", MFD_CLOEXEC);
    if (!options.profilePath.empty())
      child.trace = memfd_create("trace", MFD_CLOEXEC);
    if (child.out < 0 || child.err < 0 ||
        (child.trace < 0 && !options.profilePath.empty())) {
      Status status = failed("the files", rank);
      close(ends[0]);
      close(ends[1]);
      return status;
    }
    child.pid = fork();
    if (child.pid < 0) {
      Status status = failed("the process", rank);
      close(ends[0]);
      close(ends[1]);
      return status;
    }
    if (child.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent)
        _exit(int(Code::PeerFailed));
      // Without these a rank would see the end of the parent.
      for (int file : ours)
        close(file);
      close(ends[0]);
      runChild(rank, ends[1]);
    }
    setpgid(child.pid, child.pid);
    close(ends[1]);
    ours.push_back(ends[0]);
    hub.add(ends[0], int(rank));
    child.handle = int(syscall(SYS_pidfd_open, child.pid, 0));
  }
  return {};
}

void Launcher::reap() {
  for (Child &child : children)
    if (child.pid > 0 && !child.ended &&
        waitpid(child.pid, &child.status, WNOHANG) == child.pid)
      child.ended = true;
}

std::vector<RankView> Launcher::views() {
  std::vector<RankView> list;
  for (size_t i = 0; i < children.size(); ++i)
    list.push_back(readProgress(progress[i], program.streams));
  for (size_t i = 0; i < children.size(); ++i) {
    if (hub.ranks[i].done)
      list[i].phase = RankProgress::Done;
    bool isLate = list[i].phase < RankProgress::Ready &&
                  monotonicSeconds() - started > options.initTimeout;
    list[i].stopped =
        (watch.isNearLimit() || isLate) && isStopped(children[i].pid);
  }
  return list;
}

/// What a rank printed as errors, on lines that say whose they are.
std::string Launcher::errors() const {
  std::string all, first;
  bool same = true;
  for (size_t i = 0; i < children.size(); ++i) {
    std::string text = readAll(children[i].err);
    if (text.size() > 16384)
      text = text.substr(0, 8192) + "\n...\n" + text.substr(text.size() - 8192);
    if (i == 0)
      first = text;
    same &= text == first;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      all +=
          "rank " + std::to_string(i) + ": " + text.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  return same && children.size() > 1 ? first : all;
}

/// Why a rank that is no more has ended, or ok if it may have.
Status Launcher::endOf(uint32_t rank) {
  const Child &child = children[rank];
  std::string name = "rank " + std::to_string(rank),
              where =
                  watch.where(readProgress(progress[rank], program.streams));
  if (WIFSIGNALED(child.status)) {
    int signal = WTERMSIG(child.status);
    return Status(Code::PeerFailed,
                  name + " was killed by signal " + std::to_string(signal) +
                      " (" + strsignal(signal) + "); it " + where,
                  {}, int(rank));
  }
  int code = WEXITSTATUS(child.status);
  if (hub.ranks[rank].done && finishing)
    return {};
  // It may have said why: the watchdog of a run, a module that was cut.
  std::string said = "\n" + readAll(child.err);
  const std::string mark = "\nerror: ";
  size_t at = said.find(mark);
  if (code > 1 && code <= int(Code::Internal) && at != std::string::npos) {
    at += mark.size();
    return Status(Code(code),
                  name + ": " + said.substr(at, said.find('\n', at) - at), {},
                  int(rank));
  }
  if (code == int(Code::PeerFailed))
    return Status(Code::PeerFailed,
                  name + " ended because its control socket broke; it " + where,
                  {}, int(rank));
  return Status(Code::PeerFailed,
                name + " ended with exit code " + std::to_string(code) +
                    " before the others; it " + where,
                {}, int(rank));
}

/// The first thing that ends the job, or ok.
Status Launcher::findCause() {
  double now = monotonicSeconds();
  // First: a rank that is told so ends, and may have by now.
  FUSION_RT_TRY(hub.rejection());
  for (uint32_t rank = 0; rank < children.size(); ++rank)
    if (children[rank].ended && hub.ranks[rank].error.ok())
      FUSION_RT_TRY(endOf(rank));
  for (uint32_t rank = 0; rank < children.size(); ++rank) {
    const Hub::Rank &each = hub.ranks[rank];
    Child &child = children[rank];
    if (!each.closed || child.ended || !each.error.ok())
      continue;
    // Its process may be about to end, which says more.
    if (child.closedAt == 0)
      child.closedAt = now;
    bool isDone = each.done && finishing;
    if (isDone && now - child.closedAt > kExitSeconds)
      return Status(Code::Timeout,
                    "rank " + std::to_string(rank) +
                        " has run its program and its process does not end",
                    {}, int(rank));
    if (!isDone && now - child.closedAt > kCauseSeconds)
      return Status(Code::PeerFailed,
                    "rank " + std::to_string(rank) +
                        " closed its control socket",
                    {}, int(rank));
  }
  FUSION_RT_TRY(hub.firstError(now, kCauseSeconds));
  std::vector<RankView> all = views();
  int late = Watch::lateStarter(all);
  if (late >= 0 && now - started > options.initTimeout)
    return hub.allJoined() ? Status(Code::Timeout,
                                    "rank " + std::to_string(late) +
                                        " did not prepare its run in time "
                                        "(--init-timeout)",
                                    {}, late)
                           : hub.missingError();
  Status stuck = watch.look(all, now);
  if (watch.isSlow())
    warnings += "fusion-run: warning: no rank moved for half of "
                "--collective-timeout:\n" +
                watch.table(all);
  return stuck;
}

void Launcher::stopAll(const Status &reason) {
  hub.stop(reason);
  double end = monotonicSeconds() + kGraceSeconds;
  while (monotonicSeconds() < end) {
    reap();
    if (std::all_of(children.begin(), children.end(), [](const Child &child) {
          return child.ended || child.pid <= 0;
        }))
      return;
    std::vector<pollfd> list;
    hub.fillPoll(list);
    poll(list.data(), nfds_t(list.size()), 10);
    hub.handle(list);
    for (const Child &child : children)
      if (child.pid > 0 && !child.ended && isStopped(child.pid))
        kill(child.pid, SIGKILL);
  }
  for (Child &child : children)
    if (child.pid > 0 && !child.ended) {
      kill(-child.pid, SIGKILL);
      kill(child.pid, SIGKILL);
      while (waitpid(child.pid, &child.status, 0) < 0 && errno == EINTR)
        ;
      child.ended = true;
    }
}

Status Launcher::supervise() {
  while (true) {
    std::vector<pollfd> list;
    hub.fillPoll(list);
    for (const Child &child : children)
      if (child.handle >= 0 && !child.ended)
        list.push_back({child.handle, POLLIN, 0});
    poll(list.data(), nfds_t(list.size()), kTickMilliseconds);
    hub.handle(list);
    reap();
    if (interruptSignal()) {
      Status status(Code::Internal, "interrupted");
      stopAll(status);
      return status;
    }
    if (!finishing && hub.allDone()) {
      finishing = true;
      hub.finish();
    }
    if (finishing &&
        std::all_of(children.begin(), children.end(),
                    [](const Child &child) { return child.ended; }))
      return {};
    Status cause = findCause();
    if (cause.ok())
      continue;
    std::string report;
    if (!options.faultReportPath.empty())
      report = faultReport(program, cause, progress, children.size(),
                           uint64_t(monotonicSeconds() * 1e9));
    std::string table =
        cause.code() == Code::PeerFailed || cause.code() == Code::Timeout
            ? watch.table(views())
            : "";
    stopAll(
        Status(cause.code() == Code::Timeout ? Code::Timeout : Code::PeerFailed,
               "stopped because " + cause.message()));
    std::string more = table + warnings + errors();
    if (!report.empty())
      if (Status written = writeFileAtomically(options.faultReportPath,
                                               report.data(), report.size());
          !written.ok())
        more += "no fault report: " + written.message();
    while (!more.empty() && more.back() == '\n')
      more.pop_back();
    return Status(cause.code(),
                  cause.message() + (more.empty() ? "" : "\n" + more),
                  cause.op(), cause.rank());
  }
}

Status Launcher::writeTrace() {
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  bool any = false;
  for (const Child &child : children) {
    std::string events = readAll(child.trace);
    if (events.empty())
      continue;
    text += (any ? ",\n" : "\n") + events;
    any = true;
  }
  text += "\n]}\n";
  return writeFileAtomically(options.profilePath, text.data(), text.size());
}

void Launcher::printResults() {
  std::fputs((warnings + errors()).c_str(), stderr);
  if (!options.json) {
    for (size_t i = 0; i < children.size(); ++i) {
      std::string text = readAll(children[i].out);
      for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        std::printf("rank %zu: %s\n", i, text.substr(at, end - at).c_str());
        at = end + 1;
      }
    }
    return;
  }
  std::string list;
  double slowest = 0, slowestDevice = 0;
  auto numberOf = [](const std::string &text, const std::string &key) {
    size_t at = text.find(key);
    return at == std::string::npos ? 0.0 : std::atof(&text[at + key.size()]);
  };
  for (size_t i = 0; i < children.size(); ++i) {
    std::string text = readAll(children[i].out);
    while (!text.empty() && text.back() == '\n')
      text.pop_back();
    slowest = std::max(slowest, numberOf(text, "\"median_us\": "));
    slowestDevice =
        std::max(slowestDevice, numberOf(text, "\"device_median_us\": "));
    list += (i ? ",\n  " : "\n  ") + (text.empty() ? "null" : text);
  }
  std::printf("{\"ranks\": %zu, \"slowest_median_us\": %.3f, "
              "\"slowest_device_us\": %.3f, \"per_rank\": [%s\n]}\n",
              children.size(), slowest, slowestDevice, list.c_str());
}

Status Launcher::run() {
  FUSION_RT_TRY(start());
  FUSION_RT_TRY(supervise());
  if (!options.profilePath.empty())
    FUSION_RT_TRY(writeTrace());
  printResults();
  for (uint32_t rank = 0; rank < hub.ranks.size(); ++rank) {
    const Status &result = hub.ranks[rank].result;
    if (!result.ok())
      return Status(result.code(),
                    "rank " + std::to_string(rank) + ": " + result.message(),
                    result.op(), int(rank));
  }
  return {};
}

Status fusion::rt::launchRanks(const RunOptions &options,
                               const std::shared_ptr<LoadedModule> &module) {
  return Launcher(options, module).run();
}
