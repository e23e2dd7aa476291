//===- Indexing.cpp - Ops whose positions are data ------------------------===//
//
// gather and gather_nd clamp their indices, scatter drops updates outside, and
// update_slice moves its box inside.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

using namespace fusion;
using namespace fusion::reference;

static int64_t clampIndex(int64_t index, int64_t size) {
  return std::max<int64_t>(0, std::min(index, size - 1));
}

/// `result[b, p, i..., s] = input[b, p, indices[b, i...], s]`.
static llvm::Expected<Tensor> evaluateGather(GatherOp op, Tensors inputs,
                                             const OpContext &context) {
  const Tensor &x = inputs[0], &indices = inputs[1];
  int64_t axis = op.getAxis(), batchDims = op.getBatchDims();
  llvm::ArrayRef<int64_t> from = x.getShape(), at = indices.getShape();
  if (llvm::Error error =
          requireShape(op, "the batch of the indices", at.take_front(batchDims),
                       from.take_front(batchDims)))
    return std::move(error);

  Shape shape(from.take_front(axis));
  shape.append(at.begin() + batchDims, at.end());
  shape.append(from.begin() + axis + 1, from.end());
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  if (y->getNumElements() != 0 && x.getDim(axis) == 0)
    return failAt(op, FailureKind::Program,
                  "nothing to gather: the operand's dimension " +
                      llvm::Twine(axis) + " is empty");
  int64_t indexDims = indices.getRank() - batchDims; // the i...
  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape position(index.take_front(batchDims));
    position.append(index.begin() + axis, index.begin() + axis + indexDims);
    int64_t chosen = indices.getInt(indices.offsetOf(position));
    Shape source(index.take_front(axis));
    source.push_back(clampIndex(chosen, x.getDim(axis)));
    source.append(index.begin() + axis + indexDims, index.end());
    y->setFrom(to++, x, x.offsetOf(source));
  });
  return y;
}

/// `result[b, i..., s] = input[b, indices[b, i..., 0..k), s]`.
static llvm::Expected<Tensor> evaluateGatherNd(GatherNdOp op, Tensors inputs,
                                               const OpContext &context) {
  const Tensor &x = inputs[0], &indices = inputs[1];
  int64_t batchDims = op.getBatchDims();
  llvm::ArrayRef<int64_t> from = x.getShape(), at = indices.getShape();
  if (llvm::Error error =
          requireShape(op, "the batch of the indices", at.take_front(batchDims),
                       from.take_front(batchDims)))
    return std::move(error);

  int64_t k = at.back();
  Shape shape(at.drop_back());
  shape.append(from.begin() + batchDims + k, from.end());
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  if (y->getNumElements() != 0 && x.getNumElements() == 0)
    return failAt(op, FailureKind::Program,
                  "nothing to gather: the operand is empty");
  int64_t positionDims = indices.getRank() - 1; // b and i...
  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape source(index.take_front(batchDims));
    Shape position(index.take_front(positionDims));
    position.push_back(0);
    for (int64_t j = 0; j < k; ++j) {
      position.back() = j;
      source.push_back(clampIndex(indices.getInt(indices.offsetOf(position)),
                                  x.getDim(batchDims + j)));
    }
    source.append(index.begin() + positionDims, index.end());
    y->setFrom(to++, x, x.offsetOf(source));
  });
  return y;
}

/// `updates[i..., s]` goes to `input[indices[i..., 0..k), s]`. Sums of floats
/// are kept in f64 and rounded once, at the end.
static llvm::Expected<Tensor> evaluateScatter(ScatterOp op, Tensors inputs,
                                              const OpContext &context) {
  const Tensor &x = inputs[0], &indices = inputs[1], &updates = inputs[2];
  int64_t k = indices.getShape().back();
  int64_t positionDims = indices.getRank() - 1;
  Shape expected(indices.getShape().drop_back());
  expected.append(x.getShape().begin() + k, x.getShape().end());
  if (llvm::Error error =
          requireShape(op, "updates", updates.getShape(), expected))
    return std::move(error);

  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  // A second copy, in f64, in which float updates are combined.
  llvm::Expected<Tensor> wide = context.allocate(
      x.isFloat() ? ElementKind::F64 : x.getKind(), x.getShape());
  if (!y || !wide)
    return llvm::joinErrors(y.takeError(), wide.takeError());
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    x.isFloat() ? wide->setFloat(i, x.getFloat(i))
                : wide->setInt(i, x.getInt(i));

  int64_t from = 0;
  forEachIndex(updates.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    int64_t update = from++;
    Shape position(index.take_front(positionDims));
    position.push_back(0);
    Shape target;
    for (int64_t j = 0; j < k; ++j) {
      position.back() = j;
      int64_t chosen = indices.getInt(indices.offsetOf(position));
      if (chosen < 0 || chosen >= x.getDim(j))
        return; // outside: dropped
      target.push_back(chosen);
    }
    target.append(index.begin() + positionDims, index.end());
    int64_t to = wide->offsetOf(target);
    auto combine = [&](auto old, auto value) {
      switch (op.getKind()) {
      case ScatterKind::Set:
        return value;
      case ScatterKind::Add:
        if constexpr (std::is_same_v<decltype(old), double>)
          return old + value;
        else
          return wrapAdd(old, value);
      case ScatterKind::Min:
        return minimum(old, value);
      case ScatterKind::Max:
        return maximum(old, value);
      }
      llvm_unreachable("covered above");
    };
    if (x.isFloat())
      wide->setFloat(to, combine(wide->getFloat(to), updates.getFloat(update)));
    else
      wide->setInt(to, combine(wide->getInt(to), updates.getInt(update)));
  });

  for (int64_t i = 0; i < x.getNumElements(); ++i)
    x.isFloat() ? y->setFloat(i, wide->getFloat(i))
                : y->setInt(i, wide->getInt(i));
  return y;
}

static llvm::Expected<Tensor> evaluateUpdateSlice(UpdateSliceOp op,
                                                  Tensors inputs,
                                                  const OpContext &context) {
  const Tensor &x = inputs[0], &update = inputs[1];
  Shape starts;
  for (int64_t dim = 0; dim < x.getRank(); ++dim) {
    int64_t room = x.getDim(dim) - update.getDim(dim);
    if (room < 0)
      return failAt(op, FailureKind::Program,
                    "the update of " + toString(update.getShape()) +
                        " is larger than the operand of " +
                        toString(x.getShape()) + " at this batch");
    starts.push_back(clampIndex(inputs[2 + dim].getInt(0), room + 1));
  }
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y)
    return y;
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    y->setFrom(i, x, i);
  int64_t from = 0;
  forEachIndex(update.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    Shape target(index);
    for (int64_t dim = 0; dim < x.getRank(); ++dim)
      target[dim] += starts[dim];
    y->setFrom(y->offsetOf(target), update, from++);
  });
  return y;
}

void fusion::reference::addIndexingRules(RuleTable &rules) {
  rules.add(evaluateGather);
  rules.add(evaluateGatherNd);
  rules.add(evaluateScatter);
  rules.add(evaluateUpdateSlice);
}
