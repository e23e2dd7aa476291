//===- Driver.h - The CUDA driver, opened when it is needed -----*- C++ -*-===//
//
// The entries of libcuda that the runtime uses, through one table, so that one
// binary serves machines with and without a GPU. Types and constants are those
// of the driver API (CUDA 12 and later), declared here: no CUDA header is
// needed to build.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_DRIVER_H
#define FUSION_RUNTIME_CUDA_DRIVER_H

#include "Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fusion::rt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUgraphNode = struct CUgraphNode_st *;

constexpr CUresult kSuccess = 0, kErrorOutOfMemory = 2, kErrorDeinitialized = 4,
                   kErrorStub = 34, kErrorNoDevice = 100,
                   kErrorInvalidDevice = 101, kErrorNoBinary = 209,
                   kErrorInvalidPtx = 218, kErrorPtxVersion = 222,
                   kErrorNotFound = 500, kErrorNotReady = 600,
                   kErrorNotSupported = 801;
constexpr int kAttributeMajor = 75, kAttributeMinor = 76;
constexpr int kPointerMemoryType = 2; ///< CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kPointerDevice = 9;     ///< CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr unsigned kMemoryTypeDevice = 2;
constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
constexpr int kCaptureThreadLocal = 1;
constexpr int kNotCapturing = 0, kCapturing = 1, kCaptureInvalidated = 2;

/// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
constexpr int kLaunchEarly = 6;
constexpr int kNodeKernel = 0; ///< CU_GRAPH_NODE_TYPE_KERNEL
constexpr int kNodeFill = 2;   ///< CU_GRAPH_NODE_TYPE_MEMSET
struct CUlaunchAttribute {
  int id, pad = 0;
  union {
    int flag;
    char space[64];
  };
};
struct CUlaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  CUstream stream;
  CUlaunchAttribute *attributes;
  unsigned attributeCount;
};

struct CUuuid {
  unsigned char bytes[16];
};
constexpr int kMemory2DDevice = 2; ///< CU_MEMORYTYPE_DEVICE
/// CUDA_MEMCPY2D
struct CUcopy2D {
  size_t sourceX = 0, sourceY = 0;
  int sourceType = kMemory2DDevice;
  const void *sourceHost = nullptr;
  CUdeviceptr source = 0;
  void *sourceArray = nullptr;
  size_t sourcePitch = 0;
  size_t targetX = 0, targetY = 0;
  int targetType = kMemory2DDevice;
  void *targetHost = nullptr;
  CUdeviceptr target = 0;
  void *targetArray = nullptr;
  size_t targetPitch = 0;
  size_t width = 0, height = 0; ///< bytes, rows
};

/// CUDA_MEMCPY3D: a box of bytes. Addresses and pitches in bytes, heights in
/// rows.
struct CUDA_MEMCPY3D {
  size_t sourceX, sourceY, sourceZ, sourceLod;
  int sourceType; ///< kMemoryTypeDevice
  const void *sourceHost;
  CUdeviceptr source;
  void *sourceArray, *reserved0;
  size_t sourcePitch, sourceHeight;
  size_t targetX, targetY, targetZ, targetLod;
  int targetType;
  void *targetHost;
  CUdeviceptr target;
  void *targetArray, *reserved1;
  size_t targetPitch, targetHeight;
  size_t width, height, depth;
};

/// Memory of another process.
struct CUipcMemHandle {
  char data[64];
};
constexpr unsigned kIpcEnablePeerAccess = 1;

/// One operation of a stream on a word of memory, of those that are used.
constexpr int kMemOpWait = 1, kMemOpWrite = 2; ///< of 32 bits
constexpr unsigned kMemOpWaitEqual = 1;
constexpr unsigned kHostMapped = 2; ///< CU_MEMHOSTREGISTER_DEVICEMAP
struct CUstreamBatchMemOpParams {
  int operation;
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
  CUdeviceptr alias;
  uint64_t pad;
};
constexpr unsigned kMostMemOps = 255; ///< in one batch

/// CUDA_MEMSET_NODE_PARAMS
struct CUmemsetNodeParams {
  CUdeviceptr target;
  size_t pitch; ///< bytes, of several rows
  unsigned value, elementSize;
  size_t width, height; ///< elements, rows
};
/// CUDA_KERNEL_NODE_PARAMS_v2
struct CUkernelNodeParams {
  CUfunction function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void **parameters, **extra;
  void *kernel;
  CUcontext context;
};

struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};

/// Every entry: result is CUresult.
#define FUSION_CUDA_ENTRIES(ENTRY)                                             \
  ENTRY(init, "cuInit", unsigned)                                              \
  ENTRY(driverGetVersion, "cuDriverGetVersion", int *)                         \
  ENTRY(getErrorName, "cuGetErrorName", CUresult, const char **)               \
  ENTRY(getErrorString, "cuGetErrorString", CUresult, const char **)           \
  ENTRY(deviceGetCount, "cuDeviceGetCount", int *)                             \
  ENTRY(deviceGet, "cuDeviceGet", CUdevice *, int)                             \
  ENTRY(deviceGetName, "cuDeviceGetName", char *, int, CUdevice)               \
  ENTRY(deviceGetAttribute, "cuDeviceGetAttribute", int *, int, CUdevice)      \
  ENTRY(deviceGetUuid, "cuDeviceGetUuid_v2", CUuuid *, CUdevice)               \
  ENTRY(primaryContextRetain, "cuDevicePrimaryCtxRetain", CUcontext *,         \
        CUdevice)                                                              \
  ENTRY(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", CUdevice)       \
  ENTRY(contextPush, "cuCtxPushCurrent_v2", CUcontext)                         \
  ENTRY(contextPop, "cuCtxPopCurrent_v2", CUcontext *)                         \
  ENTRY(contextSynchronize, "cuCtxSynchronize")                                \
  ENTRY(memGetInfo, "cuMemGetInfo_v2", size_t *, size_t *)                     \
  ENTRY(memAlloc, "cuMemAlloc_v2", CUdeviceptr *, size_t)                      \
  ENTRY(memFree, "cuMemFree_v2", CUdeviceptr)                                  \
  ENTRY(hostRegister, "cuMemHostRegister_v2", void *, size_t, unsigned)        \
  ENTRY(hostUnregister, "cuMemHostUnregister", void *)                         \
  ENTRY(hostPointer, "cuMemHostGetDevicePointer_v2", CUdeviceptr *, void *,    \
        unsigned)                                                              \
  ENTRY(copyToDevice, "cuMemcpyHtoDAsync_v2", CUdeviceptr, const void *,       \
        size_t, CUstream)                                                      \
  ENTRY(copyToHost, "cuMemcpyDtoHAsync_v2", void *, CUdeviceptr, size_t,       \
        CUstream)                                                              \
  ENTRY(copyOnDevice, "cuMemcpyDtoDAsync_v2", CUdeviceptr, CUdeviceptr,        \
        size_t, CUstream)                                                      \
  ENTRY(copyRows, "cuMemcpy2DAsync_v2", const CUcopy2D *, CUstream)            \
  ENTRY(fillBytes, "cuMemsetD8Async", CUdeviceptr, unsigned char, size_t,      \
        CUstream)                                                              \
  ENTRY(fillWords, "cuMemsetD32Async", CUdeviceptr, unsigned, size_t,          \
        CUstream)                                                              \
  ENTRY(copyBox, "cuMemcpy3DAsync_v2", const CUDA_MEMCPY3D *, CUstream)        \
  ENTRY(ipcGetMemHandle, "cuIpcGetMemHandle", CUipcMemHandle *, CUdeviceptr)   \
  ENTRY(ipcOpenMemHandle, "cuIpcOpenMemHandle_v2", CUdeviceptr *,              \
        CUipcMemHandle, unsigned)                                              \
  ENTRY(ipcCloseMemHandle, "cuIpcCloseMemHandle", CUdeviceptr)                 \
  ENTRY(streamBatchMemOp, "cuStreamBatchMemOp_v2", CUstream, unsigned,         \
        CUstreamBatchMemOpParams *, unsigned)                                  \
  ENTRY(moduleLoad, "cuModuleLoadDataEx", CUmodule *, const void *, unsigned,  \
        int *, void **)                                                        \
  ENTRY(moduleUnload, "cuModuleUnload", CUmodule)                              \
  ENTRY(moduleGetFunction, "cuModuleGetFunction", CUfunction *, CUmodule,      \
        const char *)                                                          \
  ENTRY(launchKernelEx, "cuLaunchKernelEx", const CUlaunchConfig *,            \
        CUfunction, void **, void **)                                          \
  ENTRY(streamCreate, "cuStreamCreate", CUstream *, unsigned)                  \
  ENTRY(streamCreateFirst, "cuStreamCreateWithPriority", CUstream *, unsigned, \
        int)                                                                   \
  ENTRY(streamPriorities, "cuCtxGetStreamPriorityRange", int *, int *)         \
  ENTRY(streamDestroy, "cuStreamDestroy_v2", CUstream)                         \
  ENTRY(streamSynchronize, "cuStreamSynchronize", CUstream)                    \
  ENTRY(streamQuery, "cuStreamQuery", CUstream)                                \
  ENTRY(streamWaitEvent, "cuStreamWaitEvent", CUstream, CUevent, unsigned)     \
  ENTRY(streamIsCapturing, "cuStreamIsCapturing", CUstream, int *)             \
  ENTRY(streamCaptureInfo, "cuStreamGetCaptureInfo_v2", CUstream, int *,       \
        unsigned long long *, CUgraph *, const CUgraphNode **, size_t *)       \
  ENTRY(graphNodeType, "cuGraphNodeGetType", CUgraphNode, int *)               \
  ENTRY(streamBeginCapture, "cuStreamBeginCapture_v2", CUstream, int)          \
  ENTRY(streamEndCapture, "cuStreamEndCapture", CUstream, CUgraph *)           \
  ENTRY(eventCreate, "cuEventCreate", CUevent *, unsigned)                     \
  ENTRY(eventDestroy, "cuEventDestroy_v2", CUevent)                            \
  ENTRY(eventRecord, "cuEventRecord", CUevent, CUstream)                       \
  ENTRY(eventQuery, "cuEventQuery", CUevent)                                   \
  ENTRY(eventElapsedTime, "cuEventElapsedTime", float *, CUevent, CUevent)     \
  ENTRY(graphInstantiate, "cuGraphInstantiateWithFlags", CUgraphExec *,        \
        CUgraph, unsigned long long)                                           \
  ENTRY(graphExecUpdate, "cuGraphExecUpdate_v2", CUgraphExec, CUgraph,         \
        CUgraphExecUpdateResultInfo *)                                         \
  ENTRY(graphUpload, "cuGraphUpload", CUgraphExec, CUstream)                   \
  ENTRY(graphLaunch, "cuGraphLaunch", CUgraphExec, CUstream)                   \
  ENTRY(graphDestroy, "cuGraphDestroy", CUgraph)                               \
  ENTRY(graphExecDestroy, "cuGraphExecDestroy", CUgraphExec)                   \
  ENTRY(pointerGetAttribute, "cuPointerGetAttribute", void *, int, CUdeviceptr)

/// Entries that can be done without.
#define FUSION_CUDA_MORE_ENTRIES(ENTRY)                                        \
  ENTRY(graphNodes, "cuGraphGetNodes", CUgraph, CUgraphNode *, size_t *)       \
  ENTRY(graphFill, "cuGraphMemsetNodeGetParams", CUgraphNode,                  \
        CUmemsetNodeParams *)                                                  \
  ENTRY(graphBefore, "cuGraphNodeGetDependencies", CUgraphNode, CUgraphNode *, \
        size_t *)                                                              \
  ENTRY(graphAfter, "cuGraphNodeGetDependentNodes", CUgraphNode,               \
        CUgraphNode *, size_t *)                                               \
  ENTRY(graphAddKernel, "cuGraphAddKernelNode_v2", CUgraphNode *, CUgraph,     \
        const CUgraphNode *, size_t, const CUkernelNodeParams *)               \
  ENTRY(graphAddEdges, "cuGraphAddDependencies", CUgraph, const CUgraphNode *, \
        const CUgraphNode *, size_t)                                           \
  ENTRY(graphDestroyNode, "cuGraphDestroyNode", CUgraphNode)

/// "13.0" of 13000.
std::string versionText(int version);

/// The driver. One for a process; never closed.
struct Driver {
#define FUSION_CUDA_DECLARE(name, symbol, ...)                                 \
  CUresult (*name)(__VA_ARGS__) = nullptr;
  FUSION_CUDA_ENTRIES(FUSION_CUDA_DECLARE)
  /// Null if the driver has it not.
  FUSION_CUDA_MORE_ENTRIES(FUSION_CUDA_DECLARE)
#undef FUSION_CUDA_DECLARE

  int version = 0; ///< 13000: CUDA 13.0

  /// The driver of this machine, initialized. `Environment` if there is none,
  /// it is the toolkit's stub, it is too old or finds no device: says what was
  /// tried, and what to do.
  static Expected<const Driver *> open();

  /// `Ok`, or the error that `call` (such as "cuMemAlloc") gave: `Resources`
  /// for memory, `PeerFailed` if the device is lost, `Environment` else. `op`
  /// is the command it belongs to.
  Status check(CUresult result, const char *call,
               const std::string &op = {}) const;
  /// Whether `result` leaves the context unusable: every later call would
  /// fail.
  static bool isSticky(CUresult result);
  std::string describe(CUresult result) const;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_DRIVER_H
