//===- CheckRank.cpp - A rank of the check of peer collectives ------------===//
#include "Frames.h"
#include "PeerCheck.h"
#include "RankTesting.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

const std::vector<PeerMode> &test::peerModes() {
  static const std::vector<PeerMode> modes = {{"value+write", {false, false}},
                                              {"value+copy", {false, true}},
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
  bool isDone = device.wait(stream, self.patience);
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
  if (mutation != Mutation::None)
    setup.driver =
        &mutate(device.driver, mutation, size, device.arena, device.arenaSize);
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

std::vector<std::string>
test::onDevices(uint32_t ranks, uint64_t arena,
                const std::function<std::string(CheckRank &, Rows &)> &body,
                Rows &rows) {
  std::string scratch = "/tmp/peer-check." + std::to_string(getpid());
  Program program = meshProgram({ranks}, {{0}});
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
  for (std::string line; std::getline(file, line);)
    rows.push_back(line);
  std::remove(scratch.c_str());
  return texts;
}

std::string test::checkAbort(CheckRank &self, const PeerMode &mode) {
  const DeviceRank &device = self.device;
  auto communicator = self.connect(mode.options, 1);
  CUstream stream = device.makeStream();
  CollectiveCall call;
  call.op = CollectiveOp::AllGather;
  call.axes = {0};
  CollectiveRun run;
  run.call = &call;
  run.parts = {{DType::I8, {64}, device.arena, device.arena + 256}};
  CUgraphExec graph = device.capture(stream, [&] {
    for (int i = 0; i < 3; ++i)
      mustBe(communicator->enqueue(run, stream), "enqueue");
  });
  std::string text;
  if (self.rank == 0) { // the others never come
    device.check(device.driver.graphLaunch(graph, stream), "cuGraphLaunch");
    if (device.wait(stream, 0.2))
      text = "did not wait";
    double start = monotonicSeconds();
    communicator->abort();
    if (monotonicSeconds() - start > 1)
      text = "took longer than a second";
    if (!device.wait(stream, 1))
      giveUp(self, "still waits after abort");
  }
  self.barrier();
  return text;
}
