//===- fusion-run.cpp - Runs an executable module -------------------------===//
//
// The command-line tool over the runtime; `fusion-run --help` is its manual.
// Everything that does something is in tools/run/.
//
//===----------------------------------------------------------------------===//
#include "FindFault.h"
#include "Interrupt.h"
#include "ModuleFile.h"
#include "Options.h"
#include "Runner.h"
#include "Text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <sys/auxv.h>
#include <unistd.h>

using namespace fusion::rt;

static int report(const Status &status) {
  if (int signal = interruptSignal()) {
    std::fprintf(stderr, "error: interrupted by signal %d\n", signal);
    return 128 + signal;
  }
  if (!status.ok())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}

/// Flushes stdout. A reader that went away ends the tool as SIGPIPE would.
static int finish(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
    return code;
  if (code != 0)
    return code;
  if (errno == EPIPE)
    return 128 + SIGPIPE;
  std::fprintf(stderr, "error: can't write to standard output: %s\n",
               std::strerror(errno));
  return int(Code::Resources);
}

static int run(int argc, char **argv) {
  auto options = parseOptions(argc, argv);
  if (!options)
    return report(options.status());
  if (options->help) {
    std::fputs(helpText(), stdout);
    return 0;
  }
  if (options->version) {
    std::printf("fusion-run " FUSION_VERSION " (build %s)\n", buildId());
    return 0;
  }
  Status status = runModule(*options);
  // A lost GPU; of a lost rank its job has said all.
  if (status.code() == Code::PeerFailed && status.op().empty() &&
      status.rank() < 0 && options->ranks == 0 && !options->findFault)
    status = findFault(argc, argv, status);
  return report(status);
}

int main(int argc, char **argv) {
  installSignalHandling();
  // A set-user-ID copy would run other people's code with our rights.
  if (getauxval(AT_SECURE)) {
    std::fputs("error: fusion-run refuses to run with raised privileges\n",
               stderr);
    return int(Code::Environment);
  }
  try {
    int code = finish(run(argc, argv));
    // The driver's exit would wait for a GPU that does not answer.
    if (code == int(Code::PeerFailed) || code == int(Code::Timeout) ||
        code >= 128)
      _exit(code);
    return code;
  } catch (const std::bad_alloc &) {
    std::fputs("error: out of memory\n", stderr);
    return int(Code::Resources);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: internal: %s\n", error.what());
    return int(Code::Internal);
  }
}
