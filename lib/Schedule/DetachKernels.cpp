//===- DetachKernels.cpp - Sums beside other kernels ----------------------===//
//
// A kernel that reads much, computes little of it and is asked for the result
// much later, such as the squares of a gradient that was just reduced, waits
// for memory, while the products around it wait for arithmetic and leave
// multiprocessors idle at their ends. So it goes to a stream of its own, where
// the device finds room for it, and is awaited by its first reader.
//
// Nothing is kept longer for it: what it reads has later readers anyway.
//
//===----------------------------------------------------------------------===//
#include "CommandOrder.h"
#include "fusion/Analysis/OverlapPlan.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_DETACHKERNELS
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Bytes read for one that is written, and those below which a launch gains
/// nothing from company.
static constexpr int64_t kReadForWritten = 64, kLeastRead = 1 << 20;

/// What is computed until the result is read, in times of the kernel's own.
static constexpr double kLeastSlack = 4;

namespace {

/// A kernel that may go to a stream of its own.
struct Detached {
  GroupOp group;
  Operation *reader; ///< the first op that names a result
};

struct DetachKernels final : fusion::impl::DetachKernelsBase<DetachKernels> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<std::unique_ptr<CostModel>> loaded =
        loadCostModel(context, device, costModel);
    if (failed(loaded))
      return failure();
    costs = std::move(*loaded);
    return success();
  }

  void runOnOperation() override;

private:
  std::shared_ptr<CostModel> costs;
};

/// What is known of the ops of a function while it is looked through.
class DetachPlan {
public:
  DetachPlan(func::FuncOp function, const CommandOrder &order,
             StepPrices &prices);

  std::vector<Detached> find();

private:
  bool readsMuch(GroupOp group);
  Operation *findReader(GroupOp group) const;
  bool keepsOperands(GroupOp group, Operation *reader) const;

  Block &block;
  const CommandOrder &order;
  StepPrices &prices;
  llvm::DenseMap<Operation *, double> beginUs; ///< of kernels, in line
};

} // namespace

DetachPlan::DetachPlan(func::FuncOp function, const CommandOrder &order,
                       StepPrices &prices)
    : block(function.getBody().front()), order(order), prices(prices) {
  double us = 0;
  for (Operation &op : block) {
    beginUs[&op] = us;
    if (isa<GroupOp>(op))
      us += prices.getStep(&op).us;
  }
}

bool DetachPlan::readsMuch(GroupOp group) {
  if (!group.getKernelAttr() || group->hasAttr("fusion.call") ||
      group->hasAttr(kViewAttr) || group->hasAttr(kPiecesAttr))
    return false;
  int64_t read = 0, written = 0;
  for (Value input : group.getInputs())
    read += prices.getByteSize(input);
  for (Value output : group.getOutputs())
    written += prices.getByteSize(output);
  return read >= kLeastRead && read / kReadForWritten >= written;
}

/// The first op of the block that reads a result; null if none does, or the
/// function returns one.
Operation *DetachPlan::findReader(GroupOp group) const {
  Operation *first = nullptr;
  for (Operation *user : group->getUsers()) {
    Operation *op = block.findAncestorOpInBlock(*user);
    if (op->hasTrait<OpTrait::IsTerminator>())
      return nullptr;
    if (!first || op->isBeforeInBlock(first))
      first = op;
  }
  return first;
}

/// Whether all that the kernel reads is read by another one behind `reader`, or
/// is no value of this function.
bool DetachPlan::keepsOperands(GroupOp group, Operation *reader) const {
  // The first command from the reader on.
  int64_t from = -1;
  for (Operation *op = reader; op && from < 0; op = op->getNextNode())
    from = order.find(op);
  return llvm::all_of(group.getInputs(), [&](Value input) {
    Value base = baseOf(input);
    Operation *source = base.getDefiningOp();
    return !source || isa<ConstantOp, GetParameterOp>(source) ||
           (from >= 0 && order.getLastUse(base) >= from);
  });
}

std::vector<Detached> DetachPlan::find() {
  std::vector<Detached> found;
  for (auto group : block.getOps<GroupOp>()) {
    if (!readsMuch(group))
      continue;
    Operation *reader = findReader(group);
    if (!reader || !keepsOperands(group, reader))
      continue;
    double us = prices.getStep(group).us;
    if (beginUs.lookup(reader) - beginUs.lookup(group) - us < kLeastSlack * us)
      continue;
    found.push_back({group, reader});
  }
  return found;
}

/// The first of the views in front of `op`, or `op`: what is awaited for it is
/// awaited there.
static Operation *findPlace(Operation *op) {
  while (Operation *before = op->getPrevNode()) {
    if (!OverlapGraph::isLazy(before))
      break;
    op = before;
  }
  return op;
}

/// Puts the kernel into a region of `stream`, awaited at `at`; returns the
/// await.
static Operation *detach(const Detached &detached, int64_t stream,
                         Operation *at) {
  GroupOp group = detached.group;
  OpBuilder builder(group);
  SmallVector<Type> types(group->getResultTypes());
  auto async = AsyncOp::create(builder, group.getLoc(),
                               FutureType::get(builder.getContext(), types),
                               builder.getI64IntegerAttr(stream));
  Block &body = async.getBody().emplaceBlock();
  builder.setInsertionPoint(at);
  auto awaited =
      AwaitOp::create(builder, group.getLoc(), types, async.getFuture());
  group->replaceAllUsesWith(awaited.getValues());
  group->moveBefore(&body, body.end());
  builder.setInsertionPointToEnd(&body);
  YieldOp::create(builder, group.getLoc(), group->getResults());
  return awaited;
}

/// A stream of which the function has none yet; nullopt if kernels run beside
/// others already, or nothing runs beside anything: alone, a step's kernels are
/// those that a run of one GPU has.
static std::optional<int64_t> findStream(func::FuncOp function) {
  int64_t last = 0;
  for (auto async : function.getBody().front().getOps<AsyncOp>()) {
    if (isa<GroupOp>(async.getBody().front().front()))
      return std::nullopt;
    last = std::max(last, int64_t(async.getStream()));
  }
  return last == 0 ? std::nullopt : std::optional(last + 1);
}

void DetachKernels::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>(function);
  if (!main || !llvm::hasSingleElement(main.getBody()) ||
      !costs->getDevice().isGpu)
    return markAllAnalysesPreserved();
  std::optional<int64_t> stream = findStream(main);
  if (!stream)
    return markAllAnalysesPreserved();
  CommModel comms(costs->getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(main, *costs, comms);
  FailureOr<CommandOrder> order = CommandOrder::analyze(main);
  if (failed(prices) || failed(order))
    return signalPassFailure();
  // The last one of the stream is awaited first: then all others are done.
  llvm::DenseMap<Operation *, Operation *> awaitOf; // by reader
  for (Detached each : DetachPlan(main, *order, *prices).find()) {
    remark::passed(each.group.getLoc(),
                   remark::RemarkOpts::name("detach-kernel")
                       .category("fusion")
                       .function(function))
        << remark::add("runs beside other kernels until its result is read")
        << remark::metric(
               "us",
               llvm::formatv("{0:f2}", prices->getStep(each.group).us).str());
    Operation *place = findPlace(each.reader);
    Operation *&at = awaitOf.try_emplace(place, place).first->second;
    at = detach(each, *stream, at);
  }
}
