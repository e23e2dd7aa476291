//===- Canonicalization.cpp - Canonical forms of structural ops -----------===//
//
// Rewrites of one or two ops that move elements to fewer or cheaper ones. They
// change no element, and none grows the program.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/FusionDialect.h"
#include "fusion/Support/SeededBugs.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace fusion;

/// Whether a reshape may have this type on either side.
static bool isReshapable(RankedTensorType type) {
  return type.getNumDynamicDims() <= 1 &&
         !llvm::is_contained(type.getShape(), 0);
}

namespace {

/// transpose that keeps the order of all dimensions but units -> reshape.
struct UnitTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto type = op.getInput().getType();
    int64_t last = -1;
    for (int64_t dim : op.getPermutation()) {
      if (type.getDimSize(dim) == 1)
        continue;
      if (dim < last)
        return rewriter.notifyMatchFailure(op, "moves elements");
      last = dim;
    }
    if (!isReshapable(type))
      return rewriter.notifyMatchFailure(
          op, "a reshape cannot have these dimensions");
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getResult().getType(),
                                           op.getInput());
    return success();
  }
};

/// broadcast that adds unit dimensions only -> reshape, which costs nothing.
struct UnitBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    auto from = op.getInput().getType(), to = op.getResult().getType();
    SmallVector<int64_t> sizes(to.getRank(), 1);
    for (auto [dim, size] : llvm::zip_equal(op.getDims(), from.getShape()))
      sizes[dim] = size;
    if (to.getShape() != ArrayRef(sizes) || !isReshapable(to))
      return rewriter.notifyMatchFailure(op, "repeats elements");
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, to, op.getInput());
    return success();
  }
};

/// broadcast(broadcast(x)) -> broadcast(x).
struct NestedBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the operand is no broadcast");
    std::optional<int64_t> outerScale = newBatchScale(op),
                           innerScale = newBatchScale(inner);
    if (outerScale && innerScale && outerScale != innerScale)
      return rewriter.notifyMatchFailure(
          op, "the two make batch dimensions of different sizes");
    SmallVector<int64_t> dims;
    for (int64_t dim : inner.getDims())
      dims.push_back(op.getDims()[dim]);
    int64_t batchScale = outerScale.value_or(innerScale.value_or(1));
    rewriter.replaceOpWithNewOp<BroadcastOp>(
        op, op.getResult().getType(), inner.getInput(), dims, batchScale);
    return success();
  }

private:
  /// The scale of the batch dimensions that `op` makes, or nullopt if none.
  static std::optional<int64_t> newBatchScale(BroadcastOp op) {
    auto from = op.getInput().getType(), to = op.getResult().getType();
    // Each `?` of the operand gives one `?` of the result.
    if (from.getNumDynamicDims() == to.getNumDynamicDims())
      return std::nullopt;
    return op.getBatchScale();
  }
};

/// slice(slice(x)) -> slice(x).
struct NestedSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<SliceOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the operand is no slice");
    SmallVector<int64_t> starts, limits, strides;
    for (auto [dim, count] :
         llvm::enumerate(op.getResult().getType().getShape())) {
      if (ShapedType::isDynamic(count)) {
        starts.push_back(0);
        limits.push_back(-1);
        strides.push_back(1);
        continue;
      }
      // Nothing overflows: with two elements or more all of them lie in the
      // operand, and with fewer strides have no meaning.
      int64_t innerStride = inner.getStrides()[dim];
      int64_t start = inner.getStarts()[dim];
      if (count > 0)
        start += op.getStarts()[dim] * (seededBug(2) ? 1 : innerStride);
      int64_t stride = count > 1 ? op.getStrides()[dim] * innerStride : 1;
      starts.push_back(start);
      limits.push_back(count > 0 ? start + (count - 1) * stride + 1 : start);
      strides.push_back(stride);
    }
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getResult().getType(),
                                         inner.getInput(), starts, limits,
                                         strides);
    return success();
  }
};

/// concat(concat(x, y), z) -> concat(x, y, z) along one axis, if nothing else
/// uses the inner one.
struct NestedConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> parts;
    for (Value input : op.getInputs()) {
      auto inner = input.getDefiningOp<ConcatOp>();
      if (inner && inner.getAxis() == op.getAxis() && inner->hasOneUse())
        llvm::append_range(parts, inner.getInputs());
      else
        parts.push_back(input);
    }
    if (parts.size() == op.getInputs().size())
      return rewriter.notifyMatchFailure(
          op, "no operand is a concat along this axis");
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getResult().getType(), parts,
                                          op.getAxis());
    return success();
  }
};

} // namespace

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<UnitTranspose>(context);
}

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<UnitBroadcast, NestedBroadcast>(context);
}

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                          MLIRContext *context) {
  patterns.add<NestedSlice>(context);
}

void ConcatOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<NestedConcat>(context);
}
