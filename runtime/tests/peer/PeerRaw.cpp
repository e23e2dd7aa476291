//===- PeerRaw.cpp - Copies between GPUs alone ----------------------------===//
//
// What copy engines reach without any collective around them: every rank copies
// to or from the next one at once, in one or several parts side by side. And
// what a kernel reaches that reads the next one's memory.
//
//===----------------------------------------------------------------------===//
#include "PeerCheck.h"
#include "PeerMemory.h"
#include "ReadKernel.h"

#include <algorithm>
#include <cstdio>

using namespace fusion::rt;
using namespace fusion::rt::test;

/// The median of a graph's time, in microseconds of one of its `repeats`.
static double timeOf(CheckRank &self, Timer &timer, CUgraphExec graph,
                     int repeats) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    double time = timer.run(graph);
    if (time < 0)
      giveUp(self, "a copy between GPUs hangs");
    if (i >= 2)
      times.push_back(time / repeats);
  }
  self.device.driver.graphExecDestroy(graph);
  return median(times);
}

static void addRow(Rows &rows, const char *way, int parts, uint64_t bytes,
                   double us) {
  char row[200];
  std::snprintf(row, sizeof(row),
                "{\"section\": \"raw\", \"way\": \"%s\", \"parts\": %d, "
                "\"bytes\": %llu, \"us\": %.2f, \"gbs\": %.1f}",
                way, parts, (unsigned long long)bytes, us,
                double(bytes) / us / 1000);
  rows.push_back(row);
}

std::string test::checkRaw(CheckRank &self, Rows &rows) {
  const DeviceRank &device = self.device;
  const Driver &driver = device.driver;
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(device.makeStream());
    events.push_back(device.makeEvent(kEventDisableTiming));
  }
  std::vector<uint32_t> others;
  for (uint32_t other = 0; other < self.size; ++other)
    if (other != self.rank)
      others.push_back(other);
  peer::PeerMemory memory(driver, self.rank, self.size, *self.rendezvous, 60);
  mustBe(
      memory.open({device.arena, device.arenaSize}, {}, 1 << 20, 256, others),
      "open");
  char *remote = memory[(self.rank + 1) % self.size].at[peer::kArena];
  Timer timer(self, streams[0]);
  for (uint64_t bytes : {uint64_t(4096), uint64_t(1) << 20, uint64_t(25) << 20,
                         uint64_t(256) << 20})
    for (bool pulls : {false, true})
      for (int parts : {1, 2, 4}) {
        int repeats = bytes <= (1 << 20) ? 20 : 4;
        auto join = [&](int from, int to) {
          device.check(
              driver.eventRecord(events[size_t(from)], streams[size_t(from)]),
              "cuEventRecord");
          device.check(driver.streamWaitEvent(streams[size_t(to)],
                                              events[size_t(from)], 0),
                       "cuStreamWaitEvent");
        };
        CUgraphExec graph = device.capture(streams[0], [&] {
          for (int i = 0; i < repeats; ++i) {
            for (int part = 1; part < parts; ++part)
              join(0, part);
            uint64_t share = bytes / uint64_t(parts);
            for (int part = 0; part < parts; ++part) {
              char *here = device.arena + share * uint64_t(part);
              char *there =
                  remote + (uint64_t(512) << 20) + share * uint64_t(part);
              device.check(
                  driver.copyOnDevice(deviceAddress(pulls ? here : there),
                                      deviceAddress(pulls ? there : here),
                                      share, streams[size_t(part)]),
                  "cuMemcpyDtoDAsync");
            }
            for (int part = 1; part < parts; ++part)
              join(part, 0);
          }
        });
        addRow(rows, pulls ? "pull" : "push", parts, bytes,
               timeOf(self, timer, graph, repeats));
      }
  ReadKernel reader(device, /*vectors=*/true);
  for (bool isLocal : {false, true})
    for (uint64_t bytes : {uint64_t(4096), uint64_t(1) << 20,
                           uint64_t(25) << 20, uint64_t(256) << 20}) {
      int repeats = bytes <= (1 << 20) ? 20 : 4;
      const char *from =
          (isLocal ? device.arena : remote) + (uint64_t(512) << 20);
      CUgraphExec graph = device.capture(streams[0], [&] {
        for (int i = 0; i < repeats; ++i)
          reader.enqueue(device.arena, from, bytes, streams[0]);
      });
      addRow(rows, isLocal ? "kernel reads its own" : "kernel reads", 1, bytes,
             timeOf(self, timer, graph, repeats));
    }
  return {};
}
