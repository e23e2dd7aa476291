//===- CommandOrder.cpp - Commands, their streams, who waits --------------===//
//
// Two walks over the function: forward for the steps and their reads, backward
// for what frees them. Linear.
//
//===----------------------------------------------------------------------===//
#include "CommandOrder.h"

using namespace mlir;
using namespace fusion;

Value fusion::rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      value = reshape.getInput();
      continue;
    }
    auto await = dyn_cast<AwaitOp>(op);
    auto async = await ? await.getFuture().getDefiningOp<AsyncOp>() : AsyncOp();
    if (!async)
      break;
    value = async.getBody().front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber());
  }
  return value;
}

Value fusion::baseOf(Value value) {
  while (true) {
    value = rootOf(value);
    if (auto slice = value.getDefiningOp<RankSliceOp>()) {
      value = slice.getInput();
      continue;
    }
    auto view = value.getDefiningOp<GroupOp>();
    if (!view || !view->hasAttr(kViewAttr))
      return value;
    value = view.getInputs()[cast<OpResult>(value).getResultNumber()];
  }
}

/// Whether `value` is a part of another that a rank's place decides.
static bool isTurned(Value value) {
  while (true) {
    value = rootOf(value);
    if (value.getDefiningOp<RankSliceOp>())
      return true;
    auto view = value.getDefiningOp<GroupOp>();
    if (!view || !view->hasAttr(kViewAttr))
      return false;
    value = view.getInputs()[cast<OpResult>(value).getResultNumber()];
  }
}

std::optional<int64_t> fusion::offsetInBase(Value value) {
  int64_t offset = 0;
  while (true) {
    value = rootOf(value);
    // Where it begins, a rank's place decides.
    if (value.getDefiningOp<RankSliceOp>())
      return std::nullopt;
    auto view = value.getDefiningOp<GroupOp>();
    if (!view || !view->hasAttr(kViewAttr))
      return offset;
    auto offsets = view->getAttrOfType<DenseI64ArrayAttr>(kViewAttr);
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (!offsets || number >= offsets.size())
      return std::nullopt;
    offset += offsets[number];
    value = view.getInputs()[number];
  }
}

SmallVector<int64_t> fusion::getInPlacePairs(Operation *op) {
  SmallVector<int64_t> list;
  if (auto pairs = op->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place"))
    list.assign(pairs.asArrayRef().begin(), pairs.asArrayRef().end());
  if (isa<AllReduceOp, CollectiveBroadcastOp>(op))
    for (int64_t i = 0, e = op->getNumResults(); i < e; ++i)
      list.append({i, i});
  return list;
}

/// A stream that a module can name.
static constexpr int64_t kMostStreams = 256;

LogicalResult CommandOrder::addRegion(AsyncOp async) {
  if (int64_t(async.getStream()) >= kMostStreams)
    return async.emitError("stream ")
           << async.getStream() << " is too many: give one below "
           << kMostStreams;
  Value future = async.getFuture();
  if (!future.hasOneUse())
    return async.emitError("the future is awaited ")
           << std::distance(future.use_begin(), future.use_end())
           << " times: await it exactly once";
  if (!isa<AwaitOp>(*future.user_begin()))
    return async.emitError("the future is not awaited but given to '")
           << future.user_begin()->getName() << "'";
  for (Operation &op : async.getBody().front().without_terminator())
    if (failed(addOp(op, async)))
      return failure();
  return success();
}

LogicalResult CommandOrder::addOp(Operation &op, AsyncOp region) {
  if (isa<ConstantOp, GetParameterOp, ReshapeOp, RankSliceOp>(op))
    return success();
  auto group = dyn_cast<GroupOp>(op);
  if (group && group->hasAttr(kViewAttr))
    return success();
  if (group && !group.getKernel() && !group->hasAttr("fusion.call") &&
      !group->hasAttr(kPiecesAttr))
    return group.emitError("has no kernel: run code generation first");
  if (auto async = dyn_cast<AsyncOp>(op)) {
    if (region)
      return async.emitError("is nested in another asynchronous region");
    return addRegion(async);
  }
  auto await = dyn_cast<AwaitOp>(op);
  if (await && !await.getFuture().getDefiningOp<AsyncOp>())
    return await.emitError("waits for a future that no region of this function "
                           "gives");
  if (!await && !group &&
      !isa<CommunicationOpInterface, AxisIndexOp, RankConcatOp>(op))
    return op.emitError("'")
           << op.getName() << "' is in no group: "
           << (region ? "an asynchronous region holds collectives, awaits and "
                        "groups; compute in front of it"
                      : "run the fuse phase first");
  int64_t position = steps.size();
  positions[&op] = position;
  steps.push_back(
      {&op, region ? int64_t(region.getStream()) : 0, region, position});
  if (await)
    return success();
  if (!group && !isa<RankConcatOp>(op))
    for (Value operand : op.getOperands())
      if (isTurned(operand))
        return op.emitError("an operand lies elsewhere on each rank: compute "
                            "it, without 'fusion.rank_slice'");
  for (Value operand : op.getOperands()) {
    SmallVector<int64_t, 2> &list = uses[baseOf(operand)];
    if (list.empty() || list.back() != position)
      list.push_back(position);
  }
  return success();
}

FailureOr<CommandOrder> CommandOrder::analyze(func::FuncOp function) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError(
        "has control flow; a model is straight-line code");
  CommandOrder order;
  for (Operation &op : function.getBody().front().without_terminator())
    if (failed(order.addOp(op, AsyncOp())))
      return failure();
  for (Value value : function.getBody().front().getTerminator()->getOperands())
    if (baseOf(value) != rootOf(value))
      return emitError(value.getLoc(),
                       "a result can't be a view of another value: compute "
                       "it, without 'fusion.view' or 'fusion.rank_slice'");
  // A region's await comes behind its steps, and so does that of the region
  // that the await is in. A stream's commands are done in order: what waits for
  // a later one waits for this one too.
  llvm::DenseMap<Operation *, int64_t> releases;
  llvm::SmallDenseMap<int64_t, int64_t> releaseOfStream;
  for (auto [i, step] : llvm::enumerate(llvm::reverse(order.steps))) {
    int64_t position = order.steps.size() - 1 - i;
    if (step.region && step.stream != 0) {
      int64_t own = releases.lookup(step.region);
      auto [later, isLast] = releaseOfStream.try_emplace(step.stream, own);
      step.release = later->second = std::min(later->second, own);
    }
    if (auto await = dyn_cast<AwaitOp>(step.op))
      releases[await.getFuture().getDefiningOp()] =
          step.stream == 0 ? position : step.release;
  }
  return order;
}

int64_t CommandOrder::getLastUse(Value base) const {
  int64_t last = -1;
  for (int64_t use : getUses(base))
    last = std::max(last, steps[use].release);
  return last;
}

bool CommandOrder::isLastReader(Value base, int64_t step) const {
  ArrayRef<int64_t> list = getUses(base);
  if (list.empty() || list.back() != step)
    return false;
  return llvm::all_of(list.drop_back(), [&](int64_t use) {
    return steps[use].stream == steps[step].stream ||
           steps[use].release <= step;
  });
}

bool CommandOrder::isLastReaderOf(
    Value base, int64_t offset, int64_t bytes, int64_t step,
    llvm::function_ref<int64_t(Value)> bytesOf) const {
  auto reads = [&](Value operand) {
    if (baseOf(operand) != base)
      return false;
    std::optional<int64_t> start = offsetInBase(operand);
    return !start ||
           (*start < offset + bytes && offset < *start + bytesOf(operand));
  };
  // Its own operand, and no other of the same command.
  if (llvm::count_if(steps[step].op->getOperands(), reads) != 1)
    return false;
  return llvm::all_of(getUses(base), [&](int64_t use) {
    return use == step ||
           (use < step && (steps[use].stream == steps[step].stream ||
                           steps[use].release <= step)) ||
           llvm::none_of(steps[use].op->getOperands(), reads);
  });
}
