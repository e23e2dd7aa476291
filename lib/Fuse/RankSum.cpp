//===- RankSum.cpp - The sum of what ranks have contributed ---------------===//
//
// See RankSum.h. Two terms need no wide accumulator: a sum or product of two
// numbers, rounded to 24 bits and then to at most 11, is the one that is
// rounded once, and halves of f16 and bf16 are exact in f32.
//
//===----------------------------------------------------------------------===//
#include "RankSum.h"

#include "fusion/Analysis/CommSchedule.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

/// The type that the terms are added in.
static Type getAccumulator(ReduceKind kind, Type element, size_t ranks) {
  MLIRContext *context = element.getContext();
  if (kind == ReduceKind::Min || kind == ReduceKind::Max || element.isF64())
    return element;
  bool isMean = kind == ReduceKind::Mean;
  if (!isa<FloatType>(element))
    return isMean ? IntegerType::get(context, 64) : element;
  if (ranks == 2 && !(element.isF32() && isMean))
    return Float32Type::get(context);
  return Float64Type::get(context);
}

static Value createConstant(OpBuilder &builder, Location loc,
                            RankedTensorType type, double number) {
  Type element = type.getElementType();
  Attribute splat =
      isa<FloatType>(element)
          ? Attribute(builder.getFloatAttr(element, number))
          : builder.getIntegerAttr(element, static_cast<int64_t>(number));
  return ConstantOp::create(builder, loc, type,
                            DenseElementsAttr::get(type, splat));
}

static Value combine(OpBuilder &builder, Location loc, ReduceKind kind, Value a,
                     Value b) {
  Type type = a.getType();
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return AddOp::create(builder, loc, type, a, b);
  case ReduceKind::Prod:
    return MulOp::create(builder, loc, type, a, b);
  case ReduceKind::Min:
    return MinOp::create(builder, loc, type, a, b);
  case ReduceKind::Max:
    return MaxOp::create(builder, loc, type, a, b);
  }
  llvm_unreachable("covered above");
}

Value fusion::createRankSum(OpBuilder &builder, Location loc, ReduceKind kind,
                            ArrayRef<Value> contributions) {
  auto type = cast<RankedTensorType>(contributions.front().getType());
  Type element = type.getElementType();
  size_t ranks = contributions.size();
  auto wide =
      cast<RankedTensorType>(type.clone(getAccumulator(kind, element, ranks)));
  bool isMean = kind == ReduceKind::Mean;
  // Halving first leaves no f32's range.
  bool halves = isMean && wide.getElementType().isF32() && !element.isF32();
  Value sum;
  Operation *partial = nullptr; // the last addition so far
  for (Value term : contributions) {
    if (wide != type)
      term = CastOp::create(builder, loc, wide, term);
    if (halves)
      term = MulOp::create(builder, loc, wide, term,
                           createConstant(builder, loc, wide, 0.5));
    if (!sum) {
      sum = term;
      continue;
    }
    if (partial)
      partial->setAttr(kPartialSumAttr, builder.getUnitAttr());
    sum = combine(builder, loc, kind, sum, term);
    partial = sum.getDefiningOp();
  }
  // The reciprocal of a power of two is exact; so is the product, where the
  // accumulator's range is far wider than the terms'.
  if (isMean && !halves) {
    double count = static_cast<double>(ranks);
    bool isExact = llvm::isPowerOf2_64(ranks) && isa<FloatType>(element) &&
                   !element.isF64();
    Value number =
        createConstant(builder, loc, wide, isExact ? 1 / count : count);
    sum = isExact ? MulOp::create(builder, loc, wide, sum, number).getResult()
                  : DivOp::create(builder, loc, wide, sum, number).getResult();
  }
  if (wide != type)
    sum = CastOp::create(builder, loc, type, sum);
  return sum;
}
