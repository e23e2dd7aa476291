//===- ShardingPlan.h - How each op is split --------------------*- C++ -*-===//
//
// What is decided before anything is rewritten: for each op the mesh axes that
// share out each of its factors, the shardings that its operands must have and
// those that its results get.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PARTITION_SHARDINGPLAN_H
#define FUSION_LIB_PARTITION_SHARDINGPLAN_H

#include "Sharding.h"
#include "ShardingRules.h"

#include "fusion/Analysis/FusionRules.h"
#include "llvm/ADT/StringMap.h"

namespace fusion {

/// An operand that an op can't use as it is cut.
struct RefusedCut {
  unsigned operand, axis;
  FusionRule why;
  /// Bytes that the other choice would have moved, for conflicts.
  double bytes = 0;
};

struct OpPlan {
  OpRule rule;
  /// For each factor, the axes that share it out, and the size of a part.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 6> axes;
  llvm::SmallVector<int64_t, 6> local;
  /// Axes over which partial operands stay partial.
  AxisSet passed = 0;
  llvm::SmallVector<Sharding, 4> operands;
  llvm::SmallVector<Sharding, 2> results;
  llvm::SmallVector<RefusedCut, 2> refused;

  /// Whether some rank's part of factor `f` holds padding.
  bool isPadded(unsigned f, const Mesh &mesh) const;
};

/// Splits the ops of one block. Deterministic, linear in the block.
class ShardingPlanner {
public:
  /// `arguments` are the shardings of the block's arguments; `returned` those
  /// that the results must have, where they are known.
  ShardingPlanner(mlir::Block &block, const Mesh &mesh,
                  llvm::ArrayRef<Sharding> arguments,
                  llvm::ArrayRef<std::optional<Sharding>> returned);

  /// How parameters are cut, by symbol.
  llvm::StringMap<Sharding> parameters;

  void run();

  const OpPlan &getPlan(mlir::Operation *op) const {
    return plans.find(op)->second;
  }
  const Sharding &getSharding(mlir::Value value) const {
    return shardings.find(value)->second;
  }
  /// The sharding that a returned value is left with where none is asked for.
  Sharding getReturned(unsigned result) const;
  /// What reducing a partial value should give: cut as its users want it.
  Sharding getReduced(mlir::Value value) const;

  /// Ops whose operands are cut along a dimension that they need whole, and
  /// that are a composition of ops that do not.
  llvm::SmallVector<mlir::Operation *> toDecompose;

private:
  /// How one use wants its operand along one axis.
  static constexpr int kNeutral = -1, kWhole = -2, kUnread = -3; // else the dim

  void planOp(mlir::Operation *op);
  void orderAxes(mlir::Operation *op, OpPlan &plan) const;
  AxisSet findPassed(mlir::Operation *op, const OpRule &rule,
                     const llvm::DenseSet<mlir::Value> &reduced) const;
  std::optional<unsigned> chooseFactor(mlir::Operation *op, OpPlan &plan,
                                       unsigned axis);
  double getCost(mlir::Operation *op, const OpPlan &plan, unsigned axis,
                 std::optional<unsigned> f, bool &isFree) const;
  double getLocalBytes(mlir::Value value) const;
  void recordUse(mlir::OpOperand &use, const Sharding &required);
  bool findWants();
  bool findGains();
  bool gainsAt(mlir::OpOperand &use,
               const llvm::DenseSet<mlir::Value> &gains) const;
  int combineUses(mlir::Value value, unsigned axis) const;
  std::optional<unsigned> getWanted(mlir::Value value, unsigned axis) const;

  mlir::Block &block;
  const Mesh &mesh;
  llvm::ArrayRef<Sharding> arguments;
  llvm::ArrayRef<std::optional<Sharding>> returned;
  llvm::DenseMap<mlir::Operation *, OpRule> rules;
  llvm::DenseMap<mlir::Operation *, OpPlan> plans;
  llvm::DenseMap<mlir::Value, Sharding> shardings;
  /// Dimension in which all users want a value cut, an entry an axis.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int, 2>> wants;
  llvm::DenseMap<mlir::OpOperand *, llvm::SmallVector<int, 2>> uses;
  /// How a user asked for a value that was not cut so: the order of the axes
  /// and the size of a part.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<DimSharding, 4>> asked;
  /// Partial values that are reduced where they are computed.
  llvm::DenseSet<mlir::Value> reduced;
};

} // namespace fusion

#endif // FUSION_LIB_PARTITION_SHARDINGPLAN_H
