//===- Loop.cpp - The emitter of independent elements ---------------------===//
//
// Groups whose outputs all have one shape, each element computed on its own:
// elementwise and injective ops, pools, contractions, single ops of any kind.
// All outputs are evaluated at a position before the first is stored, so that
// an output may take the bytes of an input read at the same position.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

std::optional<KernelShape> codegen::emitLoop(KernelTask &task,
                                             std::string &reason) {
  KernelBuilder &k = task.k;
  Value first = task.stores.front().first;
  auto type = cast<RankedTensorType>(first.getType());
  for (auto &[value, operand] : task.stores)
    if (cast<RankedTensorType>(value.getType()).getShape() != type.getShape() ||
        k.extents.getShape(value) != k.extents.getShape(first)) {
      reason = "the outputs have different shapes";
      return std::nullopt;
    }
  SmallVector<bool> mergeable = findMergeable(task.ops, type.getShape());
  auto shape =
      iterate(task, k.extents.getShape(first), mergeable,
              estimateCost(task.ops), [&](ArrayRef<Index> at) {
                SmallVector<Value> values;
                for (auto &[value, operand] : task.stores)
                  values.push_back(task.evaluator.evaluate(value, at));
                for (auto [value, store] : llvm::zip(values, task.stores))
                  k.store(value, store.second,
                          getElementTypeOrSelf(store.first.getType()),
                          k.linearize(at, k.shape(store.first)));
              });
  if (!shape)
    reason = "the number of elements is not affine in the batch";
  return shape;
}
