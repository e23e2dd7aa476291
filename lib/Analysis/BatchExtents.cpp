//===- BatchExtents.cpp - Sizes as functions of the batch -----------------===//
//
// The rules are the dialect's (IR/BatchExtent.h); this is the table of what
// they said, filled in program order. Static sizes are read from the type.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/BatchExtents.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/Visitors.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;

std::optional<Extent> fusion::multiply(Extent a, Extent b) {
  if (!a.isStatic() && !b.isStatic())
    return std::nullopt;
  if (!a.isStatic())
    std::swap(a, b);
  Extent product;
  if (llvm::MulOverflow(a.base, b.scale, product.scale) ||
      llvm::MulOverflow(a.base, b.base, product.base))
    return std::nullopt;
  return product;
}

static RankedTensorType tensorType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

Extent BatchExtents::getExtent(Value value, int64_t dim) const {
  RankedTensorType type = tensorType(value);
  if (!type.isDynamicDim(dim))
    return {0, type.getDimSize(dim)};
  auto found = dynamicShapes.find(value);
  assert(found != dynamicShapes.end() && "value was not analysed");
  return found->second[dim];
}

SmallVector<Extent> BatchExtents::getShape(Value value) const {
  SmallVector<Extent> shape;
  for (int64_t dim = 0, rank = tensorType(value).getRank(); dim < rank; ++dim)
    shape.push_back(getExtent(value, dim));
  return shape;
}

std::optional<Extent> BatchExtents::getNumElements(Value value) const {
  Extent count{0, 1};
  for (Extent extent : getShape(value)) {
    std::optional<Extent> product = multiply(count, extent);
    if (!product)
      return std::nullopt;
    count = *product;
  }
  return count;
}

void BatchExtents::print(llvm::raw_ostream &os, Value value) const {
  os << '[';
  llvm::interleaveComma(getShape(value), os, [&](Extent extent) {
    if (!extent.isStatic())
      os << extent.scale << "*B+";
    os << extent.base;
  });
  os << ']';
}

/// Records the sizes of `value`, whose op comes after those it reads.
LogicalResult BatchExtents::visit(Value value) {
  RankedTensorType type = tensorType(value);
  if (!type || type.hasStaticShape())
    return success();
  SmallVector<Extent, 4> shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    std::optional<Extent> extent = Extent{0, type.getDimSize(dim)};
    if (type.isDynamicDim(dim))
      extent = getBatchExtent(value, dim, [&](Value other, unsigned otherDim) {
        return std::optional(getExtent(other, otherDim));
      });
    if (!extent)
      return emitError(value.getLoc())
             << "the size of a '?' of the result is not known as a function of "
                "the batch; give the dimension a static size";
    shape.push_back(*extent);
  }
  dynamicShapes[value] = std::move(shape);
  return success();
}

FailureOr<BatchExtents> BatchExtents::analyze(Operation *root) {
  BatchExtents extents;
  for (Region &region : root->getRegions())
    for (Block &block : region)
      for (Value argument : block.getArguments())
        if (RankedTensorType type = tensorType(argument);
            type && !type.hasStaticShape()) {
          SmallVector<Extent, 4> shape;
          for (int64_t size : type.getShape())
            shape.push_back(ShapedType::isDynamic(size) ? Extent{1, 0}
                                                        : Extent{0, size});
          extents.dynamicShapes[argument] = std::move(shape);
        }
  // An op's regions come after its operands and before its results.
  auto visitAll = [&](ValueRange values) {
    return failure(llvm::any_of(
        values, [&](Value value) { return failed(extents.visit(value)); }));
  };
  WalkResult walked = root->walk([&](Operation *op, const WalkStage &stage) {
    if (op == root)
      return WalkResult::advance();
    if (stage.isAfterAllRegions())
      return WalkResult(visitAll(op->getResults()));
    Region &next = op->getRegion(stage.getNextRegion());
    for (Block &block : next)
      if (failed(visitAll(block.getArguments())))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  return extents;
}
