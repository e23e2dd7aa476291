//===- Tuner.cpp - Which of a library's ways is fastest here --------------===//
//
// Times are those of graphs of several calls, between two events. A device's
// clock changes with its heat and what it computes, so all ways are timed in
// every round, in an order of chance, and a way's time is its median.
//
//===----------------------------------------------------------------------===//
#include "Tuner.h"

#include "Text.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
constexpr int kRounds = 9;
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

Expected<size_t> Tuner::measure(char *memory, const std::vector<Way> &ways) {
  Timer timer(*this);
  auto run = [&]() -> Expected<size_t> {
    FUSION_RT_TRY(timer.open());
    // Where a way fails to run, the others may do.
    struct Timed {
      size_t way;
      CUgraphExec graph;
      std::vector<float> millis;
    };
    std::vector<Timed> timed;
    int count = 0;
    Status last;
    for (size_t i = 0; i < ways.size(); ++i) {
      auto once = [&] { return ways[i].enqueue(host.stream, memory); };
      last = once(); // loads its code
      if (last.ok())
        last = host.wait(host.stream);
      if (last.ok() && count == 0) {
        auto each = timer.time(once);
        if (!each)
          return each.status();
        count = std::clamp(int(kGraphMillis / std::max(*each, 1e-3f)) + 1, 1,
                           kMostCalls);
      }
      if (last.ok()) {
        auto graph = timer.capture(ways[i], memory, count);
        last = graph.status();
        if (graph)
          timed.push_back({i, *graph, {}});
      }
      if (isFatal(last))
        return last;
    }
    if (timed.empty())
      return last;
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = timed.size(); i > 1; --i)
        std::swap(timed[i - 1], timed[next(random) % i]);
      for (Timed &each : timed) {
        auto millis = timer.time([&] {
          return driver.check(driver.graphLaunch(each.graph, host.stream),
                              "cuGraphLaunch");
        });
        if (!millis)
          return millis.status();
        each.millis.push_back(*millis);
      }
    }
    std::sort(timed.begin(), timed.end(),
              [](const Timed &a, const Timed &b) { return a.way < b.way; });
    auto median = [](Timed &each) {
      auto middle = each.millis.begin() + kRounds / 2;
      std::nth_element(each.millis.begin(), middle, each.millis.end());
      return *middle;
    };
    size_t best = timed.front().way;
    float least = median(timed.front()) * (1 - kGain);
    for (size_t i = 1; i < timed.size(); ++i)
      if (float time = median(timed[i]); time < least) {
        least = time;
        best = timed[i].way;
      }
    return best;
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
