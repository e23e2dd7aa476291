//===- PeerStress.cpp - Many replays of collectives in flight -------------===//
//
// One graph: on streams 1, 2 and 3 collectives of three groups, which start as
// matmuls on stream 0 go on, and on stream 4 direct moves, whose readers are
// kernels on stream 0. What a replay receives is what the next one sends,
// moved on by one place, so that a byte that is lost, late or torn in any
// replay is wrong for ever after.
//
//===----------------------------------------------------------------------===//
#include "Frames.h"
#include "Load.h"
#include "PeerCheck.h"
#include "ReadKernel.h"

#include <cstdio>
#include <thread>

using namespace fusion::rt;
using namespace fusion::rt::test;

static constexpr int kCheckEvery = 100; ///< replays
static constexpr uint32_t kChunks = 5;  ///< of a broadcast tensor
static constexpr uint32_t kTurns = 3;   ///< of a tensor that kernels read
static constexpr uint32_t kStreams = 5;

namespace {

/// A tensor that goes round: `chunks` of `words` words.
struct Traveller {
  char *from = nullptr, *to = nullptr; ///< sent, received
  uint64_t words = 0;
  uint32_t chunks = 1;
  uint64_t bytes() const { return words * 4 * chunks; }
};

/// Where a chunk came from: a rank and a number.
using Origin = std::pair<uint32_t, uint32_t>;

class Stress {
public:
  Stress(CheckRank &self, const PeerMode &mode, bool isLoaded)
      : self(self), mode(mode) {
    if (isLoaded)
      load = std::make_unique<Load>(self.device, 2048, 2048, 2048);
  }
  bool isLoaded() const { return load && load->isThere(); }

  std::string run(int replays, Rows &rows);

private:
  char *take(uint64_t bytes) {
    char *at = self.device.arena + used;
    used += (bytes + 255) / 256 * 256;
    return at;
  }
  Traveller makeTraveller(uint64_t words, uint32_t chunks, uint32_t received);
  void fill(const Traveller &tensor, uint32_t kind, size_t round);
  std::string compare(const Traveller &tensor, uint32_t kind, size_t round,
                      const std::vector<Origin> &origins);
  std::string checkAll(int replays);
  void copy(char *to, const char *from, uint64_t bytes, CUstream stream) {
    self.device.check(self.device.driver.copyOnDevice(deviceAddress(to),
                                                      deviceAddress(from),
                                                      bytes, stream),
                      "cuMemcpyDtoDAsync");
  }
  CollectiveRun enqueue(CollectiveCall &call, std::vector<PartBuffer> parts,
                        uint32_t stream, bool isLeftOut = false);
  void order(uint32_t from, uint32_t to);
  void enqueueDirect(size_t round);
  void enqueueRound(size_t round);
  void enqueueAll();
  [[noreturn]] void hangs(int replay);

  CheckRank &self;
  const PeerMode &mode;
  std::unique_ptr<Load> load; ///< or none
  std::unique_ptr<DeviceCommunicator> communicator;
  std::unique_ptr<ReadKernel> reader;
  std::vector<CUstream> streams;
  CUevent fork = nullptr, hop = nullptr;
  std::vector<CUevent> joins;
  std::vector<CollectiveCall> calls; ///< outlive the capture
  std::vector<Traveller> swapped, gathered, exchanged, told, looked;
  char *progress = nullptr; ///< a word a stream: collectives that ended
  std::vector<uint32_t> done;
  uint64_t used = 0;
};

uint32_t wordOf(uint32_t kind, size_t round, Origin origin, uint64_t i) {
  uint32_t hash = kind * 0x9e3779b1u + uint32_t(round) * 0x85ebca6bu +
                  origin.first * 0xc2b2ae35u + origin.second * 0x27d4eb2fu;
  return (hash ^ uint32_t(i)) * 2654435761u;
}

} // namespace

Traveller Stress::makeTraveller(uint64_t words, uint32_t chunks,
                                uint32_t received) {
  Traveller tensor;
  tensor.words = words;
  tensor.chunks = chunks;
  tensor.from = take(tensor.bytes());
  tensor.to = take(words * 4 * received);
  return tensor;
}

void Stress::fill(const Traveller &tensor, uint32_t kind, size_t round) {
  std::vector<uint32_t> values;
  for (uint32_t chunk = 0; chunk < tensor.chunks; ++chunk)
    for (uint64_t i = 0; i < tensor.words; ++i)
      values.push_back(wordOf(kind, round, {self.rank, chunk}, i));
  self.device.upload(tensor.from, values.data(), tensor.bytes());
}

std::string Stress::compare(const Traveller &tensor, uint32_t kind,
                            size_t round, const std::vector<Origin> &origins) {
  std::vector<uint32_t> found(tensor.words * tensor.chunks);
  self.device.download(found.data(), tensor.from, tensor.bytes());
  uint64_t wrong = 0, first = 0;
  for (uint32_t chunk = 0; chunk < tensor.chunks; ++chunk)
    for (uint64_t i = 0; i < tensor.words; ++i) {
      uint64_t at = chunk * tensor.words + i;
      if (found[at] != wordOf(kind, round, origins[chunk], i) && !wrong++)
        first = at;
    }
  static const char *const names[] = {"permute", "all_gather", "all_to_all",
                                      "broadcast", "direct permute"};
  return wrong == 0 ? ""
                    : std::string(names[kind]) + " of " +
                          std::to_string(tensor.words) +
                          " words: " + std::to_string(wrong) +
                          " wrong, first at " + std::to_string(first);
}

CollectiveRun Stress::enqueue(CollectiveCall &call,
                              std::vector<PartBuffer> parts, uint32_t stream,
                              bool isLeftOut) {
  call.axes = {0};
  CollectiveRun run;
  run.call = &call;
  run.group = stream;
  run.parts = std::move(parts);
  if (!isLeftOut)
    mustBe(communicator->enqueue(run, streams[stream]), "enqueue");
  return run;
}

/// What comes next on stream `to` follows what is on stream `from`.
void Stress::order(uint32_t from, uint32_t to) {
  const Driver &driver = self.device.driver;
  self.device.check(driver.eventRecord(hop, streams[from]), "cuEventRecord");
  self.device.check(driver.streamWaitEvent(streams[to], hop, 0),
                    "cuStreamWaitEvent");
}

/// A tensor goes round the ring, a few times without anything between: it is
/// laid out for the next rank, whose kernel reads it there and keeps it.
void Stress::enqueueDirect(size_t round) {
  Traveller &look = looked[round];
  char *shown = look.to, *copied = look.to + look.bytes();
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    copy(shown, look.from, look.bytes(), streams[4]);
    CollectiveCall &ring = calls.emplace_back();
    ring.op = CollectiveOp::Permute;
    ring.isDirect = true;
    for (uint32_t i = 0; i < self.size; ++i) {
      ring.sources.push_back(i);
      ring.targets.push_back((i + 1) % self.size);
    }
    CollectiveRun run =
        enqueue(ring, {{DType::I32, {int64_t(look.words)}, shown, copied}}, 4,
                self.mutation == Mutation::NoDirectMove);
    order(4, 0);
    const char *source = communicator->directSource(run, 0, 0, look.bytes());
    mustBe(source ? Status() : Status(Code::Internal, "is copied"), "direct");
    reader->enqueue(look.from, source, look.bytes(), streams[0]);
    order(0, 4);
    CollectiveCall &release = calls.emplace_back();
    release.op = CollectiveOp::Release;
    enqueue(release, {}, 4, self.mutation == Mutation::NoRelease);
  }
}

void Stress::enqueueRound(size_t round) {
  const Driver &driver = self.device.driver;
  uint32_t size = self.size, rank = self.rank;
  if (load)
    for (int i = 0; i < 3; ++i)
      load->enqueue(streams[0]);
  self.device.check(driver.eventRecord(fork, streams[0]), "cuEventRecord");
  for (uint32_t stream = 1; stream < kStreams; ++stream)
    self.device.check(driver.streamWaitEvent(streams[stream], fork, 0),
                      "cuStreamWaitEvent");
  auto makeCall = [&](CollectiveOp op) -> CollectiveCall & {
    calls.emplace_back();
    calls.back().op = op;
    return calls.back();
  };
  auto note = [&](uint32_t stream) {
    CUstreamBatchMemOpParams write{kMemOpWrite,
                                   deviceAddress(progress + 4 * stream),
                                   ++done[stream],
                                   0,
                                   0,
                                   0};
    self.device.check(driver.streamBatchMemOp(streams[stream], 1, &write, 0),
                      "cuStreamBatchMemOp");
  };
  auto part = [](const char *input, char *output, uint64_t words) {
    return PartBuffer{DType::I32, {int64_t(words)}, input, output};
  };

  // A bucket of three tensors goes round the ring.
  Traveller &swap = swapped[round];
  CollectiveCall &ring = makeCall(CollectiveOp::Permute);
  ring.bucket = 1;
  for (uint32_t i = 0; i < size; ++i) {
    ring.sources.push_back(i);
    ring.targets.push_back((i + 1) % size);
  }
  uint64_t third = swap.words / 3 / 16 * 16;
  enqueue(ring,
          {part(swap.from, swap.to, third),
           part(swap.from + 4 * third, swap.to + 4 * third, third),
           part(swap.from + 8 * third, swap.to + 8 * third,
                swap.words - 2 * third)},
          1);
  copy(swap.from, swap.to, swap.bytes(), streams[1]);
  note(1);

  // The next rank's shard is mine from now on.
  Traveller &gather = gathered[round];
  enqueue(makeCall(CollectiveOp::AllGather),
          {part(gather.from, gather.to, gather.words)}, 2);
  copy(gather.from, gather.to + (rank + 1) % size * gather.bytes(),
       gather.bytes(), streams[2]);
  note(2);

  Traveller &exchange = exchanged[round];
  enqueue(makeCall(CollectiveOp::AllToAll),
          {part(exchange.from, exchange.to, exchange.words * size)}, 3);
  uint64_t chunk = exchange.words * 4;
  copy(exchange.from + chunk, exchange.to, chunk * (size - 1), streams[3]);
  copy(exchange.from, exchange.to + chunk * (size - 1), chunk, streams[3]);
  note(3);

  Traveller &tell = told[round];
  CollectiveCall &broadcast = makeCall(CollectiveOp::Broadcast);
  broadcast.root = int64_t(round % size);
  enqueue(broadcast, {part(tell.from, tell.to, tell.words * kChunks)}, 3);
  chunk = tell.words * 4;
  copy(tell.from + chunk, tell.to, chunk * (kChunks - 1), streams[3]);
  copy(tell.from, tell.to + chunk * (kChunks - 1), chunk, streams[3]);
  note(3);

  enqueueDirect(round);
  note(4);
}

void Stress::enqueueAll() {
  const Driver &driver = self.device.driver;
  done.assign(kStreams, 0);
  for (size_t round = 0; round < self.rounds.size(); ++round)
    enqueueRound(round);
  for (uint32_t stream = 1; stream < kStreams; ++stream) {
    self.device.check(driver.eventRecord(joins[stream], streams[stream]),
                      "cuEventRecord");
    self.device.check(driver.streamWaitEvent(streams[0], joins[stream], 0),
                      "cuStreamWaitEvent");
  }
}

/// Everything against where it must have come from in `replays` replays.
std::string Stress::checkAll(int replays) {
  uint32_t size = self.size, rank = self.rank;
  // table[rank][chunk] of the all-to-all.
  std::vector<std::vector<Origin>> table(size, std::vector<Origin>(size));
  for (uint32_t i = 0; i < size; ++i)
    for (uint32_t j = 0; j < size; ++j)
      table[i][j] = {i, j};
  for (int step = 0; step < replays; ++step) {
    auto next = table;
    for (uint32_t i = 0; i < size; ++i)
      for (uint32_t j = 0; j < size; ++j)
        next[i][(j + 1) % size] = table[j][i];
    table = std::move(next);
  }
  uint32_t turns = uint32_t(replays % int(size));
  for (size_t round = 0; round < self.rounds.size(); ++round) {
    std::vector<Origin> chunks;
    for (uint32_t j = 0; j < kChunks; ++j)
      chunks.push_back(
          {uint32_t(round % size),
           (j + kChunks - uint32_t(replays % int(kChunks))) % kChunks});
    for (const std::string &text :
         {compare(swapped[round], 0, round,
                  {{(rank + size - turns) % size, 0}}),
          compare(gathered[round], 1, round, {{(rank + turns) % size, 0}}),
          compare(exchanged[round], 2, round, table[rank]),
          compare(told[round], 3, round, chunks),
          compare(looked[round], 4, round,
                  {{(rank + size - kTurns * turns % size) % size, 0}})})
      if (!text.empty())
        return "after " + std::to_string(replays) + " replays: " + text;
  }
  return {};
}

/// Says how far each stream came, and whether giving up helps.
void Stress::hangs(int replay) {
  if (self.mutation != Mutation::None)
    giveUp(self, "hangs by replay " + std::to_string(replay));
  std::vector<uint32_t> at(kStreams);
  self.device.download(at.data(), progress, 4 * kStreams);
  std::string text = "hangs by replay " + std::to_string(replay) +
                     "; collectives that ended, by stream:";
  for (uint32_t stream = 1; stream < kStreams; ++stream)
    text += " " + std::to_string(at[stream]) + " of " +
            std::to_string(done[stream]);
  double start = monotonicSeconds();
  communicator->abort();
  text += "; abort took " + std::to_string(monotonicSeconds() - start) + " s";
  text += self.device.wait(streams[0], 5) ? " and ended it" : ", still hangs";
  giveUp(self, text);
}

std::string Stress::run(int replays, Rows &rows) {
  const DeviceRank &device = self.device;
  for (uint32_t stream = 0; stream < kStreams; ++stream) {
    streams.push_back(device.makeStream());
    joins.push_back(device.makeEvent(kEventDisableTiming));
  }
  fork = device.makeEvent(kEventDisableTiming);
  hop = device.makeEvent(kEventDisableTiming);
  reader = std::make_unique<ReadKernel>(device, /*vectors=*/false);
  communicator = self.connect(mode.options, kStreams);
  progress = take(4 * kStreams);
  calls.reserve((4 + 2 * kTurns) * self.rounds.size());
  for (size_t round = 0; round < self.rounds.size(); ++round) {
    uint64_t words = self.rounds[round];
    swapped.push_back(makeTraveller(words, 1, 1));
    gathered.push_back(makeTraveller(words, 1, self.size));
    exchanged.push_back(makeTraveller(words, self.size, self.size));
    told.push_back(makeTraveller(words, kChunks, kChunks));
    looked.push_back(makeTraveller(words, 1, 2));
    fill(swapped.back(), 0, round);
    fill(gathered.back(), 1, round);
    fill(exchanged.back(), 2, round);
    fill(told.back(), 3, round);
    fill(looked.back(), 4, round);
  }
  if (used > device.arenaSize)
    return "the arena is too small";
  CUgraphExec graph = device.capture(streams[0], [&] { enqueueAll(); });
  self.barrier();

  double start = monotonicSeconds();
  uint32_t random = self.rank * 7919 + 1;
  std::string text;
  for (int replay = 1; replay <= replays && text.empty(); ++replay) {
    device.check(device.driver.graphLaunch(graph, streams[0]), "cuGraphLaunch");
    random = random * 1664525 + 1013904223;
    if (random >> 28 == 0) // now and then one rank is late
      std::this_thread::sleep_for(
          std::chrono::microseconds(random >> 16 & 1023));
    if (replay % kCheckEvery != 0 && replay != replays)
      continue;
    if (!device.wait(streams[0], self.patience))
      hangs(replay);
    text = checkAll(replay);
  }
  double seconds = self.largest(monotonicSeconds() - start);
  char row[256];
  std::snprintf(row, sizeof(row),
                "{\"section\": \"stress\", \"mode\": \"%s\", \"loaded\": %s, "
                "\"replays\": %d, \"collectives\": %zu, \"seconds\": %.2f, "
                "\"ok\": %s}",
                mode.name, isLoaded() ? "true" : "false", replays, calls.size(),
                seconds, text.empty() ? "true" : "false");
  rows.push_back(row);
  device.driver.graphExecDestroy(graph);
  return text;
}

std::string test::checkStress(CheckRank &self, const PeerMode &mode,
                              int replays, bool isLoaded, Rows &rows) {
  return Stress(self, mode, isLoaded).run(replays, rows);
}
