//===- FakeDevice.h - The device behind the tests' driver -------*- C++ -*-===//
//
// The state that FakeCuda.cpp's entries share: objects, memory, captures, and
// what the tests asked to go wrong.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_CUDA_FAKEDEVICE_H
#define FUSION_RUNTIME_TESTS_CUDA_FAKEDEVICE_H

#include "Driver.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fusion::rt::test {

using namespace fusion::rt::cuda;

constexpr CUresult kInvalidValue = 1, kInvalidContext = 201, kNotFound = 500,
                   kIllegalAddress = 700, kUnsupportedInCapture = 900,
                   kUnjoined = 904, kCapturedEvent = 907, kUpdateFailure = 910;

struct Allocation {
  std::shared_ptr<char> bytes; ///< of the host
  uint64_t size = 0;
  int device = 0;
  uint64_t reserved = 0;  ///< of addresses
  int file = -1;          ///< that holds the bytes, once others may open them
  bool isForeign = false; ///< of another process
};

/// One captured operation: what it is, for updates, and what it does.
struct Step {
  std::string kind;
  std::function<CUresult()> act;
  bool isKernel = false;
  std::vector<CUgraphNode> after; ///< captured: steps, by number from 1 on
  CUmemsetNodeParams fill{};      ///< of a fill
  bool isGone = false;            ///< out of the graph again
};

/// How far each stream of a capture is known to have come.
using Clock = std::map<CUstream, uint64_t>;

struct Capture {
  CUstream origin;
  std::vector<Step> steps;
  std::map<CUstream, Clock> clocks; ///< of the streams that take part
  /// What comes next on a stream waits for: steps, by number from 1 on.
  std::map<CUstream, std::vector<CUgraphNode>> last;
  bool isInvalid = false; ///< something was asked for that it can't
};

struct FakeEvent {
  Capture *capture = nullptr; ///< it was recorded in
  Clock clock;
  std::vector<CUgraphNode> last;
  double time = 0;
};

struct FakeGraph {
  std::vector<Step> steps;
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, uint64_t> counts;
  std::map<std::string, std::pair<uint64_t, int>> failures;
  std::map<std::string, int64_t> settings{{"total", int64_t(1) << 30},
                                          {"sm", 90},
                                          {"devices", 1},
                                          {"twins", 0},
                                          {"version", 12080},
                                          {"init", 0},
                                          {"stolen", 0},
                                          {"hang", 0},
                                          {"fault", 0},
                                          {"peers", 1},
                                          {"jitter", 0}};
  std::map<std::string, int64_t> live;
  std::map<CUdeviceptr, Allocation> memory;
  std::set<CUstream> streams;
  std::set<FakeGraph *> graphs, executables;
  FakeGraph *edited = nullptr; ///< what nodes are of: the last one captured
  std::unique_ptr<Capture> capture;
  std::deque<Step> pending;    ///< behind one that waits for another process
  std::set<std::string> names; ///< of functions, as handles
  uint64_t used = 0;
  double clock = 0;     ///< milliseconds of the device
  uint64_t kernels = 0; ///< begun
  bool isLost = false;
  bool isHung = false;   ///< a kernel never ends
  bool isStrict = false; ///< a lost device is not to be asked again
  bool isTold = false;   ///< that it is lost
};

/// Contexts of the thread.
extern thread_local std::vector<CUcontext> pushed;

State &state();
CUcontext theContext();
/// The beginning of every entry: counts it, and says how it fails, if it does.
CUresult enter(const char *entry, bool needsContext);
/// Does what can be done of `pending`; whether the device is done.
bool drain();
/// What waits for a kernel that never ends never returns.
void waitForDevice();
Allocation *find(CUdeviceptr address, uint64_t size, uint64_t &offset);
/// The bytes behind a device address, or null (and the device is lost).
char *bytesAt(CUdeviceptr address, uint64_t size);
/// Does `step` now, or notes it if `stream` is captured. A step that gives
/// kErrorNotReady is done again, and what comes next waits for it.
CUresult submit(CUstream stream, Step step);
/// Whether `stream` is captured; what asks can't be, and the capture is lost.
bool invalidates(CUstream stream);
CUresult copyBytes(CUdeviceptr target, CUdeviceptr source, uint64_t size);
CUdeviceptr allocate(uint64_t size, int device);
/// Addresses for bytes that lie in the host's memory, or 0.
CUdeviceptr addAllocation(Allocation allocation);
bool release(CUdeviceptr pointer);
CUresult compute(const std::string &name,
                 const std::vector<CUdeviceptr> &operands, uint64_t count);
/// Does the steps in an order that the capture allows: one that waits for
/// another process holds up only what comes after it.
CUresult runSteps(const FakeGraph &graph);
CUresult copyRows(const CUcopy2D &copy);
CUresult fill(CUdeviceptr target, const void *value, uint64_t size,
              uint64_t count);
/// Words that other processes read and write.
bool isWord(const char *word, uint32_t value);
void storeWord(char *word, uint32_t value);
/// A kernel on the device: computes, never ends or goes wrong, as set.
CUresult runKernel(const std::string &name,
                   const std::vector<CUdeviceptr> &operands, uint64_t count);

/// The kernel that fills words.
constexpr const char *kFillKernel = "fusion_fill";
/// The kernel that waits for other ranks.
constexpr const char *kWaitKernel = "fusion_peer_wait";
CUresult launchWait(const CUlaunchConfig &config, void **parameters);
/// One that reads other ranks' memory, of the check of peer collectives.
constexpr const char *kReadKernel = "fusion_peer_read";
CUresult launchRead(const CUlaunchConfig &config, void **parameters);

#define ENTER(entry, needsContext)                                             \
  std::lock_guard<std::recursive_mutex> lock(state().mutex);                   \
  if (CUresult entered = enter(entry, needsContext))                           \
  return entered

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_CUDA_FAKEDEVICE_H
