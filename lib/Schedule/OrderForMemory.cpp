//===- OrderForMemory.cpp - Groups stand where fewer bytes are alive ------===//
//
// Turns a function into steps and values (MemoryOrder.h decides), and moves its
// groups. Collectives keep their places among each other, and a result that is
// written over a donated argument stays behind all that reads the argument.
//
//===----------------------------------------------------------------------===//
#include "CommandOrder.h"
#include "MemoryOrder.h"
#include "fusion/Analysis/BatchExtents.h"
#include "fusion/Analysis/OverlapPlan.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/IR/TensorData.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {
#define GEN_PASS_DEF_ORDERFORMEMORY
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// A new order has to save this part of the peak, or nothing is moved.
static constexpr int64_t kLeastGain = 128;

/// Microseconds that are no difference.
static constexpr double kSameUs = 1e-3;

namespace {

/// A function as steps and values.
class StepBuilder {
public:
  StepBuilder(func::FuncOp function, const CommandOrder &commands,
              const BatchExtents &extents)
      : function(function), commands(commands), extents(extents) {}

  OrderedSteps run();

private:
  void addValues(unsigned step);
  void connect(unsigned before, unsigned behind) {
    if (before == behind)
      return;
    steps.steps[before].behind.push_back(behind);
    steps.steps[behind].before.push_back(before);
  }
  int64_t bytesOf(Value value) const;
  void keepDonations();

  func::FuncOp function;
  const CommandOrder &commands;
  const BatchExtents &extents;
  OrderedSteps steps;
  llvm::DenseMap<Value, unsigned> indexOf; ///< of the arena's values
  llvm::DenseSet<Value> returned;          ///< have bytes of their own
  llvm::DenseSet<Value> inBucket;          ///< read by a bucket's collective
};

} // namespace

/// 0 for what is not affine in the batch or too large: planning refuses it.
int64_t StepBuilder::bytesOf(Value value) const {
  std::optional<Extent> count = extents.getNumElements(value);
  if (!count)
    return 0;
  int64_t batch = 1, bytes;
  if (auto bounds =
          function->getAttrOfType<DenseI64ArrayAttr>(FusionDialect::kBatchAttr))
    batch = bounds[1];
  int64_t width =
      getElementBytes(cast<RankedTensorType>(value.getType()).getElementType());
  if (llvm::MulOverflow(count->scale, batch, bytes) ||
      llvm::AddOverflow(bytes, count->base, bytes) ||
      llvm::MulOverflow(bytes, width, bytes))
    return 0;
  return bytes;
}

void StepBuilder::addValues(unsigned step) {
  Operation *op = commands.getSteps()[step].op;
  SmallVector<int64_t> pairs = getInPlacePairs(op);
  llvm::SmallDenseSet<unsigned> taken; // by an output before
  for (OpResult result : op->getResults()) {
    ArrayRef<int64_t> readers = commands.getUses(result);
    for (int64_t reader : readers)
      connect(step, reader);
    if (returned.contains(result) || readers.empty())
      continue;
    // A part of a larger value is reduced where it is.
    if (isa<AllReduceOp>(op)) {
      Value operand = op->getOperand(result.getResultNumber());
      auto whole = indexOf.find(baseOf(operand));
      if (baseOf(operand) != rootOf(operand) && whole != indexOf.end()) {
        steps.values[whole->second].readers.append(readers.begin(),
                                                   readers.end());
        continue;
      }
    }
    OrderedValue value;
    value.bytes = bytesOf(result);
    value.producer = step;
    value.readers.assign(readers.begin(), readers.end());
    // A bucket's parts are alive as long as any of them.
    for (size_t i = 0; i + 1 < pairs.size() && !inBucket.contains(result);
         i += 2) {
      auto over = pairs[i] == result.getResultNumber()
                      ? indexOf.find(baseOf(op->getOperand(pairs[i + 1])))
                      : indexOf.end();
      if (over == indexOf.end() || !taken.insert(over->second).second)
        continue;
      value.over = over->second;
      break;
    }
    indexOf[result] = steps.values.size();
    steps.values.push_back(std::move(value));
  }
}

/// What reads a donated argument stays on its side of what overwrites it.
void StepBuilder::keepDonations() {
  auto results = function.getBody().front().getTerminator()->getOperands();
  for (BlockArgument argument : function.getArguments()) {
    auto index = function.getArgAttrOfType<IntegerAttr>(
        argument.getArgNumber(), FusionDialect::kDonatedAttr);
    if (!index || index.getInt() < 0 ||
        index.getInt() >= int64_t(results.size()))
      continue;
    int64_t writer =
        commands.find(rootOf(results[index.getInt()]).getDefiningOp());
    if (writer < 0)
      continue;
    for (int64_t reader : commands.getUses(argument))
      connect(std::min(reader, writer), std::max(reader, writer));
  }
}

OrderedSteps StepBuilder::run() {
  for (Value value : function.getBody().front().getTerminator()->getOperands())
    returned.insert(rootOf(value));
  steps.steps.resize(commands.size());
  std::optional<unsigned> lastCollective;
  for (auto [i, step] : llvm::enumerate(commands.getSteps())) {
    steps.steps[i].isMovable = isa<GroupOp>(step.op);
    if (!isa<CommunicationOpInterface>(step.op))
      continue;
    if (lastCollective)
      connect(*lastCollective, i);
    lastCollective = i;
    if (step.op->hasAttr(kBucketAttr))
      for (Value operand : step.op->getOperands())
        inBucket.insert(rootOf(operand));
  }
  for (unsigned step = 0; step < commands.size(); ++step)
    addValues(step);
  keepDonations();
  return std::move(steps);
}

/// Whether the order of the ops says only what reads what: no regions that
/// somebody scheduled, no effects but those of collectives.
static bool isFree(func::FuncOp function) {
  return llvm::hasSingleElement(function.getBody()) &&
         llvm::all_of(
             function.getBody().front().without_terminator(),
             [](Operation &op) {
               if (auto group = dyn_cast<GroupOp>(op))
                 return isMemoryEffectFree(group) &&
                        (group.getKernel() || group->hasAttr(kViewAttr) ||
                         group->hasAttr(kPiecesAttr) ||
                         group->hasAttr("fusion.call"));
               return isa<CommunicationOpInterface, AxisIndexOp, RankConcatOp,
                          RankSliceOp, ConstantOp, GetParameterOp, ReshapeOp>(
                   op);
             });
}

/// Puts the steps into `order`; views and constants stand in front of their
/// first reader.
static void reorder(Block &block, ArrayRef<Operation *> order) {
  llvm::DenseSet<Operation *> steps(order.begin(), order.end()), placed;
  SmallVector<Operation *> rest;
  for (Operation &op : block.without_terminator())
    if (!steps.contains(&op))
      rest.push_back(&op);
  auto place = [&](Operation *op) {
    SmallVector<Operation *> stack{op};
    while (!stack.empty()) {
      Operation *top = stack.back();
      size_t depth = stack.size();
      for (Value operand : top->getOperands())
        if (Operation *source = operand.getDefiningOp();
            source && !steps.contains(source) && !placed.contains(source))
          stack.push_back(source);
      if (stack.size() != depth)
        continue;
      stack.pop_back();
      if (placed.insert(top).second)
        top->moveBefore(block.getTerminator());
    }
  };
  llvm::for_each(order, place);
  // What the function returns, and what nobody reads.
  llvm::for_each(rest, place);
}

namespace {

struct OrderForMemory final
    : PricedPass<fusion::impl::OrderForMemoryBase<OrderForMemory>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!main || !isFree(main))
      return markAllAnalysesPreserved();
    FailureOr<CommandOrder> commands = CommandOrder::analyze(main);
    FailureOr<BatchExtents> extents = BatchExtents::analyze(main);
    if (failed(commands) || failed(extents))
      return signalPassFailure();
    MemoryOrder plan =
        planMemoryOrder(StepBuilder(main, *commands, *extents).run());
    if (plan.peakBefore - plan.peakAfter <= plan.peakBefore / kLeastGain)
      return markAllAnalysesPreserved();
    Block &block = main.getBody().front();
    bool sends = !block.getOps<CommunicationOpInterface>().empty();
    FailureOr<Timeline> before = Timeline(), after = Timeline();
    if (sends && failed(before = predictStep(main, *model)))
      return signalPassFailure();
    SmallVector<Operation *> order, given;
    for (const Step &step : commands->getSteps())
      given.push_back(step.op);
    for (unsigned step : plan.order)
      order.push_back(given[step]);
    reorder(block, order);
    if (sends && failed(after = predictStep(main, *model)))
      return signalPassFailure();
    auto options = remark::RemarkOpts::name("order-memory")
                       .category("fusion")
                       .function(function);
    // What was computed beside a collective may stand elsewhere now.
    if (after->exposedUs > before->exposedUs + kSameUs ||
        after->stepUs > before->stepUs + kSameUs) {
      reorder(block, given);
      remark::missed(main.getLoc(), options)
          << remark::reason("a collective would be waited for longer")
          << remark::metric("PeakBefore", plan.peakBefore)
          << remark::metric("PeakAfter", plan.peakAfter);
      return;
    }
    remark::passed(main.getLoc(), options)
        << remark::add("groups stand where fewer bytes are alive")
        << remark::metric("Moved", int64_t(plan.numMoved))
        << remark::metric("PeakBefore", plan.peakBefore)
        << remark::metric("PeakAfter", plan.peakAfter);
  }
};

} // namespace
