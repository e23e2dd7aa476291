//===- EvaluateReduction.cpp - Reductions at a position -------------------===//
//
// The part of BodyEvaluator that combines elements. The order is fixed by the
// op alone. Trailing dimensions: the row, taken flat, is dealt to kLanes
// accumulators in turn, which a fixed tree combines. Other dimensions: one
// accumulator, in row-major order. f16 and bf16 accumulate in f32, means of
// them and of f32 in f64: a mean of equal elements is that element, so that a
// norm of a constant row is its bias.
//
//===----------------------------------------------------------------------===//
#include "BodyEvaluator.h"
#include "fusion/Support/SeededBugs.h"

#include "llvm/ADT/ScopeExit.h"

#include <limits>
#include <utility>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

bool codegen::isTrailingReduction(ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  // Unit dimensions behind or between change nothing in the order.
  int64_t dim = type.getRank() - 1;
  bool any = false;
  for (; dim >= 0; --dim) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (!llvm::is_contained(op.getDims(), dim))
      break;
    any = true;
  }
  for (; dim >= 0; --dim)
    if (type.getDimSize(dim) != 1 && llvm::is_contained(op.getDims(), dim))
      return false;
  return any;
}

Value codegen::reductionIdentity(KernelBuilder &k, ReduceKind kind,
                                 Type compute) {
  if (isa<FloatType>(compute)) {
    double infinity = std::numeric_limits<double>::infinity();
    double value = kind == ReduceKind::Prod  ? 1.0
                   : kind == ReduceKind::Max ? -infinity
                   : kind == ReduceKind::Min ? infinity
                                             : 0.0;
    return k.constant(compute, value);
  }
  unsigned width = compute.getIntOrFloatBitWidth();
  if (kind == ReduceKind::Prod)
    return k.constantInt(compute, APInt(width, 1));
  // i1: or from false, and from true.
  if (kind == ReduceKind::Max)
    return k.constantInt(compute, width == 1 ? APInt(1, 0)
                                             : APInt::getSignedMinValue(width));
  if (kind == ReduceKind::Min)
    return k.constantInt(compute, width == 1 ? APInt(1, 1)
                                             : APInt::getSignedMaxValue(width));
  return k.constantInt(compute, APInt(width, 0));
}

Value codegen::combineReduction(KernelBuilder &k, ReduceKind kind, Value a,
                                Value c) {
  Type element = getElementTypeOrSelf(a.getType());
  bool isFloat = isa<FloatType>(element);
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return isFloat ? k.op<arith::AddFOp>(a, c) : k.op<arith::AddIOp>(a, c);
  case ReduceKind::Prod:
    return isFloat ? k.op<arith::MulFOp>(a, c) : k.op<arith::MulIOp>(a, c);
  case ReduceKind::Max:
    if (element.isInteger(1))
      return k.op<arith::OrIOp>(a, c);
    return isFloat ? k.op<arith::MaximumFOp>(a, c) : k.op<arith::MaxSIOp>(a, c);
  case ReduceKind::Min:
    if (element.isInteger(1))
      return k.op<arith::AndIOp>(a, c);
    if (seededBug(9) && isFloat)
      return k.op<arith::MinNumFOp>(a, c);
    return isFloat ? k.op<arith::MinimumFOp>(a, c) : k.op<arith::MinSIOp>(a, c);
  }
  llvm_unreachable("unknown reduction");
}

/// Means need more digits than what they are of.
static Type accumulatorType(KernelBuilder &k, ReduceOp op) {
  Type compute = k.computeType(op.getInput().getType());
  return op.getKind() == ReduceKind::Mean && compute.isF32() && !k.isFast
             ? k.b.getF64Type()
             : compute;
}

Value codegen::toAccumulator(KernelBuilder &k, Value value, Type accumulator) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element == accumulator)
    return value;
  Type type = accumulator;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(accumulator);
  return k.op<arith::ExtFOp>(type, value);
}

Value BodyEvaluator::evaluateReduce(ReduceOp op, Key at) {
  Value sum =
      reduceTogether ? reduceTogether(op, at, accumulatorType(k, op)) : Value();
  if (!sum)
    sum = isTrailingReduction(op) ? reduceByLanes(op, at)
                                  : reduceSequentially(op, at);
  Type element = getElementTypeOrSelf(op.getResult().getType());
  if (op.getKind() == ReduceKind::Mean) {
    SmallVector<Size> box;
    for (int64_t dim : op.getDims())
      box.push_back(k.size(op.getInput(), dim));
    Size count = k.product(box);
    Type accumulator = getElementTypeOrSelf(sum.getType());
    Value divisor =
        count.isStatic()
            ? k.constant(accumulator, static_cast<double>(count.constant))
            : k.op<arith::SIToFPOp>(accumulator, count.value);
    sum = k.op<arith::DivFOp>(
        sum, k.splatIf(divisor, isa<VectorType>(sum.getType())));
  }
  Type compute = k.computeType(element);
  if (getElementTypeOrSelf(sum.getType()) != compute) {
    auto vector = dyn_cast<VectorType>(sum.getType());
    sum = k.op<arith::TruncFOp>(vector ? Type(vector.clone(compute)) : compute,
                                sum);
  }
  return k.round(sum, element);
}

Coordinates codegen::operandCoordinates(ReduceOp op, ArrayRef<Index> at,
                                        ArrayRef<Index> reduced) {
  Coordinates from;
  size_t nextKept = 0, nextReduced = 0;
  int64_t rank = cast<RankedTensorType>(op.getInput().getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    from.push_back(llvm::is_contained(op.getDims(), dim)
                       ? reduced[nextReduced++]
                       : at[nextKept++]);
  return from;
}

Value BodyEvaluator::reduceSequentially(ReduceOp op, Key at) {
  bool wide = !isUniform(at);
  SmallVector<Size> box;
  for (int64_t dim : op.getDims())
    box.push_back(k.size(op.getInput(), dim));
  Type accumulator = accumulatorType(k, op);
  Value start =
      k.splatIf(reductionIdentity(k, op.getKind(), accumulator), wide);
  return nest(
      box, {start}, [&](ArrayRef<Index> position, Values carried) -> Values {
        Value value =
            evaluate(op.getInput(), operandCoordinates(op, at, position));
        value = toAccumulator(k, k.splatIf(value, wide), accumulator);
        return {combineReduction(k, op.getKind(), carried[0], value)};
      })[0];
}

Value BodyEvaluator::reduceByLanes(ReduceOp op, Key at) {
  SmallVector<Size> box;
  for (int64_t dim : op.getDims())
    box.push_back(k.size(op.getInput(), dim));
  Size length = k.product(box);
  Type accumulator = accumulatorType(k, op);
  // Whatever the vectors around are: the order is the op's.
  int64_t lanesAround = std::exchange(k.lanes, kLanes);
  llvm::scope_exit restore([&] { k.lanes = lanesAround; });
  Value start = k.splat(reductionIdentity(k, op.getKind(), accumulator));

  // Kept values of the row are filled, or read, by the loops over that row.
  auto shape = cast<RankedTensorType>(op.getInput().getType()).getShape();
  bool isRow = !inRow && ArrayRef<int64_t>(rowShape) == shape &&
               Key(rowAt) == Key(canonical(op.getResult(), at));
  auto valueAt = [&](const Index &position) {
    Coordinates from = operandCoordinates(op, at, k.delinearize(position, box));
    if (isRow)
      return toAccumulator(k, evaluateInRow(op.getInput(), from, position),
                           accumulator);
    Scope scope(*this);
    return toAccumulator(k, evaluate(op.getInput(), from), accumulator);
  };

  // Whole vectors.
  int64_t whole = length.isStatic() ? length.constant / kLanes * kLanes : 0;
  Value wholeEnd =
      length.isStatic()
          ? k.constantI64(whole)
          : k.op<arith::SubIOp>(
                length.value,
                k.op<arith::RemUIOp>(length.value, k.constantI64(kLanes)));
  Value lanes = start;
  if (!length.isStatic() || whole > 0)
    lanes =
        k.loop(k.constantI64(0), wholeEnd, kLanes, start,
               [&](Value i, ValueRange carried) -> SmallVector<Value> {
                 Value value = k.splatIf(valueAt(Index::of(i, 1)), true);
                 return {combineReduction(k, op.getKind(), carried[0], value)};
               })[0];
  // The rest, one element to each of the first accumulators: in shorter vectors
  // where its length is known.
  if (!length.isStatic()) {
    lanes = k.loop(wholeEnd, length.value, 1, lanes,
                   [&](Value i, ValueRange carried) -> SmallVector<Value> {
                     Value value = valueAt(Index::of(i));
                     Value lane = k.op<arith::SubIOp>(i, wholeEnd);
                     Value old = k.extract(carried[0], lane);
                     Value next = combineReduction(k, op.getKind(), old, value);
                     return {k.insert(carried[0], next, lane)};
                   })[0];
  } else {
    int64_t done = 0;
    for (int64_t part : {8, 4}) {
      if (length.constant - whole - done < part)
        continue;
      k.lanes = part;
      Index position = Index::of(whole + done);
      position.stride = 1;
      Value value = k.splatIf(valueAt(position), true);
      k.lanes = kLanes;
      // Lanes [done, done + part) of the accumulators.
      SmallVector<int32_t> take, widen, merge;
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        bool inside = lane >= done && lane < done + part;
        if (lane < part)
          take.push_back(seededBug(8) ? lane : done + lane);
        widen.push_back(inside ? lane - done : 0);
        merge.push_back(inside ? kLanes + lane : lane);
      }
      Value next =
          combineReduction(k, op.getKind(), k.shuffle(lanes, take), value);
      lanes = k.shuffle(lanes, k.shuffle(next, widen), merge);
      done += part;
    }
    for (; whole + done < length.constant; ++done) {
      Value value = valueAt(Index::of(whole + done));
      Value lane = k.constantI64(done);
      Value next =
          combineReduction(k, op.getKind(), k.extract(lanes, lane), value);
      lanes = k.insert(lanes, next, lane);
    }
  }
  if (isRow)
    endRow();
  // The tree: lane i with lane i + half.
  for (int32_t half = kLanes / 2; half >= 1; half /= 2) {
    SmallVector<int32_t> mask;
    for (int32_t i = 0; i < half; ++i)
      mask.push_back(i + half);
    SmallVector<int32_t> low;
    for (int32_t i = 0; i < half; ++i)
      low.push_back(i);
    lanes = combineReduction(k, op.getKind(), k.shuffle(lanes, low),
                             k.shuffle(lanes, mask));
  }
  return k.extract(lanes, k.constantI64(0));
}

Value BodyEvaluator::evaluateArgReduce(Operation *op, Value input, int64_t axis,
                                       bool isMax, bool selectLast, Key at) {
  bool wide = !isUniform(at);
  Type compute = k.computeType(input.getType());
  bool isFloat = isa<FloatType>(compute);
  auto valueAt = [&](const Index &position) {
    Coordinates from(at.begin(), at.end());
    from.insert(from.begin() + axis, position);
    return k.splatIf(evaluate(input, from), wide);
  };
  auto isNan = [&](Value v) {
    return k.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, v, v);
  };
  Value first = valueAt(Index::of(0));
  Value zero = k.splatIf(k.constantI64(0), wide);
  SmallVector<Value> start{first, zero};
  Values result = k.loop(
      k.constantI64(1), k.value(k.size(input, axis)), 1, start,
      [&](Value i, ValueRange carried) -> SmallVector<Value> {
        Scope scope(*this);
        Value value = valueAt(Index::of(i));
        Value better;
        if (isFloat) {
          // Unordered comparisons are not used: a NaN wins once, then stays.
          auto predicate = isMax ? (selectLast ? arith::CmpFPredicate::OGE
                                               : arith::CmpFPredicate::OGT)
                                 : (selectLast ? arith::CmpFPredicate::OLE
                                               : arith::CmpFPredicate::OLT);
          better = k.op<arith::CmpFOp>(predicate, value, carried[0]);
          Value one = k.constantInt(k.b.getI1Type(), APInt(1, 1));
          Value haveNumber =
              k.op<arith::XOrIOp>(isNan(carried[0]), k.splatIf(one, wide));
          Value newNan = k.op<arith::AndIOp>(isNan(value), haveNumber);
          better = k.op<arith::OrIOp>(better, newNan);
        } else {
          auto predicate = isMax ? (selectLast ? arith::CmpIPredicate::sge
                                               : arith::CmpIPredicate::sgt)
                                 : (selectLast ? arith::CmpIPredicate::sle
                                               : arith::CmpIPredicate::slt);
          better = k.op<arith::CmpIOp>(predicate, value, carried[0]);
        }
        Value position = k.splatIf(i, wide);
        return {k.select(better, value, carried[0]),
                k.select(better, position, carried[1])};
      });
  return result[1];
}
