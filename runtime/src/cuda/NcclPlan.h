//===- NcclPlan.h - A collective as calls of NCCL ---------------*- C++ -*-===//
//
// NCCL moves contiguous bytes. Where the dialect's op cuts a dimension that is
// not the first, rows are copied to or from staging around the call. A plan is
// made at each enqueue: host arithmetic on a few numbers.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_NCCLPLAN_H
#define FUSION_RUNTIME_CUDA_NCCLPLAN_H

#include "Communicator.h"

namespace fusion::rt::cuda {

/// `rows` rows of `width` bytes between strided places; without a source,
/// zeros (then contiguous).
struct RowCopy {
  char *target;
  uint64_t targetStride;
  const char *source;
  uint64_t sourceStride;
  uint64_t width, rows;
};

/// One call of NCCL.
struct NcclCall {
  enum Kind { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };
  Kind kind;
  const char *input;
  char *output;
  /// AllReduce: elements; ReduceScatter: elements of a result; else bytes of
  /// the input.
  uint64_t count;
  DType dtype = DType::I8; ///< of what is combined; I8: bytes
  int peer = 0;            ///< Send, Receive, Broadcast: number in the group
};

struct NcclPlan {
  std::vector<RowCopy> before;
  std::vector<NcclCall> calls; ///< all at once
  std::vector<RowCopy> after;
  uint64_t stagingBytes = 0; ///< used from its start
  uint64_t sentBytes = 0;    ///< by this rank, as a ring sends them
};

/// The plan of `run` for this rank in `group`. `staging` starts at a multiple
/// of 256 bytes; sizes in the plan depend on no address but on what is in
/// place.
NcclPlan planNccl(const CollectiveRun &run, const Group &group, char *staging);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_NCCLPLAN_H
