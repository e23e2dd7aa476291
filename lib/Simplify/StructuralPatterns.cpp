//===- StructuralPatterns.cpp - Exact rewrites of data movement -----------===//
//
// Moves that merge, cancel, or go to where fewer elements are touched. What
// holds for an op and its operand alone is in the dialect
// (lib/IR/Canonicalization.cpp, Folders.cpp); here is what looks further or
// costs new ops.
//
//===----------------------------------------------------------------------===//
#include "LayoutTransfer.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static DenseElementsAttr getSplatConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                           : SplatElementsAttr();
  return elements && elements.getNumElements() > 0 ? elements
                                                   : DenseElementsAttr();
}

static bool isInteger(Value value) {
  return isa<IntegerType>(typeOf(value).getElementType());
}

namespace {

//===----------------------------------------------------------------------===//
// Transposes and reshapes
//===----------------------------------------------------------------------===//

/// Unit dimensions of a broadcast's operand say nothing: they are dropped.
struct DropUnitDimsOfBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = typeOf(op.getInput());
    SmallVector<int64_t> shape, dims;
    for (auto [extent, dim] : llvm::zip(type.getShape(), op.getDims())) {
      if (extent == 1)
        continue;
      shape.push_back(extent);
      dims.push_back(dim);
    }
    if (dims.size() == op.getDims().size() || type.getNumDynamicDims() > 1)
      return failure();
    // A unit dimension may be all that a `?` of the result comes from; then
    // the result's scale is the op's own, which is not affected.
    Value dropped = ReshapeOp::create(
        rewriter, op.getLoc(),
        RankedTensorType::get(shape, type.getElementType()), op.getInput());
    rewriter.replaceOpWithNewOp<BroadcastOp>(
        op, op.getType(), dropped, rewriter.getDenseI64ArrayAttr(dims),
        op.getBatchScaleAttr());
    return success();
  }
};

/// A transpose of a broadcast is a broadcast, if the operand keeps its order.
struct TransposeOfBroadcast : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    SmallVector<int64_t> position(op.getPermutation().size());
    for (auto [to, from] : llvm::enumerate(op.getPermutation()))
      position[from] = to;
    SmallVector<int64_t> dims;
    for (int64_t dim : broadcast.getDims())
      dims.push_back(position[dim]);
    if (!llvm::is_sorted(dims))
      return failure();
    rewriter.replaceOpWithNewOp<BroadcastOp>(
        op, op.getType(), broadcast.getInput(),
        rewriter.getDenseI64ArrayAttr(dims), broadcast.getBatchScaleAttr());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Elementwise ops and moves
//===----------------------------------------------------------------------===//

/// Whether two moves do the same to tensors of the same shape.
bool areEqualMoves(BroadcastOp a, BroadcastOp b) {
  return a.getDims() == b.getDims() && a.getBatchScale() == b.getBatchScale();
}
bool areEqualMoves(ReshapeOp, ReshapeOp) { return true; }
bool areEqualMoves(TransposeOp a, TransposeOp b) {
  return a.getPermutation() == b.getPermutation();
}

/// Builds `move` again on `input`, for the element type of `type`.
Value rebuildMove(PatternRewriter &rewriter, BroadcastOp move, Value input,
                  RankedTensorType type) {
  return BroadcastOp::create(rewriter, move.getLoc(), type, input,
                             move.getDimsAttr(), move.getBatchScaleAttr());
}
Value rebuildMove(PatternRewriter &rewriter, ReshapeOp move, Value input,
                  RankedTensorType type) {
  return ReshapeOp::create(rewriter, move.getLoc(), type, input);
}
Value rebuildMove(PatternRewriter &rewriter, TransposeOp move, Value input,
                  RankedTensorType type) {
  return TransposeOp::create(rewriter, move.getLoc(), type, input,
                             move.getPermutationAttr());
}

/// An elementwise op on operands that one kind of move made from tensors of one
/// shape is done before the move. Splat constants take any shape.
template <typename MoveOp>
LogicalResult sinkMove(Operation *op, PatternRewriter &rewriter) {
  MoveOp first;
  int64_t moves = 0;
  for (Value operand : op->getOperands()) {
    if (getSplatConstant(operand))
      continue;
    auto move = operand.getDefiningOp<MoveOp>();
    if (!move)
      return failure();
    if (first && (typeOf(first.getInput()).getShape() !=
                      typeOf(move.getInput()).getShape() ||
                  !areEqualMoves(first, move)))
      return failure();
    if (!first)
      first = move;
    ++moves;
  }
  if (!first)
    return failure();
  RankedTensorType small = typeOf(first.getInput());
  // A splat constant of the small shape must exist.
  if (!small.hasStaticShape() && moves < op->getNumOperands())
    return failure();
  // One transpose against one gains nothing; a reshape costs nothing, and is
  // moved only when nothing else needs it.
  if (isa<TransposeOp>(first) && moves < 2)
    return failure();
  if (isa<ReshapeOp>(first) && !llvm::all_of(op->getOperands(), [](Value v) {
        return v.hasOneUse() || getSplatConstant(v);
      }))
    return failure();
  // Elements that nothing reads must not be computed: an empty result of a
  // broadcast may come from a tensor that is not empty.
  if (llvm::is_contained(typeOf(op->getResult(0)).getShape(), 0))
    return failure();

  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (DenseElementsAttr splat = getSplatConstant(operand)) {
      auto type = small.clone(typeOf(operand).getElementType());
      operands.push_back(ConstantOp::create(rewriter, operand.getLoc(), type,
                                            splat.resizeSplat(type)));
    } else {
      operands.push_back(operand.getDefiningOp<MoveOp>().getInput());
    }
  }
  Operation *clone = op->clone();
  clone->setOperands(operands);
  RankedTensorType resultType = typeOf(op->getResult(0));
  clone->getResult(0).setType(small.clone(resultType.getElementType()));
  rewriter.insert(clone);
  rewriter.replaceOp(
      op, rebuildMove(rewriter, first, clone->getResult(0), resultType));
  return success();
}

/// The three of them, on any elementwise op.
struct SinkMoves : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                PatternRewriter &rewriter) const override {
    return success(succeeded(sinkMove<BroadcastOp>(op, rewriter)) ||
                   succeeded(sinkMove<ReshapeOp>(op, rewriter)) ||
                   succeeded(sinkMove<TransposeOp>(op, rewriter)));
  }
};

//===----------------------------------------------------------------------===//
// Slices, pads, concats, gathers
//===----------------------------------------------------------------------===//

/// A slice that lies in one operand of a concat.
struct SliceOfConcat : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<ConcatOp>();
    if (!concat)
      return failure();
    int64_t axis = concat.getAxis();
    int64_t extent = op.getType().getDimSize(axis);
    if (extent <= 0)
      return failure();
    int64_t start = op.getStarts()[axis];
    int64_t end = start + (extent - 1) * op.getStrides()[axis] + 1;
    int64_t begin = 0;
    for (Value part : concat.getInputs()) {
      int64_t size = typeOf(part).getDimSize(axis);
      if (ShapedType::isDynamic(size))
        return failure();
      if (start >= begin && end <= begin + size) {
        SmallVector<int64_t> starts(op.getStarts()), limits(op.getLimits());
        starts[axis] -= begin;
        limits[axis] = end - begin;
        rewriter.replaceOpWithNewOp<SliceOp>(
            op, op.getType(), part, rewriter.getDenseI64ArrayAttr(starts),
            rewriter.getDenseI64ArrayAttr(limits), op.getStridesAttr());
        return success();
      }
      begin += size;
    }
    return failure();
  }
};

/// A pad of a pad with the same value.
struct MergePads : OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<PadOp>();
    if (!inner || inner.getValue() != op.getValue())
      return failure();
    SmallVector<int64_t> low(op.getLow()), high(op.getHigh());
    for (size_t dim = 0; dim < low.size(); ++dim) {
      low[dim] += inner.getLow()[dim];
      high[dim] += inner.getHigh()[dim];
    }
    rewriter.replaceOpWithNewOp<PadOp>(op, op.getType(), inner.getInput(),
                                       op.getValue(),
                                       rewriter.getDenseI64ArrayAttr(low),
                                       rewriter.getDenseI64ArrayAttr(high));
    return success();
  }
};

/// A gather at one known index, or at known indices with a constant step, is a
/// slice.
struct GatherToSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto constant = op.getIndices().getDefiningOp<ConstantOp>();
    RankedTensorType type = typeOf(op.getInput());
    if (!constant || op.getBatchDims() != 0 || type.getRank() == 0)
      return failure();
    auto indices = dyn_cast<DenseIntElementsAttr>(constant.getValue());
    int64_t axis = op.getAxis(), size = type.getDimSize(axis);
    constexpr int64_t kMaxIndices = 65536;
    if (!indices || indices.getNumElements() == 0 ||
        indices.getNumElements() > kMaxIndices || size <= 0 ||
        llvm::any_of(type.getShape(),
                     [](int64_t extent) { return extent == 0; }) ||
        type.getNumDynamicDims() > 1)
      return failure();
    SmallVector<int64_t> positions;
    for (const APInt &index : indices.getValues<APInt>())
      positions.push_back(
          std::clamp<int64_t>(index.getSExtValue(), 0, size - 1));
    int64_t step = positions.size() > 1 ? positions[1] - positions[0] : 1;
    if (step <= 0)
      return failure();
    for (size_t i = 1; i < positions.size(); ++i)
      if (positions[i] - positions[i - 1] != step)
        return failure();

    SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
    SmallVector<int64_t> limits, shape(type.getShape());
    for (int64_t extent : type.getShape())
      limits.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
    starts[axis] = positions.front();
    limits[axis] = positions.back() + 1;
    strides[axis] = step;
    shape[axis] = positions.size();
    Value slice =
        SliceOp::create(rewriter, op.getLoc(),
                        RankedTensorType::get(shape, type.getElementType()),
                        op.getInput(), rewriter.getDenseI64ArrayAttr(starts),
                        rewriter.getDenseI64ArrayAttr(limits),
                        rewriter.getDenseI64ArrayAttr(strides));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), slice);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

/// A maximum or minimum along dimensions of size 1.
struct ReduceOfUnitDims : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = typeOf(op.getInput());
    bool isExact = op.getKind() == ReduceKind::Max ||
                   op.getKind() == ReduceKind::Min || isInteger(op.getInput());
    // A sum of one float may start from +0 and lose the sign of -0.
    if (!isExact || type.getNumDynamicDims() > 1 ||
        llvm::any_of(op.getDims(),
                     [&](int64_t dim) { return type.getDimSize(dim) != 1; }))
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

/// A matmul of an operand whose last two dimensions were swapped.
struct MatmulOfTranspose : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto isSwap = [](TransposeOp transpose) {
      ArrayRef<int64_t> permutation = transpose.getPermutation();
      int64_t rank = permutation.size();
      for (int64_t dim = 0; dim < rank - 2; ++dim)
        if (permutation[dim] != dim)
          return false;
      return permutation[rank - 1] == rank - 2;
    };
    auto lhs = op.getLhs().getDefiningOp<TransposeOp>();
    auto rhs = op.getRhs().getDefiningOp<TransposeOp>();
    bool swapLhs = lhs && isSwap(lhs), swapRhs = rhs && isSwap(rhs);
    if (!swapLhs && !swapRhs)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      if (swapLhs) {
        op.getLhsMutable().assign(lhs.getInput());
        op.setTransposeLhs(!op.getTransposeLhs());
      }
      if (swapRhs) {
        op.getRhsMutable().assign(rhs.getInput());
        op.setTransposeRhs(!op.getTransposeRhs());
      }
    });
    return success();
  }
};

} // namespace

namespace {
/// A value without elements needs no computing: it is the empty constant.
struct EmptyValue final : RewritePattern {
  explicit EmptyValue(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/10, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1 || !isPure(op) || isa<ConstantOp>(op) ||
        !isa_and_nonnull<FusionDialect>(op->getDialect()))
      return failure();
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() != 0)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(
        op, DenseElementsAttr::get(type, ArrayRef<Attribute>{}));
    return success();
  }
};
} // namespace

void fusion::populateStructuralPatterns(RewritePatternSet &patterns) {
  patterns.add<EmptyValue, DropUnitDimsOfBroadcast, TransposeOfBroadcast,
               SinkMoves, SliceOfConcat, MergePads, GatherToSlice,
               ReduceOfUnitDims, MatmulOfTranspose>(patterns.getContext());
}
