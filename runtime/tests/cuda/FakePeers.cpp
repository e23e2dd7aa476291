//===- FakePeers.cpp - Several processes on the tests' driver -------------===//
//
// The entries by which ranks share memory and wait for each other, and by which
// a device writes the host's. Memory that is given away moves into a file that
// the others map. A stream's operation on a word happens where the stream's
// work does: at once, or when the captured graph is launched, which then waits
// for the other processes.
//
//===----------------------------------------------------------------------===//
#include "FakeDevice.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace fusion::rt::test;

static constexpr CUresult kNoPeerAccess = 217, kMapFailed = 205;

namespace {
struct Shared {
  int64_t process, file;
  uint64_t size;
  int device;
};
} // namespace

static std::shared_ptr<char> mapFile(int file, uint64_t size) {
  void *bytes =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED)
    return nullptr;
  return {static_cast<char *>(bytes), [size](char *at) { munmap(at, size); }};
}

/// Pages that the device may write, and where it has them.
static std::map<void *, CUdeviceptr> &hostMemory() {
  static std::map<void *, CUdeviceptr> pages;
  return pages;
}

static CUresult copyBox(const CUDA_MEMCPY3D &box) {
  for (size_t z = 0; z < box.depth; ++z)
    for (size_t y = 0; y < box.height; ++y) {
      size_t from = (z * box.sourceHeight + y) * box.sourcePitch;
      size_t to = (z * box.targetHeight + y) * box.targetPitch;
      if (CUresult result =
              copyBytes(box.target + to, box.source + from, box.width))
        return result;
    }
  return kSuccess;
}

CUresult fusion::rt::test::launchWait(const CUlaunchConfig &config,
                                      void **parameters) {
  if (config.gridX != 1 || config.blockX != 64)
    return kInvalidValue;
  auto words = *static_cast<CUdeviceptr *>(parameters[0]);
  auto mask = *static_cast<uint64_t *>(parameters[1]);
  auto wait = [words, mask]() mutable {
    for (int i = 0; i < 64; ++i) {
      if (!(mask >> i & 1))
        continue;
      char *word = bytesAt(words + 4 * i, 4);
      if (!word)
        return kIllegalAddress;
      if (!isWord(word, 1))
        return kErrorNotReady;
      storeWord(word, 0);
      mask &= ~(uint64_t(1) << i);
    }
    return kSuccess;
  };
  return submit(config.stream, {kWaitKernel, wait, true});
}

CUresult fusion::rt::test::launchRead(const CUlaunchConfig &config,
                                      void **parameters) {
  auto to = *static_cast<CUdeviceptr *>(parameters[0]);
  auto from = *static_cast<CUdeviceptr *>(parameters[1]);
  auto words = *static_cast<uint64_t *>(parameters[2]);
  return submit(
      config.stream,
      {kReadKernel, [=] { return copyBytes(to, from, 4 * words); }, true});
}

extern "C" {

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *box, CUstream stream) {
  ENTER("cuMemcpy3DAsync_v2", true);
  if (box->sourceType != int(kMemoryTypeDevice) ||
      box->targetType != int(kMemoryTypeDevice) ||
      box->sourcePitch < box->width || box->targetPitch < box->width ||
      (box->depth > 1 &&
       (box->sourceHeight < box->height || box->targetHeight < box->height)))
    return kInvalidValue;
  CUDA_MEMCPY3D copy = *box;
  return submit(stream, {"copy", [=] { return copyBox(copy); }});
}
CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags) {
  ENTER("cuMemHostRegister_v2", true);
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (flags != kHostMapped || address % 4096 != 0 || size % 4096 != 0 ||
      hostMemory().count(pointer))
    return kInvalidValue;
  Allocation pages;
  pages.bytes = {static_cast<char *>(pointer), [](char *) {}};
  pages.size = size;
  pages.isForeign = true;
  return (hostMemory()[pointer] = addAllocation(std::move(pages))) ? kSuccess
                                                                   : kMapFailed;
}
CUresult cuMemHostUnregister(void *pointer) {
  ENTER("cuMemHostUnregister", true);
  auto known = hostMemory().find(pointer);
  if (known == hostMemory().end())
    return kInvalidValue;
  release(known->second);
  hostMemory().erase(known);
  return kSuccess;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer,
                                      unsigned flags) {
  ENTER("cuMemHostGetDevicePointer_v2", true);
  auto known = hostMemory().find(pointer);
  if (known == hostMemory().end() || flags != 0)
    return kInvalidValue;
  *device = known->second;
  return kSuccess;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  ENTER("cuIpcGetMemHandle", true);
  auto known = state().memory.find(pointer);
  if (known == state().memory.end() || known->second.isForeign)
    return kInvalidValue;
  Allocation &memory = known->second;
  if (memory.file < 0) {
    int file = memfd_create("fake-gpu", MFD_CLOEXEC);
    auto bytes = file >= 0 && ftruncate(file, off_t(memory.size)) == 0
                     ? mapFile(file, memory.size)
                     : nullptr;
    if (!bytes)
      return kMapFailed;
    std::memcpy(bytes.get(), memory.bytes.get(), memory.size);
    memory.bytes = bytes;
    memory.file = file;
  }
  Shared shared{getpid(), memory.file, memory.size, memory.device};
  *handle = {};
  std::memcpy(handle->data, &shared, sizeof(shared));
  return kSuccess;
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                               unsigned flags) {
  ENTER("cuIpcOpenMemHandle_v2", true);
  if (flags != kIpcEnablePeerAccess)
    return kInvalidValue;
  if (!state().settings["peers"])
    return kNoPeerAccess;
  Shared shared;
  std::memcpy(&shared, handle.data, sizeof(shared));
  std::string path = "/proc/" + std::to_string(shared.process) + "/fd/" +
                     std::to_string(shared.file);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return kMapFailed;
  Allocation opened;
  opened.bytes = mapFile(file, shared.size);
  close(file);
  if (!opened.bytes)
    return kMapFailed;
  opened.size = shared.size;
  opened.device = shared.device;
  opened.isForeign = true;
  *pointer = addAllocation(std::move(opened));
  return *pointer ? kSuccess : kMapFailed;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  ENTER("cuIpcCloseMemHandle", true);
  auto known = state().memory.find(pointer);
  if (known == state().memory.end() || !known->second.isForeign)
    return kInvalidValue;
  return release(pointer) ? kSuccess : kInvalidValue;
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams *list, unsigned flags) {
  ENTER("cuStreamBatchMemOp_v2", true);
  if (count == 0 || count > kMostMemOps || flags != 0)
    return kInvalidValue;
  std::vector<CUstreamBatchMemOpParams> copy(list, list + count);
  for (const CUstreamBatchMemOpParams &each : copy)
    if (each.address % 4 != 0 ||
        (each.operation == kMemOpWrite && each.flags != 0) ||
        !(each.operation == kMemOpWrite ||
          (each.operation == kMemOpWait && each.flags == kMemOpWaitEqual)))
      return kInvalidValue;
  auto operate = [copy, next = size_t(0)]() mutable {
    for (; next < copy.size(); ++next) {
      char *word = bytesAt(copy[next].address, 4);
      if (!word)
        return kIllegalAddress;
      if (copy[next].operation == kMemOpWrite)
        storeWord(word, uint32_t(copy[next].value));
      else if (!isWord(word, uint32_t(copy[next].value)))
        return kErrorNotReady;
    }
    return kSuccess;
  };
  return submit(stream, {"words", operate});
}

} // extern "C"
