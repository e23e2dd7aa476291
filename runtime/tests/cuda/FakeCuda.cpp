//===- FakeCuda.cpp - A CUDA driver without a GPU, for tests --------------===//
//
// libcuda.so.1 with the entries that the runtime uses. Device addresses are
// reserved and unreadable: the bytes lie elsewhere, so a runtime that touches
// them from the host crashes. Streams execute at once outside a capture, a
// captured graph when it is launched. Kernels are those of Kernels.c, by name:
// a block computes 32 floats. Accesses outside an allocation lose the device,
// as on a GPU. FUSION_FAKE_CUDA ("init=34,total=4096") sets what
// `fakeCudaSet` does, for whole processes. One file: the entries share one
// state of a device, which nothing else may see.
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"
#include "Driver.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace fusion::rt::cuda;

namespace {

constexpr CUresult kInvalidValue = 1, kInvalidContext = 201, kNotFound = 500,
                   kIllegalAddress = 700, kUnsupportedInCapture = 900,
                   kUnjoined = 904, kUpdateFailure = 910;

struct Allocation {
  std::vector<char> bytes;
  int device;
  uint64_t reserved;
};

/// One captured operation: what it is, for updates, and what it does.
struct Step {
  std::string kind;
  std::function<CUresult()> act;
};

/// How far each stream of a capture is known to have come.
using Clock = std::map<CUstream, uint64_t>;

struct Capture {
  CUstream origin;
  std::vector<Step> steps;
  std::map<CUstream, Clock> clocks; ///< of the streams that take part
};

struct FakeEvent {
  Capture *capture = nullptr; ///< it was recorded in
  Clock clock;
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
                                          {"version", 12080},
                                          {"init", 0}};
  std::map<std::string, int64_t> live;
  std::map<CUdeviceptr, Allocation> memory;
  std::set<CUstream> streams;
  std::set<FakeGraph *> graphs, executables;
  std::unique_ptr<Capture> capture;
  std::set<std::string> names; ///< of functions, as handles
  uint64_t used = 0;
  double clock = 0; ///< milliseconds of the device
  bool isLost = false;
};

State &state() {
  static State *shared = [] {
    auto *made = new State; // outlives every static of the process
    const char *text = std::getenv("FUSION_FAKE_CUDA");
    std::istringstream words(text ? text : "");
    for (std::string word; std::getline(words, word, ',');)
      made->settings[word.substr(0, word.find('='))] =
          std::atoll(word.c_str() + word.find('=') + 1);
    return made;
  }();
  return *shared;
}

thread_local std::vector<CUcontext> pushed;

CUcontext theContext() { return reinterpret_cast<CUcontext>(0x1000); }

/// The beginning of every entry: counts it, and says how it fails, if it does.
CUresult enter(const char *entry, bool needsContext) {
  State &fake = state();
  ++fake.counts[entry];
  ++fake.counts["all"];
  auto failure = fake.failures.find(entry);
  if (failure != fake.failures.end() && failure->second.first-- == 0) {
    CUresult result = failure->second.second;
    fake.failures.erase(failure);
    fake.isLost |= result >= 700 && result < 720;
    return result;
  }
  if (needsContext && pushed.empty())
    return kInvalidContext;
  return fake.isLost && needsContext ? kIllegalAddress : kSuccess;
}

#define ENTER(entry, needsContext)                                             \
  std::lock_guard<std::recursive_mutex> lock(state().mutex);                   \
  if (CUresult entered = enter(entry, needsContext))                           \
  return entered

Allocation *find(CUdeviceptr address, uint64_t size, uint64_t &offset) {
  State &fake = state();
  auto next = fake.memory.upper_bound(address);
  if (next == fake.memory.begin())
    return nullptr;
  --next;
  offset = address - next->first;
  uint64_t all = next->second.bytes.size();
  return offset <= all && size <= all - offset ? &next->second : nullptr;
}

/// The bytes behind a device address, or null (and the device is lost).
char *bytesAt(CUdeviceptr address, uint64_t size) {
  uint64_t offset = 0;
  Allocation *memory = find(address, size, offset);
  if (!memory)
    state().isLost = true;
  return memory ? memory->bytes.data() + offset : nullptr;
}

/// Does `step` now, or notes it if `stream` is captured.
CUresult submit(CUstream stream, Step step) {
  State &fake = state();
  if (stream && !fake.streams.count(stream))
    return 400; // invalid handle
  Capture *capture = fake.capture.get();
  if (capture && capture->clocks.count(stream)) {
    ++capture->clocks[stream][stream];
    capture->steps.push_back(std::move(step));
    return kSuccess;
  }
  return step.act();
}

CUresult copyBytes(CUdeviceptr target, CUdeviceptr source, uint64_t size) {
  char *to = bytesAt(target, size), *from = bytesAt(source, size);
  if (!to || !from)
    return kIllegalAddress;
  std::memmove(to, from, size);
  return kSuccess;
}

CUdeviceptr allocate(uint64_t size, int device) {
  uint64_t reserved = (size + 4095) / 4096 * 4096;
  void *address = mmap(nullptr, reserved, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return 0;
  auto pointer = reinterpret_cast<CUdeviceptr>(address);
  // Not zeros: whatever is left unwritten shows.
  state().memory[pointer] = {std::vector<char>(size, char(0xff)), device,
                             reserved};
  state().used += size;
  return pointer;
}

bool release(CUdeviceptr pointer) {
  auto known = state().memory.find(pointer);
  if (known == state().memory.end())
    return false;
  state().used -= known->second.bytes.size();
  munmap(reinterpret_cast<void *>(pointer), known->second.reserved);
  state().memory.erase(known);
  return true;
}

CUresult compute(const std::string &name,
                 const std::vector<CUdeviceptr> &operands, uint64_t count) {
  std::vector<float *> at;
  for (CUdeviceptr operand : operands)
    at.push_back(reinterpret_cast<float *>(bytesAt(operand, count * 4)));
  if (std::count(at.begin(), at.end(), nullptr))
    return kIllegalAddress;
  for (uint64_t i = 0; i < count; ++i) {
    if (name == "relu")
      at[1][i] = std::max(at[0][i], 0.0f);
    else if (name == "add")
      at[2][i] = at[0][i] + at[1][i];
    else if (name == "twice")
      at[0][i] *= 2;
    else if (name == "exponential")
      at[1][i] = std::exp(at[0][i]);
    else
      at[1][i] = std::numeric_limits<float>::quiet_NaN();
  }
  return kSuccess;
}

CUresult runSteps(const FakeGraph &graph) {
  state().clock += 0.05;
  for (const Step &step : graph.steps)
    if (step.act() != kSuccess)
      state().isLost = true; // found when somebody waits
  return kSuccess;
}

} // namespace

//===----------------------------------------------------------------------===//
// For the tests
//===----------------------------------------------------------------------===//

void fakeCudaReset() {
  State &fake = state();
  fake.counts.clear();
  fake.failures.clear();
  fake.isLost = false;
  fake.capture.reset();
}
uint64_t fakeCudaCount(const char *entry) { return state().counts[entry]; }
void fakeCudaFail(const char *entry, uint64_t skipped, int result) {
  state().failures[entry] = {skipped, result};
}
void fakeCudaSet(const char *key, int64_t value) {
  state().settings[key] = value;
}
int64_t fakeCudaLive(const char *kind) {
  if (!std::strcmp(kind, "memory"))
    return int64_t(state().memory.size());
  if (!std::strcmp(kind, "pushed"))
    return int64_t(pushed.size());
  return state().live[kind];
}
void fakeCudaForget() {
  State &fake = state();
  while (!fake.memory.empty())
    release(fake.memory.begin()->first);
  for (CUstream stream : fake.streams)
    delete reinterpret_cast<char *>(stream);
  for (auto *set : {&fake.graphs, &fake.executables}) {
    for (FakeGraph *graph : *set)
      delete graph;
    set->clear();
  }
  fake.streams.clear();
  fake.live.clear();
}
void *fakeCudaAllocate(uint64_t size, int device) {
  return reinterpret_cast<void *>(allocate(size, device));
}
void fakeCudaFree(void *pointer) {
  release(reinterpret_cast<CUdeviceptr>(pointer));
}
void fakeCudaWrite(void *device, const void *host, uint64_t size) {
  std::memcpy(bytesAt(reinterpret_cast<CUdeviceptr>(device), size), host, size);
}
void fakeCudaRead(void *host, const void *device, uint64_t size) {
  std::memcpy(host, bytesAt(reinterpret_cast<CUdeviceptr>(device), size), size);
}

//===----------------------------------------------------------------------===//
// The driver's entries
//===----------------------------------------------------------------------===//

extern "C" {

CUresult cuInit(unsigned) {
  ENTER("cuInit", false);
  return CUresult(state().settings["init"]);
}
CUresult cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion", false);
  *version = int(state().settings["version"]);
  return kSuccess;
}
CUresult cuGetErrorName(CUresult result, const char **name) {
  *name = result == kIllegalAddress     ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == kErrorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                        : "CUDA_ERROR_OF_THE_TESTS";
  return kSuccess;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "said the fake";
  return kSuccess;
}
CUresult cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", false);
  *count = int(state().settings["devices"]);
  return kSuccess;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER("cuDeviceGet", false);
  *device = ordinal;
  return kSuccess;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  std::strncpy(name, "Fake GPU", size_t(size));
  return kSuccess;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  ENTER("cuDeviceGetAttribute", false);
  int sm = int(state().settings["sm"]);
  *value = attribute == kAttributeMajor ? sm / 10 : sm % 10;
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  *context = theContext();
  ++state().live["context"];
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  ENTER("cuDevicePrimaryCtxRelease_v2", false);
  --state().live["context"];
  return kSuccess;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  pushed.push_back(context);
  return kSuccess;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (pushed.empty())
    return kInvalidContext;
  *context = pushed.back();
  pushed.pop_back();
  return kSuccess;
}
CUresult cuCtxSynchronize() {
  ENTER("cuCtxSynchronize", true);
  return state().capture ? kUnsupportedInCapture : kSuccess;
}
CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER("cuMemGetInfo_v2", true);
  *total = size_t(state().settings["total"]);
  *free = *total - std::min<size_t>(*total, state().used);
  return kSuccess;
}
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
  ENTER("cuMemAlloc_v2", true);
  if (size == 0 || state().capture)
    return size == 0 ? kInvalidValue : kUnsupportedInCapture;
  if (state().used + size > uint64_t(state().settings["total"]))
    return kErrorOutOfMemory;
  *pointer = allocate(size, 0);
  return *pointer ? kSuccess : kErrorOutOfMemory;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  ENTER("cuMemFree_v2", true);
  return release(pointer) ? kSuccess : kInvalidValue;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source,
                              size_t size, CUstream stream) {
  ENTER("cuMemcpyHtoDAsync_v2", true);
  return submit(stream, {"upload", [=] {
                           char *to = bytesAt(target, size);
                           if (!to)
                             return kIllegalAddress;
                           std::memcpy(to, source, size);
                           return kSuccess;
                         }});
}
CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size,
                              CUstream stream) {
  ENTER("cuMemcpyDtoHAsync_v2", true);
  return submit(stream, {"download", [=] {
                           char *from = bytesAt(source, size);
                           if (!from)
                             return kIllegalAddress;
                           std::memcpy(target, from, size);
                           return kSuccess;
                         }});
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source,
                              size_t size, CUstream stream) {
  ENTER("cuMemcpyDtoDAsync_v2", true);
  return submit(stream,
                {"copy", [=] { return copyBytes(target, source, size); }});
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            int *keys, void **values) {
  ENTER("cuModuleLoadDataEx", true);
  const char *text = static_cast<const char *>(image);
  bool isPtx = !std::strncmp(text, "// PTX of the tests", 19);
  if (!isPtx && std::strncmp(text, "cubin of the tests", 18) != 0) {
    for (unsigned i = 0; i < count; ++i)
      if (keys[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "line 1: no PTX");
    return 218; // invalid PTX
  }
  if (!isPtx && state().settings["sm"] / 10 != 9)
    return kErrorNoBinary;
  ++state().counts[isPtx ? "PTX" : "cubin"];
  ++state().live["module"];
  *module = reinterpret_cast<CUmodule>(0x2000);
  return kSuccess;
}
CUresult cuModuleUnload(CUmodule) {
  ENTER("cuModuleUnload", true);
  --state().live["module"];
  return kSuccess;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  ENTER("cuModuleGetFunction", true);
  for (const char *known : {"relu", "add", "twice", "exponential", "poison"})
    if (!std::strcmp(name, known)) {
      const std::string &kept = *state().names.insert(name).first;
      *function =
          reinterpret_cast<CUfunction>(const_cast<std::string *>(&kept));
      return kSuccess;
    }
  return kNotFound;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned shared, CUstream stream,
                        void **parameters, void **extra) {
  ENTER("cuLaunchKernel", true);
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX != 32 || blockY != 1 ||
      blockZ != 1 || shared != 0 || extra)
    return kInvalidValue;
  const std::string &name = *reinterpret_cast<std::string *>(function);
  size_t count = name == "add" ? 3 : name == "twice" ? 1 : 2;
  // The arguments are read now, as the driver does.
  std::vector<CUdeviceptr> operands(count);
  std::memcpy(operands.data(), parameters[0], count * sizeof(CUdeviceptr));
  return submit(stream, {name, [=] {
                           return compute(name, operands, uint64_t(gridX) * 32);
                         }});
}
CUresult cuStreamCreate(CUstream *stream, unsigned) {
  ENTER("cuStreamCreate", true);
  *stream = reinterpret_cast<CUstream>(new char);
  state().streams.insert(*stream);
  ++state().live["stream"];
  return kSuccess;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  ENTER("cuStreamDestroy_v2", true);
  if (!state().streams.erase(stream))
    return 400;
  delete reinterpret_cast<char *>(stream);
  --state().live["stream"];
  return kSuccess;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ENTER("cuStreamSynchronize", true);
  Capture *capture = state().capture.get();
  return capture && capture->clocks.count(stream) ? kUnsupportedInCapture
                                                  : kSuccess;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER("cuStreamWaitEvent", true);
  auto *from = reinterpret_cast<FakeEvent *>(event);
  Capture *capture = state().capture.get();
  if (!capture || from->capture != capture)
    return capture && capture->clocks.count(stream) ? 907 : kSuccess;
  Clock &clock = capture->clocks[stream];
  for (auto [each, time] : from->clock)
    clock[each] = std::max(clock[each], time);
  ++clock[stream];
  return kSuccess;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  ENTER("cuStreamBeginCapture_v2", true);
  if (state().capture || mode != kCaptureThreadLocal)
    return kUnsupportedInCapture;
  state().capture = std::make_unique<Capture>();
  state().capture->origin = stream;
  state().capture->clocks[stream];
  return kSuccess;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ENTER("cuStreamEndCapture", true);
  std::unique_ptr<Capture> capture = std::move(state().capture);
  *graph = nullptr;
  if (!capture || capture->origin != stream)
    return 903;
  // All that the other streams do must be known to the first one.
  for (auto &[each, clock] : capture->clocks)
    if (each != stream && capture->clocks[stream][each] < clock[each])
      return kUnjoined;
  auto *made = new FakeGraph{std::move(capture->steps)};
  state().graphs.insert(made);
  ++state().live["graph"];
  *graph = reinterpret_cast<CUgraph>(made);
  return kSuccess;
}
CUresult cuEventCreate(CUevent *event, unsigned) {
  ENTER("cuEventCreate", true);
  *event = reinterpret_cast<CUevent>(new FakeEvent);
  ++state().live["event"];
  return kSuccess;
}
CUresult cuEventDestroy_v2(CUevent event) {
  ENTER("cuEventDestroy_v2", true);
  delete reinterpret_cast<FakeEvent *>(event);
  --state().live["event"];
  return kSuccess;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER("cuEventRecord", true);
  auto *to = reinterpret_cast<FakeEvent *>(event);
  Capture *capture = state().capture.get();
  to->time = state().clock;
  to->capture = nullptr;
  if (capture && capture->clocks.count(stream)) {
    to->capture = capture;
    to->clock = capture->clocks[stream];
  }
  return kSuccess;
}
CUresult cuEventSynchronize(CUevent) {
  ENTER("cuEventSynchronize", true);
  return kSuccess;
}
CUresult cuEventElapsedTime(float *millis, CUevent begin, CUevent end) {
  ENTER("cuEventElapsedTime", true);
  *millis = float(reinterpret_cast<FakeEvent *>(end)->time -
                  reinterpret_cast<FakeEvent *>(begin)->time);
  return kSuccess;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags", true);
  auto *made = new FakeGraph(*reinterpret_cast<FakeGraph *>(graph));
  state().executables.insert(made);
  ++state().live["exec"];
  *executable = reinterpret_cast<CUgraphExec>(made);
  return kSuccess;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph,
                              CUgraphExecUpdateResultInfo *) {
  ENTER("cuGraphExecUpdate_v2", true);
  auto *to = reinterpret_cast<FakeGraph *>(executable);
  auto *from = reinterpret_cast<FakeGraph *>(graph);
  auto isSame = [](const Step &a, const Step &b) { return a.kind == b.kind; };
  if (!std::equal(to->steps.begin(), to->steps.end(), from->steps.begin(),
                  from->steps.end(), isSame))
    return kUpdateFailure;
  to->steps = from->steps;
  return kSuccess;
}
CUresult cuGraphUpload(CUgraphExec, CUstream) {
  ENTER("cuGraphUpload", true);
  return kSuccess;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER("cuGraphLaunch", true);
  auto *graph = reinterpret_cast<FakeGraph *>(executable);
  if (!state().executables.count(graph))
    return 400;
  return submit(stream, {"graph", [=] { return runSteps(*graph); }});
}
CUresult cuGraphDestroy(CUgraph graph) {
  ENTER("cuGraphDestroy", true);
  auto *known = reinterpret_cast<FakeGraph *>(graph);
  if (!state().graphs.erase(known))
    return 400;
  delete known;
  --state().live["graph"];
  return kSuccess;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  ENTER("cuGraphExecDestroy", true);
  auto *known = reinterpret_cast<FakeGraph *>(executable);
  if (!state().executables.erase(known))
    return 400;
  delete known;
  --state().live["exec"];
  return kSuccess;
}
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
  ENTER("cuPointerGetAttribute", true);
  uint64_t offset = 0;
  Allocation *memory = find(pointer, 0, offset);
  if (!memory)
    return kInvalidValue;
  if (attribute == kPointerMemoryType)
    *static_cast<unsigned *>(data) = kMemoryTypeDevice;
  else if (attribute == kPointerDevice)
    *static_cast<int *>(data) = memory->device;
  else
    return kInvalidValue;
  return kSuccess;
}

} // extern "C"
