//===- NcclApi.cpp - The entries of NCCL ----------------------------------===//
//
// See NcclApi.h.
//
//===----------------------------------------------------------------------===//
#include "NcclApi.h"

#include "SharedLibrary.h"

#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// The oldest version with the settings of a communicator that are used.
static constexpr int kLeastVersion = 21801;

static std::string ncclVersionText(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

static Status load(NcclApi &api) {
  auto library =
      openShared("NCCL, which ranks on GPUs need,", {"libnccl.so.2"});
  if (!library)
    return library.status();
#define FUSION_NCCL_LOAD(name, symbol, ...)                                    \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(*library, symbol));    \
  if (!api.name)                                                               \
    return Status(Code::Environment, "libnccl.so.2 has no " symbol             \
                                     "; install NCCL 2.18 or later");
  FUSION_NCCL_ENTRIES(FUSION_NCCL_LOAD)
#undef FUSION_NCCL_LOAD
  api.errorText = reinterpret_cast<decltype(api.errorText)>(
      dlsym(*library, "ncclGetErrorString"));
  api.lastError = reinterpret_cast<decltype(api.lastError)>(
      dlsym(*library, "ncclGetLastError"));
  FUSION_RT_TRY(api.check(api.getVersion(&api.version), "ncclGetVersion"));
  if (api.version < kLeastVersion)
    return Status(Code::Environment, "libnccl.so.2 is NCCL " +
                                         ncclVersionText(api.version) +
                                         "; install NCCL 2.18 or later");
  return {};
}

Expected<const NcclApi *> NcclApi::open() {
  struct Opened {
    NcclApi api;
    Status status;
    Opened() : status(load(api)) {}
  };
  static Opened opened;
  if (!opened.status.ok())
    return opened.status;
  return static_cast<const NcclApi *>(&opened.api);
}

Status NcclApi::check(int result, const char *entry, NcclComm comm) const {
  if (result == kNcclSuccess || result == kNcclInProgress)
    return {};
  const char *text = errorText ? errorText(result) : nullptr;
  const char *more = lastError ? lastError(comm) : nullptr;
  std::string message = std::string(entry) + " failed: " +
                        (text ? text : "error " + std::to_string(result));
  if (more && *more)
    message += std::string(" (") + more + ")";
  while (!message.empty() && message.back() == '\n')
    message.pop_back();
  bool isMemory = result == kNcclCudaError && more &&
                  std::strstr(more, "out of memory") != nullptr;
  return Status(isMemory                     ? Code::Resources
                : result == kNcclRemoteError ? Code::PeerFailed
                                             : Code::Environment,
                message);
}

int fusion::rt::cuda::getNcclType(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return kNcclF64;
  case DType::F32:
    return kNcclF32;
  case DType::F16:
    return kNcclF16;
  case DType::BF16:
    return kNcclBF16;
  case DType::I8:
    return kNcclI8;
  case DType::I32:
    return kNcclI32;
  case DType::I64:
    return kNcclI64;
  case DType::I1:
    break;
  }
  return -1;
}

int fusion::rt::cuda::getNcclReduction(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return kNcclSum;
  case Reduction::Mean:
    return kNcclAverage;
  case Reduction::Min:
    return kNcclMin;
  case Reduction::Max:
    return kNcclMax;
  case Reduction::Prod:
    return kNcclProd;
  }
  return -1;
}
