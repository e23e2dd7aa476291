//===- ToolProcess.cpp - How a tool's process ends ------------------------===//
//
// See ToolProcess.h. LLVM installs handlers of its own for these signals, which
// know neither our exit codes nor nohup nor threads; ours replace them.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/ToolProcess.h"

#include "fusion/Codegen/ChildProcess.h"

#include "Process.h"
#include "Status.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

using namespace fusion;

/// What the thread does, and what belongs to any crash; for signal handlers.
static thread_local char activity[256];
static char crashNote[512];
static thread_local void (*fatalErrorHook)(const char *) = nullptr;

template <size_t N> static void copyText(llvm::StringRef from, char (&to)[N]) {
  from = from.take_front(N - 1);
  std::memcpy(to, from.data(), from.size());
  to[from.size()] = 0;
}

void fusion::setActivity(llvm::StringRef clause) { copyText(clause, activity); }

void fusion::setCrashNote(llvm::StringRef note) { copyText(note, crashNote); }

void fusion::setFatalErrorHook(void (*hook)(const char *reason)) {
  fatalErrorHook = hook;
}

static constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

/// Only async-signal-safe calls.
static void stop(int signal) {
  killChildren();
  rt::removeTemporaryFile();
  char message[] = "error: interrupted by signal ?\n\n";
  size_t size = sizeof(message) - 2;
  if (signal >= 10) {
    message[size - 2] = char('0' + signal / 10);
    message[size - 1] = char('0' + signal % 10);
    ++size;
  } else {
    message[size - 2] = char('0' + signal);
  }
  ssize_t written = write(2, message, size);
  (void)written;
  _exit(128 + signal);
}

/// Memory or threads can't be had: nothing here asks for more.
static void endWithoutMemory(void *, const char *, bool) {
  killChildren();
  rt::removeTemporaryFile();
  static const char message[] =
      "error: out of memory or threads, in this process, free some, raise its "
      "limits or compile a smaller model\n";
  ssize_t written = write(2, message, sizeof(message) - 1);
  (void)written;
  _exit(int(rt::Code::Resources));
}

/// LLVM can't go on. Threads that the system refuses are a limit like memory;
/// anything else returns, and ends as a crash does.
static void reportFatal(void *, const char *reason, bool) {
  if (llvm::StringRef(reason).contains("pthread_create"))
    endWithoutMemory(nullptr, nullptr, false);
  // A stream that ends with what it could not print, as behind --help.
  llvm::StringRef lost(reason);
  if (lost.consume_front("IO failure on output stream: ")) {
    llvm::errs() << "error: cannot write to standard output: " << lost
                 << ", free space or choose another place\n";
    _exit(int(rt::Code::Resources));
  }
  if (fatalErrorHook)
    fatalErrorHook(reason);
  llvm::errs() << "error: internal error: " << reason << "\n";
}

/// Whether the process has nearly all the address space it may have: its stack
/// could not grow. Only async-signal-safe calls.
static bool isAddressSpaceFull() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return false;
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[32] = {};
  ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (file >= 0)
    close(file);
  rlim_t pages = 0;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i)
    pages = pages * 10 + rlim_t(text[i] - '0');
  constexpr rlim_t kMargin = rlim_t(1) << 20;
  return pages * rlim_t(sysconf(_SC_PAGESIZE)) + kMargin > limit.rlim_cur;
}

/// For a handler of signals.
static void print(const char *text) {
  ssize_t written = write(2, text, strlen(text));
  (void)written;
}

/// Runs before LLVM prints its stack dump.
static void announceCrash(void *) {
  static std::atomic<bool> isAnnounced{false};
  if (isAnnounced.exchange(true))
    return;
  killChildren();
  if (isAddressSpaceFull())
    endWithoutMemory(nullptr, nullptr, false);
  rt::removeTemporaryFile();
  print("error: internal error: the compiler crashed");
  if (activity[0] != 0) {
    print(" while ");
    print(activity);
  }
  if (crashNote[0] != 0) {
    print(", ");
    print(crashNote);
  }
  print(strstr(activity, "plugin")
            ? ", in the place below, see the plugin's code\n"
            : ", in the place below, report it with the model\n");
}

static void endCrashed(void *) { _exit(int(rt::Code::Internal)); }

static constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE,
                                        SIGABRT, SIGTRAP, SIGSYS};

/// Where the thread was that crashed first.
static void *frames[64];
static std::atomic<int> frameCount{0};

/// Ends a report that does not. LLVM sets and stops the process's alarm while
/// it reports, so this is a timer of its own, made before it may be needed:
/// timer_settime may be called from a handler, timer_create may not.
static timer_t reportTimer;
static bool hasReportTimer = false;

static void limitReport(int seconds) {
  struct itimerspec limit = {};
  limit.it_value.tv_sec = seconds;
  if (!hasReportTimer || timer_settime(reportTimer, 0, &limit, nullptr) != 0)
    alarm(unsigned(seconds));
}

/// The report can't go on: the place is printed without a call of malloc.
static void endStuckReport(int) {
  int count = frameCount.exchange(0);
  if (count == 0)
    endCrashed(nullptr); // not known, or this is stuck too
  limitReport(1);
  print("Stack, without names of functions that are not exported:\n");
  backtrace_symbols_fd(frames, count, 2);
  endCrashed(nullptr);
}

/// LLVM's own handler takes itself away first, so that a second thread, which
/// often crashes in the same way, would end the process by its signal.
static void crash(int) {
  static std::atomic<pthread_t> first{};
  pthread_t none{}, self = pthread_self();
  if (!first.compare_exchange_strong(none, self)) {
    if (none == self)
      endStuckReport(0); // it crashed as well
    while (true)
      pause();
  }
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_NODEFER;
  action.sa_handler = endStuckReport;
  sigaction(SIGALRM, &action, nullptr);
  limitReport(1);
  llvm::sys::RunInterruptHandlers(); // removes files that LLVM was writing
  announceCrash(nullptr);
  frameCount = backtrace(frames, int(std::size(frames)));
  // LLVM's report needs memory. A thread that crashed in malloc keeps its lock,
  // which a block too large for the thread's own store asks for.
  static void *volatile block;
  block = std::malloc(4096);
  std::free(block);
  limitReport(20);
  llvm::sys::RunSignalHandlers();
  endCrashed(nullptr);
}

ToolProcess::Ignored::Ignored() {
  rt::openStandardDescriptors();
  for (size_t i = 0; i < std::size(kStopSignals); ++i) {
    struct sigaction action;
    flags[i] = sigaction(kStopSignals[i], nullptr, &action) == 0 &&
               action.sa_handler == SIG_IGN;
  }
  llvm::sys::AddSignalHandler(announceCrash, nullptr);
}

void fusion::setToolVersion(llvm::StringRef program) {
  llvm::cl::SetVersionPrinter(
      [tool = llvm::sys::path::filename(program).str()](llvm::raw_ostream &os) {
        os << tool << " " FUSION_VERSION "\n";
      });
}

ToolProcess::ToolProcess(int &argc, char **&argv)
    : init(argc, argv, /*InstallPipeSignalExitHandler=*/false) {
  setToolVersion(argv[0]);
  llvm::sys::AddSignalHandler(endCrashed, nullptr);
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  hasReportTimer = timer_create(CLOCK_MONOTONIC, &event, &reportTimer) == 0;
  void *place;
  backtrace(&place, 1); // its first call loads a library
  for (int signal : kCrashSignals) {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    action.sa_handler = crash;
    sigaction(signal, &action, nullptr);
  }
  llvm::install_fatal_error_handler(reportFatal);
  llvm::install_bad_alloc_error_handler(endWithoutMemory);
  // A full disk or a size limit is an error to report, not a signal to die by.
  std::signal(SIGXFSZ, SIG_IGN);
  // Whoever started us may ignore the ends of children; we wait for ours.
  std::signal(SIGCHLD, SIG_DFL);
  for (size_t i = 0; i < std::size(kStopSignals); ++i) {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_handler = ignored.flags[i] ? SIG_IGN : stop;
    sigaction(kStopSignals[i], &action, nullptr);
  }
}

ToolProcess::~ToolProcess() {
  // What could not be printed is told by the exit code; LLVM would abort.
  llvm::outs().flush();
  llvm::outs().clear_error();
  llvm::errs().clear_error();
}

int ToolProcess::finish() {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  std::error_code error = out.error();
  if (!error)
    return int(rt::Code::Ok);
  out.clear_error(); // or LLVM ends the process in its own way
  if (error == std::errc::broken_pipe)
    return 128 + SIGPIPE; // where the signal is ignored
  llvm::errs() << "error: cannot write to standard output: " << error.message()
               << ", free space or choose another place\n";
  return int(rt::Code::Resources);
}
