//===- ShardingRules.h - Along what an op can be split ----------*- C++ -*-===//
//
// An op iterates over factors: dimensions of its iteration space. Each
// dimension of an operand or result is one factor, several (major first: a
// reshape that merges dimensions), or none, and then each rank needs it whole.
// The rule comes from FusableOpInterface; a few ops whose maps say too little
// have one of their own.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PARTITION_SHARDINGRULES_H
#define FUSION_LIB_PARTITION_SHARDINGRULES_H

#include "fusion/IR/FusionDialect.h"

namespace fusion {

enum class FactorKind {
  Whole,    ///< every rank goes over all of it
  Parallel, ///< ranks may share it out, each for its part of the result
  Reduced,  ///< ranks may share it out, each has an addend of the result
};

struct Factor {
  int64_t size;
  FactorKind kind;
  /// What combines the addends; `Mean` if the op divides by the number of
  /// elements.
  ReduceKind reduce = ReduceKind::Sum;
};

/// The factors of one dimension, major first.
using DimFactors = llvm::SmallVector<unsigned, 2>;
/// Those of each dimension of a tensor.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

/// How an op treats partial operands.
enum class Linearity {
  None,    ///< needs their values
  Moves,   ///< moves the elements of the only operand: any kind
  Sums,    ///< adds elements of the only operand
  Negates, ///< turns the sign of the only operand
  Adds,    ///< adds two operands; a whole one is an addend of the first rank
  Scales,  ///< one operand is partial, the other the same on those axes' ranks
  Divides  ///< as Scales, but only the first operand may be partial
};

struct OpRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 4> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  Linearity linearity = Linearity::None;
  /// Shards of parameters are used as they are, not gathered: optimizer math.
  bool keepsStored = false;
  /// The operand that is added once to what the ranks combine, if any: it is
  /// partial over the axes that share a reduced factor out.
  std::optional<unsigned> addend;
  /// The operand of which no element is read, if any.
  std::optional<unsigned> unread;

  /// Adds a factor and returns its number.
  unsigned add(int64_t size, FactorKind kind,
               ReduceKind reduce = ReduceKind::Sum);
  /// Whether ranks may share out factor `f`: not whole, and the major one
  /// wherever it stands.
  bool canSplit(unsigned f) const;
};

/// The rule of `op`; everything whole where nothing is known.
OpRule getShardingRule(mlir::Operation *op);

} // namespace fusion

#endif // FUSION_LIB_PARTITION_SHARDINGRULES_H
