//===- LayoutTransfer.cpp - Ops under channels-last operands --------------===//
//
// One case an op: its attributes that name dimensions are renamed, its result
// type is permuted, nothing else changes.
//
//===----------------------------------------------------------------------===//
#include "LayoutTransfer.h"
#include "fusion/Support/SeededBugs.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;

SmallVector<int64_t> fusion::getToLast(int64_t rank) {
  SmallVector<int64_t> permutation{0};
  for (int64_t dim = 2; dim < rank; ++dim)
    permutation.push_back(dim);
  permutation.push_back(1);
  return permutation;
}

SmallVector<int64_t> fusion::getToFirst(int64_t rank) {
  SmallVector<int64_t> permutation{0, rank - 1};
  for (int64_t dim = 1; dim < rank - 1; ++dim)
    permutation.push_back(dim);
  return permutation;
}

RankedTensorType fusion::permute(RankedTensorType type,
                                 ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(type.getDimSize(dim));
  return RankedTensorType::get(shape, type.getElementType());
}

bool fusion::movesOnlyUnitDims(RankedTensorType type,
                               ArrayRef<int64_t> permutation) {
  int64_t last = -1;
  for (int64_t dim : permutation) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static RankedTensorType getLastType(Value value) {
  RankedTensorType type = typeOf(value);
  return permute(type, getToLast(type.getRank()));
}

/// `list` with one entry a dimension, in channels-last order.
static DenseI64ArrayAttr permuteList(Operation *op, ArrayRef<int64_t> list) {
  SmallVector<int64_t> permuted;
  for (int64_t dim : getToLast(list.size()))
    permuted.push_back(list[dim]);
  return DenseI64ArrayAttr::get(op->getContext(), permuted);
}

/// A copy of `op` that reads `operands` in place of those the transfer names,
/// with the result type `type`.
static Operation *cloneOn(OpBuilder &builder, Operation *op,
                          ArrayRef<unsigned> indices, ValueRange operands,
                          Type type) {
  Operation *clone = op->clone();
  for (auto [index, operand] : llvm::zip(indices, operands))
    clone->setOperand(index, operand);
  clone->getResult(0).setType(cast<RankedTensorType>(type));
  builder.insert(clone);
  return clone;
}

/// A transfer that copies the op and then lets `adjust` rename dimensions.
template <typename OpT>
static LayoutTransfer makeTransfer(
    OpT op, SmallVector<unsigned, 4> operands,
    std::function<void(OpT)> adjust = [](OpT) {}) {
  LayoutTransfer transfer;
  transfer.operands = operands;
  transfer.build = [op, operands, adjust](OpBuilder &builder,
                                          ValueRange values) mutable {
    Operation *clone =
        cloneOn(builder, op, operands, values, getLastType(op->getResult(0)));
    adjust(cast<OpT>(clone));
    return clone;
  };
  return transfer;
}

template <typename OpT> static LayoutTransfer transferAxis(OpT op) {
  return makeTransfer<OpT>(op, {0}, [](OpT clone) {
    if (seededBug(5) && clone.getAxis() != 1)
      return;
    clone.setAxis(getLastDim(clone.getAxis(), clone.getType().getRank()));
  });
}

/// Reductions: channels-last with some dimensions gone is the same tensor if
/// nothing is left for the channels to be moved behind.
template <typename OpT>
static std::optional<LayoutTransfer>
transferReduction(OpT op, ArrayRef<int64_t> dims,
                  std::function<void(OpT, ArrayRef<int64_t>)> setDims) {
  int64_t rank = typeOf(op.getInput()).getRank();
  bool keepsBatch = !llvm::is_contained(dims, 0);
  bool keepsChannels = !llvm::is_contained(dims, 1);
  int64_t keptSpatial =
      rank - static_cast<int64_t>(dims.size()) - keepsBatch - keepsChannels;
  LayoutTransfer transfer;
  transfer.operands = {0};
  transfer.resultIsLast = keepsChannels && keptSpatial > 0;
  if (transfer.resultIsLast && !keepsBatch)
    return std::nullopt;
  SmallVector<int64_t> lastDims;
  for (int64_t dim : dims)
    lastDims.push_back(getLastDim(dim, rank));
  llvm::sort(lastDims);
  bool isLast = transfer.resultIsLast;
  transfer.build = [=](OpBuilder &builder, ValueRange values) mutable {
    Type type = isLast ? getLastType(op.getResult()) : op.getType();
    Operation *clone = cloneOn(builder, op, {0}, values, type);
    setDims(cast<OpT>(clone), lastDims);
    return clone;
  };
  return transfer;
}

static std::optional<LayoutTransfer> transferReduce(ReduceOp op) {
  auto transfer = transferReduction<ReduceOp>(
      op, op.getDims(),
      [](ReduceOp clone, ArrayRef<int64_t> dims) { clone.setDims(dims); });
  bool isSum = op.getKind() == ReduceKind::Sum ||
               op.getKind() == ReduceKind::Mean ||
               op.getKind() == ReduceKind::Prod;
  // Along one dimension the order stays; along the channels too.
  if (transfer)
    transfer->reordersSum = isSum && op.getDims().size() > 1 &&
                            isa<FloatType>(op.getType().getElementType());
  return transfer;
}

/// A reshape that leaves batch and channels alone: the spatial dimensions are
/// side by side in both orders.
static std::optional<LayoutTransfer> transferReshape(ReshapeOp op) {
  RankedTensorType from = typeOf(op.getInput()), to = op.getType();
  if (to.getRank() < kMinLayoutRank || from.getDimSize(0) != to.getDimSize(0) ||
      from.getDimSize(1) != to.getDimSize(1))
    return std::nullopt;
  // A batch behind the channels, or no elements, leaves too much open.
  auto isFixed = [](RankedTensorType type) {
    return llvm::all_of(type.getShape().drop_front(),
                        [](int64_t extent) { return extent > 0; });
  };
  if (!isFixed(from) || !isFixed(to))
    return std::nullopt;
  // Two batches of no known size may differ: [B, 2, 3, 4] as [2 B, 2, 6].
  auto countFixed = [](RankedTensorType type) {
    return ShapedType::getNumElements(type.getShape().drop_front());
  };
  if (countFixed(from) != countFixed(to))
    return std::nullopt;
  return makeTransfer<ReshapeOp>(op, {0});
}

std::optional<SmallVector<int64_t>>
fusion::getLastBroadcastDims(BroadcastOp op, bool operandIsLast) {
  int64_t rank = op.getType().getRank();
  int64_t operandRank = typeOf(op.getInput()).getRank();
  SmallVector<int64_t> order =
      operandIsLast ? getToLast(operandRank)
                    : llvm::to_vector(llvm::seq<int64_t>(0, operandRank));
  SmallVector<int64_t> dims;
  for (int64_t operandDim : order) {
    int64_t dim = getLastDim(op.getDims()[operandDim], rank);
    if (!dims.empty() && dim < dims.back())
      return std::nullopt;
    dims.push_back(dim);
  }
  return dims;
}

static std::optional<LayoutTransfer> transferBroadcast(BroadcastOp op) {
  if (typeOf(op.getInput()).getRank() < kMinLayoutRank)
    return std::nullopt;
  auto dims = getLastBroadcastDims(op, /*operandIsLast=*/true);
  if (!dims)
    return std::nullopt;
  return makeTransfer<BroadcastOp>(
      op, {0}, [dims](BroadcastOp clone) { clone.setDims(*dims); });
}

bool fusion::isChannelsFirst(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<ConvOp, ConvTransposeOp, MaxPoolOp, AvgPoolOp, MaxPoolGradOp>(
          [](auto window) { return window.getLayout() == Layout::NCHW; })
      .Default([](auto) { return false; });
}

std::optional<LayoutTransfer> fusion::getLayoutTransfer(Operation *op) {
  using Result = std::optional<LayoutTransfer>;
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || type.getRank() < kMinLayoutRank)
    return std::nullopt;
  if (isa<ElementwiseOpInterface>(op))
    return makeTransfer(
        cast<ElementwiseOpInterface>(op),
        llvm::to_vector<4>(llvm::seq<unsigned>(0, op->getNumOperands())));
  return TypeSwitch<Operation *, Result>(op)
      .Case<ConvOp, ConvTransposeOp, MaxPoolOp, AvgPoolOp>(
          [](auto window) -> Result {
            using OpT = decltype(window);
            if (window.getLayout() != Layout::NCHW)
              return std::nullopt;
            return makeTransfer<OpT>(
                window, {0}, [](OpT clone) { clone.setLayout(Layout::NHWC); });
          })
      .Case([](MaxPoolGradOp pool) -> Result {
        if (pool.getLayout() != Layout::NCHW)
          return std::nullopt;
        return makeTransfer<MaxPoolGradOp>(
            pool, {0, 1},
            [](MaxPoolGradOp clone) { clone.setLayout(Layout::NHWC); });
      })
      .Case([](AfterOp after) -> Result {
        return makeTransfer<AfterOp>(after, {0});
      })
      .Case<BatchNormOp, SoftmaxOp, LogSoftmaxOp>(
          [](auto norm) -> Result { return transferAxis(norm); })
      .Case([](ConcatOp concat) -> Result {
        return makeTransfer<ConcatOp>(
            concat,
            llvm::to_vector<4>(
                llvm::seq<unsigned>(0, concat->getNumOperands())),
            [](ConcatOp clone) {
              clone.setAxis(
                  getLastDim(clone.getAxis(), clone.getType().getRank()));
            });
      })
      .Case([](PadOp pad) -> Result {
        return makeTransfer<PadOp>(pad, {0}, [](PadOp clone) {
          clone.setLowAttr(permuteList(clone, clone.getLow()));
          clone.setHighAttr(permuteList(clone, clone.getHigh()));
        });
      })
      .Case([](SliceOp slice) -> Result {
        return makeTransfer<SliceOp>(slice, {0}, [](SliceOp clone) {
          clone.setStartsAttr(permuteList(clone, clone.getStarts()));
          clone.setLimitsAttr(permuteList(clone, clone.getLimits()));
          clone.setStridesAttr(permuteList(clone, clone.getStrides()));
        });
      })
      .Case([](ReverseOp reverse) -> Result {
        return makeTransfer<ReverseOp>(reverse, {0}, [](ReverseOp clone) {
          SmallVector<int64_t> dims;
          for (int64_t dim : clone.getDims())
            dims.push_back(getLastDim(dim, clone.getType().getRank()));
          llvm::sort(dims);
          clone.setDims(dims);
        });
      })
      .Case([](ReduceOp reduce) { return transferReduce(reduce); })
      .Case<ArgMaxOp, ArgMinOp>([](auto arg) {
        using OpT = decltype(arg);
        return transferReduction<OpT>(
            arg, {static_cast<int64_t>(arg.getAxis())},
            [](OpT clone, ArrayRef<int64_t> dims) { clone.setAxis(dims[0]); });
      })
      .Case([](ReshapeOp reshape) { return transferReshape(reshape); })
      .Case([](BroadcastOp broadcast) { return transferBroadcast(broadcast); })
      .Default([](Operation *) -> Result { return std::nullopt; });
}
