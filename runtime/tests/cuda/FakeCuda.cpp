//===- FakeCuda.cpp - A CUDA driver without a GPU -------------------------===//
//
// A libcuda.so.1 over the host's memory, for tests. Streams run at once, a
// graph is the list of what was captured. "Kernels" negate n floats: operand 0
// to operand 1, one unit each, where n is the grid. FAKE_CUDA names a driver
// that can't be used: "stub", "none" (no device), "empty" (no visible device)
// or "old".
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

using Work = std::function<int()>;
struct Graph {
  std::vector<Work> nodes;
};

FakeCuda fake;
std::map<unsigned long long, size_t> memory; ///< of the "device"
std::vector<Work> *capture = nullptr;

int fails(const char *call) {
  ++fake.calls;
  if (fake.isLost)
    ++fake.callsAfterLoss;
  if (fake.failingCall && std::strcmp(fake.failingCall, call) == 0) {
    if (fake.failure == 700)
      fake.isLost = true;
    return fake.failure;
  }
  return fake.isLost ? 700 : 0;
}

bool mode(const char *name) {
  const char *value = std::getenv("FAKE_CUDA");
  return value && std::strcmp(value, name) == 0;
}

/// Runs now, or later as a node of the graph that is captured.
int put(Work work) {
  if (!capture)
    return work();
  capture->push_back(std::move(work));
  return 0;
}

bool isDevice(unsigned long long pointer) {
  auto next = memory.upper_bound(pointer);
  return next != memory.begin() &&
         pointer - std::prev(next)->first < std::prev(next)->second;
}

int copy(void *to, const void *from, size_t size) {
  return put([=] {
    std::memcpy(to, from, size);
    return 0;
  });
}

template <typename T> T make(long &counter) {
  ++counter;
  return static_cast<T>(std::malloc(1));
}
int drop(void *object, long &counter) {
  --counter;
  std::free(object);
  return 0;
}

} // namespace

#define FAKE(name, ...)                                                        \
  extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define MAY_FAIL(name)                                                         \
  if (int result = fails(name))                                                \
  return result
using Pointer = unsigned long long;

extern "C" __attribute__((visibility("default"))) FakeCuda *fakeCuda() {
  return &fake;
}

FAKE(cuInit, unsigned) { return mode("stub") ? 34 : mode("none") ? 100 : 0; }
FAKE(cuDriverGetVersion, int *version) {
  *version = mode("old") ? 11040 : 13000;
  return 0;
}
FAKE(cuGetErrorName, int code, const char **name) {
  *name = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                        : "CUDA_ERROR_OTHER";
  return 0;
}
FAKE(cuGetErrorString, int, const char **text) {
  *text = "by the fake";
  return 0;
}
FAKE(cuDeviceGetCount, int *count) {
  *count = mode("empty") ? 0 : 1;
  return 0;
}
FAKE(cuDeviceGet, int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
FAKE(cuDeviceGetName, char *name, int, int) {
  std::strcpy(name, "Fake GPU");
  return 0;
}
FAKE(cuDeviceGetAttribute, int *value, int attribute, int) {
  *value = attribute == 75 ? fake.major : 0;
  return 0;
}
FAKE(cuDevicePrimaryCtxRetain, void **context, int) {
  MAY_FAIL("cuDevicePrimaryCtxRetain");
  *context = make<void *>(fake.objects);
  return 0;
}
FAKE(cuDevicePrimaryCtxRelease_v2, int) {
  --fake.objects;
  return 0;
}
FAKE(cuCtxPushCurrent_v2, void *) { return 0; }
FAKE(cuCtxPopCurrent_v2, void **) { return 0; }
FAKE(cuCtxSynchronize, void) { return 0; }
FAKE(cuMemGetInfo_v2, size_t *free, size_t *total) {
  *free = fake.freeMemory;
  *total = size_t(1) << 40;
  return 0;
}
FAKE(cuMemAlloc_v2, Pointer *pointer, size_t size) {
  MAY_FAIL("cuMemAlloc");
  ++fake.allocations;
  *pointer = Pointer(std::aligned_alloc(512, (size + 511) / 512 * 512));
  memory[*pointer] = size;
  ++fake.objects;
  return 0;
}
FAKE(cuMemFree_v2, Pointer pointer) {
  MAY_FAIL("cuMemFree");
  memory.erase(pointer);
  return drop(reinterpret_cast<void *>(pointer), fake.objects);
}
FAKE(cuMemcpyHtoDAsync_v2, Pointer to, const void *from, size_t size, void *) {
  MAY_FAIL("cuMemcpyHtoDAsync");
  ++fake.uploads;
  return copy(reinterpret_cast<void *>(to), from, size);
}
FAKE(cuMemcpyDtoHAsync_v2, void *to, Pointer from, size_t size, void *) {
  MAY_FAIL("cuMemcpyDtoHAsync");
  return copy(to, reinterpret_cast<void *>(from), size);
}
FAKE(cuMemcpyDtoDAsync_v2, Pointer to, Pointer from, size_t size, void *) {
  MAY_FAIL("cuMemcpyDtoDAsync");
  return copy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from),
              size);
}
FAKE(cuModuleLoadDataEx, void **module, const void *image, unsigned count,
     int *, void **values) {
  MAY_FAIL("cuModuleLoadDataEx");
  fake.loadedPtx =
      std::strncmp(static_cast<const char *>(image), "ptx", 3) == 0;
  if (fake.loadedPtx && fake.ptxFailure) {
    if (count)
      std::strcpy(static_cast<char *>(values[0]), "line 7: unknown");
    return fake.ptxFailure;
  }
  *module = make<void *>(fake.objects);
  return 0;
}
FAKE(cuModuleUnload, void *module) {
  MAY_FAIL("cuModuleUnload");
  return drop(module, fake.objects);
}
FAKE(cuModuleGetFunction, void **function, void *, const char *name) {
  if (std::strcmp(name, "k0") != 0)
    return 500;
  *function = &fake;
  return 0;
}
FAKE(cuLaunchKernel, void *, unsigned x, unsigned, unsigned, unsigned threads,
     unsigned, unsigned, unsigned, void *, void **parameters, void **) {
  MAY_FAIL("cuLaunchKernel");
  fake.threads = threads;
  auto *operands = static_cast<float **>(parameters[0]);
  const float *from = operands[0];
  float *to = operands[1];
  return put([=] {
    ++fake.kernels;
    for (unsigned i = 0; i < x; ++i)
      to[i] = -from[i];
    return 0;
  });
}
FAKE(cuStreamCreate, void **stream, unsigned) {
  *stream = make<void *>(fake.objects);
  return 0;
}
FAKE(cuStreamDestroy_v2, void *stream) {
  MAY_FAIL("cuStreamDestroy");
  return drop(stream, fake.objects);
}
FAKE(cuStreamSynchronize, void *) {
  MAY_FAIL("cuStreamSynchronize");
  return 0;
}
FAKE(cuStreamWaitEvent, void *, void *, unsigned) { return 0; }
FAKE(cuStreamBeginCapture_v2, void *, int) {
  ++fake.captures;
  capture = new std::vector<Work>;
  return 0;
}
FAKE(cuStreamEndCapture, void *, void **graph) {
  ++fake.objects;
  *graph = new Graph{std::move(*capture)};
  delete capture;
  capture = nullptr;
  return 0;
}
FAKE(cuEventCreate, void **event, unsigned) {
  *event = make<void *>(fake.objects);
  return 0;
}
FAKE(cuEventDestroy_v2, void *event) {
  MAY_FAIL("cuEventDestroy");
  return drop(event, fake.objects);
}
FAKE(cuEventRecord, void *, void *) { return 0; }
FAKE(cuEventSynchronize, void *) { return 0; }
FAKE(cuEventElapsedTime, float *millis, void *, void *) {
  *millis = 1;
  return 0;
}
FAKE(cuGraphInstantiateWithFlags, void **exec, void *graph, Pointer) {
  MAY_FAIL("cuGraphInstantiateWithFlags");
  ++fake.objects;
  *exec = new Graph(*static_cast<Graph *>(graph));
  return 0;
}
FAKE(cuGraphExecUpdate_v2, void *exec, void *graph, void *) {
  MAY_FAIL("cuGraphExecUpdate");
  ++fake.updates;
  *static_cast<Graph *>(exec) = *static_cast<Graph *>(graph);
  return 0;
}
FAKE(cuGraphUpload, void *, void *) { return 0; }
FAKE(cuGraphLaunch, void *exec, void *) {
  MAY_FAIL("cuGraphLaunch");
  ++fake.graphLaunches;
  for (Work &work : static_cast<Graph *>(exec)->nodes)
    work();
  return 0;
}
FAKE(cuGraphDestroy, void *graph) {
  MAY_FAIL("cuGraphDestroy");
  --fake.objects;
  delete static_cast<Graph *>(graph);
  return 0;
}
FAKE(cuGraphExecDestroy, void *exec) {
  MAY_FAIL("cuGraphExecDestroy");
  --fake.objects;
  delete static_cast<Graph *>(exec);
  return 0;
}
FAKE(cuPointerGetAttribute, void *value, int attribute, Pointer pointer) {
  if (!isDevice(pointer))
    return 1;
  if (attribute == 2)
    *static_cast<unsigned *>(value) = 2;
  else
    *static_cast<int *>(value) = fake.ordinal;
  return 0;
}
