//===- RankSum.cpp - The sum of what ranks have contributed ---------------===//
//
// See RankSum.h. Two terms need no wide accumulator: a sum or product of two
// numbers, rounded to 24 bits and then to at most 11, is the one that is
// rounded once, and halves of f16 and bf16 are exact in f32.
//
//===----------------------------------------------------------------------===//
#include "RankSum.h"

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/IR/TensorData.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
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
                            ArrayRef<Value> contributions,
                            llvm::SmallPtrSetImpl<Operation *> &made) {
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
    if (wide != type) {
      term = CastOp::create(builder, loc, wide, term);
      made.insert(term.getDefiningOp());
    }
    if (halves) {
      term = MulOp::create(builder, loc, wide, term,
                           createConstant(builder, loc, wide, 0.5));
      made.insert(term.getDefiningOp());
    }
    if (!sum) {
      sum = term;
      continue;
    }
    if (partial)
      partial->setAttr(kPartialSumAttr, builder.getUnitAttr());
    sum = combine(builder, loc, kind, sum, term);
    partial = sum.getDefiningOp();
    made.insert(partial);
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
    made.insert(sum.getDefiningOp());
  }
  if (wide != type) {
    sum = CastOp::create(builder, loc, type, sum);
    made.insert(sum.getDefiningOp());
  }
  return sum;
}

/// Whether a part of `slice`'s size can be taken of a value of this type.
static bool isAligned(RankSliceOp slice, Type element) {
  int64_t bytes = getElementBytes(element),
          own = getElementBytes(slice.getInput().getType().getElementType());
  return slice.getStartBytes() / own * bytes % RankSliceOp::kAlignment == 0 &&
         slice.getPartBytes() / own * bytes % RankSliceOp::kAlignment == 0;
}

/// Where the rows that `op` takes of a tensor begin in it, in elements; nullopt
/// if they do not lie one behind the other.
static std::optional<int64_t> getFirstElement(SliceOp op) {
  RankedTensorType type = op.getInput().getType();
  if (!type.hasStaticShape() || type.getRank() < 1)
    return std::nullopt;
  int64_t rowSize = 1;
  for (int64_t d = type.getRank(); d-- > 0;) {
    if (op.getStrides()[d] != 1 ||
        (d > 0 &&
         (op.getStarts()[d] != 0 || op.getLimits()[d] != type.getDimSize(d))))
      return std::nullopt;
    if (d > 0)
      rowSize *= type.getDimSize(d);
  }
  return op.getStarts()[0] * rowSize;
}

namespace {

/// Takes parts of sums.
class TermSlicer {
public:
  TermSlicer(llvm::SmallPtrSetImpl<Operation *> &sums) : sums(sums) {}
  void run(Block &block);

private:
  bool isPartOfSum(Operation *part) const {
    return sums.contains(part->getOperand(0).getDefiningOp());
  }
  void eraseUnread(Operation *op);
  void sliceWhole(RankSliceOp slice);
  bool sliceTermsOf(Operation *part);

  llvm::SmallPtrSetImpl<Operation *> &sums;
  llvm::SmallSetVector<Operation *, 16> parts; ///< still to be looked at
};

} // namespace

/// Erases ops from `op` back that nothing reads.
void TermSlicer::eraseUnread(Operation *op) {
  SmallVector<Operation *> worklist{op};
  while (!worklist.empty()) {
    op = worklist.pop_back_val();
    if (!op || !op->use_empty() || !isMemoryEffectFree(op))
      continue;
    llvm::SmallSetVector<Operation *, 4> producers;
    for (Value operand : op->getOperands())
      producers.insert(operand.getDefiningOp());
    sums.erase(op);
    parts.remove(op);
    op->erase();
    llvm::append_range(worklist, producers);
  }
}

/// Takes a part of one of a tensor's rows, such as a rank's of what was
/// gathered, from that tensor itself.
void TermSlicer::sliceWhole(RankSliceOp slice) {
  auto view = slice.getInput().getDefiningOp<ReshapeOp>();
  auto rows = view ? view.getInput().getDefiningOp<SliceOp>() : SliceOp();
  std::optional<int64_t> first = rows ? getFirstElement(rows) : std::nullopt;
  RankedTensorType type = slice.getInput().getType();
  if (!first || type.getRank() != 1 ||
      *first * getElementBytes(type.getElementType()) %
              RankSliceOp::kAlignment !=
          0)
    return;
  OpBuilder builder(slice);
  int64_t count = rows.getInput().getType().getNumElements();
  slice.getInputMutable().assign(
      ReshapeOp::create(builder, slice.getLoc(),
                        type.clone(ArrayRef<int64_t>{count}), rows.getInput()));
  slice.setStart(*first + static_cast<int64_t>(slice.getStart()));
  eraseUnread(view);
}

/// The same part of `operand`, where the builder is.
static Operation *createPart(OpBuilder &builder, Operation *part,
                             RankedTensorType type, Value operand) {
  if (auto slice = dyn_cast<RankSliceOp>(part))
    return RankSliceOp::create(builder, part->getLoc(), type, operand,
                               slice.getStartAttr(), slice.getMeshAttr(),
                               slice.getAxes(), slice.getShiftAttr());
  auto slice = cast<SliceOp>(part);
  return SliceOp::create(builder, part->getLoc(), type, operand,
                         slice.getStartsAttr(), slice.getLimitsAttr(),
                         slice.getStridesAttr());
}

/// Gives the readers of `part`, of a sum, the op that it is a part of, of
/// parts; false if that can't be.
bool TermSlicer::sliceTermsOf(Operation *part) {
  Operation *op = part->getOperand(0).getDefiningOp();
  auto ranks = dyn_cast<RankSliceOp>(part);
  if (ranks && !llvm::all_of(op->getOperandTypes(), [&](Type type) {
        return isAligned(ranks, getElementTypeOrSelf(type));
      }))
    return false;
  OpBuilder builder(part);
  auto result = cast<RankedTensorType>(part->getResult(0).getType());
  IRMapping terms;
  for (Value operand : op->getOperands()) {
    if (terms.contains(operand))
      continue;
    auto type = cast<RankedTensorType>(
        cast<RankedTensorType>(operand.getType()).clone(result.getShape()));
    DenseElementsAttr splat;
    if (matchPattern(operand, m_Constant(&splat)) && splat.isSplat()) {
      terms.map(operand, ConstantOp::create(builder, op->getLoc(), type,
                                            splat.resizeSplat(type)));
      continue;
    }
    Operation *taken = createPart(builder, part, type, operand);
    parts.insert(taken);
    terms.map(operand, taken->getResult(0));
  }
  Operation *clone = builder.clone(*op, terms);
  clone->getResult(0).setType(result);
  part->getResult(0).replaceAllUsesWith(clone->getResult(0));
  part->erase();
  eraseUnread(op);
  return true;
}

void TermSlicer::run(Block &block) {
  for (auto slice : block.getOps<RankSliceOp>()) {
    if (!isPartOfSum(slice))
      continue;
    parts.insert(slice);
    // What is in no rank's part.
    for (Operation *reader : slice.getInput().getUsers())
      if (isa<SliceOp>(reader))
        parts.insert(reader);
  }
  while (!parts.empty()) {
    Operation *part = parts.pop_back_val();
    if (isPartOfSum(part) && sliceTermsOf(part))
      continue;
    if (auto slice = dyn_cast<RankSliceOp>(part))
      sliceWhole(slice);
  }
}

void fusion::sliceTerms(Block &block,
                        llvm::SmallPtrSetImpl<Operation *> &sums) {
  TermSlicer(sums).run(block);
}
