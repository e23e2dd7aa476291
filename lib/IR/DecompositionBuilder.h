//===- DecompositionBuilder.h - Builds compositions of ops ------*- C++ -*-===//
//
// What the decompositions share: ops at one place of the program, casts, splat
// constants and explicit broadcasts, also to shapes with batch dimensions. A
// step that can't be expressed is remembered; `finish` then takes everything
// back and fails.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_IR_DECOMPOSITIONBUILDER_H
#define FUSION_LIB_IR_DECOMPOSITIONBUILDER_H

#include "fusion/IR/BatchExtent.h"
#include "fusion/IR/FusionDialect.h"

namespace fusion {

/// A shape and, for each `?`, a dimension of a value that has that size.
struct ShapeSource {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<std::pair<mlir::Value, unsigned>> sources;

  ShapeSource() = default;
  /// The shape of `value`.
  explicit ShapeSource(mlir::Value value);

  int64_t rank() const { return sizes.size(); }
  /// Appends dimension `dim` of `value`.
  void append(mlir::Value value, unsigned dim);
  /// Whether some dimension is statically 0.
  bool isEmpty() const { return llvm::is_contained(sizes, 0); }
};

class DecompositionBuilder {
public:
  DecompositionBuilder(mlir::OpBuilder &builder, mlir::Operation *op)
      : builder(builder), loc(op->getLoc()) {}

  /// Creates an op of one result; `args` as for OpTy::create.
  template <typename OpTy, typename... Args>
  mlir::Value create(Args &&...args) {
    auto op = OpTy::create(builder, loc, std::forward<Args>(args)...);
    created.push_back(op);
    return op->getResult(0);
  }

  /// `value` with elements of type `elementType`; itself if it has them.
  mlir::Value cast(mlir::Value value, mlir::Type elementType);

  /// `number` in every element of `shape`.
  mlir::Value splat(double number, mlir::Type elementType,
                    const ShapeSource &shape);

  /// `value`, whose dimension i becomes dimension `dims[i]` of `shape`.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> dims,
                        const ShapeSource &shape);

  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> sizes);
  mlir::Value reduce(ReduceKind kind, mlir::Value value,
                     llvm::ArrayRef<int64_t> dims);

  /// Makes `finish` fail.
  void fail() { ok = false; }

  /// The values, or failure with nothing left behind.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  finish(mlir::ValueRange values);

private:
  mlir::Value appendBatchDim(mlir::Value value,
                             llvm::SmallVectorImpl<int64_t> &dims, int64_t dim,
                             Extent extent);
  mlir::Value dropUnitDims(mlir::Value value,
                           llvm::SmallVectorImpl<int64_t> &dims,
                           const ShapeSource &shape);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::SmallVector<mlir::Operation *> created;
  bool ok = true;
};

/// The type that `elementTypes` are computed in together: the widest compute
/// type.
mlir::Type getCommonComputeType(llvm::ArrayRef<mlir::Type> elementTypes);

/// The dimensions [begin, end).
llvm::SmallVector<int64_t> dimRange(int64_t begin, int64_t end);

} // namespace fusion

#endif // FUSION_LIB_IR_DECOMPOSITIONBUILDER_H
