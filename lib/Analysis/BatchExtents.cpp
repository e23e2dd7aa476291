//===- BatchExtents.cpp - Sizes as functions of the batch -----------------===//
//
// One rule for each op that can change a dimension; all others hand the shape
// of their first operand on. Static dimensions are read from the type, so only
// the rules' dynamic results matter.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/BatchExtents.h"

#include "fusion/IR/FusionDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
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

void BatchExtents::set(Value value, ArrayRef<Extent> shape) {
  RankedTensorType type = tensorType(value);
  if (!type || type.hasStaticShape() ||
      static_cast<int64_t>(shape.size()) != type.getRank())
    return;
  dynamicShapes[value].assign(shape.begin(), shape.end());
}

void BatchExtents::copy(Value from, Value to) { set(to, getShape(from)); }

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

/// `?` of a reshape: what the operand's elements leave when the result's
/// static dimensions are divided out.
static std::optional<SmallVector<Extent>>
reshapeExtents(ArrayRef<Extent> operand, RankedTensorType type) {
  Extent count{0, 1};
  for (Extent extent : operand) {
    std::optional<Extent> product = multiply(count, extent);
    if (!product)
      return std::nullopt;
    count = *product;
  }
  int64_t known = 1;
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      known *= size;
  SmallVector<Extent> shape;
  for (int64_t size : type.getShape()) {
    if (!ShapedType::isDynamic(size))
      shape.push_back({0, size});
    else if (known == 0)
      shape.push_back({1, 0}); // any size does: there are no elements
    else if (count.scale % known || count.base % known)
      return std::nullopt;
    else
      shape.push_back({count.scale / known, count.base / known});
  }
  return shape;
}

LogicalResult BatchExtents::visit(Operation *op) {
  // A group's arguments are its operands.
  if (auto group = dyn_cast<GroupOp>(op)) {
    for (auto [input, argument] :
         llvm::zip(group.getInputs(), group.getBodyBlock()->getArguments()))
      copy(input, argument);
    return success();
  }
  if (isa<YieldOp>(op)) {
    if (auto group = dyn_cast<GroupOp>(op->getParentOp()))
      for (auto [value, result] :
           llvm::zip(op->getOperands(), group.getOutputs()))
        copy(value, result);
    return success();
  }
  if (llvm::all_of(op->getResults(), [](Value result) {
        RankedTensorType type = tensorType(result);
        return !type || type.hasStaticShape();
      }))
    return success();

  auto shapeOf = [&](Value value) { return getShape(value); };
  bool ok = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case<BroadcastOp>([&](BroadcastOp bcast) {
        int64_t scale = bcast.getBatchScale();
        SmallVector<Extent> shape(tensorType(bcast.getResult()).getRank(),
                                  Extent{scale, 0});
        for (auto [i, dim] : llvm::enumerate(bcast.getDims())) {
          Extent extent = getExtent(bcast.getInput(), i);
          if (extent != Extent{0, 1})
            shape[dim] = extent;
        }
        set(bcast.getResult(), shape);
      })
      .Case<ReshapeOp>([&](ReshapeOp reshape) {
        auto shape = reshapeExtents(shapeOf(reshape.getInput()),
                                    tensorType(reshape.getResult()));
        if (!(ok = shape.has_value()))
          return;
        set(reshape.getResult(), *shape);
      })
      .Case<TransposeOp>([&](TransposeOp transpose) {
        SmallVector<Extent> shape;
        for (int64_t dim : transpose.getPermutation())
          shape.push_back(getExtent(transpose.getInput(), dim));
        set(transpose.getResult(), shape);
      })
      .Case<ConcatOp>([&](ConcatOp concat) {
        SmallVector<Extent> shape = shapeOf(concat.getInputs().front());
        int64_t axis = concat.getAxis();
        for (Value input : concat.getInputs().drop_front())
          shape[axis] = shape[axis] + getExtent(input, axis);
        set(concat.getResult(), shape);
      })
      .Case<GatherOp>([&](GatherOp gather) {
        SmallVector<Extent> input = shapeOf(gather.getInput());
        SmallVector<Extent> indices = shapeOf(gather.getIndices());
        int64_t axis = gather.getAxis();
        SmallVector<Extent> shape(input.begin(), input.begin() + axis);
        shape.append(indices.begin() + gather.getBatchDims(), indices.end());
        shape.append(input.begin() + axis + 1, input.end());
        set(gather.getResult(), shape);
      })
      .Case<GatherNdOp>([&](GatherNdOp gather) {
        SmallVector<Extent> input = shapeOf(gather.getInput());
        SmallVector<Extent> shape = shapeOf(gather.getIndices());
        int64_t depth = tensorType(gather.getIndices()).getShape().back();
        shape.pop_back();
        shape.append(input.begin() + gather.getBatchDims() + depth,
                     input.end());
        set(gather.getResult(), shape);
      })
      .Case<IotaOp>([&](IotaOp iota) {
        set(iota.getResult(),
            SmallVector<Extent>(
                tensorType(iota.getResult()).getRank(),
                Extent{static_cast<int64_t>(iota.getBatchScale()), 0}));
      })
      .Case<ReduceOp>([&](ReduceOp reduce) {
        SmallVector<Extent> shape;
        for (auto [dim, extent] : llvm::enumerate(shapeOf(reduce.getInput())))
          if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(dim)))
            shape.push_back(extent);
        set(reduce.getResult(), shape);
      })
      .Case<ArgMaxOp, ArgMinOp>([&](auto arg) {
        SmallVector<Extent> shape = shapeOf(arg.getInput());
        shape.erase(shape.begin() + arg.getAxis());
        set(arg.getResult(), shape);
      })
      .Case<MatmulOp>([&](MatmulOp matmul) {
        SmallVector<Extent> shape = shapeOf(matmul.getLhs());
        SmallVector<Extent> rhs = shapeOf(matmul.getRhs());
        size_t rank = shape.size();
        if (matmul.getTransposeLhs())
          shape[rank - 2] = shape[rank - 1];
        shape[rank - 1] =
            matmul.getTransposeRhs() ? rhs[rhs.size() - 2] : rhs.back();
        set(matmul.getResult(), shape);
      })
      .Case<AttentionOp>([&](AttentionOp attention) {
        SmallVector<Extent> shape = shapeOf(attention.getQuery());
        shape.back() = getExtent(attention.getValue(), 3);
        set(attention.getResult(), shape);
      })
      // A dynamic dimension stays as it is.
      .Case<ConvOp, ConvTransposeOp, MaxPoolOp, AvgPoolOp, SliceOp, PadOp>(
          [&](auto window) {
            SmallVector<Extent> shape;
            RankedTensorType type = tensorType(window.getResult());
            for (int64_t dim = 0; dim < type.getRank(); ++dim)
              shape.push_back(type.isDynamicDim(dim)
                                  ? getExtent(window.getInput(), dim)
                                  : Extent{0, type.getDimSize(dim)});
            set(window.getResult(), shape);
          })
      .Case<RngUniformOp>([&](RngUniformOp rng) {
        set(rng.getResult(),
            SmallVector<Extent>(tensorType(rng.getResult()).getRank(),
                                Extent{1, 0}));
      })
      .Default([&](Operation *other) {
        // Everything else keeps the shape of an operand position by position.
        for (Value result : other->getResults()) {
          RankedTensorType type = tensorType(result);
          if (!type || type.hasStaticShape())
            continue;
          const auto *source =
              llvm::find_if(other->getOpOperands(), [&](OpOperand &operand) {
                RankedTensorType from = tensorType(operand.get());
                return from && from.getShape() == type.getShape();
              });
          if (source == other->getOpOperands().end()) {
            ok = false;
            return;
          }
          copy(source->get(), result);
        }
      });
  if (!ok)
    return op->emitError(
        "the size of a '?' of the result is not known as a function "
        "of the batch; give the dimension a static size");
  return success();
}

FailureOr<BatchExtents> BatchExtents::analyze(Operation *root) {
  BatchExtents extents;
  for (Region &region : root->getRegions())
    for (Block &block : region)
      for (Value argument : block.getArguments())
        if (RankedTensorType type = tensorType(argument))
          extents.set(argument,
                      SmallVector<Extent>(type.getRank(), Extent{1, 0}));
  // Pre-order: a group is visited before its body, its results are set by the
  // terminator, before the op behind the group is visited.
  WalkResult walked = root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == root)
      return WalkResult::advance();
    return failed(extents.visit(op)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  return extents;
}
