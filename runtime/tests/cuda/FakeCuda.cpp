//===- FakeCuda.cpp - A CUDA driver without a GPU, for tests --------------===//
//
// libcuda.so.1 with the entries that the runtime uses. Device addresses are
// reserved and unreadable: the bytes lie elsewhere, so a runtime that touches
// them from the host crashes. Streams execute at once outside a capture, a
// captured graph when it is launched. Kernels are those of Kernels.c, by name:
// a block computes 32 floats. Accesses outside an allocation lose the device,
// as on a GPU. FUSION_FAKE_CUDA ("init=34,total=4096,cuMemAlloc_v2=2") sets
// what `fakeCudaSet` does, or how an entry's first call fails, for whole
// processes; such a process dies if it goes on to ask a device that it was told
// is lost. The device is FakeDevice.cpp's.
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"
#include "FakeDevice.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace fusion::rt::test;

extern "C" {

CUresult cuInit(unsigned) {
  ENTER("cuInit", false);
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible && !*visible ? kErrorNoDevice
                              : CUresult(state().settings["init"]);
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
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER("cuDeviceGetUuid_v2", false);
  *uuid = {};
  uuid->bytes[15] = state().settings["twins"] ? 1 : uint8_t(device + 1);
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
  waitForDevice();
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
  if (state().used + size >
      uint64_t(state().settings["total"] - state().settings["stolen"]))
    return kErrorOutOfMemory;
  *pointer = allocate(size, 0);
  return *pointer ? kSuccess : kErrorOutOfMemory;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  ENTER("cuMemFree_v2", true);
  waitForDevice();
  return release(pointer) ? kSuccess : kInvalidValue;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source,
                              size_t size, CUstream stream) {
  ENTER("cuMemcpyHtoDAsync_v2", true);
  // The host's memory is its caller's again when this returns.
  auto *from = static_cast<const char *>(source);
  return submit(stream,
                {"upload", [target, size, bytes = std::string(from, size)] {
                   char *to = bytesAt(target, size);
                   if (!to)
                     return kIllegalAddress;
                   std::memcpy(to, bytes.data(), size);
                   return kSuccess;
                 }});
}
CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size,
                              CUstream stream) {
  ENTER("cuMemcpyDtoHAsync_v2", true);
  waitForDevice();
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
CUresult cuMemcpy2DAsync_v2(const CUcopy2D *copy, CUstream stream) {
  ENTER("cuMemcpy2DAsync_v2", true);
  return submit(stream, {"rows", [copy = *copy] { return copyRows(copy); }});
}
/// A fill, as a memset of the driver's own.
static CUresult submitFill(CUstream stream, CUdeviceptr target, unsigned value,
                           unsigned size, size_t count) {
  Step step{"fill", [=] {
              ++state().counts["memset"];
              return fill(target, &value, size, count);
            }};
  step.fill = {target, 0, value, size, count, 1};
  return submit(stream, std::move(step));
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count,
                         CUstream stream) {
  ENTER("cuMemsetD8Async", true);
  return submitFill(stream, target, value, 1, count);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count,
                          CUstream stream) {
  ENTER("cuMemsetD32Async", true);
  return submitFill(stream, target, value, 4, count);
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            int *keys, void **values) {
  ENTER("cuModuleLoadDataEx", true);
  const char *text = static_cast<const char *>(image);
  bool isPtx =
      !std::strncmp(text, "// PTX of the tests", 19) ||
      (!std::strncmp(text, "//", 2) &&
       (std::strstr(text, kWaitKernel) || std::strstr(text, kReadKernel) ||
        std::strstr(text, kFillKernel)));
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
  for (const char *known : {"relu", "add", "twice", "exponential", "poison",
                            "spin", kWaitKernel, kReadKernel, kFillKernel})
    if (!std::strcmp(name, known)) {
      const std::string &kept = *state().names.insert(name).first;
      *function =
          reinterpret_cast<CUfunction>(const_cast<std::string *>(&kept));
      return kSuccess;
    }
  return kNotFound;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra) {
  ENTER("cuLaunchKernelEx", true);
  const std::string &name = *reinterpret_cast<std::string *>(function);
  if (name == kWaitKernel)
    return launchWait(*config, parameters);
  if (name == kReadKernel)
    return launchRead(*config, parameters);
  if (config->gridX == 0 || config->gridY != 1 || config->gridZ != 1 ||
      config->blockX != 32 || config->blockY != 1 || config->blockZ != 1 ||
      config->sharedBytes != 0 || config->attributeCount > 1 || extra)
    return kInvalidValue;
  if (config->attributeCount) {
    if (config->attributes->id != kLaunchEarly || config->attributes->flag != 1)
      return kInvalidValue;
    ++state().counts["early launches"];
  }
  size_t count = name == "add" ? 3 : name == "twice" ? 1 : 2;
  // The arguments are read now, as the driver does.
  std::vector<CUdeviceptr> operands(count);
  std::memcpy(operands.data(), parameters[0], count * sizeof(CUdeviceptr));
  uint64_t floats = uint64_t(config->gridX) * 32;
  return submit(
      config->stream,
      {name, [=] { return runKernel(name, operands, floats); }, true});
}
CUresult cuStreamCreate(CUstream *stream, unsigned) {
  ENTER("cuStreamCreate", true);
  *stream = reinterpret_cast<CUstream>(new char);
  state().streams.insert(*stream);
  ++state().live["stream"];
  return kSuccess;
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                    int priority) {
  ENTER("cuStreamCreateWithPriority", true);
  if (priority < -5 || priority > 0)
    return kInvalidValue;
  ++state().counts[priority == -5 ? "first streams" : "other streams"];
  return cuStreamCreate(stream, flags);
}
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER("cuCtxGetStreamPriorityRange", true);
  *least = 0;
  *greatest = -5;
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
CUresult cuStreamSynchronize(CUstream) {
  ENTER("cuStreamSynchronize", true);
  waitForDevice();
  return kSuccess;
}
CUresult cuStreamQuery(CUstream stream) {
  ENTER("cuStreamQuery", true);
  if (invalidates(stream))
    return kUnsupportedInCapture;
  return drain() ? kSuccess : kErrorNotReady;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER("cuStreamWaitEvent", true);
  auto *from = reinterpret_cast<FakeEvent *>(event);
  Capture *capture = state().capture.get();
  if (!capture || from->capture != capture)
    return capture && capture->clocks.count(stream) ? kCapturedEvent : kSuccess;
  Clock &clock = capture->clocks[stream];
  for (auto [each, time] : from->clock)
    clock[each] = std::max(clock[each], time);
  auto &last = capture->last[stream];
  for (CUgraphNode node : from->last)
    if (!std::count(last.begin(), last.end(), node))
      last.push_back(node);
  ++clock[stream];
  return kSuccess;
}
CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  ENTER("cuStreamIsCapturing", true);
  Capture *capture = state().capture.get();
  *status = !capture || !capture->clocks.count(stream) ? kNotCapturing
            : capture->isInvalid                       ? kCaptureInvalidated
                                                       : kCapturing;
  return kSuccess;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status,
                                   unsigned long long *, CUgraph *,
                                   const CUgraphNode **nodes, size_t *count) {
  ENTER("cuStreamGetCaptureInfo_v2", true);
  Capture *capture = state().capture.get();
  *status = kNotCapturing;
  if (!capture || !capture->clocks.count(stream))
    return kSuccess;
  *status = kCapturing;
  auto &last = capture->last[stream];
  *nodes = last.data();
  *count = last.size();
  return kSuccess;
}
/// The step that is a node of the capture under way, or else of the last one.
static Step &stepOf(CUgraphNode node) {
  auto &steps =
      state().capture ? state().capture->steps : state().edited->steps;
  return steps.at(reinterpret_cast<uintptr_t>(node) - 1);
}
CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
  ENTER("cuGraphNodeGetType", true);
  const Step &step = stepOf(node);
  *type = step.isKernel     ? kNodeKernel
          : step.fill.width ? kNodeFill
                            : kNodeKernel + 1;
  return kSuccess;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER("cuGraphGetNodes", true);
  auto &steps = reinterpret_cast<FakeGraph *>(graph)->steps;
  *count = steps.size();
  for (size_t i = 0; nodes && i < steps.size(); ++i)
    nodes[i] = reinterpret_cast<CUgraphNode>(i + 1);
  return kSuccess;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node,
                                    CUmemsetNodeParams *fill) {
  ENTER("cuGraphMemsetNodeGetParams", true);
  *fill = stepOf(node).fill;
  return fill->width ? kSuccess : kInvalidValue;
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *before,
                                    size_t *count) {
  ENTER("cuGraphNodeGetDependencies", true);
  const Step &step = stepOf(node);
  *count = step.after.size();
  if (before)
    std::copy(step.after.begin(), step.after.end(), before);
  return kSuccess;
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *after,
                                      size_t *count) {
  ENTER("cuGraphNodeGetDependentNodes", true);
  auto &steps = state().edited->steps;
  *count = 0;
  for (size_t i = 0; i < steps.size(); ++i)
    if (std::count(steps[i].after.begin(), steps[i].after.end(), node)) {
      if (after)
        after[*count] = reinterpret_cast<CUgraphNode>(i + 1);
      ++*count;
    }
  return kSuccess;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
                                 const CUgraphNode *before, size_t count,
                                 const CUkernelNodeParams *kernel) {
  ENTER("cuGraphAddKernelNode_v2", true);
  auto **parameters = kernel->parameters;
  CUdeviceptr target = *static_cast<CUdeviceptr *>(parameters[0]);
  uint64_t words = *static_cast<uint64_t *>(parameters[1]);
  unsigned value = *static_cast<unsigned *>(parameters[2]);
  if (*reinterpret_cast<std::string *>(kernel->function) != kFillKernel ||
      kernel->gridX == 0 || kernel->blockX == 0)
    return kInvalidValue;
  Step step{"kernel fusion_fill",
            [=] { return fill(target, &value, 4, words); }, true};
  step.after.assign(before, before + count);
  auto &steps = reinterpret_cast<FakeGraph *>(graph)->steps;
  steps.push_back(std::move(step));
  *node = reinterpret_cast<CUgraphNode>(steps.size());
  return kSuccess;
}
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode *from,
                                const CUgraphNode *to, size_t count) {
  ENTER("cuGraphAddDependencies", true);
  for (size_t i = 0; i < count; ++i)
    stepOf(to[i]).after.push_back(from[i]);
  return kSuccess;
}
CUresult cuGraphDestroyNode(CUgraphNode node) {
  ENTER("cuGraphDestroyNode", true);
  for (Step &step : state().edited->steps)
    step.after.erase(std::remove(step.after.begin(), step.after.end(), node),
                     step.after.end());
  stepOf(node) = {};
  stepOf(node).isGone = true;
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
  if (capture->isInvalid)
    return 901;
  // All that the other streams do must be known to the first one.
  for (auto &[each, clock] : capture->clocks)
    if (each != stream && capture->clocks[stream][each] < clock[each])
      return kUnjoined;
  auto *made = new FakeGraph{std::move(capture->steps)};
  state().graphs.insert(made);
  state().edited = made;
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
    to->last = capture->last[stream];
  }
  return kSuccess;
}
CUresult cuEventQuery(CUevent event) {
  ENTER("cuEventQuery", true);
  if (reinterpret_cast<FakeEvent *>(event)->capture)
    return kCapturedEvent;
  return drain() ? kSuccess : kErrorNotReady;
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
  if (invalidates(stream))
    return kUnsupportedInCapture;
  return state().streams.count(stream) || !stream ? runSteps(*graph) : 400;
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
