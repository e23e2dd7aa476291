//===- VerifyGraph.cpp - Futures, order and budget of a graph -------------===//
//
// What must hold of a function whose communication was moved: each future is
// awaited once, every rank meets the same collectives in the same order, and
// gathered values keep within their budget. Two walks; a path is followed back
// only to explain an error.
//
//===----------------------------------------------------------------------===//
#include "ArenaPlan.h"
#include "CommandOrder.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/IR/ShardingNames.h"
#include "fusion/Schedule/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {
#define GEN_PASS_DEF_VERIFYGRAPH
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// G1: each future is awaited exactly once.
static LogicalResult checkFutures(func::FuncOp function) {
  WalkResult walked = function.walk([](AsyncOp async) {
    Value future = async.getFuture();
    int64_t uses = std::distance(future.use_begin(), future.use_end());
    if (uses == 1 && isa<AwaitOp>(*future.user_begin())) {
      Operation *await = *future.user_begin();
      // An await that another path may skip, or that runs more than once.
      Operation *parent = await->getParentOp();
      while (isa<AsyncOp>(parent))
        parent = parent->getParentOp();
      Operation *own = async->getParentOp();
      if (parent == own || own == await->getParentOp())
        return WalkResult::advance();
      async.emitError("G1: the future is awaited inside '")
          << parent->getName()
          << "', which may run never or twice: await it beside the region";
      return WalkResult::interrupt();
    }
    if (uses == 1)
      async.emitError("G1: the future is not awaited but given to '")
          << future.user_begin()->getName() << "'";
    else
      async.emitError("G1: the future is awaited ")
          << uses << " times: await it exactly once";
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

namespace {

/// Which values may differ from rank to rank.
class Uniformity {
public:
  explicit Uniformity(func::FuncOp function) : function(function) {}

  /// The op or argument that makes `value` differ, as text; empty if it is the
  /// same on all ranks.
  std::string explain(Value value);

private:
  /// Whether a collective's results are the same on all ranks of the mesh.
  static bool isSameOnAll(Operation *op);

  func::FuncOp function;
  llvm::DenseSet<Value> seen; ///< known to be uniform
};

} // namespace

bool Uniformity::isSameOnAll(Operation *op) {
  if (!isa<AllReduceOp, AllGatherOp, CollectiveBroadcastOp>(op))
    return false;
  auto communication = cast<CommunicationOpInterface>(op);
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      op, communication.getCommunicationMesh());
  return mesh && communication.getCommunicationAxes().size() ==
                     mesh.getAxisNames().size();
}

std::string Uniformity::explain(Value value) {
  SmallVector<Value> stack{value};
  while (!stack.empty()) {
    Value next = stack.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(next);
      Operation *owner = argument.getOwner()->getParentOp();
      if (owner != function.getOperation()) {
        // Of a loop or a group: what goes in, and what the body yields.
        stack.append(owner->operand_begin(), owner->operand_end());
        Operation *end = argument.getOwner()->getTerminator();
        stack.append(end->operand_begin(), end->operand_end());
        continue;
      }
      unsigned number = argument.getArgNumber();
      // An argument is the same on all ranks if it is said to be replicated.
      auto sharding =
          function.getArgAttrOfType<ArrayAttr>(number, kShardingAttr);
      if (sharding && llvm::all_of(sharding, [](Attribute axes) {
            auto list = dyn_cast<ArrayAttr>(axes);
            return list && list.empty();
          }))
        continue;
      return "argument " + std::to_string(number) + ", a rank's own data";
    }
    if (isSameOnAll(op))
      continue;
    if (isa<RankConcatOp, RankSliceOp>(op))
      return ("'" + op->getName().getStringRef() +
              "', which goes by the rank's own position")
          .str();
    if (isa<AxisIndexOp>(op))
      return "'fusion.axis_index', the rank's own position";
    if (isa<CommunicationOpInterface>(op))
      return ("'" + op->getName().getStringRef() +
              "', whose results are not the same on all ranks")
          .str();
    stack.append(op->operand_begin(), op->operand_end());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (block.mightHaveTerminator())
          stack.append(block.getTerminator()->operand_begin(),
                       block.getTerminator()->operand_end());
  }
  return "";
}

/// G2: all ranks meet the same collectives in the same order.
static LogicalResult checkOrder(func::FuncOp function) {
  Uniformity uniformity(function);
  llvm::DenseSet<Operation *> checked;
  WalkResult walked = function.walk([&](CommunicationOpInterface op) {
    for (Operation *parent = op->getParentOp(); parent != function;
         parent = parent->getParentOp()) {
      if (isa<AsyncOp>(parent) || !checked.insert(parent).second)
        continue;
      if (isa<GroupOp>(parent)) {
        op->emitError("G2: a collective inside a group has no place in the "
                      "order: keep it outside");
        return WalkResult::interrupt();
      }
      for (Value operand : parent->getOperands())
        if (std::string cause = uniformity.explain(operand); !cause.empty()) {
          InFlightDiagnostic diagnostic =
              op->emitError("G2: whether this collective runs depends on ")
              << cause
              << ": ranks would wait for each other; decide by a value that is "
                 "the same on all of them";
          diagnostic.attachNote(parent->getLoc()) << "decided here";
          return WalkResult::interrupt();
        }
    }
    if (!llvm::hasSingleElement(*op->getParentRegion())) {
      op->emitError("G2: a collective in a region of several blocks has no "
                    "proved order: write straight-line code");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

/// G3: gathered values are within the budget at every prefix.
static LogicalResult checkBudget(func::FuncOp function) {
  auto budget = function->getAttrOfType<IntegerAttr>(kPrefetchBudgetAttr);
  if (!budget || !llvm::hasSingleElement(function.getBody()))
    return success();
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return failure();
  // Bytes come with a region and go behind the last op that reads them.
  Block &block = function.getBody().front();
  llvm::DenseMap<Operation *, int64_t> position, come, go;
  for (Operation &op : block)
    position[&op] = position.size();
  for (auto async : block.getOps<AsyncOp>())
    for (auto gather : async.getBody().front().getOps<AllGatherOp>()) {
      if (!gather->hasAttr(kPrefetchedAttr))
        continue;
      int64_t bytes = 0;
      for (Value result : gather.getOutputs()) {
        int64_t size = legality->getByteSize(result);
        bytes += llvm::alignTo(size, getAlignment(size));
      }
      Operation *last = async;
      SmallVector<Operation *> stack{async};
      while (!stack.empty())
        for (Operation *user : stack.pop_back_val()->getUsers()) {
          Operation *top = block.findAncestorOpInBlock(*user);
          if (top && position[top] > position[last])
            last = top;
          if (isa<AwaitOp, ReshapeOp, RankSliceOp>(user) ||
              user->hasAttr(kViewAttr))
            stack.push_back(user);
        }
      come[async] += bytes;
      go[last] += bytes;
    }
  int64_t live = 0;
  for (Operation &op : block) {
    live += come.lookup(&op);
    if (live > budget.getInt())
      return op.emitError("G3: gathered values take ")
             << live << " bytes here, the budget is " << budget.getInt();
    live -= go.lookup(&op);
  }
  return success();
}

namespace {

struct VerifyGraph final : fusion::impl::VerifyGraphBase<VerifyGraph> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          (failed(checkFutures(function)) || failed(checkOrder(function)) ||
           failed(checkBudget(function))))
        return signalPassFailure();
  }
};

} // namespace
