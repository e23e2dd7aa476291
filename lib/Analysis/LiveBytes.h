//===- LiveBytes.h - Intermediate bytes alive along an order ----*- C++ -*-===//
//
// What a schedule costs in memory, asked before memory is planned: the bytes of
// intermediate values alive at once. Views and what is reduced in place are one
// value; arguments, constants and results are none, as they have segments of
// their own. Gaps that a plan may leave are not known here. Private to
// lib/Analysis.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_ANALYSIS_LIVEBYTES_H
#define FUSION_LIB_ANALYSIS_LIVEBYTES_H

#include "fusion/Analysis/OverlapPlan.h"

namespace fusion {

/// When a node of a graph starts, and when what it touches is free for others:
/// places of one order.
struct NodeSpan {
  unsigned begin = 0, end = 0;
};

/// The spans of a schedule by node. A started collective ends where it is
/// awaited, or one behind it on its stream is.
std::vector<NodeSpan> getSpans(const OverlapGraph &graph,
                               llvm::ArrayRef<OverlapItem> items);

/// The values of a graph that have bytes of their own.
class LiveBytes {
public:
  LiveBytes(const OverlapGraph &graph, const StepPrices &prices);

  /// The most bytes alive at once, with a span for each node. Linear in the
  /// nodes and what they read.
  int64_t getPeak(llvm::ArrayRef<NodeSpan> spans) const;

private:
  struct Buffer {
    int64_t bytes = 0;
    llvm::SmallVector<unsigned, 4> nodes; ///< that write or read it
    /// The buffer of as many bytes that the first node may compute it over, if
    /// no other node is behind it there.
    int64_t over = -1;
  };
  class Builder;

  std::vector<Buffer> buffers;
};

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_LIVEBYTES_H
