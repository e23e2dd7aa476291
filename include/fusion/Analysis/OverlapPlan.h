//===- OverlapPlan.h - What starts when, beside what ------------*- C++ -*-===//
//
// List scheduling of one function: kernels keep their order unless they would
// wait for a collective while others could go on, or a collective is sent while
// nothing is computed that kernels before it could hide; a collective starts
// when its operands are ready and is awaited by its first reader.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_OVERLAPPLAN_H
#define FUSION_ANALYSIS_OVERLAPPLAN_H

#include "fusion/Analysis/CommSchedule.h"

namespace fusion {

/// An op of the graph that has a place in the order.
struct OverlapNode {
  mlir::Operation *op = nullptr;
  TimedStep price;
  bool isComm = false;    ///< a collective that may be started and awaited
  bool isRegion = false;  ///< an asynchronous region that is there already
  bool isBarrier = false; ///< it may communicate, or have other effects
  unsigned stream = 0;    ///< of a collective
  /// Nodes whose results it reads, or that must be before it; ascending.
  llvm::SmallVector<unsigned, 4> before, after;
  bool isReturned = false; ///< by the function, perhaps through a view
  /// A collective with one reader, which is another: awaited there.
  bool isChained = false;
};

/// The nodes of a block in program order. Views and constants are none: they
/// go where they are read.
class OverlapGraph {
public:
  /// Without `prices`, nothing has a time.
  OverlapGraph(mlir::func::FuncOp function, StepPrices *prices);

  unsigned size() const { return nodes.size(); }
  const OverlapNode &operator[](unsigned node) const { return nodes[node]; }
  /// Of a collective that keeps an order with those of another stream.
  void setStream(unsigned node, unsigned stream) {
    nodes[node].stream = stream;
  }
  /// Whether `op` goes where it is read.
  static bool isLazy(mlir::Operation *op);

private:
  std::vector<OverlapNode> nodes;
};

struct OverlapItem {
  enum Kind { Run, Start, Await } kind = Run;
  unsigned node = 0;
};

struct OverlapPlan {
  std::vector<OverlapItem> items;
  /// Of the started collectives, those with nothing beside them run in line.
  unsigned numStarted = 0;
  Timeline serial, overlapped;
  /// Intermediate values alive at once in each, before memory is planned.
  int64_t serialBytes = 0, overlappedBytes = 0;
  std::vector<TimedStep> steps; ///< of the overlapped schedule
  std::vector<unsigned> nodeOf; ///< step -> node

  /// Whether the ops are better left one after the other.
  bool isSerial() const {
    return numStarted == 0 || overlapped.stepUs > serial.stepUs;
  }
  /// Of the schedule that fusion-overlap-collectives makes.
  const Timeline &getTimeline() const {
    return isSerial() ? serial : overlapped;
  }
  int64_t getPeakBytes() const {
    return isSerial() ? serialBytes : overlappedBytes;
  }
};

/// The stream of a collective: 1 reductions, 2 gathers, 3 others.
unsigned getCommStream(mlir::Operation *op);

/// Deterministic; n log n in the nodes and their edges, for each of few orders
/// that are tried.
OverlapPlan planOverlap(const OverlapGraph &graph, StepPrices &prices);

/// What a step of `function` would take as it is now: scheduled by planOverlap
/// or, without `overlap`, one op after the other. Fails with an error where
/// sizes are no functions of the batch.
mlir::FailureOr<Timeline> predictStep(mlir::func::FuncOp function,
                                      const CostModel &costs,
                                      bool overlap = true);

} // namespace fusion

#endif // FUSION_ANALYSIS_OVERLAPPLAN_H
