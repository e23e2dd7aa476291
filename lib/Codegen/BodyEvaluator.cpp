//===- BodyEvaluator.cpp - A group's values at a position -----------------===//
//
// See BodyEvaluator.h. Elementwise chains are evaluated with a worklist; only
// an op that changes coordinates recurses, so the depth is that of nested
// structural ops, which checkBody bounds.
//
//===----------------------------------------------------------------------===//
#include "BodyEvaluator.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

BodyEvaluator::BodyEvaluator(KernelBuilder &kernel, Block *body) : k(kernel) {
  for (auto [i, argument] : llvm::enumerate(body->getArguments()))
    operandOf[argument] = i;
}

void BodyEvaluator::forget(size_t mark) {
  while (log.size() > mark) {
    auto found = known.find(log.pop_back_val());
    found->second.pop_back();
  }
}

Value BodyEvaluator::lookup(Value tensor, Key coordinates) {
  auto found = known.find(tensor);
  if (found == known.end())
    return nullptr;
  for (auto &[at, value] : llvm::reverse(found->second))
    if (ArrayRef<Index>(at) == coordinates)
      return value;
  return nullptr;
}

void BodyEvaluator::remember(Value tensor, Key coordinates, Value value) {
  known[tensor].push_back(
      {Coordinates(coordinates.begin(), coordinates.end()), value});
  log.push_back(tensor);
}

/// A unit dimension has one position: equal coordinates look equal.
Coordinates BodyEvaluator::canonical(Value tensor, Key given) {
  Coordinates at(given.begin(), given.end());
  auto type = cast<RankedTensorType>(tensor.getType());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) == 1)
      at[dim] = Index::of(0);
  return at;
}

BodyEvaluator::RowBuffer *BodyEvaluator::activeBuffer(Value value, Key at) {
  if (!inRow || Key(rowCoordinates) != at)
    return nullptr;
  auto *found = rowBuffers.find(value);
  return found == rowBuffers.end() ? nullptr : &found->second;
}

Value BodyEvaluator::evaluateInRow(Value tensor, Key coordinates,
                                   const Index &position) {
  Scope scope(*this);
  assert(!inRow && "loops over a row do not nest");
  rowCoordinates = canonical(tensor, coordinates);
  rowPosition = position;
  inRow = true;
  Value value = evaluate(tensor, coordinates);
  inRow = false;
  return value;
}

void BodyEvaluator::endRow() {
  for (auto &[value, buffer] : rowBuffers)
    buffer.filled |= buffer.touched;
}

Value BodyEvaluator::evaluate(Value tensor, Key given) {
  Coordinates at = canonical(tensor, given);
  if (Value value = lookup(tensor, at))
    return value;
  return evaluateElementwise(tensor, at);
}

Value BodyEvaluator::evaluateElementwise(Value tensor, Key at) {
  // Which ops of the elementwise region behind `tensor` are missing here.
  SmallVector<Value> worklist{tensor};
  llvm::SmallSetVector<Operation *, 16> missing;
  SmallVector<Value> roots;
  llvm::SmallDenseSet<Value, 16> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second || lookup(value, at))
      continue;
    if (RowBuffer *buffer = activeBuffer(value, at); buffer && buffer->filled) {
      Type element = k.computeType(value.getType());
      Type type = isUniform(at) ? element : Type(k.vectorOf(element));
      remember(value, at,
               k.loadRaw(type, element, buffer->pointer, rowPosition));
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<ElementwiseOpInterface>(op) ||
        operandOf.contains(value) || heldRows.contains(value)) {
      roots.push_back(value);
      continue;
    }
    missing.insert(op);
    for (Value operand : llvm::reverse(op->getOperands()))
      worklist.push_back(operand);
  }
  for (Value root : roots) {
    // A root may have been met while another one was evaluated.
    if (!lookup(root, at))
      remember(root, at, evaluateRoot(root, at));
  }
  SmallVector<Operation *> order(missing.begin(), missing.end());
  llvm::sort(order,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : order) {
    Value value = compute(op, at);
    remember(op->getResult(0), at, value);
    RowBuffer *buffer = activeBuffer(op->getResult(0), at);
    if (buffer && !buffer->filled) {
      k.storeRaw(value, k.computeType(op->getResult(0).getType()),
                 buffer->pointer, rowPosition);
      buffer->touched = true;
    }
  }
  return lookup(tensor, at);
}

Value BodyEvaluator::multiplyByReciprocal(Operation *op, Key at) {
  if (!k.isFast || !isa<DivOp>(op) || isUniform(at))
    return Value();
  Value dividend = lookup(op->getOperand(0), at);
  Value divisor = lookup(op->getOperand(1), at);
  // A splat of one value, which is known before the loop.
  if (auto splat = divisor.getDefiningOp<vector::BroadcastOp>())
    divisor = splat.getSource();
  if (isa<VectorType>(divisor.getType()) || !isa<FloatType>(divisor.getType()))
    return Value();
  Value one = k.constant(divisor.getType(), 1.0);
  Value factor = k.op<arith::DivFOp>(one, divisor);
  return k.op<arith::MulFOp>(k.splatIf(dividend, true), k.splat(factor));
}

Value BodyEvaluator::compute(Operation *op, Key at) {
  bool wide = !isUniform(at);
  SmallVector<Value> operands;
  if (Value product = multiplyByReciprocal(op, at))
    return k.round(product, getElementTypeOrSelf(op->getResult(0).getType()));
  for (Value operand : op->getOperands())
    operands.push_back(k.splatIf(lookup(operand, at), wide));
  Value value =
      cast<ElementwiseOpInterface>(op).buildBody(k.b, k.loc, operands);
  return k.round(value, getElementTypeOrSelf(op->getResult(0).getType()));
}

Value BodyEvaluator::evaluateSerially(Value tensor, Key at) {
  Type element = k.computeType(tensor.getType());
  Value start = k.op<LLVM::PoisonOp>(k.vectorOf(element));
  auto result =
      k.loop(k.constantI64(0), k.constantI64(k.lanes), 1, start,
             [&](Value lane, ValueRange carried) -> SmallVector<Value> {
               Scope scope(*this);
               Coordinates one;
               for (const Index &index : at)
                 one.push_back(k.atLane(index, lane));
               return {k.insert(carried[0], evaluate(tensor, one), lane)};
             });
  return result[0];
}

Value BodyEvaluator::evaluateRoot(Value tensor, Key at) {
  bool wide = !isUniform(at);
  Type element = getElementTypeOrSelf(tensor.getType());
  if (auto found = heldRows.find(tensor); found != heldRows.end()) {
    Type held = k.computeType(element);
    return k.loadRaw(wide ? Type(k.vectorOf(held)) : held, held, found->second,
                     at.back());
  }
  if (auto found = operandOf.find(tensor); found != operandOf.end()) {
    Index flat = k.linearize(at, k.shape(tensor));
    return k.splatIf(k.load(found->second, element, flat), wide);
  }
  Operation *op = tensor.getDefiningOp();
  // Reductions in lanes use the vector themselves.
  if (auto reduce = dyn_cast<ReduceOp>(op);
      reduce && wide && isTrailingReduction(reduce))
    return evaluateSerially(tensor, at);
  if (wide && isa<AttentionOp>(op))
    return evaluateSerially(tensor, at);
  Value value =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case([&](ConstantOp constant) {
            return k.constant(element,
                              cast<DenseElementsAttr>(constant.getValue())
                                  .getSplatValue<Attribute>());
          })
          .Case([&](BroadcastOp bcast) { return evaluateBroadcast(bcast, at); })
          .Case([&](ReshapeOp reshape) { return evaluateReshape(reshape, at); })
          .Case([&](TransposeOp transpose) {
            Coordinates from(at.size());
            for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
              from[dim] = at[i];
            return evaluate(transpose.getInput(), from);
          })
          .Case([&](SliceOp slice) {
            Coordinates from;
            for (auto [i, index] : llvm::enumerate(at))
              from.push_back(
                  k.add(k.mul(index, Size::of(slice.getStrides()[i])),
                        slice.getStarts()[i]));
            return evaluate(slice.getInput(), from);
          })
          .Case([&](ReverseOp reverse) {
            Coordinates from(at.begin(), at.end());
            for (int64_t dim : reverse.getDims()) {
              Index last =
                  k.add(k.fromSize(k.size(reverse.getInput(), dim)), -1);
              from[dim] = k.sub(last, at[dim]);
            }
            return evaluate(reverse.getInput(), from);
          })
          .Case([&](ConcatOp concat) { return evaluateConcat(concat, at); })
          .Case([&](PadOp pad) { return evaluatePad(pad, at); })
          .Case([&](GatherOp gather) { return evaluateGather(gather, at); })
          .Case([&](GatherNdOp gather) { return evaluateGatherNd(gather, at); })
          .Case([&](UpdateSliceOp update) {
            return evaluateUpdateSlice(update, at);
          })
          .Case([&](IotaOp iota) { return evaluateIota(iota, at); })
          .Case([&](RngUniformOp rng) { return evaluateRngUniform(rng, at); })
          .Case([&](ReduceOp reduce) { return evaluateReduce(reduce, at); })
          .Case([&](ArgMaxOp arg) {
            return evaluateArgReduce(arg, arg.getInput(), arg.getAxis(), true,
                                     arg.getSelectLast(), at);
          })
          .Case([&](ArgMinOp arg) {
            return evaluateArgReduce(arg, arg.getInput(), arg.getAxis(), false,
                                     arg.getSelectLast(), at);
          })
          .Case([&](MaxPoolOp pool) { return evaluateMaxPool(pool, at); })
          .Case(
              [&](MaxPoolGradOp pool) { return evaluateMaxPoolGrad(pool, at); })
          .Case([&](AvgPoolOp pool) { return evaluateAvgPool(pool, at); })
          .Case([&](ConvOp conv) { return evaluateConv(conv, at); })
          .Case([&](ConvTransposeOp conv) {
            return evaluateConvTranspose(conv, at);
          })
          .Case([&](AttentionOp attention) {
            return evaluateAttention(attention, at);
          })
          .Case([&](MatmulOp matmul) { return evaluateMatmul(matmul, at); });
  return k.splatIf(value, wide);
}

Value BodyEvaluator::choose(Value inside, Type element, Key at,
                            llvm::function_ref<Value()> a,
                            llvm::function_ref<Value()> c) {
  bool wide = !isUniform(at);
  if (!inside)
    return a();
  if (isa<VectorType>(inside.getType())) {
    Value left = k.splatIf(a(), true);
    Value right = k.splatIf(c(), true);
    return k.select(inside, left, right);
  }
  Type compute = k.computeType(element);
  Type type = wide ? Type(k.vectorOf(compute)) : compute;
  auto side = [&](llvm::function_ref<Value()> build) {
    Scope scope(*this);
    return k.splatIf(build(), wide);
  };
  return k.branch(
      inside, type, [&] { return side(a); }, [&] { return side(c); });
}

BodyEvaluator::Values
BodyEvaluator::nest(ArrayRef<Size> box, Values carried,
                    llvm::function_ref<Values(ArrayRef<Index>, Values)> body) {
  // Recursion over the dimensions of a tensor only.
  Coordinates position;
  std::function<Values(Values)> level = [&](Values values) -> Values {
    if (position.size() == box.size()) {
      Scope scope(*this);
      return body(position, std::move(values));
    }
    const Size &size = box[position.size()];
    if (size.is(1)) {
      position.push_back(Index::of(0));
      values = level(std::move(values));
      position.pop_back();
      return values;
    }
    return k.loop(k.constantI64(0), k.value(size), 1, values,
                  [&](Value i, ValueRange inside) -> SmallVector<Value> {
                    position.push_back(Index::of(i));
                    Values next = level(Values(inside));
                    position.pop_back();
                    return next;
                  });
  };
  return level(std::move(carried));
}

Value BodyEvaluator::zeroOf(Type element, bool wide) {
  Type compute = k.computeType(element);
  Value zero =
      isa<FloatType>(compute)
          ? k.constant(compute, 0.0)
          : k.constantInt(compute, APInt(compute.getIntOrFloatBitWidth(), 0));
  return k.splatIf(zero, wide);
}

Value BodyEvaluator::multiplyAdd(Value sum, Value a, Value c) {
  bool wide = isa<VectorType>(sum.getType());
  a = k.splatIf(a, wide);
  c = k.splatIf(c, wide);
  if (isa<FloatType>(getElementTypeOrSelf(sum.getType())))
    return k.op<arith::AddFOp>(sum, k.op<arith::MulFOp>(a, c));
  return k.op<arith::AddIOp>(sum, k.op<arith::MulIOp>(a, c));
}
