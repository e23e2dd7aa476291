//===- Executor.h - What a backend does -------------------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_SESSION_EXECUTOR_H
#define FUSION_RUNTIME_SESSION_EXECUTOR_H

#include "ModuleFile.h"
#include "Status.h"

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fusion::rt {

/// Every entry into a backend. Bytes are the planned sizes of the ranges.
struct Counters {
  uint64_t runs = 0;
  uint64_t launches = 0; ///< kernels on their own, without tails
  uint64_t tails = 0;    ///< kernels that are the epilogue of a call
  uint64_t calls = 0;
  uint64_t copies = 0;
  uint64_t records = 0, waits = 0;
  uint64_t collectives = 0;
  uint64_t bytesRead = 0, bytesWritten = 0;
};

/// Sees each command of a run, for profiles and NaN checks.
class Observer {
public:
  virtual ~Observer() = default;
  /// Whether commands must come one by one in list order. If not, those of
  /// different streams may come at once, each stream's from one thread.
  virtual bool needsOrder() const { return true; }
  virtual void before(size_t) {}
  virtual void after(size_t) {}
};

/// Bytes that an executor has allocated.
struct MemoryUse {
  uint64_t arena = 0;         ///< private, peer and pinned segments
  uint64_t packed = 0;        ///< weights in the library's own layout
  uint64_t scratchpad = 0;    ///< of library calls
  uint64_t communication = 0; ///< what other ranks send, before it is combined
  uint64_t total() const { return arena + packed + scratchpad + communication; }
};

class Communicator;
class DeviceCommunicator;
struct RankProgress;

struct SessionOptions {
  /// "cpu", "cuda" or "null"; empty: what the module is for.
  std::string backend;
  int device = 0;           ///< of the cuda backend: which GPU
  int threads = 0;          ///< 0: all CPUs this process may use
  uint64_t memoryLimit = 0; ///< bytes; 0: none
  /// A run stops between two steps, with `Internal` and the message
  /// "interrupted", once this is not zero; may be null.
  const volatile std::sig_atomic_t *stop = nullptr;
  /// Seconds that a GPU may take for one run, or for one command where each is
  /// waited for; 0: any time. The run then ends with `Timeout`, and the session
  /// takes no other.
  double timeout = 60;
  /// The cuda backend times the libraries' algorithms when it plans a call, or
  /// takes what was found earlier on a device of this kind, and remembers it.
  bool autotune = false;
  /// Of a program with a mesh: what connects this rank with the others, on the
  /// CPU or on GPUs. A session uses up the latter: it connects, and ends, with
  /// the session, which should hold the only reference.
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<DeviceCommunicator> deviceCommunicator;
  /// Of a job: gives every rank the largest of their values. All ranks call it
  /// equally often; may be empty.
  std::function<Status(double &)> agreeOnLargest;
  /// The same reductions have the same bits each time, at some cost.
  bool deterministic = false;
  /// Gets what each stream does, or null; outlives the session.
  RankProgress *progress = nullptr;
};

/// Microseconds of single runs on buffers of the device.
struct Timings {
  std::vector<double> device; ///< by the device's clock, means of `replays`
  std::vector<double> wall;   ///< from launch until the host knows its end
  int64_t replays = 0;
  bool hasWall = true; ///< asked for: without it `wall` stays empty
};

/// A backend bound to one module.
class Executor {
public:
  virtual ~Executor() = default;

  /// Makes everything a run at `batch` needs. Runs at a prepared batch
  /// allocate nothing.
  virtual Status prepare(int64_t batch) = 0;

  /// Runs the program. `bases[s]` is the address of segment s if it is an
  /// input or output; other entries are ignored.
  virtual Status run(int64_t batch, void *const *bases, Observer *observer) = 0;

  /// Whether the backend takes the caller's buffers itself, by `runBound`, in
  /// the ports' order; else it gets segments' addresses, by `run`.
  virtual bool bindsBuffers() const { return false; }
  virtual Status runBound(int64_t, const void *const *, void *const *,
                          Observer *) {
    return Status(Code::Internal, "this backend takes segments");
  }
  /// As `runBound`, at the last run's batch: what inputs donate is what that
  /// run left, and stays where it is instead of going to its output.
  virtual Status stepBound(int64_t, const void *const *, void *const *) {
    return Status(Code::Internal, "this backend takes segments");
  }
  /// Puts a run on the caller's stream and returns: all buffers are the
  /// device's.
  virtual Status enqueue(int64_t, const void *const *, void *const *, void *) {
    return Status(Code::Usage, "only the cuda backend runs on a stream");
  }

  /// Times `count` runs on the buffers of the last run, which was at `batch`,
  /// without copies from or to the host. Donated inputs hold what the run
  /// before left there. Leaves `timings` empty if the device is the CPU.
  virtual Status measure(int64_t, int64_t, Timings &) { return {}; }

  /// The address of a range during the last run, or null (null backend).
  virtual const void *address(const ByteRange &range) const = 0;

  /// What the user should know of how commands run here, one line each.
  virtual std::vector<std::string> notes() const { return {}; }

  virtual MemoryUse memory() const = 0;
  virtual Counters counters() const = 0;
};

/// The CPU backend. Loads native code: the caller has checked trust. `module`
/// outlives the executor.
Expected<std::unique_ptr<Executor>>
makeCpuExecutor(const ModuleView &module, const SessionOptions &options);

/// The CUDA backend, on the GPU `options.device`. The caller has checked trust.
/// `Environment` without a driver or a GPU that runs the module. `module`
/// outlives the executor.
Expected<std::unique_ptr<Executor>>
makeCudaExecutor(const ModuleView &module, const SessionOptions &options);

/// The counting backend: computes nothing, writes zeros to the outputs.
Expected<std::unique_ptr<Executor>>
makeNullExecutor(const ModuleView &module, const SessionOptions &options);

/// Counts one execution of every command of `program` at the largest batch.
Counters countCommands(const Program &program);

/// `Resources` if `need` exceeds the limit (0: none): names need, limit and the
/// five largest private buffers.
Status checkMemoryLimit(const Program &program, uint64_t need, uint64_t limit);

/// The error for a program that needs `need` bytes and can't have them because
/// of `reason` ("the limit is ...; raise it"); names the five largest private
/// buffers.
Status outOfMemory(const Program &program, uint64_t need,
                   const std::string &reason);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_SESSION_EXECUTOR_H
