//===- PeerCheck.cpp - Checks and measures peer collectives ---------------===//
//
// For a machine with several GPUs: forks a process a rank and runs
//   conform  the suite of all communicators, for what `peer` does
//   raw      copies between GPUs without collectives
//   rates    microseconds and GB/s of each collective by size
//   overlap  matmuls with and without eight buckets that are swapped
//   stress   replays of one graph with collectives of three groups under way
//            beside kernels, whose data travels on from replay to replay
// and writes what it measured as JSON. Ends with 1 if anything is wrong.
//
//===----------------------------------------------------------------------===//
#include "PeerCheck.h"
#include "CollectiveSuite.h"
#include "Frames.h"
#include "RankTesting.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

static constexpr double kPatience = 20; ///< seconds for a graph

const std::vector<PeerMode> &test::peerModes() {
  static const std::vector<PeerMode> modes = {{"value+write", {false, false}},
                                              {"value+copy", {false, true}},
                                              {"spin+write", {true, false}},
                                              {"spin+copy", {true, true}}};
  return modes;
}

double CheckRank::largest(double value) {
  std::string key = "check." + std::to_string(steps++) + ".";
  std::string text = std::to_string(value);
  mustBe(
      rendezvous->set(key + std::to_string(rank), {text.begin(), text.end()}),
      "rendezvous");
  double result = value;
  for (uint32_t other = 0; other < size; ++other) {
    auto theirs = rendezvous->get(key + std::to_string(other));
    mustBe(theirs.status(), "rendezvous");
    result = std::max(
        result, std::atof(std::string(theirs->begin(), theirs->end()).c_str()));
  }
  return result;
}

double Timer::run(CUgraphExec graph) {
  const DeviceRank &device = self.device;
  self.barrier();
  device.check(device.driver.eventRecord(begin, stream), "cuEventRecord");
  device.check(device.driver.graphLaunch(graph, stream), "cuGraphLaunch");
  device.check(device.driver.eventRecord(end, stream), "cuEventRecord");
  float millis = 0;
  bool isDone = device.wait(stream, kPatience);
  if (isDone)
    device.check(device.driver.eventElapsedTime(&millis, begin, end),
                 "cuEventElapsedTime");
  double hung = self.largest(isDone ? 0 : 1);
  return hung > 0 ? -1 : self.largest(double(millis) * 1000);
}

double test::median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void test::giveUp(const CheckRank &self, const std::string &why) {
  std::printf("FAIL rank %u: %s\n", self.rank, why.c_str());
  std::fflush(stdout);
  _exit(int(Code::Timeout));
}

namespace {

/// Every connection of a job needs keys of its own.
class Prefixed final : public Rendezvous {
public:
  Prefixed(std::shared_ptr<Rendezvous> inner, std::string prefix)
      : inner(std::move(inner)), prefix(std::move(prefix)) {}
  Status set(const std::string &key, const std::vector<char> &value) override {
    return inner->set(prefix + key, value);
  }
  Expected<std::vector<char>> get(const std::string &key) override {
    return inner->get(prefix + key);
  }

private:
  std::shared_ptr<Rendezvous> inner;
  std::string prefix;
};

/// Carries a rank to a body that wants no communicator.
class Carrier final : public Communicator {
public:
  Carrier(uint32_t rank, uint32_t size, std::shared_ptr<Rendezvous> rendezvous)
      : ownRank(rank), ranks(size), rendezvous(std::move(rendezvous)) {}
  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const std::vector<Group> &) override { return {}; }
  Status run(const CollectiveRun &) override { return {}; }
  Counts counts() const override { return {}; }

  uint32_t ownRank, ranks;
  std::shared_ptr<Rendezvous> rendezvous;
};

struct Options {
  uint32_t ranks = 2;
  int replays = 10000;
  std::string sections = "conform,raw,rates,overlap,stress", json, mode;
  bool has(const char *section) const {
    return ("," + sections + ",").find(std::string(",") + section + ",") !=
           std::string::npos;
  }
};

} // namespace

std::unique_ptr<DeviceCommunicator>
CheckRank::connect(const PeerOptions &options, uint32_t streams) {
  program = Program();
  program.mesh.name = "m";
  program.mesh.axes = {{"a", size}};
  for (uint32_t stream = 0; stream < streams; ++stream) {
    Command command;
    command.kind = CommandKind::Collective;
    command.stream = stream;
    command.collective.op = CollectiveOp::AllReduce; // needs no staging
    command.collective.axes = {0};
    program.commands.push_back(std::move(command));
  }
  DeviceSetup setup;
  setup.driver = &device.driver;
  setup.context = device.context;
  setup.device = device.device;
  setup.program = &program;
  setup.groups = groupsOf(program, rank);
  setup.arena = device.arena;
  setup.arenaSize = device.arenaSize;
  setup.batch = 1;
  auto communicator = makePeerCommunicator(
      rank, size,
      std::make_shared<Prefixed>(rendezvous, std::to_string(steps++) + "/"),
      options);
  mustBe(communicator->connect(setup), "connect");
  return communicator;
}

static bool report(const char *what, const std::vector<std::string> &texts) {
  bool isFine = true;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) {
      std::printf("FAIL %s: rank %zu: %s\n", what, rank, texts[rank].c_str());
      isFine = false;
    }
  if (isFine)
    std::printf("ok   %s\n", what);
  std::fflush(stdout);
  return isFine;
}

static bool conform(const Options &options, const PeerMode &mode,
                    bool isOutside, bool isCaptured) {
  Program program = meshProgram({options.ranks}, {{0}});
  auto make = [&](uint32_t rank, uint32_t size,
                  std::shared_ptr<Rendezvous> rendezvous) {
    return std::make_unique<DeviceRunner>(
        rank, size, std::move(rendezvous),
        DeviceRunner::Options{isOutside, isCaptured, mode.options});
  };
  auto texts = onRanks(program, make, [&](Communicator &communicator) {
    std::vector<Group> groups = groupsOf(program, communicator.rank());
    uint64_t command = 0;
    for (DType dtype : kSomeTypes)
      for (int64_t size : {0, 1, 1009})
        if (std::string text =
                tryAll(communicator, groups[0], 0, dtype, size, command, false);
            !text.empty())
          return text;
    return std::string();
  });
  return report((std::string("conform ") + mode.name +
                 (isOutside ? ", outputs outside" : "") +
                 (isCaptured ? ", captured" : ""))
                    .c_str(),
                texts);
}

/// Runs `body` on all ranks; rank 0's rows go into `rows`.
static bool
onDevices(const Options &options, const std::string &what, uint64_t arena,
          const std::function<std::string(CheckRank &, Rows &)> &body,
          Rows &rows) {
  std::string scratch = "/tmp/peer-check." + std::to_string(getpid());
  Program program = meshProgram({options.ranks}, {{0}});
  auto make = [](uint32_t rank, uint32_t size,
                 std::shared_ptr<Rendezvous> rendezvous) {
    return std::make_unique<Carrier>(rank, size, std::move(rendezvous));
  };
  auto texts = onRanks(
      program, make,
      [&](Communicator &communicator) {
        auto &carrier = static_cast<Carrier &>(communicator);
        Rows found;
        std::string text;
        {
          CheckRank self(carrier.ownRank, carrier.ranks, carrier.rendezvous,
                         arena);
          text = body(self, found);
          self.barrier();
        }
        if (carrier.ownRank == 0) {
          std::ofstream file(scratch);
          for (const std::string &row : found)
            file << row << "\n";
        }
        return text;
      },
      300);
  std::ifstream file(scratch);
  for (std::string line; std::getline(file, line);) {
    std::printf("%s\n", line.c_str());
    rows.push_back(line);
  }
  std::remove(scratch.c_str());
  return report(what.c_str(), texts);
}

int main(int argc, char **argv) {
  // Before any process asks for its device: a queue for each stream.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string key = argv[i], value = argv[i + 1];
    if (key == "--ranks")
      options.ranks = uint32_t(std::atoi(value.c_str()));
    else if (key == "--replays")
      options.replays = std::atoi(value.c_str());
    else if (key == "--sections")
      options.sections = value;
    else if (key == "--json")
      options.json = value;
    else if (key == "--mode")
      options.mode = value;
    else {
      std::fprintf(stderr, "error: unknown option %s\n", key.c_str());
      return 2;
    }
  }
  bool isFine = true;
  Rows rows;
  auto forModes = [&](const char *section,
                      const std::function<void(const PeerMode &)> &body) {
    if (options.has(section))
      for (const PeerMode &mode : peerModes())
        if (options.mode.empty() || options.mode == mode.name)
          body(mode);
  };
  double start = monotonicSeconds();
  auto clock = [&] {
    std::printf("-- %.1f s\n", monotonicSeconds() - start);
    std::fflush(stdout);
  };
  forModes("conform", [&](const PeerMode &mode) {
    for (bool isOutside : {false, true})
      for (bool isCaptured : {false, true})
        isFine &= conform(options, mode, isOutside, isCaptured);
    clock();
  });
  if (options.has("raw"))
    isFine &= onDevices(
        options, "raw", uint64_t(1) << 30,
        [](CheckRank &self, Rows &found) { return checkRaw(self, found); },
        rows);
  forModes("rates", [&](const PeerMode &mode) {
    isFine &= onDevices(
        options, std::string("rates ") + mode.name, uint64_t(1) << 30,
        [&](CheckRank &self, Rows &found) {
          return checkRates(self, mode, found);
        },
        rows);
    clock();
  });
  forModes("overlap", [&](const PeerMode &mode) {
    isFine &= onDevices(
        options, std::string("overlap ") + mode.name, uint64_t(1) << 30,
        [&](CheckRank &self, Rows &found) {
          return checkOverlap(self, mode, found);
        },
        rows);
    clock();
  });
  forModes("stress", [&](const PeerMode &mode) {
    bool isFirst = &mode == &peerModes().front();
    int replays = isFirst ? options.replays : options.replays / 4;
    for (bool isLoaded : {true, false})
      isFine &= onDevices(
          options,
          std::string("stress ") + mode.name + (isLoaded ? "" : ", alone"),
          uint64_t(256) << 20,
          [&](CheckRank &self, Rows &found) {
            return checkStress(self, mode, replays, isLoaded, found);
          },
          rows);
    clock();
  });
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << "{\"ranks\": " << options.ranks
         << ", \"ok\": " << (isFine ? "true" : "false") << ", \"rows\": [\n";
    for (size_t i = 0; i < rows.size(); ++i)
      file << "  " << rows[i] << (i + 1 < rows.size() ? ",\n" : "\n");
    file << "]}\n";
  }
  return isFine ? 0 : 1;
}
