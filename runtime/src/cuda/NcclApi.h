//===- NcclApi.h - The entries of NCCL --------------------------*- C++ -*-===//
//
// Types, constants and entries of NCCL 2.18 and later, declared here.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_NCCLAPI_H
#define FUSION_RUNTIME_CUDA_NCCLAPI_H

#include "Driver.h"
#include "ModuleData.h"

namespace fusion::rt::cuda {

using NcclComm = struct ncclComm *;
/// What members of a communicator find each other by.
struct NcclId {
  char bytes[128];
};
/// The settings as NCCL 2.18 has them; later versions take these.
struct NcclConfig {
  static constexpr int kUnset = -2147483647 - 1;
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21801;
  int blocking = 0;
  int clusterSize = kUnset;
  int minBlocks = kUnset, maxBlocks = kUnset;
  const char *network = nullptr;
  int splitShare = kUnset;
};

// ncclResult_t
constexpr int kNcclSuccess = 0, kNcclCudaError = 1, kNcclRemoteError = 6,
              kNcclInProgress = 7;
// ncclRedOp_t
constexpr int kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3,
              kNcclAverage = 4;
// ncclDataType_t
constexpr int kNcclI8 = 0, kNcclI32 = 2, kNcclI64 = 4, kNcclF16 = 6,
              kNcclF32 = 7, kNcclF64 = 8, kNcclBF16 = 9;

/// Every entry: result is ncclResult_t.
#define FUSION_NCCL_ENTRIES(ENTRY)                                             \
  ENTRY(getVersion, "ncclGetVersion", int *)                                   \
  ENTRY(getId, "ncclGetUniqueId", NcclId *)                                    \
  ENTRY(initRank, "ncclCommInitRankConfig", NcclComm *, int, NcclId, int,      \
        NcclConfig *)                                                          \
  ENTRY(getError, "ncclCommGetAsyncError", NcclComm, int *)                    \
  ENTRY(finalize, "ncclCommFinalize", NcclComm)                                \
  ENTRY(destroy, "ncclCommDestroy", NcclComm)                                  \
  ENTRY(abort, "ncclCommAbort", NcclComm)                                      \
  ENTRY(groupStart, "ncclGroupStart")                                          \
  ENTRY(groupEnd, "ncclGroupEnd")                                              \
  ENTRY(allReduce, "ncclAllReduce", const void *, void *, size_t, int, int,    \
        NcclComm, CUstream)                                                    \
  ENTRY(allGather, "ncclAllGather", const void *, void *, size_t, int,         \
        NcclComm, CUstream)                                                    \
  ENTRY(reduceScatter, "ncclReduceScatter", const void *, void *, size_t, int, \
        int, NcclComm, CUstream)                                               \
  ENTRY(broadcast, "ncclBroadcast", const void *, void *, size_t, int, int,    \
        NcclComm, CUstream)                                                    \
  ENTRY(send, "ncclSend", const void *, size_t, int, int, NcclComm, CUstream)  \
  ENTRY(receive, "ncclRecv", void *, size_t, int, int, NcclComm, CUstream)

struct NcclApi {
#define FUSION_NCCL_DECLARE(name, symbol, ...)                                 \
  int (*name)(__VA_ARGS__) = nullptr;
  FUSION_NCCL_ENTRIES(FUSION_NCCL_DECLARE)
#undef FUSION_NCCL_DECLARE
  const char *(*errorText)(int) = nullptr;
  const char *(*lastError)(NcclComm) = nullptr;

  int version = 0; ///< 22809: NCCL 2.28.9

  /// NCCL of this machine; never closed. `Environment` if it is not installed,
  /// or older than 2.18.
  static Expected<const NcclApi *> open();

  /// `Ok` also if the call goes on, or the error that `entry` gave: `Resources`
  /// for memory, `PeerFailed` if another rank is gone, else `Environment`.
  Status check(int result, const char *entry, NcclComm comm = nullptr) const;
};

/// Of a type that NCCL can combine; -1: it can't.
int getNcclType(DType dtype);
int getNcclReduction(Reduction reduction);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_NCCLAPI_H
