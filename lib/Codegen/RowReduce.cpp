//===- RowReduce.cpp - The emitter of rows with trailing reductions -------===//
//
// A unit is a row: the positions of the dimensions that are not reduced. First
// every reduction and everything of one value a row is computed, in the body's
// order, then one loop over the row computes and stores its elements. Costly
// row values that two loops need are kept in the kernel's frame when the row is
// short, else computed again, to the same bits.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Bytes of a kernel's frame that row values may take.
static constexpr int64_t kFrameBytes = 64 * 1024;

std::optional<RowSpace> codegen::findRowSpace(Block *body) {
  std::optional<RowSpace> rows;
  for (ReduceOp reduce : body->getOps<ReduceOp>()) {
    auto type = cast<RankedTensorType>(reduce.getInput().getType());
    if (!rows) {
      rows.emplace();
      rows->shape.assign(type.getShape().begin(), type.getShape().end());
      rows->dims.assign(reduce.getDims().begin(), reduce.getDims().end());
      rows->trailing = isTrailingReduction(reduce);
      rows->representative = reduce.getInput();
    } else if (ArrayRef<int64_t>(rows->shape) != type.getShape() ||
               ArrayRef<int64_t>(rows->dims) != reduce.getDims()) {
      return std::nullopt;
    }
  }
  if (!rows)
    return std::nullopt;
  SmallVector<int64_t> kept = rows->keptShape();
  for (Value output : body->getTerminator()->getOperands()) {
    auto shape = cast<RankedTensorType>(output.getType()).getShape();
    if (!matchUnitDims(rows->shape, Coordinates(rows->shape.size()), shape) &&
        !matchUnitDims(kept, Coordinates(kept.size()), shape))
      return std::nullopt;
  }
  return rows;
}

SmallVector<int64_t> RowSpace::keptShape() const {
  SmallVector<int64_t> kept;
  for (auto [d, size] : llvm::enumerate(shape))
    if (!isReduced(d))
      kept.push_back(size);
  return kept;
}

std::optional<Coordinates> codegen::matchUnitDims(ArrayRef<int64_t> from,
                                                  ArrayRef<Index> at,
                                                  ArrayRef<int64_t> to) {
  Coordinates result;
  size_t next = 0;
  for (int64_t size : to) {
    if (size == 1) {
      result.push_back(Index::of(0));
      continue;
    }
    while (next < from.size() && from[next] == 1)
      ++next;
    if (next == from.size() || from[next] != size)
      return std::nullopt;
    result.push_back(at[next++]);
  }
  while (next < from.size() && from[next] == 1)
    ++next;
  if (next != from.size())
    return std::nullopt;
  return result;
}

void codegen::keepRowValues(KernelTask &task, const RowSpace &rows,
                            int64_t length, ArrayRef<Value> last) {
  Block *body = task.group.getBodyBlock();
  // How many loops need each value: one a reduction, and the last one.
  llvm::DenseMap<Value, unsigned> uses;
  auto countBehind = [&](ArrayRef<Value> starts) {
    SmallVector<Value> worklist(starts);
    llvm::DenseSet<Value> seen;
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!isa_and_nonnull<ElementwiseOpInterface>(op) ||
          !seen.insert(value).second)
        continue;
      ++uses[value];
      // What an already kept value is made from is not needed again.
      if (uses[value] > 1 &&
          cast<ElementwiseOpInterface>(op).getFlopsPerElement() >= 8)
        continue;
      worklist.append(op->operand_begin(), op->operand_end());
    }
  };
  for (ReduceOp reduce : body->getOps<ReduceOp>())
    countBehind({reduce.getInput()});
  countBehind(last);
  int64_t bytes = 0;
  for (Operation &op : *body) {
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    if (!elementwise || elementwise.getFlopsPerElement() < 8)
      continue;
    Value value = op.getResult(0);
    Type compute = task.k.computeType(value.getType());
    auto type = cast<RankedTensorType>(value.getType());
    if (uses.lookup(value) < 2 || !isa<FloatType>(compute) ||
        type.getShape() != ArrayRef<int64_t>(rows.shape))
      continue;
    bytes += length * compute.getIntOrFloatBitWidth() / 8;
    if (bytes > kFrameBytes)
      return;
    task.evaluator.rowBuffers[value].pointer = task.k.allocate(compute, length);
  }
}

DenseSet<Value> codegen::findReductionDependent(Block *body) {
  DenseSet<Value> dependent;
  for (Operation &op : *body)
    if (op.getNumResults() == 1 &&
        (isa<ReduceOp>(op) ||
         llvm::any_of(op.getOperands(), [&](Value operand) {
           return dependent.contains(operand);
         })))
      dependent.insert(op.getResult(0));
  return dependent;
}

void codegen::evaluateRowValues(KernelTask &task, const RowSpace &rows,
                                ArrayRef<Index> kept,
                                const DenseSet<Value> &dependent,
                                Operation *end) {
  SmallVector<int64_t> keptShape = rows.keptShape();
  for (Operation &op : *task.group.getBodyBlock()) {
    if (&op == end)
      return;
    if (op.getNumResults() == 0 || isa<ConstantOp>(op))
      continue;
    Value value = op.getResult(0);
    auto shape = cast<RankedTensorType>(value.getType()).getShape();
    if (isa<ReduceOp>(op)) {
      task.evaluator.evaluate(value, kept);
      continue;
    }
    if (!dependent.contains(value))
      continue;
    if (auto at = matchUnitDims(keptShape, kept, shape))
      task.evaluator.evaluate(value, *at);
  }
}

std::optional<KernelShape> codegen::emitRowReduce(KernelTask &task,
                                                  const RowSpace &rows,
                                                  std::string &reason) {
  KernelBuilder &k = task.k;
  BodyEvaluator &evaluator = task.evaluator;
  // The row: dimensions of the rows, and of one row.
  SmallVector<int64_t> keptShape = rows.keptShape();
  SmallVector<Size> keptSizes, rowSizes;
  Extent units{0, 1}, length{0, 1};
  for (size_t d = 0; d < rows.shape.size(); ++d) {
    Extent extent = k.extents.getExtent(rows.representative, d);
    Extent &total = rows.isReduced(d) ? length : units;
    std::optional<Extent> product = multiply(total, extent);
    if (!product) {
      reason = "the number of rows or their length is not affine in the batch";
      return std::nullopt;
    }
    total = *product;
    (rows.isReduced(d) ? rowSizes : keptSizes).push_back(k.size(extent));
  }
  SmallVector<Value> last;
  for (auto &[value, operand] : task.stores)
    last.push_back(value);
  if (length.isStatic())
    keepRowValues(task, rows, length.base, last);
  evaluator.rowShape = rows.shape;
  DenseSet<Value> dependent = findReductionDependent(task.group.getBodyBlock());

  k.loop(
      k.begin, k.end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
        BodyEvaluator::Scope scope(evaluator);
        Coordinates kept = k.delinearize(Index::of(unit), keptSizes);
        for (size_t d = 0; d < kept.size(); ++d)
          if (keptShape[d] == 1)
            kept[d] = Index::of(0);
        evaluator.rowAt = kept;
        evaluateRowValues(task, rows, kept, dependent,
                          task.group.getBodyBlock()->getTerminator());
        // The row's elements.
        SmallVector<std::pair<Value, unsigned>> elements, single;
        for (auto &store : task.stores) {
          auto shape = cast<RankedTensorType>(store.first.getType()).getShape();
          Coordinates dummy(rows.shape.size());
          (matchUnitDims(rows.shape, dummy, shape) ? elements : single)
              .push_back(store);
        }
        SmallVector<Value> singleValues;
        SmallVector<Coordinates> singleAt;
        for (auto &[value, operand] : single) {
          auto shape = cast<RankedTensorType>(value.getType()).getShape();
          singleAt.push_back(*matchUnitDims(keptShape, kept, shape));
          singleValues.push_back(evaluator.evaluate(value, singleAt.back()));
        }
        if (!elements.empty()) {
          std::optional<int64_t> known;
          if (length.isStatic())
            known = length.base;
          iterateRange(
              task, k.constantI64(0), k.value(k.size(length)), known,
              [&](const Index &position) {
                Coordinates row = k.delinearize(position, rowSizes);
                Coordinates at;
                size_t nextKept = 0, nextRow = 0;
                for (size_t d = 0; d < rows.shape.size(); ++d)
                  at.push_back(rows.isReduced(d) ? row[nextRow++]
                                                 : kept[nextKept++]);
                SmallVector<Value> values;
                SmallVector<Coordinates> positions;
                for (auto &[value, operand] : elements) {
                  auto shape =
                      cast<RankedTensorType>(value.getType()).getShape();
                  positions.push_back(*matchUnitDims(rows.shape, at, shape));
                  values.push_back(evaluator.evaluateInRow(
                      value, positions.back(), position));
                }
                for (auto [value, store, where] :
                     llvm::zip(values, elements, positions))
                  k.store(value, store.second,
                          getElementTypeOrSelf(store.first.getType()),
                          k.linearize(where, k.shape(store.first)));
              });
        }
        for (auto [value, store, where] :
             llvm::zip(singleValues, single, singleAt))
          k.store(value, store.second,
                  getElementTypeOrSelf(store.first.getType()),
                  k.linearize(where, k.shape(store.first)));
        return {};
      });
  int64_t cost = std::max<int64_t>(1, estimateCost(task.ops) / 8);
  return KernelShape{units, std::max<int64_t>(1, kGrainElements / cost)};
}
