//===- PropagateLayout.cpp - Run convolutions channels-last ---------------===//
//
// Backward, once: what the users of each value will ask for. Forward, once:
// each convolution and pool is written channels-last, and so is each op on the
// way whose operands come that way, if that moves no more bytes than staying;
// the others get the model's order back through a transpose that is made on
// demand. A value has at most one version in each order, so nothing is
// transposed twice.
//
//===----------------------------------------------------------------------===//
#include "LayoutTransfer.h"
#include "RewriteRecord.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Simplify/Passes.h"

#define DEBUG_TYPE "fusion-propagate-layout"

namespace fusion {
#define GEN_PASS_DEF_PROPAGATELAYOUT
#include "fusion/Simplify/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kRule = "propagate-layout";

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Bytes of a value; a `?` counts 1.
static int64_t getBytes(Value value) {
  RankedTensorType type = typeOf(value);
  int64_t bytes = (type.getElementTypeBitWidth() + 7) / 8;
  for (int64_t extent : type.getShape())
    bytes *= ShapedType::isDynamic(extent) ? 1 : extent;
  return bytes;
}

/// Whether the bytes are the same in both orders.
static bool isSameInBothOrders(Value value) {
  RankedTensorType type = typeOf(value);
  return type.getNumDynamicDims() <= 1 &&
         movesOnlyUnitDims(type, getToLast(type.getRank()));
}

namespace {
class LayoutRewriter {
public:
  LayoutRewriter(Block &block, bool exactRewritesOnly)
      : block(block), builder(block.getParentOp()->getContext()),
        exactRewritesOnly(exactRewritesOnly) {}

  /// Rewrites the block; returns how many sums changed their order.
  int64_t run();
  void report(Operation *function) const;

private:
  void findDemands();
  std::optional<LayoutTransfer> getTransfer(Operation *op) const;
  bool isBetterLast(Operation *op, const LayoutTransfer &transfer) const;
  int64_t getLastCost(Value value) const;
  int64_t getFirstCost(Value value) const;

  void visit(Operation *op);
  void rewriteLast(Operation *op, const LayoutTransfer &transfer);
  bool rewriteReshape(ReshapeOp op);
  void rewriteTranspose(TransposeOp op);
  void readFirst(Operation *op);

  Value getLast(Value value);
  Value makeLast(Value value);
  Value getFirst(Value value);
  Value transpose(Value value, ArrayRef<int64_t> permutation);

  Block &block;
  OpBuilder builder;
  bool exactRewritesOnly;
  /// Bytes that users will move: `first` if the value is made channels-last,
  /// `last` if it is made in the model's order.
  struct Demand {
    int64_t first = 0;
    int64_t last = 0;
  };
  llvm::DenseMap<Value, Demand> demands;
  /// Old value to its channels-last version.
  llvm::DenseMap<Value, Value> last;
  /// Old values that exist channels-last only, to their version in the
  /// model's order (null until someone needs it).
  llvm::DenseMap<Value, Value> first;
  SmallVector<Operation *> dead;
  /// Ops whose channels-last version was made from their own operands.
  llvm::SetVector<Operation *> sources;
  SmallVector<Operation *> transposes;
  int64_t windows = 0;
  int64_t reorderedSums = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

std::optional<LayoutTransfer> LayoutRewriter::getTransfer(Operation *op) const {
  std::optional<LayoutTransfer> transfer = getLayoutTransfer(op);
  if (transfer && transfer->reordersSum && exactRewritesOnly)
    return std::nullopt;
  return transfer;
}

/// Bytes of a value that differ between the orders.
static int64_t getOrderedBytes(Value value) {
  return isSameInBothOrders(value) ? 0 : getBytes(value);
}

/// Looks ahead, users before producers: what it will cost to have a value in
/// the one order when its users are written in the order that suits them.
void LayoutRewriter::findDemands() {
  for (Operation &op : llvm::reverse(block)) {
    bool isWindow = isChannelsFirst(&op);
    std::optional<LayoutTransfer> transfer = getTransfer(&op);
    Demand behind;
    if (transfer && transfer->resultIsLast && !isWindow)
      behind = demands.lookup(op.getResult(0));
    llvm::SmallDenseSet<Value, 4> seen;
    auto addDemand = [&](Value operand, bool isTransferred) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type || type.getRank() < kMinLayoutRank ||
          !seen.insert(operand).second)
        return;
      int64_t bytes = getOrderedBytes(operand);
      Demand &demand = demands[operand];
      // One transpose serves all users: no demand exceeds it.
      auto add = [&](int64_t &sum, int64_t more) {
        sum = std::min(bytes, sum + std::min(bytes, more));
      };
      if (isWindow && isTransferred)
        add(demand.last, bytes);
      else if (isTransferred)
        add(demand.first, behind.first), add(demand.last, behind.last);
      else if (!isa<TransposeOp>(op))
        add(demand.first, bytes);
    };
    if (transfer)
      for (unsigned index : transfer->operands)
        addDemand(op.getOperand(index), /*isTransferred=*/true);
    op.walk([&](Operation *reader) {
      for (Value operand : reader->getOperands())
        addDemand(operand, /*isTransferred=*/false);
    });
  }
}

/// Bytes that must be moved to have `value` channels-last.
int64_t LayoutRewriter::getLastCost(Value value) const {
  if (last.contains(value) || isSameInBothOrders(value))
    return 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return getBytes(value);
  if (auto source = dyn_cast<TransposeOp>(op))
    if (source.getPermutation() ==
        ArrayRef<int64_t>(getToFirst(source.getType().getRank())))
      return 0;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return getLastBroadcastDims(broadcast, /*operandIsLast=*/false)
               ? 0
               : getBytes(broadcast.getInput());
  // Constants are transposed at compile time.
  return isa<ConstantOp, GetParameterOp, IotaOp>(op) ? 0 : getBytes(value);
}

/// Bytes that must be moved to have `value` in the model's order.
int64_t LayoutRewriter::getFirstCost(Value value) const {
  auto found = first.find(value);
  bool exists = found == first.end() || found->second;
  return exists || isSameInBothOrders(value) ? 0 : getBytes(value);
}

/// Whether writing `op` channels-last moves no more bytes than leaving it,
/// counting what its users will ask for.
bool LayoutRewriter::isBetterLast(Operation *op,
                                  const LayoutTransfer &transfer) const {
  Value result = op->getResult(0);
  bool readsLast = false, mayReadLast = false;
  int64_t lastCost = 0, firstCost = 0;
  llvm::SmallDenseSet<Value, 4> seen;
  for (unsigned index : transfer.operands) {
    Value operand = op->getOperand(index);
    if (!seen.insert(operand).second)
      continue;
    readsLast |= first.contains(operand);
    mayReadLast |= last.contains(operand);
    lastCost += getLastCost(operand);
    firstCost += getFirstCost(operand);
  }
  if (transfer.resultIsLast) {
    Demand demand = demands.lookup(result);
    lastCost += demand.first;
    firstCost += demand.last;
  }
  // An op that reads nothing channels-last stays as it is, if it is not
  // cheaper.
  return readsLast ? lastCost <= firstCost
                   : mayReadLast && lastCost < firstCost;
}

//===----------------------------------------------------------------------===//
// Versions of a value
//===----------------------------------------------------------------------===//

/// A transpose, or a reshape if only unit dimensions move.
Value LayoutRewriter::transpose(Value value, ArrayRef<int64_t> permutation) {
  RankedTensorType type = typeOf(value);
  RankedTensorType resultType = permute(type, permutation);
  if (type.getNumDynamicDims() <= 1 && movesOnlyUnitDims(type, permutation))
    return ReshapeOp::create(builder, value.getLoc(), resultType, value);
  auto op = TransposeOp::create(builder, value.getLoc(), resultType, value,
                                builder.getDenseI64ArrayAttr(permutation));
  transposes.push_back(op);
  return op;
}

Value LayoutRewriter::makeLast(Value value) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  SmallVector<int64_t> toLast = getToLast(typeOf(value).getRank());
  Operation *op = value.getDefiningOp();
  if (auto source = dyn_cast_or_null<TransposeOp>(op))
    if (source.getPermutation() ==
        ArrayRef<int64_t>(getToFirst(source.getType().getRank()))) {
      sources.insert(op);
      return source.getInput();
    }
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    if (auto dims = getLastBroadcastDims(broadcast, /*operandIsLast=*/false)) {
      sources.insert(op);
      return BroadcastOp::create(
          builder, op->getLoc(), permute(typeOf(value), toLast),
          broadcast.getInput(), builder.getDenseI64ArrayAttr(*dims),
          broadcast.getBatchScaleAttr());
    }
  if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    sources.insert(op);
    return IotaOp::create(builder, op->getLoc(), permute(typeOf(value), toLast),
                          builder.getI64IntegerAttr(getLastDim(
                              iota.getAxis(), typeOf(value).getRank())),
                          iota.getBatchScaleAttr());
  }
  return transpose(value, toLast);
}

Value LayoutRewriter::getLast(Value value) {
  Value &version = last[value];
  if (!version) {
    Value made = makeLast(value);
    last[value] = made;
    return made;
  }
  return version;
}

Value LayoutRewriter::getFirst(Value value) {
  auto found = first.find(value);
  if (found == first.end())
    return value;
  if (!found->second) {
    OpBuilder::InsertionGuard guard(builder);
    Value source = last.lookup(value);
    builder.setInsertionPointAfterValue(source);
    found->second = transpose(source, getToFirst(typeOf(source).getRank()));
  }
  return found->second;
}

//===----------------------------------------------------------------------===//
// Rewrite
//===----------------------------------------------------------------------===//

void LayoutRewriter::rewriteLast(Operation *op,
                                 const LayoutTransfer &transfer) {
  SmallVector<Value> operands;
  for (unsigned index : transfer.operands)
    operands.push_back(getLast(op->getOperand(index)));
  for (OpOperand &operand : op->getOpOperands())
    if (!llvm::is_contained(transfer.operands, operand.getOperandNumber()))
      operand.set(getFirst(operand.get()));
  builder.setInsertionPoint(op);
  Operation *clone = transfer.build(builder, operands);
  reorderedSums += transfer.reordersSum;
  if (transfer.resultIsLast) {
    last[op->getResult(0)] = clone->getResult(0);
    first[op->getResult(0)] = Value();
  } else {
    op->getResult(0).replaceAllUsesWith(clone->getResult(0));
  }
  dead.push_back(op);
}

/// A reshape of a value whose bytes are the same in both orders reads either.
bool LayoutRewriter::rewriteReshape(ReshapeOp op) {
  Value input = op.getInput();
  if (!first.contains(input) || !isSameInBothOrders(input))
    return false;
  op.getInputMutable().assign(last.lookup(input));
  return true;
}

/// A transpose that the model has: one transpose from channels-last, or none.
void LayoutRewriter::rewriteTranspose(TransposeOp op) {
  Value input = op.getInput();
  int64_t rank = op.getType().getRank();
  SmallVector<int64_t> permutation;
  for (int64_t dim : op.getPermutation())
    permutation.push_back(getLastDim(dim, rank));
  Value source = last.lookup(input);
  bool isIdentity = llvm::equal(permutation, llvm::seq<int64_t>(0, rank));
  builder.setInsertionPoint(op);
  op.getResult().replaceAllUsesWith(
      isIdentity ? source : transpose(source, permutation));
  dead.push_back(op);
}

/// Gives `op`, and the ops inside it, the model's order.
void LayoutRewriter::readFirst(Operation *op) {
  op->walk([&](Operation *reader) {
    for (OpOperand &operand : reader->getOpOperands())
      if (first.contains(operand.get()))
        operand.set(getFirst(operand.get()));
  });
}

void LayoutRewriter::visit(Operation *op) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    if (rewriteReshape(reshape))
      return;
  if (auto move = dyn_cast<TransposeOp>(op))
    if (first.contains(move.getInput()))
      return rewriteTranspose(move);
  bool isWindow = isChannelsFirst(op);
  windows += isWindow;
  std::optional<LayoutTransfer> transfer = getTransfer(op);
  if (transfer && (isWindow || isBetterLast(op, *transfer)))
    rewriteLast(op, *transfer);
  else
    readFirst(op);
}

int64_t LayoutRewriter::run() {
  findDemands();
  // The ops of the model; what is built on the way is not visited.
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops)
    visit(op);
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  // A source may be a transpose that was made here, for the model's own.
  llvm::SmallPtrSet<Operation *, 8> erased;
  for (Operation *op : sources)
    if (op->use_empty()) {
      erased.insert(op);
      op->erase();
    }
  llvm::erase_if(transposes,
                 [&](Operation *op) { return erased.contains(op); });
  return reorderedSums;
}

void LayoutRewriter::report(Operation *function) const {
  int64_t bytes = 0, count = 0;
  for (Operation *op : transposes) {
    if (op->use_empty() || isa_and_nonnull<ConstantOp, GetParameterOp>(
                               op->getOperand(0).getDefiningOp()))
      continue;
    ++count;
    bytes += getBytes(op->getResult(0));
    bool isInput = isa<BlockArgument>(op->getOperand(0));
    Operation *reader = *op->user_begin();
    for (Operation *user : op->getUsers())
      if (user->getBlock() == &block &&
          (reader->getBlock() != &block || user->isBeforeInBlock(reader)))
        reader = user;
    remark::missed(op->getLoc(), getRemarkOpts(kRule))
        << remark::reason("a transpose stays {0} {1}",
                          isInput ? "between an argument and" : "before",
                          reader->getName().getStringRef())
        << remark::metric("Bytes", getBytes(op->getResult(0)));
  }
  remark::passed(function->getLoc(), getRemarkOpts(kRule))
      << remark::add("convolutions and pools run channels-last")
      << remark::metric("Windows", windows)
      << remark::metric("Transposes", count)
      << remark::metric("TransposedBytes", bytes);
}

namespace {
struct PropagateLayout final
    : fusion::impl::PropagateLayoutBase<PropagateLayout> {
  using Base::Base;

  void runOnOperation() override {
    if (layout == LayoutPolicy::Keep)
      return markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    declareRewrite(module, kRule, "a convolution or pool with channels first");
    int64_t reorderedSums = 0;
    for (auto function : module.getOps<FunctionOpInterface>()) {
      if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
        continue;
      Block &block = function.getFunctionBody().front();
      if (llvm::none_of(block,
                        [](Operation &op) { return isChannelsFirst(&op); }))
        continue;
      LayoutRewriter rewriter(block, exactRewritesOnly);
      reorderedSums += rewriter.run();
      rewriter.report(function);
    }
    recordRewrites(module, "reorder-reduction", reorderedSums);
  }
};
} // namespace
