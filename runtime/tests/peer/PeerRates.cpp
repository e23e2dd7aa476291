//===- PeerRates.cpp - How long peer collectives take ---------------------===//
//
// Medians over runs of graphs in which one collective follows itself, the
// slowest rank's; and matmuls with and without buckets that are swapped beside
// them, interleaved.
//
//===----------------------------------------------------------------------===//
#include "Load.h"
#include "PeerCheck.h"

#include <algorithm>
#include <cstdio>

using namespace fusion::rt;
using namespace fusion::rt::test;

/// A collective that sends about `bytes` from each rank; false if the arena is
/// too small.
static bool makeRun(const CheckRank &self, CollectiveOp op, uint64_t bytes,
                    CollectiveCall &call, CollectiveRun &run, uint64_t &sent) {
  uint32_t size = self.size;
  call.op = op;
  call.axes = {0};
  uint64_t input = bytes, output = bytes;
  sent = bytes;
  if (op == CollectiveOp::AllGather || op == CollectiveOp::Broadcast) {
    input = bytes / (size - 1);
    sent = input * (size - 1);
    output = op == CollectiveOp::AllGather ? input * size : input;
  }
  if (op == CollectiveOp::AllToAll) {
    input = output = bytes / (size - 1) * size;
    sent = input / size * (size - 1);
  }
  if (op == CollectiveOp::Permute)
    for (uint32_t i = 0; i < size; ++i) {
      call.sources.push_back(i);
      call.targets.push_back((i + 1) % size);
    }
  uint64_t place = (input + 511) / 256 * 256;
  if (place + output > self.device.arenaSize)
    return false;
  run.call = &call;
  run.parts = {{DType::I8,
                {int64_t(input)},
                self.device.arena,
                self.device.arena + place}};
  return true;
}

std::string test::checkRates(CheckRank &self, const PeerMode &mode,
                             Rows &rows) {
  const DeviceRank &device = self.device;
  CUstream stream = device.makeStream();
  auto communicator = self.connect(mode.options, 1);
  Timer timer(self, stream);
  for (CollectiveOp op : {CollectiveOp::Permute, CollectiveOp::AllGather,
                          CollectiveOp::AllToAll, CollectiveOp::Broadcast})
    for (uint64_t bytes = 1 << 10; bytes <= uint64_t(256) << 20; bytes *= 4) {
      CollectiveCall call;
      CollectiveRun run;
      uint64_t sent = 0;
      if (!makeRun(self, op, bytes / self.size * self.size, call, run, sent))
        continue;
      int repeats = bytes <= (1 << 20) ? 20 : bytes <= (64 << 20) ? 5 : 2;
      CUgraphExec graph = device.capture(stream, [&] {
        for (int i = 0; i < repeats; ++i)
          mustBe(communicator->enqueue(run, stream), "enqueue");
      });
      std::vector<double> times;
      for (int i = 0; i < 9; ++i) {
        double time = timer.run(graph);
        if (time < 0)
          giveUp(self, std::string(collectiveName(op)) + " of " +
                           std::to_string(bytes) + " bytes hangs");
        if (i >= 2)
          times.push_back(time / repeats);
      }
      device.driver.graphExecDestroy(graph);
      char row[256];
      std::snprintf(row, sizeof(row),
                    "{\"section\": \"rates\", \"mode\": \"%s\", \"op\": "
                    "\"%s\", \"sent\": %llu, \"us\": %.2f, \"gbs\": %.1f}",
                    mode.name, collectiveName(op), (unsigned long long)sent,
                    median(times), double(sent) / median(times) / 1000);
      rows.push_back(row);
    }
  return {};
}

std::string test::checkOverlap(CheckRank &self, const PeerMode &mode,
                               Rows &rows) {
  struct Row {
    int64_t m, n, k;
    int count;
  };
  constexpr int kBuckets = 8;
  constexpr uint64_t kBucket = 25 << 20;
  const DeviceRank &device = self.device;
  const Driver &driver = device.driver;
  CUstream stream = device.makeStream(), side = device.makeStream();
  CUevent fork = device.makeEvent(kEventDisableTiming);
  CUevent join = device.makeEvent(kEventDisableTiming);
  auto communicator = self.connect(mode.options, 1);
  Timer timer(self, stream);
  CollectiveCall call;
  call.op = CollectiveOp::Permute;
  call.axes = {0};
  for (uint32_t i = 0; i < self.size; ++i) {
    call.sources.push_back(i);
    call.targets.push_back((i + 1) % self.size);
  }
  for (Row row : {Row{4096, 4096, 4096, 32}, Row{2048, 2048, 2048, 96},
                  Row{4096, 3072, 768, 160}}) {
    Load load(device, row.m, row.n, row.k);
    if (!load.isThere())
      return {};
    auto build = [&](bool computes, bool swaps) {
      return device.capture(stream, [&] {
        auto order = [&](CUstream from, CUevent event, CUstream to) {
          device.check(driver.eventRecord(event, from), "cuEventRecord");
          device.check(driver.streamWaitEvent(to, event, 0),
                       "cuStreamWaitEvent");
        };
        order(stream, fork, side);
        for (int i = 0; i < row.count; ++i) {
          if (computes)
            load.enqueue(stream);
          for (int j = kBuckets * i / row.count;
               swaps && j < kBuckets * (i + 1) / row.count; ++j) {
            order(stream, fork, side);
            CollectiveRun run;
            run.call = &call;
            char *bucket = device.arena + uint64_t(j) * 2 * kBucket;
            run.parts = {
                {DType::I8, {int64_t(kBucket)}, bucket, bucket + kBucket}};
            mustBe(communicator->enqueue(run, side), "enqueue");
          }
        }
        order(side, join, stream);
      });
    };
    CUgraphExec graphs[] = {build(true, false), build(false, true),
                            build(true, true)};
    std::vector<double> times[3];
    for (int i = 0; i < 18; ++i)
      for (int g = 0; g < 3; ++g) {
        double time = timer.run(graphs[g]);
        if (time < 0)
          giveUp(self, "hangs beside matmuls");
        if (i >= 3)
          times[g].push_back(time);
      }
    for (CUgraphExec graph : graphs)
      driver.graphExecDestroy(graph);
    double compute = median(times[0]), alone = median(times[1]),
           both = median(times[2]);
    char text[320];
    std::snprintf(text, sizeof(text),
                  "{\"section\": \"overlap\", \"mode\": \"%s\", \"matmuls\": "
                  "\"%d of %lldx%lldx%lld\", \"compute_us\": %.1f, "
                  "\"swap_us\": %.1f, \"both_us\": %.1f, \"hidden\": %.3f}",
                  mode.name, row.count, (long long)row.m, (long long)row.n,
                  (long long)row.k, compute, alone, both,
                  1 - (both - compute) / alone);
    rows.push_back(text);
  }
  return {};
}
