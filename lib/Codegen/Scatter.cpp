//===- Scatter.cpp - The emitter of scatters ------------------------------===//
//
// Copies the input, then applies the updates in row-major order: that order is
// the op's meaning, so one unit does all updates of a range of the trailing
// elements that every update covers.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

Value codegen::combineUpdate(KernelBuilder &k, ScatterKind kind, Value old,
                             Value update, Type element) {
  switch (kind) {
  case ScatterKind::Set:
    return update;
  case ScatterKind::Add:
    return k.round(combineReduction(k, ReduceKind::Sum, old, update), element);
  case ScatterKind::Min:
    return k.round(combineReduction(k, ReduceKind::Min, old, update), element);
  case ScatterKind::Max:
    return k.round(combineReduction(k, ReduceKind::Max, old, update), element);
  }
  llvm_unreachable("unknown scatter");
}

std::optional<KernelShape> codegen::emitScatter(KernelTask &task,
                                                std::string &reason) {
  KernelBuilder &k = task.k;
  BodyEvaluator &evaluator = task.evaluator;
  auto scatter = task.stores.front().first.getDefiningOp<ScatterOp>();
  if (!scatter || task.stores.size() != 1) {
    reason = "the only output must be the scatter's result";
    return std::nullopt;
  }
  unsigned operand = task.stores.front().second;
  auto type = cast<RankedTensorType>(scatter.getInput().getType());
  auto indexType = cast<RankedTensorType>(scatter.getIndices().getType());
  Type element = type.getElementType();
  int64_t depth = indexType.getShape().back();
  SmallVector<Size> shape = k.shape(scatter.getInput());
  SmallVector<Size> leading(shape.begin(), shape.begin() + depth);
  SmallVector<Size> slice(shape.begin() + depth, shape.end());
  SmallVector<Size> updates = k.shape(scatter.getIndices());
  updates.pop_back();

  // Units split the slice: each element of it is independent of the others.
  Extent sliceLength{0, 1};
  for (int64_t d = depth; d < type.getRank(); ++d) {
    std::optional<Extent> product =
        multiply(sliceLength, k.extents.getExtent(scatter.getInput(), d));
    if (!product) {
      reason = "the size of a slice is not affine in the batch";
      return std::nullopt;
    }
    sliceLength = *product;
  }
  // A slice of one element has no lanes.
  std::optional<int64_t> one;
  if (sliceLength == Extent{0, 1})
    one = 1;
  auto overSlice = [&](llvm::function_ref<void(const Index &)> body) {
    iterateRange(task, k.begin, k.end, one, body);
  };

  evaluator.nest(
      leading, {},
      [&](ArrayRef<Index> at, BodyEvaluator::Values) -> BodyEvaluator::Values {
        Coordinates outer(at.begin(), at.end());
        overSlice([&](const Index &position) {
          Coordinates whole = outer;
          whole.append(k.delinearize(position, slice));
          Value value = evaluator.evaluate(scatter.getInput(), whole);
          k.store(value, operand, element, k.linearize(whole, shape));
        });
        return {};
      });
  evaluator.nest(
      updates, {},
      [&](ArrayRef<Index> at, BodyEvaluator::Values) -> BodyEvaluator::Values {
        Coordinates outer(at.begin(), at.end()), target;
        Value inside;
        for (int64_t d = 0; d < depth; ++d) {
          Coordinates indexAt = outer;
          indexAt.push_back(Index::of(d));
          Value index = evaluator.evaluate(scatter.getIndices(), indexAt);
          if (!index.getType().isInteger(64))
            index = k.op<arith::ExtSIOp>(k.b.getI64Type(), index);
          target.push_back(Index::of(index));
          // One unsigned comparison: a negative index is a large one.
          inside = k.logicalAnd(inside, k.compare(arith::CmpIPredicate::ult,
                                                  Index::of(index),
                                                  k.fromSize(shape[d])));
        }
        auto apply = [&] {
          overSlice([&](const Index &position) {
            Coordinates part = k.delinearize(position, slice);
            Coordinates from = outer, to = target;
            from.append(part);
            to.append(part);
            bool wide = !position.isUniform();
            Value update =
                k.splatIf(evaluator.evaluate(scatter.getUpdates(), from), wide);
            Index flat = k.linearize(to, shape);
            if (scatter.getKind() != ScatterKind::Set) {
              Value old = k.load(operand, element, flat);
              update =
                  combineUpdate(k, scatter.getKind(), old, update, element);
            }
            k.store(update, operand, element, flat);
          });
        };
        if (!inside) {
          apply();
          return {};
        }
        auto branch =
            scf::IfOp::create(k.b, k.loc, inside, /*withElseRegion=*/false);
        OpBuilder::InsertionGuard guard(k.b);
        k.b.setInsertionPointToStart(branch.thenBlock());
        BodyEvaluator::Scope scope(evaluator);
        apply();
        return {};
      });
  return KernelShape{sliceLength, std::max<int64_t>(1, kGrainElements / 64)};
}
