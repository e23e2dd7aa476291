//===- Tuner.cpp - Which of a library's ways is fastest here --------------===//
//
// Times are those of graphs of several calls, between two events. A device's
// clock changes with its heat and what it computes, so all ways are timed in
// every round, in an order of chance, and a way's time is its median. Where
// there are many ways, a few rounds find those that come into question: first
// among ways of their own, then among the neighbours of the fastest.
//
//===----------------------------------------------------------------------===//
#include "Tuner.h"

#include "Text.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
constexpr int kRounds = 15;
/// Of all ways, where more than kFinalists are to be told apart; then of the
/// neighbours of the kLeaders fastest.
constexpr int kFirstRounds = 3;
constexpr size_t kFinalists = 4, kLeaders = 2;
/// How long the calls of one graph take at least, if kMostCalls do.
constexpr float kGraphMillis = 0.3f;
constexpr int kMostCalls = 20;
/// Another way than the first must be faster by this, in parts: less is chance.
constexpr float kGain = 0.01f;
/// Random numbers are made once for so many bytes, then copied. No power of
/// two: rows of a matrix are not all the same.
constexpr uint64_t kPattern = 3 * 1000 * 1000 * 2;
} // namespace

bool Tuner::isFatal(const Status &status) {
  return status.code() == Code::PeerFailed || status.code() == Code::Timeout ||
         status.code() == Code::Internal;
}

const char *Tuner::typeName(DType dtype) {
  return dtype == DType::F64    ? "f64"
         : dtype == DType::F32  ? "f32"
         : dtype == DType::BF16 ? "bf16"
                                : "f16";
}

static uint64_t next(uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

Tuner::Tuner(const Driver &driver, TunerHost host, std::string file)
    : driver(driver), host(std::move(host)), file(std::move(file)) {
  if (this->file.empty())
    this->file = defaultFile();
  mayWrite = read(known);
}

std::string Tuner::keyOf(const std::string &library,
                         const std::string &call) const {
  return escape(host.device) + ", CUDA " + versionText(driver.version) + ", " +
         library + ", " + call;
}

std::optional<std::string> Tuner::recall(const std::string &library,
                                         const std::string &call) const {
  auto found = known.find(keyOf(library, call));
  if (found == known.end())
    return std::nullopt;
  return found->second;
}

void Tuner::note(const std::string &text) {
  std::string whole = "autotune: " + text;
  if (std::find(notes.begin(), notes.end(), whole) == notes.end())
    notes.push_back(std::move(whole));
}

/// Numbers of both signs, below 1 and far from 0: powers of sums differ by the
/// data, as those of a model do.
Status Tuner::fill(char *memory, uint64_t bytes, DType dtype) {
  std::vector<char> pattern(std::min(bytes, kPattern) / 8 * 8);
  for (size_t at = 0; at < pattern.size(); at += 8) {
    uint64_t bits = next(random);
    // The exponent's upper bits: from 2^-8 on for 32 bits and bf16, from 2^-4
    // on for f16.
    bits = dtype == DType::F16
               ? (bits & 0x8fff8fff8fff8fffu) | 0x3000300030003000u
           : dtype == DType::BF16
               ? (bits & 0x83ff83ff83ff83ffu) | 0x3c003c003c003c00u
           : dtype == DType::F32
               ? (bits & 0x83ffffff83ffffffu) | 0x3c0000003c000000u
               : (bits & 0x800fffffffffffffu) | 0x3fb0000000000000u;
    std::memcpy(&pattern[at], &bits, 8);
  }
  auto base = reinterpret_cast<CUdeviceptr>(memory);
  for (uint64_t at = 0; at < bytes; at += pattern.size()) {
    uint64_t size = std::min<uint64_t>(bytes - at, pattern.size());
    FUSION_RT_TRY(driver.check(
        at == 0 ? driver.copyToDevice(base, pattern.data(), size, host.stream)
                : driver.copyOnDevice(base + at, base, size, host.stream),
        "copying numbers"));
  }
  // The copy may read `pattern` until then.
  return host.wait(host.stream);
}

/// Events, and a graph for each way. Nothing is given back to a device that
/// failed.
struct Tuner::Timer {
  explicit Timer(Tuner &tuner) : tuner(tuner), driver(tuner.driver) {}
  ~Timer() {
    if (isDead)
      return;
    for (CUgraphExec graph : graphs)
      if (graph)
        driver.graphExecDestroy(graph);
    for (CUevent event : events)
      if (event)
        driver.eventDestroy(event);
  }
  Status open() {
    for (CUevent &event : events)
      FUSION_RT_TRY(
          driver.check(driver.eventCreate(&event, 0), "cuEventCreate"));
    return {};
  }
  /// Milliseconds between the events around `enqueue`.
  template <typename Enqueue> Expected<float> time(Enqueue enqueue) {
    CUstream stream = tuner.host.stream;
    float millis = 0;
    FUSION_RT_TRY(
        driver.check(driver.eventRecord(events[0], stream), "cuEventRecord"));
    FUSION_RT_TRY(enqueue());
    FUSION_RT_TRY(
        driver.check(driver.eventRecord(events[1], stream), "cuEventRecord"));
    FUSION_RT_TRY(tuner.host.wait(stream));
    FUSION_RT_TRY(
        driver.check(driver.eventElapsedTime(&millis, events[0], events[1]),
                     "cuEventElapsedTime"));
    return millis;
  }
  /// A graph of `count` calls.
  Expected<CUgraphExec> capture(const Way &way, char *memory, int count) {
    CUstream stream = tuner.host.stream;
    FUSION_RT_TRY(
        driver.check(driver.streamBeginCapture(stream, kCaptureThreadLocal),
                     "cuStreamBeginCapture"));
    Status status;
    for (int i = 0; i < count && status.ok(); ++i)
      status = way.enqueue(stream, memory);
    CUgraph graph = nullptr;
    CUresult ended = driver.streamEndCapture(stream, &graph);
    CUgraphExec executable = nullptr;
    if (status.ok())
      status = driver.check(ended, "cuStreamEndCapture");
    if (status.ok())
      status = driver.check(driver.graphInstantiate(&executable, graph, 0),
                            "cuGraphInstantiateWithFlags");
    if (graph)
      driver.graphDestroy(graph);
    if (!status.ok())
      return status;
    graphs.push_back(executable);
    return executable;
  }

  Tuner &tuner;
  const Driver &driver;
  CUevent events[2] = {nullptr, nullptr};
  std::vector<CUgraphExec> graphs;
  bool isDead = false;
};

/// The race of the ways of one call.
struct Tuner::Race {
  struct Timed {
    size_t way;
    CUgraphExec graph;
    std::vector<float> millis;
    float median() {
      auto middle = millis.begin() + ptrdiff_t(millis.size() / 2);
      std::nth_element(millis.begin(), middle, millis.end());
      return *middle;
    }
  };

  /// Takes part from now on, unless the way fails to run: the others may do.
  /// An error that no way can go on after.
  Status enter(size_t way) {
    CUstream stream = tuner.host.stream;
    auto once = [&] { return ways[way].enqueue(stream, memory); };
    last = once(); // loads its code
    if (last.ok())
      last = tuner.host.wait(stream);
    if (last.ok() && count == 0) {
      auto each = timer.time(once);
      if (!each)
        return each.status();
      count = std::clamp(int(kGraphMillis / std::max(*each, 1e-3f)) + 1, 1,
                         kMostCalls);
    }
    if (last.ok()) {
      auto graph = timer.capture(ways[way], memory, count);
      last = graph.status();
      if (graph)
        entered.push_back({way, *graph, {}});
    }
    return isFatal(last) ? last : Status();
  }
  Status run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = entered.size(); i > 1; --i)
        std::swap(entered[i - 1], entered[next(tuner.random) % i]);
      for (Timed &each : entered) {
        auto millis = timer.time([&] {
          return tuner.driver.check(
              tuner.driver.graphLaunch(each.graph, tuner.host.stream),
              "cuGraphLaunch");
        });
        if (!millis)
          return millis.status();
        each.millis.push_back(*millis);
      }
    }
    return {};
  }
  /// The `count` fastest, and the `first` way.
  void keep(size_t count, size_t first) {
    std::sort(entered.begin(), entered.end(), [](Timed &a, Timed &b) {
      return std::make_pair(a.median(), a.way) <
             std::make_pair(b.median(), b.way);
    });
    for (size_t i = count; i < entered.size(); ++i)
      if (entered[i].way == first)
        std::swap(entered[count++], entered[i]);
    entered.resize(std::min(count, entered.size()));
  }
  /// Of those that are left; where times differ by little, the `first` way.
  size_t fastest(size_t first) {
    std::sort(entered.begin(), entered.end(),
              [](const Timed &a, const Timed &b) { return a.way < b.way; });
    auto known = std::find_if(entered.begin(), entered.end(),
                              [&](Timed &each) { return each.way == first; });
    size_t best = first;
    float least = known->median() * (1 - kGain);
    for (Timed &each : entered)
      if (float time = each.median(); time < least) {
        least = time;
        best = each.way;
      }
    return best;
  }

  Tuner &tuner;
  Timer &timer;
  char *memory;
  const std::vector<Way> &ways;
  std::vector<Timed> entered;
  int count = 0; ///< calls of one graph
  Status last;
};

Expected<size_t> Tuner::measure(char *memory, const std::vector<Way> &ways) {
  Timer timer(*this);
  auto run = [&]() -> Expected<size_t> {
    FUSION_RT_TRY(timer.open());
    Race race{*this, timer, memory, ways, {}, 0, {}};
    for (size_t i = 0; i < ways.size(); ++i)
      if (ways[i].base == kNone)
        FUSION_RT_TRY(race.enter(i));
    if (race.entered.empty())
      return race.last;
    size_t first = race.entered.front().way;
    bool hasNeighbours =
        std::any_of(ways.begin(), ways.end(),
                    [](const Way &way) { return way.base != kNone; });
    if (hasNeighbours || race.entered.size() > kFinalists) {
      FUSION_RT_TRY(race.run(kFirstRounds));
      race.keep(kFinalists, first);
      std::vector<size_t> leaders;
      for (size_t i = 0; i < std::min(kLeaders, race.entered.size()); ++i)
        leaders.push_back(race.entered[i].way);
      for (size_t i = 0; i < ways.size(); ++i)
        if (std::count(leaders.begin(), leaders.end(), ways[i].base))
          FUSION_RT_TRY(race.enter(i));
      FUSION_RT_TRY(race.run(kFirstRounds));
      race.keep(kFinalists, first);
      for (Race::Timed &each : race.entered)
        each.millis.clear();
    }
    FUSION_RT_TRY(race.run(kRounds));
    return race.fastest(first);
  };
  auto best = run();
  timer.isDead = !best && isFatal(best.status());
  return best;
}

Expected<size_t> Tuner::choose(const std::string &library,
                               const std::string &call, DType dtype,
                               uint64_t bytes, const std::vector<Way> &ways) {
  if (ways.size() < 2)
    return size_t(0);
  if (auto name = recall(library, call))
    for (size_t i = 0; i < ways.size(); ++i)
      if (ways[i].name == *name)
        return i;
  auto memory = host.allocate(std::max<uint64_t>(bytes, 8));
  if (!memory) {
    if (isFatal(memory.status()))
      return memory.status();
    note("some calls were not timed: " + memory.status().message());
    return size_t(0);
  }
  Status filled = fill(*memory, std::max<uint64_t>(bytes, 8), dtype);
  auto best = filled.ok() ? measure(*memory, ways) : Expected<size_t>(filled);
  if (!best && isFatal(best.status()))
    return best; // its memory is the device's, which is not asked again
  host.free(*memory);
  if (!best) {
    note("some calls were not timed: " + best.status().message());
    return size_t(0);
  }
  std::string key = keyOf(library, call);
  known[key] = added[key] = ways[*best].name;
  return best;
}
