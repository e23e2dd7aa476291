//===- KernelResources.cpp - What a group takes of a unit -----------------===//
//
// Estimates by one walk over the ops. A value is live from the op that gives
// it, an input from its first reader, to the last reader; what is stored stays
// live to the end, as emitters store only when all is computed.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/KernelResources.h"
#include "RegisterModel.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;

static constexpr int64_t kWarp = 32;
/// Elements of a tile in shared memory; the odd width avoids bank conflicts.
static constexpr int64_t kTile = 32 * 33;

static int64_t getElementBytes(Value value) {
  return llvm::divideCeil(
      getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(), 8);
}

/// Shared memory of the reductions and transposes.
static void addShared(const MemberSet &members, GroupKind kind,
                      int64_t threadsPerRow, KernelResources &resources) {
  for (Operation *op : members.ops) {
    int64_t width = 4 * getElementRegisters(op->getResult(0));
    if (getOpFamily(op) == OpFamily::Reduction) {
      if (kind == GroupKind::ColumnReduce)
        resources.sharedBytes += kTile * width;
      else if (threadsPerRow > kWarp)
        resources.sharedBytes += resources.threadsPerBlock / kWarp * width;
    }
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      // Where the innermost dimension stays, reads are contiguous anyhow.
      ArrayRef<int64_t> order = transpose.getPermutation();
      if (!order.empty() &&
          order.back() != static_cast<int64_t>(order.size()) - 1)
        resources.sharedBytes += kTile * getElementBytes(op->getResult(0));
    }
  }
}

/// How many elements a thread has where that is not the emitter's matter.
static void chooseThreads(const MemberSet &members, const DeviceModel &device,
                          KernelResources &resources) {
  int64_t width = 1;
  for (Operation *op : members.ops) {
    for (Value operand : op->getOperands())
      if (!members.getProducer(operand) && !isSplatConstant(operand))
        width = std::max(width, getElementBytes(operand));
    if (members.escapes(op))
      width = std::max(width, getElementBytes(op->getResult(0)));
  }
  resources.threadsPerBlock = device.threadsPerBlock;
  resources.residentBlocks = device.residentBlocks;
  resources.elementsPerThread =
      std::max<int64_t>(1, device.vectorBytes / width);
}

namespace {

/// The points between which values are live: 2 * i as op i reads, 2 * i + 1
/// when it has computed.
struct Interval {
  size_t begin, end;
};

} // namespace

/// Where each value that takes registers is live. Inputs by the value outside,
/// or by the op that says which element of it is read: that is a load.
static llvm::MapVector<Value, Interval>
computeLiveness(const MemberSet &members) {
  llvm::MapVector<Value, Interval> live;
  size_t end = 2 * members.ops.size() - 1;
  for (auto [i, op] : llvm::enumerate(members.ops)) {
    bool isLoad = selectsPosition(op);
    for (Value operand : op->getOperands()) {
      bool isInput = !members.getProducer(operand);
      isLoad &= isInput;
      if (isSplatConstant(operand) || (isInput && selectsPosition(op)))
        continue;
      auto [it, isNew] = live.insert({operand, {2 * i, 2 * i}});
      it->second.end = std::max<size_t>(it->second.end, 2 * i);
    }
    bool escapes = members.escapes(op);
    // A load is where it is first read.
    if (!isLoad || escapes)
      for (Value result : op->getResults())
        live[result] = {2 * i + 1, escapes ? end : 2 * i + 1};
  }
  return live;
}

static void addRegisters(const MemberSet &members, GroupKind kind,
                         const FusionLegality &legality,
                         const DeviceModel &device,
                         KernelResources &resources) {
  // A reduction leaves one value of a row, or of a column.
  int64_t full = 0;
  for (Operation *op : members.ops)
    if (getOpFamily(op) == OpFamily::Reduction)
      full = std::max(full, legality.getNumElements(op->getOperand(0)));
  SmallVector<int64_t> change(2 * members.ops.size() + 1);
  for (auto [value, interval] : computeLiveness(members)) {
    bool isOne =
        kind == GroupKind::RowReduce && legality.getNumElements(value) < full;
    int64_t registers =
        getElementRegisters(value) * (isOne ? 1 : resources.elementsPerThread);
    change[interval.begin] += registers;
    change[interval.end + 1] -= registers;
  }
  int64_t live = 0, most = 0;
  for (auto [point, amount] : llvm::enumerate(change)) {
    live += amount;
    if (live <= most)
      continue;
    most = live;
    resources.peak = members.ops[point / 2];
  }
  resources.registersPerThread = most + device.registerOverhead;
}

KernelResources
fusion::estimateResources(ArrayRef<Operation *> ops, GroupKind kind,
                          llvm::function_ref<bool(Operation *)> escapes,
                          const FusionLegality &legality,
                          const DeviceModel &device) {
  MemberSet members(ops, escapes);
  KernelResources resources;
  // What a user's kernel takes is not to be seen, nor to be changed.
  if (members.ops.empty() || isa<KernelCallOp>(members.ops.front()))
    return resources;
  llvm::SmallSetVector<Value, 16> inputs;
  llvm::SmallSetVector<std::pair<Value, Operation *>, 16> reads;
  int64_t numOutputs = 0;
  for (Operation *op : members.ops) {
    if (escapes(op))
      numOutputs += op->getNumResults();
    for (Value operand : op->getOperands()) {
      if (members.getProducer(operand) || isSplatConstant(operand))
        continue;
      inputs.insert(operand);
      // Elementwise readers of one input read the same element.
      reads.insert({operand, selectsPosition(op) ? op : nullptr});
    }
  }
  resources.loads = reads.size();
  resources.parameterBytes =
      getArgumentBytes(int64_t(inputs.size()) + numOutputs);
  int64_t threadsPerRow = 0;
  if (device.isGpu) {
    threadsPerRow =
        estimateGpuThread(members, kind, legality, device, resources);
  } else {
    chooseThreads(members, device, resources);
    addRegisters(members, kind, legality, device, resources);
  }
  resources.registersPerUnit = resources.registersPerThread *
                               resources.threadsPerBlock *
                               resources.residentBlocks;
  addShared(members, kind, threadsPerRow, resources);
  return resources;
}

KernelResources fusion::estimateResources(GroupOp group,
                                          const FusionLegality &legality,
                                          const DeviceModel &device,
                                          KernelProbe *probe) {
  llvm::SmallPtrSet<Operation *, 4> yielded;
  for (Value value : group.getYield().getValues())
    yielded.insert(value.getDefiningOp());
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBodyBlock()->without_terminator())
    ops.push_back(&op);
  KernelResources resources = estimateResources(
      ops, group.getKind(), [&](Operation *op) { return yielded.contains(op); },
      legality, device);
  std::optional<ProbeResult> measured;
  if (probe && probe->isNeeded(resources, device))
    measured = probe->probe(group);
  if (!measured)
    return resources;
  resources.isMeasured = true;
  resources.registersPerThread = measured->registersPerThread;
  resources.registersPerUnit = measured->registersPerThread *
                               resources.threadsPerBlock *
                               resources.residentBlocks;
  resources.spillBytes = measured->spillBytes;
  resources.sharedBytes = measured->sharedBytes;
  return resources;
}

int64_t fusion::getRegisterCap(const KernelResources &resources,
                               const DeviceModel &device) {
  int64_t threads = std::max<int64_t>(resources.threadsPerBlock, 1);
  return std::min(device.registersPerThread, device.registersPerUnit / threads);
}

std::optional<GroupVerdict>
fusion::checkDeviceLimits(const KernelResources &resources,
                          const DeviceModel &device) {
  struct Limit {
    FusionRule rule;
    int64_t value, limit;
  };
  for (Limit each :
       {Limit{FusionRule::RegistersThread, resources.registersPerThread,
              device.registersPerThread},
        Limit{FusionRule::RegistersUnit, resources.registersPerUnit,
              device.registersPerUnit},
        Limit{FusionRule::Spills, resources.spillBytes, 0},
        Limit{FusionRule::SharedMemory, resources.sharedBytes,
              device.sharedBytesPerBlock},
        Limit{FusionRule::SharedMemory,
              resources.sharedBytes * resources.residentBlocks,
              device.sharedBytesPerUnit},
        Limit{FusionRule::Arguments, resources.parameterBytes,
              device.parameterBytes}})
    if (each.value > each.limit)
      return GroupVerdict::refuse(each.rule, resources.peak, each.value,
                                  each.limit);
  return std::nullopt;
}

SmallVector<int64_t> fusion::countLiveAcrossCuts(ArrayRef<Operation *> ops) {
  llvm::DenseMap<Operation *, size_t> index;
  SmallVector<size_t> lastReader(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    index[op] = lastReader[i] = i;
    for (Value operand : op->getOperands())
      if (auto it = index.find(operand.getDefiningOp()); it != index.end())
        lastReader[it->second] = i;
  }
  SmallVector<int64_t> change(ops.size() + 1), live;
  for (auto [i, last] : llvm::enumerate(lastReader)) {
    ++change[i];
    --change[last];
  }
  int64_t count = 0;
  for (size_t i = 0; i + 1 < ops.size(); ++i)
    live.push_back(count += change[i]);
  return live;
}

void KernelResources::print(llvm::raw_ostream &os) const {
  os << registersPerThread << " registers a thread, " << registersPerUnit
     << " a unit" << (isMeasured ? " (measured)" : "") << "; "
     << threadsPerBlock << " threads a block, " << residentBlocks
     << " blocks a unit, " << elementsPerThread << " elements a thread; "
     << loads << " loads, " << sharedBytes << " bytes shared, "
     << parameterBytes << " bytes of arguments\n";
}
