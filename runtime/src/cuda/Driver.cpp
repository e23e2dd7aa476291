//===- Driver.cpp - The CUDA driver, opened when it is needed -------------===//
//
// See Driver.h.
//
//===----------------------------------------------------------------------===//
#include "Driver.h"

#include <dlfcn.h>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// CUDA 12.0: the oldest driver with all entries that are used.
static constexpr int kLeastVersion = 12000;

std::string fusion::rt::cuda::versionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

static Status environment(const std::string &message) {
  return Status(Code::Environment, message);
}

static Status load(Driver &driver) {
  // By its name alone: the system's folders, never the current one.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return environment(std::string("CUDA driver library not found (tried "
                                   "libcuda.so.1: ") +
                       (reason ? reason : "unknown") +
                       "); install the NVIDIA driver, or compile with "
                       "--target=cpu");
  }
  auto versionEntry = reinterpret_cast<CUresult (*)(int *)>(
      dlsym(library, "cuDriverGetVersion"));
  if (versionEntry && versionEntry(&driver.version) == kSuccess &&
      driver.version != 0 && driver.version < kLeastVersion)
    return environment("the NVIDIA driver supports CUDA " +
                       versionText(driver.version) + ", " +
                       versionText(kLeastVersion) +
                       " or later is needed; update the driver");
#define FUSION_CUDA_LOAD(name, symbol, ...)                                    \
  driver.name =                                                                \
      reinterpret_cast<decltype(driver.name)>(dlsym(library, symbol));         \
  if (!driver.name)                                                            \
    return environment("the NVIDIA driver has no " symbol ", CUDA " +          \
                       versionText(kLeastVersion) +                            \
                       " or later is needed; update the driver");
  FUSION_CUDA_ENTRIES(FUSION_CUDA_LOAD)
#undef FUSION_CUDA_LOAD
#define FUSION_CUDA_LOAD(name, symbol, ...)                                    \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, symbol));
  FUSION_CUDA_MORE_ENTRIES(FUSION_CUDA_LOAD)
#undef FUSION_CUDA_LOAD

  CUresult result = driver.init(0);
  if (result == kErrorStub)
    return environment("libcuda.so.1 is the CUDA toolkit's stub, not a "
                       "driver; take its folder off LD_LIBRARY_PATH, or "
                       "install the NVIDIA driver");
  if (result == kErrorNoDevice)
    return environment("the NVIDIA driver finds no GPU; check nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES");
  FUSION_RT_TRY(driver.check(result, "cuInit"));
  int count = 0;
  FUSION_RT_TRY(
      driver.check(driver.deviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0)
    return environment("the NVIDIA driver shows no GPU; check nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES");
  return {};
}

Expected<const Driver *> Driver::open() {
  struct Opened {
    Driver driver;
    Status status;
    Opened() : status(load(driver)) {}
  };
  static Opened opened;
  if (!opened.status.ok())
    return opened.status;
  return static_cast<const Driver *>(&opened.driver);
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName)
    getErrorName(result, &name);
  if (getErrorString)
    getErrorString(result, &text);
  return std::string(name ? name : "error " + std::to_string(result)) +
         (text ? std::string(" (") + text + ")" : "");
}

bool Driver::isSticky(CUresult result) {
  switch (result) {
  case 214: // uncorrectable ECC error
  case 220: // NVLink error
  case 226: // contained fault
  case 700: // illegal address
  case 702: // launch timeout
  case 709: // context destroyed
  case 710: // assertion
  case 714: // hardware stack error
  case 715: // illegal instruction
  case 716: // misaligned address
  case 717: // invalid address space
  case 718: // invalid program counter
  case 719: // launch failed
  case 999: // unknown
    return true;
  default:
    return false;
  }
}

Status Driver::check(CUresult result, const char *call,
                     const std::string &op) const {
  if (result == kSuccess)
    return {};
  return Status(result == kErrorOutOfMemory ? Code::Resources
                : isSticky(result)          ? Code::PeerFailed
                                            : Code::Environment,
                std::string(call) + " failed: " + describe(result) +
                    (op.empty() ? "" : ", at '" + op + "'"),
                op);
}
