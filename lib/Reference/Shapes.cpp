//===- Shapes.cpp - Ops that move elements by fixed maps ------------------===//
//
// Broadcast, reshape, transpose, slice, reverse, concat, pad, iota. Each rule
// walks the result (or the operand) in row-major order and says where the
// element comes from.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"

using namespace fusion;
using namespace fusion::reference;

/// `scale * B`, or an error if that overflows.
static llvm::Expected<int64_t> scaledBatch(mlir::Operation *op, int64_t scale,
                                           const OpContext &context) {
  int64_t size;
  if (scale < 0 || llvm::MulOverflow(scale, context.batch, size))
    return failAt(op, FailureKind::Resources,
                  "batch scale " + llvm::Twine(scale) + " times batch " +
                      llvm::Twine(context.batch) + " is no size");
  return size;
}

static llvm::Expected<Tensor> evaluateBroadcast(BroadcastOp op, Tensors inputs,
                                                const OpContext &context) {
  const Tensor &x = inputs[0];
  auto inputType = llvm::cast<mlir::RankedTensorType>(op.getInput().getType());
  auto type = llvm::cast<mlir::RankedTensorType>(op.getResult().getType());
  llvm::ArrayRef<int64_t> dims = op.getDims();

  Shape shape(type.getShape());
  for (int64_t &size : shape) {
    if (!mlir::ShapedType::isDynamic(size))
      continue;
    llvm::Expected<int64_t> batch =
        scaledBatch(op, op.getBatchScale(), context);
    if (!batch)
      return batch.takeError();
    size = *batch;
  }
  for (auto [from, to] : llvm::enumerate(dims)) {
    // A `?` of the operand gives its size; a static 1 is repeated.
    if (inputType.isDynamicDim(from) && type.isDynamicDim(to))
      shape[to] = x.getDim(from);
    if (x.getDim(from) != 1 && x.getDim(from) != shape[to])
      return failAt(op, FailureKind::Program,
                    "operand dimension " + llvm::Twine(from) + " has size " +
                        llvm::Twine(x.getDim(from)) + ", the result's is " +
                        llvm::Twine(shape[to]));
  }

  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  Shape source(x.getRank());
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    for (auto [from, to] : llvm::enumerate(dims))
      source[from] = x.getDim(from) == 1 ? 0 : index[to];
    y->setFrom(y->offsetOf(index), x, x.offsetOf(source));
  });
  return y;
}

static llvm::Expected<Tensor> evaluateReshape(ReshapeOp op, Tensors inputs,
                                              const OpContext &context) {
  const Tensor &x = inputs[0];
  auto type = llvm::cast<mlir::RankedTensorType>(op.getResult().getType());
  Shape shape(type.getShape());
  int64_t known = 1;
  for (int64_t size : shape)
    if (!mlir::ShapedType::isDynamic(size))
      known *= size;
  for (int64_t &size : shape)
    if (mlir::ShapedType::isDynamic(size))
      // Without elements any size does; everywhere it is the batch.
      size = known == 0 ? context.batch : x.getNumElements() / known;
  if (getNumElements(shape) != x.getNumElements())
    return failAt(op, FailureKind::Program,
                  "the operand has " + llvm::Twine(x.getNumElements()) +
                      " elements at this batch, which no result of " +
                      toString(type.getShape()) + " holds");
  return x.withShape(shape);
}

static llvm::Expected<Tensor> evaluateTranspose(TransposeOp op, Tensors inputs,
                                                const OpContext &context) {
  const Tensor &x = inputs[0];
  llvm::ArrayRef<int64_t> permutation = op.getPermutation();
  Shape shape;
  for (int64_t dim : permutation)
    shape.push_back(x.getDim(dim));
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  Shape source(x.getRank());
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    for (auto [to, from] : llvm::enumerate(permutation))
      source[from] = index[to];
    y->setFrom(y->offsetOf(index), x, x.offsetOf(source));
  });
  return y;
}

static llvm::Expected<Tensor> evaluateSlice(SliceOp op, Tensors inputs,
                                            const OpContext &context) {
  const Tensor &x = inputs[0];
  auto type = llvm::cast<mlir::RankedTensorType>(op.getInput().getType());
  Shape shape;
  for (int64_t dim = 0; dim < x.getRank(); ++dim) {
    // A `?` is taken whole.
    int64_t limit =
        type.isDynamicDim(dim) ? x.getDim(dim) : op.getLimits()[dim];
    int64_t start = op.getStarts()[dim], stride = op.getStrides()[dim];
    int64_t length = limit - start;
    shape.push_back(length / stride + (length % stride != 0));
  }
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  Shape source(x.getRank());
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    for (int64_t dim = 0; dim < x.getRank(); ++dim)
      source[dim] = op.getStarts()[dim] + index[dim] * op.getStrides()[dim];
    y->setFrom(y->offsetOf(index), x, x.offsetOf(source));
  });
  return y;
}

/// The value itself: an order has no meaning where nothing has effects.
static llvm::Expected<Tensor> evaluateAfter(AfterOp, Tensors inputs,
                                            const OpContext &) {
  return inputs[0];
}

static llvm::Expected<Tensor> evaluateReverse(ReverseOp op, Tensors inputs,
                                              const OpContext &context) {
  const Tensor &x = inputs[0];
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), x.getShape());
  if (!y)
    return y;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    Shape source(index);
    for (int64_t dim : op.getDims())
      source[dim] = x.getDim(dim) - 1 - index[dim];
    y->setFrom(y->offsetOf(index), x, x.offsetOf(source));
  });
  return y;
}

static llvm::Expected<Tensor> evaluateConcat(ConcatOp op, Tensors inputs,
                                             const OpContext &context) {
  int64_t axis = op.getAxis();
  Shape shape(inputs[0].getShape());
  shape[axis] = 0;
  for (const Tensor &input : inputs) {
    Shape expected = shape;
    expected[axis] = input.getDim(axis);
    if (llvm::Error error =
            requireShape(op, "an operand", input.getShape(), expected))
      return std::move(error);
    shape[axis] += input.getDim(axis);
  }
  llvm::Expected<Tensor> y = context.allocate(inputs[0].getKind(), shape);
  if (!y)
    return y;
  int64_t start = 0; // of the current operand along the axis
  for (const Tensor &input : inputs) {
    int64_t from = 0;
    forEachIndex(input.getShape(), [&](llvm::ArrayRef<int64_t> index) {
      Shape target(index);
      target[axis] += start;
      y->setFrom(y->offsetOf(target), input, from++);
    });
    start += input.getDim(axis);
  }
  return y;
}

static llvm::Expected<Tensor> evaluatePad(PadOp op, Tensors inputs,
                                          const OpContext &context) {
  const Tensor &x = inputs[0], &value = inputs[1];
  Shape shape(x.getShape());
  for (int64_t dim = 0; dim < x.getRank(); ++dim)
    if (llvm::AddOverflow(shape[dim], op.getLow()[dim], shape[dim]) ||
        llvm::AddOverflow(shape[dim], op.getHigh()[dim], shape[dim]))
      return failAt(op, FailureKind::Resources, "a padded size overflows");
  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  for (int64_t i = 0; i < y->getNumElements(); ++i)
    y->setFrom(i, value, 0);
  int64_t from = 0;
  forEachIndex(x.getShape(), [&](llvm::ArrayRef<int64_t> index) {
    Shape target(index);
    for (int64_t dim = 0; dim < x.getRank(); ++dim)
      target[dim] += op.getLow()[dim];
    y->setFrom(y->offsetOf(target), x, from++);
  });
  return y;
}

static llvm::Expected<Tensor> evaluateIota(IotaOp op, Tensors,
                                           const OpContext &context) {
  auto type = llvm::cast<mlir::RankedTensorType>(op.getResult().getType());
  Shape shape(type.getShape());
  for (int64_t &size : shape) {
    if (!mlir::ShapedType::isDynamic(size))
      continue;
    llvm::Expected<int64_t> batch =
        scaledBatch(op, op.getBatchScale(), context);
    if (!batch)
      return batch.takeError();
    size = *batch;
  }
  llvm::Expected<Tensor> y =
      context.allocate(*getElementKind(type.getElementType()), shape);
  if (!y)
    return y;
  int64_t axis = op.getAxis(), to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    if (y->isFloat())
      y->setFloat(to++, roundToKind(index[axis], y->getKind()));
    else
      y->setInt(to++, index[axis]);
  });
  return y;
}

void fusion::reference::addShapeRules(RuleTable &rules) {
  rules.add(evaluateBroadcast);
  rules.add(evaluateReshape);
  rules.add(evaluateTranspose);
  rules.add(evaluateSlice);
  rules.add(evaluateReverse);
  rules.add(evaluateAfter);
  rules.add(evaluateConcat);
  rules.add(evaluatePad);
  rules.add(evaluateIota);
}
