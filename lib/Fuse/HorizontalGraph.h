//===- HorizontalGraph.h - A function's groups as candidates ----*- C++ -*-===//
//
// What horizontal fusion decides on: one node for each op that does work at the
// level of the function, what it reads and writes in bytes, and the key that
// equal groups share. The IR stays untouched. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_HORIZONTALGRAPH_H
#define FUSION_LIB_FUSE_HORIZONTALGRAPH_H

#include "fusion/Analysis/CostModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace fusion {

/// A value that a node computes and others may read, through views or not.
struct HorizontalValue {
  int64_t bytes;
  unsigned producer; ///< node
  /// The last node that reads it; its own node if none does, and
  /// `kNeverDies` if it is a result of the function.
  unsigned lastUse;
  static constexpr unsigned kNeverDies = ~0u;
};

struct HorizontalNode {
  mlir::Operation *op;
  /// Null where the op is no group, or one that stays as it is.
  GroupOp group;
  /// Number of barriers before it: launches don't reach across.
  unsigned segment = 0;
  /// The last communication that it needs and the first that needs it, as
  /// nodes plus one: 0 if there is none.
  unsigned needs = 0, feeds = 0;
  /// The bucket of gradients that it reads, or else writes, if it does.
  std::optional<int64_t> bucket;
  /// Nodes it reads and is read by, in program order, each once; of an op with
  /// effects also the one with effects before or behind it.
  llvm::SmallVector<unsigned, 2> producers, consumers;
  /// Groups of one key may be members of one launch; groups of one loose key
  /// differ in element types at most. Meaningless without a group.
  unsigned key = 0, looseKey = 0;
  /// Why it is never in a launch with others, if so.
  std::optional<FusionRule> alone;
  /// Values of nodes that it reads or computes, each once.
  llvm::SmallVector<unsigned, 4> values;
  /// What is read, seen through views; and what of it may be updated in place.
  llvm::SmallVector<mlir::Value, 2> reads, updates;
  /// Tensors that a launch of the group reads and writes.
  int64_t numOperands = 0;
  /// What the group does in a launch of its own.
  KernelWork work;
  /// Bytes that a library call alone leaves in the unit's own cache for its
  /// tail; many members together do not.
  double nearBytes = 0;
};

/// The nodes of a function in program order.
class HorizontalGraph {
public:
  HorizontalGraph(mlir::Block &block, const FusionLegality &legality,
                  const DeviceModel &device);

  llvm::ArrayRef<HorizontalNode> getNodes() const { return nodes; }
  const HorizontalNode &operator[](unsigned node) const { return nodes[node]; }
  unsigned size() const { return nodes.size(); }
  const HorizontalValue &getValue(unsigned value) const {
    return values[value];
  }
  unsigned getNumValues() const { return values.size(); }

private:
  void addNode(mlir::Operation &op, const FusionLegality &legality,
               const DeviceModel &device);
  void findCommunication();
  void findBuckets();

  llvm::SmallVector<HorizontalNode, 0> nodes;
  llvm::SmallVector<HorizontalValue, 0> values;
  /// By the value, views included.
  llvm::DenseMap<mlir::Value, unsigned> valueOf;
  unsigned segment = 0;
  std::optional<unsigned> lastEffect;
};

/// Whether `op` is no node: its result is bytes of its operand's.
bool isView(mlir::Operation *op);

/// The ops of a group's body, as in "add+relu".
std::string describeBody(GroupOp group);

} // namespace fusion

#endif // FUSION_LIB_FUSE_HORIZONTALGRAPH_H
