//===- EvaluateStructural.cpp - Ops that move elements, at a position -----===//
//
// The part of BodyEvaluator for ops whose operands are read at other
// coordinates. Where lanes take different branches both are evaluated, at
// positions clamped into the tensor, and one is selected.
//
//===----------------------------------------------------------------------===//
#include "BodyEvaluator.h"

#include <functional>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

using arith::CmpIPredicate;

Value BodyEvaluator::evaluateBroadcast(BroadcastOp op, Key at) {
  Coordinates from;
  auto type = cast<RankedTensorType>(op.getInput().getType());
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    from.push_back(type.getDimSize(i) == 1 ? Index::of(0) : at[dim]);
  return evaluate(op.getInput(), from);
}

Value BodyEvaluator::evaluateReshape(ReshapeOp op, Key at) {
  SmallVector<Size> to = k.shape(op.getResult());
  SmallVector<Size> from = k.shape(op.getInput());
  Coordinates result(from.size(), Index::of(0));
  // Dimensions that match one to one, from the outside and from the inside,
  // keep their positions; what is left between them goes through the flat one.
  SmallVector<size_t> toDims, fromDims;
  for (size_t i = 0; i < to.size(); ++i)
    if (!to[i].is(1))
      toDims.push_back(i);
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is(1))
      fromDims.push_back(i);
  size_t front = 0, back = 0;
  while (front < toDims.size() && front < fromDims.size() &&
         to[toDims[front]] == from[fromDims[front]]) {
    result[fromDims[front]] = at[toDims[front]];
    ++front;
  }
  while (front + back < toDims.size() && front + back < fromDims.size() &&
         to[toDims[toDims.size() - 1 - back]] ==
             from[fromDims[fromDims.size() - 1 - back]]) {
    result[fromDims[fromDims.size() - 1 - back]] =
        at[toDims[toDims.size() - 1 - back]];
    ++back;
  }
  if (front + back < fromDims.size()) {
    Coordinates middle;
    SmallVector<Size> middleTo, middleFrom;
    for (size_t i = front; i + back < toDims.size(); ++i) {
      middle.push_back(at[toDims[i]]);
      middleTo.push_back(to[toDims[i]]);
    }
    for (size_t i = front; i + back < fromDims.size(); ++i)
      middleFrom.push_back(from[fromDims[i]]);
    Coordinates parts =
        k.delinearize(k.linearize(middle, middleTo), middleFrom);
    for (size_t i = 0; i < parts.size(); ++i)
      result[fromDims[front + i]] = parts[i];
  }
  return evaluate(op.getInput(), result);
}

Value BodyEvaluator::evaluateConcatRange(ConcatOp op, Key at,
                                         ArrayRef<Index> offsets, size_t first,
                                         size_t last) {
  // Halves: the depth is the logarithm of the number of operands.
  if (last - first == 1) {
    Value input = op.getInputs()[first];
    int64_t axis = op.getAxis();
    Coordinates from(at.begin(), at.end());
    from[axis] = k.sub(at[axis], offsets[first]);
    if (!at[axis].isUniform())
      from[axis] = k.clampTo(from[axis], k.size(input, axis));
    return evaluate(input, from);
  }
  size_t middle = first + (last - first) / 2;
  Value isLeft =
      k.compare(CmpIPredicate::slt, at[op.getAxis()], offsets[middle]);
  return choose(
      isLeft, getElementTypeOrSelf(op.getResult().getType()), at,
      [&] { return evaluateConcatRange(op, at, offsets, first, middle); },
      [&] { return evaluateConcatRange(op, at, offsets, middle, last); });
}

Value BodyEvaluator::evaluateConcat(ConcatOp op, Key at) {
  int64_t axis = op.getAxis();
  if (auto found = chosen.find(op); found != chosen.end()) {
    Extent offset{0, 0};
    for (Value input : op.getInputs().take_front(found->second.which))
      offset = offset + k.extents.getExtent(input, axis);
    Coordinates from(at.begin(), at.end());
    from[axis] = k.sub(at[axis], k.fromSize(k.size(offset)));
    return evaluate(op.getInputs()[found->second.which], from);
  }
  // An empty operand has no position to clamp to: it is not asked.
  SmallVector<Value> inputs;
  for (Value input : op.getInputs())
    if (!k.size(input, axis).is(0))
      inputs.push_back(input);
  if (inputs.size() != op.getInputs().size() && !inputs.empty()) {
    // The same concat, over the operands that have elements.
    OpBuilder builder(op);
    auto smaller =
        ConcatOp::create(builder, op.getLoc(), op.getResult().getType(), inputs,
                         op.getAxisAttr());
    Value value = evaluateConcat(smaller, at);
    smaller.erase();
    return value;
  }
  SmallVector<Index> offsets;
  Extent offset{0, 0};
  for (Value input : op.getInputs()) {
    offsets.push_back(k.fromSize(k.size(offset)));
    offset = offset + k.extents.getExtent(input, axis);
  }
  return evaluateConcatRange(op, at, offsets, 0, op.getInputs().size());
}

Value BodyEvaluator::evaluatePad(PadOp op, Key at) {
  Coordinates from(at.begin(), at.end());
  Value inside;
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto border = [&] { return evaluate(op.getValue(), {}); };
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t low = op.getLow()[dim], high = op.getHigh()[dim];
    if (low == 0 && high == 0)
      continue;
    Size size = k.size(op.getInput(), dim);
    if (size.is(0))
      return border();
    from[dim] = k.add(at[dim], -low);
    // The innermost dimension, in a segment.
    if (auto found = chosen.find(op);
        found != chosen.end() && found->second.dim == dim) {
      if (!found->second.which)
        return border();
      continue;
    }
    if (low > 0)
      inside = k.logicalAnd(
          inside, k.compare(CmpIPredicate::sge, from[dim], Index::of(0)));
    if (high > 0)
      inside = k.logicalAnd(
          inside, k.compare(CmpIPredicate::slt, from[dim], k.fromSize(size)));
    if (!at[dim].isUniform())
      from[dim] = k.clampTo(from[dim], size);
  }
  // Lanes that differ evaluate both sides: every position must be inside.
  if (inside && isa<VectorType>(inside.getType()))
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if ((op.getLow()[dim] || op.getHigh()[dim]) && at[dim].isUniform())
        from[dim] = k.clampTo(from[dim], k.size(op.getInput(), dim));
  return choose(
      inside, type.getElementType(), at,
      [&] { return evaluate(op.getInput(), from); }, border);
}

Index BodyEvaluator::dataIndex(Value value, Size size) {
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isInteger(64)) {
    Type wide = k.b.getI64Type();
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      wide = vector.clone(wide);
    value = k.op<arith::ExtSIOp>(wide, value);
  }
  Index index = isa<VectorType>(value.getType()) ? Index::ofLanes(value)
                                                 : Index::of(value);
  return k.clampTo(index, size);
}

Value BodyEvaluator::evaluateGather(GatherOp op, Key at) {
  int64_t axis = op.getAxis(), batch = op.getBatchDims();
  int64_t indexRank =
      cast<RankedTensorType>(op.getIndices().getType()).getRank();
  Coordinates indexAt(at.begin(), at.begin() + batch);
  for (int64_t i = 0; i < indexRank - batch; ++i)
    indexAt.push_back(at[axis + i]);
  Value index = evaluate(op.getIndices(), indexAt);
  Coordinates from(at.begin(), at.begin() + axis);
  from.push_back(dataIndex(index, k.size(op.getInput(), axis)));
  from.append(at.begin() + axis + indexRank - batch, at.end());
  return evaluate(op.getInput(), from);
}

Value BodyEvaluator::evaluateGatherNd(GatherNdOp op, Key at) {
  int64_t batch = op.getBatchDims();
  auto indexType = cast<RankedTensorType>(op.getIndices().getType());
  int64_t outer = indexType.getRank() - 1;
  Coordinates from(at.begin(), at.begin() + batch);
  for (int64_t i = 0; i < indexType.getShape().back(); ++i) {
    Coordinates indexAt(at.begin(), at.begin() + outer);
    indexAt.push_back(Index::of(i));
    Value index = evaluate(op.getIndices(), indexAt);
    from.push_back(dataIndex(index, k.size(op.getInput(), batch + i)));
  }
  from.append(at.begin() + outer, at.end());
  return evaluate(op.getInput(), from);
}

Value BodyEvaluator::evaluateUpdateSlice(UpdateSliceOp op, Key at) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  Coordinates from(at.begin(), at.end());
  Value inside;
  bool differs = false;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    Size whole = k.size(op.getInput(), dim), part = k.size(op.getUpdate(), dim);
    if (part.is(0))
      return evaluate(op.getInput(), at);
    if (whole == part)
      continue;
    Index start = Index::of(evaluate(op.getStarts()[dim], {}));
    Index last = k.sub(k.fromSize(whole), k.fromSize(part));
    start = k.minimum(k.maximum(start, Index::of(0)), last);
    from[dim] = k.sub(at[dim], start);
    inside = k.logicalAnd(
        inside, k.compare(CmpIPredicate::sge, from[dim], Index::of(0)));
    inside = k.logicalAnd(
        inside, k.compare(CmpIPredicate::slt, from[dim], k.fromSize(part)));
    differs |= !at[dim].isUniform();
  }
  if (differs)
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (k.size(op.getInput(), dim) != k.size(op.getUpdate(), dim))
        from[dim] = k.clampTo(from[dim], k.size(op.getUpdate(), dim));
  return choose(
      inside, type.getElementType(), at,
      [&] { return evaluate(op.getUpdate(), from); },
      [&] { return evaluate(op.getInput(), at); });
}

Value BodyEvaluator::evaluateIota(IotaOp op, Key at) {
  Type element = getElementTypeOrSelf(op.getResult().getType());
  Index index = at[op.getAxis()];
  Value position =
      index.isUniform() ? k.materialize(index) : k.materializeLanes(index);
  auto typed = [&](Type type) -> Type {
    if (auto vector = dyn_cast<VectorType>(position.getType()))
      return vector.clone(type);
    return type;
  };
  if (isa<FloatType>(element))
    return k.round(
        k.op<arith::SIToFPOp>(typed(k.computeType(element)), position),
        element);
  if (element.isInteger(64))
    return position;
  return k.op<arith::TruncIOp>(typed(element), position);
}

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11): multipliers and key increments from the paper's table 2.
Value BodyEvaluator::evaluateRngUniform(RngUniformOp op, Key at) {
  Type element = getElementTypeOrSelf(op.getResult().getType());
  Index flat = k.linearize(at, k.shape(op.getResult()));
  bool wide = !flat.isUniform();
  auto typed = [&](Type type) { return wide ? Type(k.vectorOf(type)) : type; };
  Type i32 = typed(k.b.getI32Type()), i64 = typed(k.b.getI64Type());
  auto number = [&](Type scalar, uint64_t bits) {
    return k.splatIf(
        k.constantInt(scalar, APInt(scalar.getIntOrFloatBitWidth(), bits)),
        wide);
  };
  auto word = [&](uint32_t bits) { return number(k.b.getI32Type(), bits); };
  auto longWord = [&](uint64_t bits) { return number(k.b.getI64Type(), bits); };
  auto low = [&](Value v) { return k.op<arith::TruncIOp>(i32, v); };
  auto high = [&](Value v) {
    return k.op<arith::TruncIOp>(i32, k.op<arith::ShRUIOp>(v, longWord(32)));
  };

  Value seed = k.splatIf(evaluate(op.getSeed(), {}), wide);
  Value offset = k.splatIf(evaluate(op.getOffset(), {}), wide);
  Value position = wide ? k.materializeLanes(flat) : k.materialize(flat);
  Value block =
      k.op<arith::AddIOp>(offset, k.op<arith::ShRUIOp>(position, longWord(2)));
  Value counter[4] = {low(block), high(block), word(0), word(0)};
  Value key[2] = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    auto product = [&](Value v, uint32_t multiplier) {
      return k.op<arith::MulIOp>(k.op<arith::ExtUIOp>(i64, v),
                                 longWord(multiplier));
    };
    Value p0 = product(counter[0], 0xD2511F53u),
          p1 = product(counter[2], 0xCD9E8D57u);
    auto exclusive = [&](Value a, Value c, Value d) {
      return k.op<arith::XOrIOp>(k.op<arith::XOrIOp>(a, c), d);
    };
    Value next[4] = {exclusive(high(p1), counter[1], key[0]), low(p1),
                     exclusive(high(p0), counter[3], key[1]), low(p0)};
    std::copy(next, next + 4, counter);
    key[0] = k.op<arith::AddIOp>(key[0], word(0x9E3779B9u));
    key[1] = k.op<arith::AddIOp>(key[1], word(0xBB67AE85u));
  }
  Value lane = k.op<arith::AndIOp>(low(position), word(3));
  Value chosen = counter[0];
  for (uint32_t i = 1; i < 4; ++i) {
    Value is = k.op<arith::CmpIOp>(CmpIPredicate::eq, lane, word(i));
    chosen = k.op<arith::SelectOp>(is, counter[i], chosen);
  }
  // The upper bits that the type holds exactly.
  unsigned bits = element.isF64()   ? 32
                  : element.isF32() ? 24
                  : element.isF16() ? 11
                                    : 8;
  Value kept =
      bits == 32 ? chosen : k.op<arith::ShRUIOp>(chosen, word(32 - bits));
  Type compute = k.computeType(element);
  Value scale =
      k.splatIf(k.constant(compute, std::ldexp(1.0, -int(bits))), wide);
  return k.op<arith::MulFOp>(k.op<arith::UIToFPOp>(typed(compute), kept),
                             scale);
}
