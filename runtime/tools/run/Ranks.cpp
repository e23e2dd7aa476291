//===- Ranks.cpp - One rank of a job --------------------------------------===//
//
// A rank tells its hub how it ended and leaves the last word to it: which rank
// failed first is known there.
//
//===----------------------------------------------------------------------===//
#include "Ranks.h"
#include "Process.h"
#include "Runner.h"
#include "Text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace fusion::rt;

/// A rank that failed waits so long to be told to end.
static constexpr double kStopSeconds = 3;

bool fusion::rt::runsOnGpu(const RunOptions &options,
                           const LoadedModule &module) {
  return options.backend.empty()
             ? module.view.module.target.compare(0, 5, "cuda:") == 0
             : options.backend == "cuda";
}

Expected<int> fusion::rt::deviceOf(const RunOptions &options,
                                   uint32_t localRank) {
  if (options.devices.empty())
    return int(localRank);
  if (localRank < options.devices.size())
    return options.devices[localRank];
  return Status(Code::Usage,
                "--device names " + std::to_string(options.devices.size()) +
                    " GPUs, this host has a rank " + std::to_string(localRank) +
                    "; name one for each");
}

Expected<Identity> fusion::rt::makeIdentity(const RunOptions &options,
                                            const LoadedModule &module,
                                            const RankContext &context) {
  auto schedule = scheduleHash(module.view.module.program);
  if (!schedule)
    return schedule.status();
  std::string runs;
  for (bool flag : {options.nanCheck, !options.profilePath.empty(),
                    !options.turnsSocket.empty()})
    runs += flag ? "1" : "0";
  std::string device;
  if (runsOnGpu(options, module)) {
    auto number = deviceOf(options, context.localRank);
    auto name = number ? deviceName(*number) : number.status();
    if (!name)
      return name.status();
    device = *name;
  }
  return Identity{{"rank", std::to_string(context.rank)},
                  {"ranks", std::to_string(context.size)},
                  {"module", toHex(module.view.digest)},
                  {"schedule", toHex(*schedule)},
                  {"runtime", FUSION_VERSION},
                  {"build", buildId()},
                  // How often the program runs, and in which order.
                  {"runs", std::to_string(options.benchRuns) + " " +
                               std::to_string(options.repeats) + " " +
                               std::to_string(options.steps) + " " + runs},
                  {"device", device}};
}

Status RankContext::meet(const std::string &where, const std::string &what,
                         int64_t value) {
  std::string own = std::to_string(value);
  std::vector<char> bytes(own.begin(), own.end());
  if (rank != 0) {
    FUSION_RT_TRY(link->set(where + std::to_string(rank), bytes));
    return link->get(where).status();
  }
  for (uint32_t other = 1; other < size; ++other) {
    auto theirs = link->get(where + std::to_string(other));
    if (!theirs)
      return theirs.status();
    if (*theirs != bytes)
      return Status(Code::Usage,
                    what + " is " + own + " on rank 0 and " +
                        std::string(theirs->begin(), theirs->end()) +
                        " on rank " + std::to_string(other) +
                        "; give all ranks inputs of one");
  }
  return link->set(where, bytes);
}

Status RankContext::agreeOnLargest(double &value) {
  // All bits: a hexadecimal float.
  char text[40];
  std::string key = "largest" + std::to_string(agreements++);
  auto set = [&](const std::string &name) {
    int size = std::snprintf(text, sizeof(text), "%a", value);
    return link->set(name, {text, text + size});
  };
  auto get = [&](const std::string &name) -> Expected<double> {
    auto bytes = link->get(name);
    if (!bytes)
      return bytes.status();
    return std::strtod(std::string(bytes->begin(), bytes->end()).c_str(),
                       nullptr);
  };
  if (rank != 0) {
    FUSION_RT_TRY(set(key + "." + std::to_string(rank)));
    auto largest = get(key);
    value = largest ? *largest : value;
    return largest.status();
  }
  for (uint32_t other = 1; other < size; ++other) {
    auto theirs = get(key + "." + std::to_string(other));
    if (!theirs)
      return theirs.status();
    value = std::max(value, *theirs);
  }
  return set(key);
}

void fusion::rt::endProcess(const Status &reason) {
  removeTemporaryFile();
  _exit(int(reason.code()));
}

static Status joinAndRun(const RunOptions &options,
                         const std::shared_ptr<LoadedModule> &module,
                         RankContext &context, const std::string &address,
                         Identity &identity) {
  context.link->waiting = &context.progress->waiting;
  context.progress->isWatched = options.collectiveTimeout > 0;
  injectIdentity(options.faults, context.rank, identity);
  injectAt(Stage::Start, options.faults, context.rank, context.link);
  // The hub knows which ranks are missing: it speaks first.
  FUSION_RT_TRY(
      context.link->join(identity, options.initTimeout + kStopSeconds));
  context.progress->setPhase(RankProgress::Loading);
  if (runsOnGpu(options, *module)) {
    context.deviceCommunicator = makeDeviceCommunicator(
        context.rank, context.size,
        std::shared_ptr<Rendezvous>(context.link, [](Rendezvous *) {}));
    context.deviceCommunicator =
        injectFaults(options.faults, context.deviceCommunicator, context.link);
  } else if (!groupsOf(module->view.module.program, context.rank).empty()) {
    auto transports = openTransports(address);
    if (!transports)
      return transports.status();
    // The hub's watch ends a wait; this is for a job that has none.
    double limit = options.collectiveTimeout > 0
                       ? 2 * options.collectiveTimeout + 10
                       : 1e6;
    context.communicator = makeHostCommunicator(
        context.rank, context.size, *transports,
        std::shared_ptr<Rendezvous>(context.link, [](Rendezvous *) {}), limit);
  } else {
    context.communicator = makeNullCommunicator(context.rank, context.size);
  }
  if (context.communicator)
    context.communicator =
        injectFaults(options.faults, context.communicator, context.link);
  injectAt(Stage::Load, options.faults, context.rank, context.link);
  return runLoaded(options, module, &context);
}

int fusion::rt::runRank(const RunOptions &options,
                        const std::shared_ptr<LoadedModule> &module,
                        RankContext &context, const std::string &address,
                        Status *error) {
  auto identity = makeIdentity(options, *module, context);
  if (!identity) {
    // The hub hears only of who has joined: a launcher reads this.
    if (error)
      *error = identity.status();
    else
      std::fprintf(stderr, "error: %s\n", identity.status().message().c_str());
    return int(identity.status().code());
  }
  Status status = joinAndRun(options, module, context, address, *identity), end;
  if (status.ok() || status.code() == Code::CheckFailed) {
    context.progress->setPhase(RankProgress::Ending);
    injectAt(Stage::End, options.faults, context.rank, context.link);
    end = context.link->done(status);
    if (!end.ok())
      status = end;
  } else {
    end = context.link->fail(status, kStopSeconds);
  }
  if (error)
    *error = status;
  return int(status.code());
}
