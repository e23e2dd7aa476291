//===- ColumnReduce.cpp - The emitter of the other reductions -------------===//
//
// Reductions over leading or middle dimensions: vectors of neighbouring columns
// are combined together, each column in the order of its elements. If there are
// outputs of the full shape, a second loop over the reduced dimensions computes
// them for the same columns.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

std::optional<KernelShape> codegen::emitColumnReduce(KernelTask &task,
                                                     const RowSpace &rows,
                                                     std::string &reason) {
  KernelBuilder &k = task.k;
  BodyEvaluator &evaluator = task.evaluator;
  Block *body = task.group.getBodyBlock();
  SmallVector<int64_t> keptShape = rows.keptShape();
  SmallVector<Extent> keptExtents;
  SmallVector<Size> reducedSizes;
  SmallVector<bool> mergeable;
  bool reducedBetween = false;
  for (size_t d = 0; d < rows.shape.size(); ++d) {
    Extent extent = k.extents.getExtent(rows.representative, d);
    if (rows.isReduced(d)) {
      reducedSizes.push_back(k.size(extent));
      reducedBetween |= extent != Extent{0, 1};
      continue;
    }
    if (!keptExtents.empty())
      mergeable.push_back(!reducedBetween);
    reducedBetween = false;
    keptExtents.push_back(extent);
  }
  SmallVector<std::pair<Value, unsigned>> elements, single;
  for (auto &store : task.stores) {
    auto shape = cast<RankedTensorType>(store.first.getType()).getShape();
    Coordinates kept(keptShape.size());
    (matchUnitDims(keptShape, kept, shape) ? single : elements)
        .push_back(store);
  }
  DenseSet<Value> dependent = findReductionDependent(body);
  auto storeAll = [&](ArrayRef<std::pair<Value, unsigned>> stores,
                      ArrayRef<Value> values, ArrayRef<Coordinates> positions) {
    for (auto [store, value, at] : llvm::zip(stores, values, positions))
      k.store(value, store.second, getElementTypeOrSelf(store.first.getType()),
              k.linearize(at, k.shape(store.first)));
  };

  auto shape = iterate(
      task, keptExtents, mergeable, estimateCost(task.ops),
      [&](ArrayRef<Index> kept) {
        for (Operation &op : *body) {
          if (op.getNumResults() == 0 || !dependent.contains(op.getResult(0)))
            continue;
          Value value = op.getResult(0);
          auto valueShape = cast<RankedTensorType>(value.getType()).getShape();
          if (auto at = matchUnitDims(keptShape, kept, valueShape))
            evaluator.evaluate(value, *at);
        }
        SmallVector<Value> singleValues;
        SmallVector<Coordinates> singleAt;
        for (auto &[value, operand] : single) {
          auto valueShape = cast<RankedTensorType>(value.getType()).getShape();
          singleAt.push_back(*matchUnitDims(keptShape, kept, valueShape));
          singleValues.push_back(evaluator.evaluate(value, singleAt.back()));
        }
        if (!elements.empty())
          evaluator.nest(
              reducedSizes, {},
              [&](ArrayRef<Index> reduced,
                  BodyEvaluator::Values) -> BodyEvaluator::Values {
                Coordinates at;
                size_t nextKept = 0, nextReduced = 0;
                for (size_t d = 0; d < rows.shape.size(); ++d)
                  at.push_back(rows.isReduced(d) ? reduced[nextReduced++]
                                                 : kept[nextKept++]);
                SmallVector<Value> values;
                SmallVector<Coordinates> positions;
                for (auto &[value, operand] : elements) {
                  auto valueShape =
                      cast<RankedTensorType>(value.getType()).getShape();
                  positions.push_back(
                      *matchUnitDims(rows.shape, at, valueShape));
                  values.push_back(evaluator.evaluate(value, positions.back()));
                }
                storeAll(elements, values, positions);
                return {};
              });
        storeAll(single, singleValues, singleAt);
      });
  if (!shape)
    reason = "the number of columns is not affine in the batch";
  return shape;
}
