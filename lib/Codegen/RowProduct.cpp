//===- RowProduct.cpp - The emitter of products with a prologue -----------===//
//
// A matmul whose left side the group computes. A unit is a row of it: its
// reductions first, then the row itself into the kernel's frame, each element
// once; then the product's columns and their epilogue read it from there, in
// the order of terms that a product from memory has.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Elements of the longest row that a kernel keeps in its frame.
static constexpr int64_t kMaxRow = 32 * 1024;

/// The number of rows of a left side; nullopt if it is not affine in the batch.
static std::optional<Extent> countRows(Value lhs, const BatchExtents &extents) {
  Extent units{0, 1};
  int64_t rank = cast<RankedTensorType>(lhs.getType()).getRank();
  for (int64_t d = 0; d + 1 < rank; ++d) {
    std::optional<Extent> more = multiply(units, extents.getExtent(lhs, d));
    if (!more)
      return std::nullopt;
    units = *more;
  }
  return units;
}

MatmulOp codegen::findProductWithPrologue(KernelTask &task) {
  Block *body = task.group.getBodyBlock();
  auto matmuls = body->getOps<MatmulOp>();
  if (!llvm::hasSingleElement(matmuls))
    return {};
  MatmulOp matmul = *matmuls.begin();
  RankedTensorType type = matmul.getLhs().getType();
  int64_t depth = type.getShape().back();
  Operation *producer = matmul.getLhs().getDefiningOp();
  if (!producer || isa<ConstantOp>(producer) || matmul.getTransposeLhs() ||
      ShapedType::isDynamic(depth) || depth > kMaxRow ||
      !countRows(matmul.getLhs(), task.k.extents))
    return {};
  for (ReduceOp reduce : body->getOps<ReduceOp>())
    if (reduce.getInput().getType().getShape() != type.getShape() ||
        reduce.getDims() != ArrayRef<int64_t>{type.getRank() - 1})
      return {};
  for (auto &[value, operand] : task.stores)
    if (cast<RankedTensorType>(value.getType()).getShape() !=
        matmul.getResult().getType().getShape())
      return {};
  return matmul;
}

KernelShape codegen::emitRowProduct(KernelTask &task, MatmulOp matmul) {
  KernelBuilder &k = task.k;
  BodyEvaluator &evaluator = task.evaluator;
  Value lhs = matmul.getLhs(), product = matmul.getResult();
  auto type = cast<RankedTensorType>(lhs.getType());
  int64_t rank = type.getRank(), depth = type.getShape().back();
  RowSpace rows;
  rows.shape.assign(type.getShape().begin(), type.getShape().end());
  rows.dims = {rank - 1};
  rows.trailing = true;
  rows.representative = lhs;
  SmallVector<int64_t> keptShape = rows.keptShape();
  SmallVector<Size> keptSizes;
  for (int64_t d = 0; d + 1 < rank; ++d)
    keptSizes.push_back(k.size(k.extents.getExtent(lhs, d)));
  keepRowValues(task, rows, depth, lhs);
  evaluator.rowShape = rows.shape;
  Type held = k.computeType(type);
  Value row = k.allocate(held, std::max<int64_t>(depth, 1));
  DenseSet<Value> dependent = findReductionDependent(task.group.getBodyBlock());
  Extent columns = k.extents.getExtent(product, rank - 1);

  k.loop(k.begin, k.end, 1, {},
         [&](Value unit, ValueRange) -> SmallVector<Value> {
           BodyEvaluator::Scope scope(evaluator);
           Coordinates kept = k.delinearize(Index::of(unit), keptSizes);
           for (size_t d = 0; d < kept.size(); ++d)
             if (keptShape[d] == 1)
               kept[d] = Index::of(0);
           evaluator.rowAt = kept;
           evaluateRowValues(task, rows, kept, dependent, matmul);
           iterateRange(task, k.constantI64(0), k.constantI64(depth), depth,
                        [&](const Index &position) {
                          Coordinates at(kept);
                          at.push_back(position);
                          k.storeRaw(evaluator.evaluateInRow(lhs, at, position),
                                     held, row, position);
                        });
           evaluator.heldRows[lhs] = row;
           std::optional<int64_t> width;
           if (columns.isStatic())
             width = columns.base;
           iterateRange(task, k.constantI64(0), k.value(k.size(columns)), width,
                        [&](const Index &position) {
                          Coordinates at(kept);
                          at.push_back(position);
                          SmallVector<Value> values;
                          for (auto &[value, operand] : task.stores)
                            values.push_back(evaluator.evaluate(value, at));
                          for (auto [value, store] :
                               llvm::zip(values, task.stores))
                            k.store(value, store.second,
                                    getElementTypeOrSelf(store.first.getType()),
                                    k.linearize(at, k.shape(store.first)));
                        });
           evaluator.heldRows.clear();
           return {};
         });
  int64_t cost = std::max<int64_t>(1, estimateCost(task.ops) / 8);
  return KernelShape{*countRows(lhs, k.extents),
                     std::max<int64_t>(1, kGrainElements / cost)};
}
