//===- PeerCheck.cpp - Checks and measures peer collectives ---------------===//
//
// For a machine with several GPUs: forks a process a rank and runs
//   conform  the suite of all communicators, for what `peer` does
//   raw      copies between GPUs without collectives
//   rates    microseconds and GB/s of each collective by size
//   overlap  matmuls with and without eight buckets that are swapped
//   stress   replays of one graph with collectives of three groups under way
//            beside kernels, whose data travels on from replay to replay
//   abort    waits for a rank that never comes end when they are given up
//   mutants  (if asked for) the same with protocols that are wrong on purpose
// and writes what it measured as JSON. Ends with 1 if anything is wrong, with
// 77 where there are fewer GPUs than ranks. With `--one-gpu yes` all ranks are
// on GPU 0, whose contexts take turns: for what is right, not for how fast.
//
//===----------------------------------------------------------------------===//
#include "PeerCheck.h"
#include "CollectiveSuite.h"
#include "Frames.h"
#include "RankTesting.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {
struct Options {
  uint32_t ranks = 2;
  int replays = 10000;
  bool isOneGpu = false;
  std::string sections = "conform,raw,rates,overlap,stress,abort", json, modes;
  static bool lists(const std::string &list, const char *word) {
    return ("," + list + ",").find(std::string(",") + word + ",") !=
           std::string::npos;
  }
  bool has(const char *section) const { return lists(sections, section); }
};

} // namespace

/// In a process of its own: no context of this one's may lie before the ranks'.
static uint32_t countDevices() {
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    auto driver = Driver::open();
    if (driver)
      (*driver)->deviceGetCount(&count);
    _exit(std::min(count, 255));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? uint32_t(WEXITSTATUS(status)) : 0;
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

static const char *const kPlacements[] = {
    "", ", a caller's buffers", ", the session's outputs on even ranks",
    ", the session's outputs on odd ranks"};

static bool conform(const Options &options, const PeerMode &mode,
                    Placement placement, bool isCaptured) {
  Program program = meshProgram({options.ranks}, {{0}});
  auto make = [&](uint32_t rank, uint32_t size,
                  std::shared_ptr<Rendezvous> rendezvous) {
    return std::make_unique<DeviceRunner>(
        rank, size, std::move(rendezvous),
        DeviceRunner::Options{placement, isCaptured, mode.options});
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
                 kPlacements[size_t(placement)] +
                 (isCaptured ? ", captured" : ""))
                    .c_str(),
                texts);
}

static bool
onDevices(const Options &options, const std::string &what, uint64_t arena,
          const std::function<std::string(CheckRank &, Rows &)> &body,
          Rows &rows) {
  size_t before = rows.size();
  auto texts = onDevices(options.ranks, arena, body, rows);
  for (size_t i = before; i < rows.size(); ++i)
    std::printf("%s\n", rows[i].c_str());
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
    else if (key == "--one-gpu")
      options.isOneGpu = value == "yes";
    else if (key == "--modes")
      options.modes = value;
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
        if (options.modes.empty() || Options::lists(options.modes, mode.name))
          body(mode);
  };
  double start = monotonicSeconds();
  auto clock = [&] {
    std::printf("-- %.1f s\n", monotonicSeconds() - start);
    std::fflush(stdout);
  };
  // A rank takes the GPU of its number modulo their count.
  if (options.isOneGpu)
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  uint32_t wanted = options.isOneGpu ? 1 : options.ranks;
  if (uint32_t devices = countDevices(); devices < wanted) {
    std::printf("skip %u ranks need %u GPUs, there are %u\n", options.ranks,
                wanted, devices);
    return 77;
  }
  forModes("conform", [&](const PeerMode &mode) {
    for (Placement placement : {Placement::Arena, Placement::Caller,
                                Placement::OddCallers, Placement::EvenCallers})
      for (bool isCaptured : {false, true})
        isFine &= conform(options, mode, placement, isCaptured);
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
  forModes("abort", [&](const PeerMode &mode) {
    isFine &= onDevices(
        options, std::string("abort ") + mode.name, 2 << 20,
        [&](CheckRank &self, Rows &) { return checkAbort(self, mode); }, rows);
  });
  if (options.has("mutants"))
    for (const Mutant &mutant : peerMutants()) {
      Rows ignored;
      auto texts = onDevices(
          options.ranks, uint64_t(256) << 20,
          [&](CheckRank &self, Rows &found) {
            self.mutation = mutant.mutation;
            self.patience = options.isOneGpu ? 15 : 1.5;
            return checkStress(self, peerModes().front(), 300, true, found);
          },
          ignored);
      std::string found;
      for (const std::string &text : texts)
        found += found.empty() ? text : "";
      std::printf("%s mutant '%s': %.120s\n", found.empty() ? "FAIL" : "ok  ",
                  mutant.name, found.c_str());
      std::fflush(stdout);
      isFine &= !found.empty();
    }
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
