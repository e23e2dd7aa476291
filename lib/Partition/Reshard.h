//===- Reshard.h - From one sharding of a value to another ------*- C++ -*-===//
//
// The values of one rank, by the values of the single-device program, each in
// the shardings that were asked for so far. Collectives that finish partial
// sums stand right behind the sum, so that they can start early; gathers and
// cuts stand where they are needed.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_PARTITION_RESHARD_H
#define FUSION_LIB_PARTITION_RESHARD_H

#include "Sharding.h"

namespace fusion {

class LocalValues {
public:
  LocalValues(mlir::OpBuilder &builder, const Mesh &mesh)
      : builder(builder), mesh(mesh) {}

  /// What the ranks hold of `value`.
  void set(mlir::Value value, mlir::Value local, const Sharding &sharding);

  /// The part of `value` under sharding `to`, made at the builder's insertion
  /// point if it is not there yet. Where `to` is partial and the value is not,
  /// the first rank has it and the others zeros.
  mlir::Value get(mlir::Value value, const Sharding &to, mlir::Location loc);

  /// The position of this rank along the axes, an i64 scalar.
  mlir::Value getPosition(llvm::ArrayRef<unsigned> axes, mlir::Location loc);

  /// `local` with what is padding in dimension `dim` replaced by `neutral`,
  /// where the tensor has `size` elements there.
  mlir::Value mask(mlir::Value local, unsigned dim, const DimSharding &cut,
                   int64_t size, mlir::Attribute neutral, mlir::Location loc);

  /// Elements of 0, or what `reduce` leaves as it is.
  static mlir::Attribute getNeutral(ReduceKind reduce, mlir::Type elementType);

  /// A constant with one value in every element.
  mlir::Value splat(mlir::Attribute value, mlir::RankedTensorType type,
                    mlir::Location loc);
  mlir::Value splat(int64_t value, mlir::RankedTensorType type,
                    mlir::Location loc);

  /// The first element of the rank's part, in each element of an i64 tensor of
  /// `shape`.
  mlir::Value getOffset(const DimSharding &cut, llvm::ArrayRef<int64_t> shape,
                        mlir::Location loc);

private:
  struct Copy {
    Sharding sharding;
    mlir::Value local;
    /// Of a parameter gathered from its shards: bytes gathered so until then.
    std::optional<double> gathered = std::nullopt;
  };

  /// Drops the copies of a parameter that were gathered too long ago.
  void forget(llvm::SmallVectorImpl<Copy> &known,
              mlir::RankedTensorType global) const;

  /// The value on its way from one sharding to the other.
  struct Move;
  void reduce(Move &move, const Sharding &to);
  void exchange(Move &move, const Sharding &to);
  void gather(Move &move, unsigned dim, size_t keep);
  void cut(Move &move, unsigned dim, const DimSharding &to);
  void makePartial(Move &move, AxisSet axes);
  mlir::Value pad(mlir::Value local, unsigned dim, int64_t size,
                  ReduceKind kind, mlir::Location loc);

  mlir::OpBuilder &builder;
  const Mesh &mesh;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Copy, 1>> copies;
  llvm::DenseMap<mlir::Attribute, mlir::Value> positions;
  /// Bytes of parameters gathered from their shards so far.
  double gatheredBytes = 0;
};

} // namespace fusion

#endif // FUSION_LIB_PARTITION_RESHARD_H
