//===- CommSchedule.cpp - The steps of a function, priced -----------------===//
//
// See CommSchedule.h. One walk; the groups of a mesh are looked up once.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/GroupViews.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

FailureOr<StepPrices> StepPrices::create(func::FuncOp function,
                                         const CostModel &costs,
                                         const CommModel &comms) {
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return failure();
  return StepPrices(std::move(*legality), costs, comms);
}

std::optional<CommOp> fusion::getCommOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<CommOp>>(op)
      .Case([](AllReduceOp) { return CommOp::AllReduce; })
      .Case([](ReduceScatterOp) { return CommOp::ReduceScatter; })
      .Case([](AllGatherOp) { return CommOp::AllGather; })
      .Case([](AllToAllOp) { return CommOp::AllToAll; })
      .Case([](CollectiveBroadcastOp) { return CommOp::Broadcast; })
      .Case([](CollectivePermuteOp) { return CommOp::Permute; })
      .Default(std::nullopt);
}

Transport fusion::getTransport(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(kTransportAttr);
  for (Transport transport : {Transport::Peer, Transport::Direct})
    if (name && name == stringifyTransport(transport))
      return transport;
  return Transport::Nccl;
}

CommGroup fusion::getCommGroup(CommunicationOpInterface op) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      op, op.getCommunicationMesh());
  if (!mesh)
    return {};
  SmallVector<unsigned> axes;
  for (auto axis : op.getCommunicationAxes().getAsRange<StringAttr>())
    for (auto [i, name] : llvm::enumerate(mesh.getAxisNames()))
      if (name == axis)
        axes.push_back(i);
  return getCommGroup(mesh.getAxisSizes(), axes);
}

CommGroup StepPrices::getGroup(CommunicationOpInterface op) {
  auto [it, inserted] = groups.try_emplace(
      {op.getCommunicationMesh(), op.getCommunicationAxes()});
  if (inserted)
    it->second = getCommGroup(op);
  return it->second;
}

double StepPrices::getBytes(Operation *collective) const {
  double bytes = 0;
  bool isGather = isa<AllGatherOp>(collective);
  for (Value value : isGather ? ValueRange(collective->getResults())
                              : ValueRange(collective->getOperands()))
    bytes += legality.getByteSize(value);
  return bytes;
}

/// What copy engines start apart: short rows of an all_to_all are one copy, the
/// parts of a bucket that is exchanged whole lie side by side.
int64_t StepPrices::countParts(Operation *collective) const {
  constexpr int64_t kShortBytes = 64 << 10;
  if (isa<AllGatherOp>(collective))
    return collective->getNumOperands();
  if (!isa<AllToAllOp>(collective))
    return 1;
  return llvm::count_if(collective->getOperands(), [&](Value value) {
    return legality.getByteSize(value) > kShortBytes;
  });
}

/// What a person should read: the op's name in the source, or its kind.
static std::string nameOf(Operation *op) {
  std::string name;
  op->getLoc()->walk([&](Location loc) {
    if (auto named = dyn_cast<NameLoc>(loc)) {
      name = "'" + named.getName().str() + "'";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  std::string kind = op->getName().stripDialect().str();
  if (auto group = dyn_cast<GroupOp>(op))
    kind = stringifyGroupKind(group.getKind()).str() + " group";
  if (auto bucket = op->getAttrOfType<IntegerAttr>("fusion.bucket"))
    kind += " of bucket " + std::to_string(bucket.getInt());
  return name.empty() ? kind : kind + " " + name;
}

TimedStep StepPrices::getStep(Operation *op) {
  TimedStep step;
  if (auto communication = dyn_cast<CommunicationOpInterface>(op)) {
    step.name = nameOf(op);
    step.isComm = true;
    // Of an op that we do not know, as an all_reduce.
    // What is read in place leaves a hand-shake.
    bool isDirect = getTransport(op) == Transport::Direct;
    CommCost cost = comms->predict(
        getCommOp(op).value_or(CommOp::AllReduce), isDirect ? 1 : getBytes(op),
        getGroup(communication), isDirect ? Transport::Peer : getTransport(op));
    step.us = cost.us;
    if (!isDirect)
      step.us += comms->getPartsUs(countParts(op), getGroup(communication),
                                   getTransport(op));
    step.link = cost.link;
    step.slowdownOfKernels = cost.slowdownCompute;
    step.slowdownOfComm = cost.slowdownComm;
    return step;
  }
  if (isa<AfterOp>(op))
    return step;
  KernelWork work;
  if (auto group = dyn_cast<GroupOp>(op)) {
    // Before code is generated too.
    if (group->hasAttr(kViewAttr) || group->hasAttr(kPiecesAttr) ||
        (!group.getKernelAttr() && findViewOffsets(group)))
      return step;
    work = computeKernelWork(group, legality, costs->getDevice());
  } else if (OpFamily family = getOpFamily(op); family == OpFamily::Source ||
                                                family == OpFamily::View ||
                                                family == OpFamily::Outside) {
    return step;
  } else {
    work = computeKernelWork(
        {&op, 1}, [](Operation *) { return true; }, legality,
        costs->getDevice());
  }
  step.name = nameOf(op);
  step.us = costs->getMicroseconds(work);
  step.slowdown = comms->getSlowdown(&work);
  // Multiprocessors that it leaves to a collective are not taken from it again.
  auto call = op->getAttrOfType<DictionaryAttr>("fusion.call");
  auto units = call ? call.getAs<IntegerAttr>(kCallUnits) : IntegerAttr();
  if (units && units.getInt() > 0) {
    step.us *= static_cast<double>(costs->getDevice().units) /
               static_cast<double>(units.getInt());
    step.slowdown = 0;
  }
  return step;
}

std::vector<TimedStep> fusion::buildTimedSteps(func::FuncOp function,
                                               StepPrices &prices) {
  std::vector<TimedStep> steps;
  llvm::DenseMap<Operation *, unsigned> ends; // region -> its last step
  int64_t lastOfMain = -1;
  std::vector<unsigned> awaited; // what the next step of stream 0 waits for
  auto add = [&](Operation &op, unsigned stream,
                 const std::vector<unsigned> &waits) {
    TimedStep step = prices.getStep(&op);
    if (step.name.empty())
      return false;
    step.stream = stream;
    step.waits = waits;
    steps.push_back(std::move(step));
    return true;
  };
  for (Operation &op : function.getBody().front()) {
    if (auto async = dyn_cast<AsyncOp>(op)) {
      std::vector<unsigned> waits;
      if (lastOfMain >= 0)
        waits.push_back(lastOfMain);
      llvm::append_range(waits, awaited);
      for (Operation &inner : async.getBody().front()) {
        if (auto await = dyn_cast<AwaitOp>(inner)) {
          auto end = ends.find(await.getFuture().getDefiningOp());
          if (end != ends.end())
            waits.push_back(end->second);
        } else if (add(inner, async.getStream(), waits)) {
          ends[async] = steps.size() - 1;
        }
      }
      continue;
    }
    if (auto await = dyn_cast<AwaitOp>(op)) {
      auto end = ends.find(await.getFuture().getDefiningOp());
      if (end != ends.end())
        awaited.push_back(end->second);
      continue;
    }
    if (add(op, 0, awaited)) {
      awaited.clear();
      lastOfMain = steps.size() - 1;
    }
  }
  return steps;
}
