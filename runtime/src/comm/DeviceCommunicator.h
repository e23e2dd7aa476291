//===- DeviceCommunicator.h - Collectives on a GPU's streams ----*- C++ -*-===//
//
// What the cuda backend asks for a collective: unlike a `Communicator`, which
// runs it to its end, this one puts it on a stream, where it waits for the
// other ranks' devices. A whole step, collectives included, is captured once
// and replayed, so everything that must be made, opened or agreed is done in
// `connect`.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_DEVICECOMMUNICATOR_H
#define FUSION_RUNTIME_COMM_DEVICECOMMUNICATOR_H

#include "Communicator.h"

namespace fusion::rt {

namespace cuda {
struct Driver;
using CUdevice = int;
using CUcontext = struct CUctx_st *;
using CUstream = struct CUstream_st *;
} // namespace cuda

/// What the collectives of a program touch, on this rank.
struct DeviceSetup {
  const cuda::Driver *driver = nullptr;
  cuda::CUcontext context = nullptr;
  cuda::CUdevice device = 0;
  const Program *program = nullptr; ///< its collectives, to size staging by
  std::vector<Group> groups;        ///< as `groupsOf` gives them
  /// The private segments: one allocation, of the same layout on all ranks.
  char *arena = nullptr;
  uint64_t arenaSize = 0;
  /// Outputs that the session allocates, if copies between GPUs write any: one
  /// allocation, of the same layout on all ranks. A caller may give other
  /// buffers for a run.
  char *outputs = nullptr;
  uint64_t outputsSize = 0;
  std::vector<char *> outputBuffers; ///< by segment; null: not among them
  int64_t batch = 0;                 ///< the largest
  double timeout = 60; ///< seconds that a rank waits for the others
  bool deterministic = false;
};

/// What puts collectives on a GPU's streams. Used by one thread at a time; the
/// context is current in all functions but `poll` and `abort`.
class DeviceCommunicator {
public:
  virtual ~DeviceCommunicator() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;

  /// Connects all groups and makes what collectives need. Called once; all
  /// ranks call it. `setup.program` outlives the communicator. `Rejected` names
  /// a collective that this transport does not do, `Timeout` who is missing.
  virtual Status connect(const DeviceSetup &setup) = 0;

  /// Puts a collective on `stream`, which may be captured: allocates nothing
  /// and waits for nothing. Addresses are the device's. Collectives of one
  /// group are put in list order.
  virtual Status enqueue(const CollectiveRun &run, cuda::CUstream stream) = 0;

  /// Of a direct move that `enqueue` does not copy: where this rank reads
  /// `size` bytes at `offset` of the output of `part`, all of one rank's, from
  /// the move to its release. Null: they are copied there. All ranks copy a
  /// move, or none; asked after `connect`.
  virtual const char *directSource(const CollectiveRun & /*run*/,
                                   size_t /*part*/, uint64_t /*offset*/,
                                   uint64_t /*size*/) const {
    return nullptr;
  }

  /// Bytes of the device that this holds.
  virtual uint64_t bytes() const = 0;

  /// Whether the ranks still work together, asked while this one waits for its
  /// device: an error that came up by itself (`PeerFailed`), or Ok.
  virtual Status poll() = 0;

  /// Gives up: what waits on the device for other ranks ends. Returns within a
  /// second. Afterwards only the destructor may be called.
  virtual void abort() = 0;

  /// Collectives put on streams and the bytes that this rank sends in them. A
  /// replay of a captured step adds nothing.
  struct Counts {
    const char *transport = ""; ///< "nccl", "peer"
    uint64_t collectives = 0, bytesSent = 0;
  };
  virtual std::vector<Counts> counts() const = 0;

  /// What the user should know, one line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// What no other GPU has: "GPU-...", as nvidia-smi -L prints. `Usage` if there
/// is no GPU of this number, `Environment` without a driver.
Expected<std::string> deviceName(int device);

/// All collectives through NCCL, which is opened by `connect`: `Environment` if
/// it is not installed. `rendezvous` carries the communicators' ids.
std::unique_ptr<DeviceCommunicator>
makeNcclCommunicator(uint32_t rank, uint32_t size,
                     std::shared_ptr<Rendezvous> rendezvous);

/// Each collective through the transport that it names.
std::unique_ptr<DeviceCommunicator>
makeDeviceCommunicator(uint32_t rank, uint32_t size,
                       std::shared_ptr<Rendezvous> rendezvous);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_COMM_DEVICECOMMUNICATOR_H
