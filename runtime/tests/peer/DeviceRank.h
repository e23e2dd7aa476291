//===- DeviceRank.h - A rank with a GPU, for tests --------------*- C++ -*-===//
//
// What a test of collectives on devices needs of the cuda backend: a context,
// memory that looks like an arena, streams, graphs. Runs on a GPU and on the
// tests' driver. Failures of the driver end the process with their text, as
// nothing can be said about what comes after.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_PEER_DEVICERANK_H
#define FUSION_RUNTIME_TESTS_PEER_DEVICERANK_H

#include "DeviceCommunicator.h"
#include "Driver.h"
#include "PeerCommunicator.h"

#include <functional>

namespace fusion::rt::test {

using namespace fusion::rt::cuda;

/// Ends the process unless `status` is ok.
void mustBe(const Status &status, const char *where);
inline CUdeviceptr deviceAddress(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// The GPU of a rank: number `rank` modulo their count.
class DeviceRank {
public:
  explicit DeviceRank(uint32_t rank, uint64_t arenaSize);

  const Driver &driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  char *arena = nullptr;
  uint64_t arenaSize;

  void check(CUresult result, const char *call) const {
    mustBe(driver.check(result, call), call);
  }
  CUstream makeStream() const;
  CUevent makeEvent(unsigned flags) const;
  char *allocate(uint64_t size) const;
  void upload(char *to, const void *from, uint64_t size) const;
  void download(void *to, const char *from, uint64_t size) const;
  /// Whether what is on `stream` ended within `seconds`.
  bool wait(CUstream stream, double seconds) const;
  /// What `body` puts on `stream`, as a graph that is uploaded.
  CUgraphExec capture(CUstream stream, const std::function<void()> &body) const;

private:
  CUstream plain = nullptr;
};

/// Where a run's inputs and outputs lie: in the arena, in a caller's buffers,
/// or inputs in the arena and outputs among those that the session allocates.
/// Of the last, odd ranks give buffers of their own instead, or even ranks do.
enum class Placement { Arena, Caller, OddCallers, EvenCallers };

/// Runs collectives of host buffers on a device, for the suite. Each run takes
/// fresh places; is put on a stream directly, or captured and replayed twice.
class DeviceRunner final : public Communicator {
public:
  struct Options {
    Placement placement = Placement::Arena;
    bool isCaptured = false;
    PeerOptions peer;
  };
  DeviceRunner(uint32_t rank, uint32_t size,
               std::shared_ptr<Rendezvous> rendezvous, Options options);
  ~DeviceRunner() override;

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const std::vector<Group> &groups) override;
  Status run(const CollectiveRun &run) override;
  Counts counts() const override { return {}; }

private:
  uint32_t ownRank, ranks;
  std::shared_ptr<Rendezvous> rendezvous;
  bool sharesOutputs() const {
    return options.placement >= Placement::OddCallers;
  }

  Options options;
  std::unique_ptr<DeviceRank> device;
  Program program;
  std::vector<Group> groups;
  std::unique_ptr<DeviceCommunicator> communicator;
  CUstream stream = nullptr;
  char *outside = nullptr, *outputs = nullptr;
};

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_PEER_DEVICERANK_H
