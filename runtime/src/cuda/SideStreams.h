//===- SideStreams.h - Parallel branches of one stream's work ---*- C++ -*-===//
//
// Work that is independent may run side by side: streams and events, made when
// a call is planned, fork off the caller's stream and join it again. In a
// capture they become branches of the graph.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_SIDESTREAMS_H
#define FUSION_RUNTIME_CUDA_SIDESTREAMS_H

#include "Driver.h"

#include <vector>

namespace fusion::rt::cuda {

/// The context is current in all functions.
class SideStreams {
public:
  /// Branches of one fork, the caller's stream among them.
  static constexpr size_t kMost = 4;

  explicit SideStreams(const Driver &driver) : driver(driver) {}
  ~SideStreams();
  SideStreams(const SideStreams &) = delete;

  /// Makes what forks of up to `branches` (at most kMost) need.
  Status reserve(size_t branches);
  /// What is put on the branches from now on comes after all that `stream`
  /// holds. `branches` were reserved.
  Status fork(CUstream stream, size_t branches);
  /// Branch 0 is the caller's own stream.
  CUstream get(CUstream stream, size_t branch) const {
    return branch == 0 ? stream : streams[branch - 1];
  }
  /// What is put on `stream` from now on comes after all branches.
  Status join(CUstream stream, size_t branches);

private:
  const Driver &driver;
  std::vector<CUstream> streams;
  std::vector<CUevent> events; ///< of the fork, then one a side stream
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_SIDESTREAMS_H
