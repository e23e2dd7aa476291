//===- GraphFills.h - Small fills of a graph, by kernels --------*- C++ -*-===//
//
// Libraries clear counters of a few bytes ahead of their kernels. As a node of
// a graph a memset starts and ends more slowly than a kernel, above all beside
// copies between GPUs: with the gaps around it 3.6 us between two products on
// an H200, 7 in a step with copies and 12 while one runs.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_GRAPHFILLS_H
#define FUSION_RUNTIME_CUDA_GRAPHFILLS_H

#include "PtxKernel.h"

#include <memory>

namespace fusion::rt::cuda {

/// The context is current in all functions.
class GraphFills {
public:
  /// Null where the driver or the GPU has not what it takes.
  static std::unique_ptr<GraphFills> load(const Driver &driver);

  /// Puts a kernel in the place of each fill of at most kMostBytes of whole
  /// words, between the same nodes. What can't be replaced stays.
  Status replaceIn(CUgraph graph) const;

  static constexpr uint64_t kMostBytes = 64 << 10;

private:
  explicit GraphFills(const Driver &driver) : driver(driver), code(driver) {}
  Status replace(CUgraph graph, CUgraphNode node) const;

  const Driver &driver;
  PtxKernel code;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_GRAPHFILLS_H
