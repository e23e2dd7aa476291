//===- Sharding.h - How a tensor is cut over the mesh -----------*- C++ -*-===//
//
// A sharding says, for each dimension, the mesh axes that cut it (major first)
// and the size of a rank's part. The part of the rank at position p along those
// axes begins at p * local, so that ranks at the end may have less than `local`
// elements of the tensor, or none: the rest of their part is padding, whose
// values mean nothing. A value may be partial too: each rank of some axes holds
// an addend of it. Axes of size 1 are in no sharding.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PARTITION_SHARDING_H
#define FUSION_LIB_PARTITION_SHARDING_H

#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/ShardingNames.h"

namespace fusion {

/// A set of mesh axes, a bit each.
using AxisSet = uint32_t;
inline AxisSet axisBit(unsigned axis) { return AxisSet(1) << axis; }
inline bool has(AxisSet set, unsigned axis) { return set & axisBit(axis); }

/// The names and sizes of the module's mesh.
struct Mesh {
  mutable MeshOp op; ///< ops are handles: asking one changes nothing
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::SmallVector<int64_t, 4> sizes;

  explicit Mesh(MeshOp op);
  unsigned size() const { return names.size(); }
  std::optional<unsigned> find(llvm::StringRef name) const;
  /// Number of ranks along the axes.
  int64_t ranks(llvm::ArrayRef<unsigned> axes) const;
  int64_t ranks(AxisSet axes) const;
  /// The axes' names, for a collective.
  mlir::ArrayAttr getAxes(llvm::ArrayRef<unsigned> axes) const;
  mlir::FlatSymbolRefAttr getSymbol() const;
};

/// How one dimension is cut.
struct DimSharding {
  llvm::SmallVector<unsigned, 2> axes;
  /// Size on one rank; the tensor's own size where no axis cuts it.
  int64_t local = 0;

  bool operator==(const DimSharding &other) const {
    return axes == other.axes && local == other.local;
  }
  bool operator!=(const DimSharding &other) const { return !(*this == other); }
};

struct Sharding {
  llvm::SmallVector<DimSharding, 4> dims;
  /// Axes whose ranks hold addends of the value, and what combines them.
  AxisSet partial = 0;
  ReduceKind kind = ReduceKind::Sum;
  /// Axes that cut the value where it is kept, not where it is used: shards of
  /// parameters and optimizer state.
  AxisSet stored = 0;

  /// No axis cuts any dimension of `type`.
  static Sharding replicated(mlir::RankedTensorType type);

  /// Same layout: what `stored` says makes no difference.
  bool operator==(const Sharding &other) const {
    return dims == other.dims && partial == other.partial &&
           (partial == 0 || kind == other.kind);
  }

  /// The dimension that `axis` cuts.
  std::optional<unsigned> findDim(unsigned axis) const;
  /// All axes that cut a dimension.
  AxisSet getAxes() const;
  bool isReplicated() const { return partial == 0 && getAxes() == 0; }
  /// Whether some rank's part holds padding.
  bool isPadded(mlir::RankedTensorType global, const Mesh &mesh) const;

  /// The type of one rank's part.
  mlir::RankedTensorType getLocalType(mlir::RankedTensorType global) const;
};

/// Reads `[["dp"], []]`. Axes of size 1 are checked and left out. Emits an
/// error through `error` otherwise.
mlir::FailureOr<Sharding>
parseSharding(mlir::Attribute attribute, mlir::RankedTensorType type,
              const Mesh &mesh,
              llvm::function_ref<mlir::InFlightDiagnostic()> error);

/// The attribute that says `sharding`.
mlir::ArrayAttr getShardingAttr(const Sharding &sharding, const Mesh &mesh);

/// Names of the attributes of arguments and results.
constexpr llvm::StringLiteral kPartitionedAttr = "fusion.partitioned";
constexpr llvm::StringLiteral kRoleAttr = "fusion.role";
constexpr llvm::StringLiteral kBatchArgAttr = "fusion.batch_arg";

} // namespace fusion

#endif // FUSION_LIB_PARTITION_SHARDING_H
