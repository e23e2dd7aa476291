//===- RegisterModel.cpp - Registers of a thread on a GPU -----------------===//
//
// A thread has vectors of 16 bytes of the narrowest type. What it loaded and
// what it will store stays packed; what it computes takes 32 bits an element.
// Vectors are computed one after the other, while the loads of all are under
// way. A reduction holds what is read again behind it for all its vectors.
//
// The shapes are those of the emitters (CudaLoop.cpp, CudaRowReduce.cpp, ...),
// the constants were read off what ptxas 13 gave kernels of each emitter; a
// test holds both together.
//
//===----------------------------------------------------------------------===//
#include "RegisterModel.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fusion;

static constexpr int64_t kWarp = 32;
static constexpr int64_t kAccessBytes = 16, kMostLanes = 8;
/// Of the loop: threads, those where there is much work or are many elements,
/// the most ops that are not much work, and the elements from which on a thread
/// has two vectors.
static constexpr int64_t kLoopThreads = 256, kWorkThreads = 128;
static constexpr size_t kFewOps = 32;
static constexpr int64_t kManyElements = int64_t(1) << 22;
/// Of rows: threads at least and at most, elements of a row that a thread
/// holds, also where there are the most threads, and registers for the rest
/// there.
static constexpr int64_t kRowThreads = 128, kMaxRowThreads = 256,
                         kHeldElements = 32, kHeldByAll = 128,
                         kWorkRegisters = 48;
/// Of columns: threads of one at most, elements that each should have, and
/// loads that a thread has under way.
static constexpr int64_t kColumnThreads = 256, kMaxParts = 32,
                         kElementsOfPart = 8, kLoadsUnderWay = 8;
static constexpr int64_t kTileThreads = 256;
/// Rows of a tile that a thread of a transpose moves, the least side.
static constexpr int64_t kTileRows = 4, kLeastSide = 16;

/// What the assembler gives any kernel without asking: the most with which all
/// threads of a multiprocessor are resident. Temporaries fill it, not more.
static constexpr int64_t kFreeRegisters = 32;
/// Percent of what a thread of a large block can have that it may seem to need
/// and yet not spill.
static constexpr int64_t kSqueezable = 130;

int64_t fusion::getElementRegisters(Value value) {
  Type type = getComputeType(getElementTypeOrSelf(value.getType()));
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 32);
}

static int64_t getElementBytes(Value value) {
  return llvm::divideCeil(
      getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(), 8);
}

static bool isReduction(Operation *op) {
  return getOpFamily(op) == OpFamily::Reduction;
}

/// Reductions that read their input again behind a reduction of their own.
static bool isNamed(Operation *op) {
  return isReduction(op) && !isa<ReduceOp, ArgMaxOp, ArgMinOp>(op);
}

/// An element of these has a loop of its own: a thread takes one.
static bool isSerial(Operation *op) {
  OpFamily family = getOpFamily(op);
  return family == OpFamily::Window || family == OpFamily::Contraction ||
         isReduction(op) || isa<GatherNdOp>(op);
}

/// Elements of a row or column, without those of a dynamic dimension.
static int64_t getReducedLength(Operation *reduction) {
  auto range = *getReducedRange(reduction);
  int64_t length = 1;
  for (int64_t size : cast<RankedTensorType>(reduction->getOperand(0).getType())
                          .getShape()
                          .slice(range.first, range.second - range.first))
    if (!ShapedType::isDynamic(size) && length < (int64_t(1) << 30))
      length *= std::max<int64_t>(size, 1);
  return length;
}

/// Values that an element of the op needs beside operands and result.
static int64_t getTemporaries(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  if (!elementwise)
    return 0;
  if (isa<SqrtOp, RsqrtOp, ReciprocalOp, ExpOp, Exp2Op, CeilOp, FloorOp,
          RoundOp, IsNanOp, IsInfOp, LeakyReluOp, HardSwishOp, HardSigmoidOp>(
          op))
    return 1;
  if (isa<SinOp, CosOp, Atan2Op, SiluOp, GeluOp>(op))
    return 3;
  if (elementwise.getFlopsPerElement() > 1 || isa<DivOp, RemOp>(op))
    return 2;
  return 0;
}

/// A widening cast of a float is no value of its own: narrow floats are
/// computed in f32.
static Value skipWidening(const MemberSet &members, Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    Type from = getElementTypeOrSelf(cast.getInput().getType());
    Type to = getElementTypeOrSelf(value.getType());
    if (!members.getProducer(value) || !isa<FloatType>(from) ||
        getComputeType(from) != to || from.isF64())
      break;
    value = cast.getInput();
  }
  return value;
}

namespace {

/// One kernel's threads.
class ThreadModel {
public:
  ThreadModel(const MemberSet &members, const FusionLegality &legality,
              int64_t unitRegisters)
      : members(members), legality(legality), unitRegisters(unitRegisters) {
    findLanes();
  }

  void estimate(GroupKind kind, KernelResources &resources);

  int64_t threadsPerRow = 0;

private:
  struct Range {
    size_t begin, end;
  };
  void findLanes();
  void findLiveness();
  int64_t packed(Value value, int64_t elements) const {
    return llvm::divideCeil(getElementBytes(value) * elements, 4);
  }
  bool isInput(Value value) const { return !members.getProducer(value); }
  bool isLoaded(Value value) const {
    return isInput(value) || loads.contains(value);
  }
  int64_t sumPacked(bool ofInputs) const;
  int64_t getPeak(int64_t computed);
  bool isTile() const;
  int64_t getMoves() const;

  void estimateLoop(KernelResources &resources);
  void estimateTile(KernelResources &resources);
  void estimateRows(KernelResources &resources);
  void estimateColumns(KernelResources &resources);
  int64_t addTemporaries(int64_t needed, int64_t vectors) const;

  const MemberSet &members;
  const FusionLegality &legality;
  int64_t unitRegisters;
  int64_t lanes = 1;
  /// Where each value is live: 2 * i as op i reads, 2 * i + 1 when it has
  /// computed. Inputs by the value outside, or by the op that says which
  /// element of it is read: that is a load.
  llvm::MapVector<Value, Range> live;
  llvm::SmallSetVector<Value, 16> stored;
  /// Results of ops that say which element of an input is read.
  llvm::DenseSet<Value> loads;
  Operation *peak = nullptr;
};

} // namespace

/// Elements of an access: what the narrowest type has in 16 bytes.
void ThreadModel::findLanes() {
  int64_t bytes = kAccessBytes;
  auto see = [&](Value value) {
    bytes = std::min(bytes, getElementBytes(value));
  };
  for (Operation *op : members.ops) {
    for (Value operand : op->getOperands())
      if (isInput(operand) && !isSplatConstant(operand))
        see(operand);
    if (members.escapes(op))
      for (Value result : op->getResults())
        see(result);
  }
  lanes = std::clamp<int64_t>(kAccessBytes / bytes, 1, kMostLanes);
}

void ThreadModel::findLiveness() {
  size_t end = 2 * members.ops.size() - 1;
  for (auto [i, op] : llvm::enumerate(members.ops)) {
    bool isLoad = selectsPosition(op), escapes = members.escapes(op);
    if (!escapes && op->getNumResults() == 1 &&
        skipWidening(members, op->getResult(0)) != op->getResult(0))
      continue;
    for (Value operand : op->getOperands()) {
      operand = skipWidening(members, operand);
      isLoad &= isInput(operand);
      if (isSplatConstant(operand) || (isInput(operand) && selectsPosition(op)))
        continue;
      auto [it, isNew] = live.insert({operand, {2 * i, 2 * i}});
      it->second.end = std::max<size_t>(it->second.end, 2 * i);
    }
    for (Value result : op->getResults()) {
      if (escapes)
        stored.insert(result);
      // A load is where it is first read.
      if (isLoad)
        loads.insert(result);
      if (!isLoad || escapes)
        live[result] = {2 * i + 1, escapes ? end : 2 * i + 1};
    }
  }
}

/// Registers of all inputs, or of all outputs, of one vector.
int64_t ThreadModel::sumPacked(bool ofInputs) const {
  int64_t sum = 0;
  if (!ofInputs)
    for (Value value : stored)
      sum += packed(value, lanes);
  else
    for (auto &[value, range] : live)
      if (isInput(value) || !isa<ElementwiseOpInterface>(value.getDefiningOp()))
        sum += packed(value, lanes);
  return sum;
}

/// The most registers that values of one vector are in at one point, where
/// `computed` of its lanes are computed at a time.
int64_t ThreadModel::getPeak(int64_t computed) {
  SmallVector<int64_t> change(2 * members.ops.size() + 1);
  auto add = [&](int64_t registers, size_t begin, size_t end) {
    change[begin] += registers;
    change[end + 1] -= registers;
  };
  for (auto &[value, range] : live) {
    int64_t registers = getElementRegisters(value) * computed;
    int64_t waiting = packed(value, lanes);
    Operation *producer = members.getProducer(value);
    if (isLoaded(value) || !producer ||
        (!isReduction(producer) && !isa<ElementwiseOpInterface>(producer))) {
      add(waiting, range.begin, range.end);
      continue;
    }
    if (isReduction(producer))
      registers = getElementRegisters(value) * lanes;
    if (!stored.contains(value)) {
      add(registers, range.begin, range.end);
      continue;
    }
    // What only waits to be stored is packed.
    size_t last = range.begin;
    for (Operation *user : value.getUsers())
      if (auto it = members.index.find(user); it != members.index.end())
        last = std::max<size_t>(last, 2 * it->second);
    if (last > range.begin)
      add(std::max(registers, waiting), range.begin, last);
    else
      add(waiting, last, last);
    if (last < range.end)
      add(waiting, last + 1, range.end);
  }
  int64_t now = 0, most = 0;
  for (auto [point, amount] : llvm::enumerate(change)) {
    now += amount;
    if (now <= most)
      continue;
    most = now;
    peak = members.ops[point / 2];
  }
  return most;
}

/// With the temporaries of the dearest op, as far as they come for nothing.
int64_t ThreadModel::addTemporaries(int64_t needed, int64_t vectors) const {
  int64_t most = 0;
  for (Operation *op : members.ops)
    for (Value result : op->getResults())
      most = std::max(most, getTemporaries(op) * getElementRegisters(result));
  int64_t room = kFreeRegisters + (most > 2 ? lanes : 0);
  return std::max(needed, std::min(needed + most * lanes * vectors, room));
}

/// Registers for the addresses of pieces that are read one or the other.
int64_t ThreadModel::getMoves() const {
  int64_t pieces = 0;
  for (Operation *op : members.ops) {
    if (isa<ConcatOp>(op))
      pieces += op->getNumOperands();
    else if (isa<PadOp, UpdateSliceOp>(op))
      ++pieces;
  }
  return pieces;
}

/// Whether the emitter takes tiles: an innermost dimension becomes another one.
bool ThreadModel::isTile() const {
  for (Operation *op : members.ops) {
    auto transpose = dyn_cast<TransposeOp>(op);
    if (!transpose)
      continue;
    ArrayRef<int64_t> order = transpose.getPermutation();
    ArrayRef<int64_t> shape = transpose.getResult().getType().getShape();
    int64_t rank = order.size(), inner = rank, outer = -1, last = -1;
    while (inner > 0 && shape[inner - 1] == 1)
      --inner;
    for (int64_t d = 0; d < rank; ++d)
      if (shape[d] != 1 && order[d] > last) {
        last = order[d];
        outer = d;
      }
    if (inner-- > 0 && outer != inner && shape[inner] >= kLeastSide &&
        shape[outer] >= kLeastSide)
      return true;
  }
  return false;
}

void ThreadModel::estimateLoop(KernelResources &resources) {
  bool isWork = members.ops.size() > kFewOps;
  if (llvm::any_of(members.ops, isSerial)) {
    isWork = true;
    lanes = 1;
  }
  int64_t elements = 0;
  for (Value value : stored)
    elements = std::max(elements, legality.getNumElements(value));
  int64_t vectors = elements >= kManyElements ? 2 : 1;
  resources.threadsPerBlock =
      isWork || vectors > 1 ? kWorkThreads : kLoopThreads;
  resources.elementsPerThread = lanes * vectors;
  int64_t others = (vectors - 1) * std::max(sumPacked(true), sumPacked(false));
  int64_t base = resources.registersPerThread + others + 8 * getMoves();
  int64_t most = base + getPeak(lanes);
  // Lanes do not need each other: short of registers, the assembler computes
  // one after the other.
  int64_t least = base + getPeak(1);
  int64_t needed = std::max(least, std::min(most, kFreeRegisters));
  resources.registersPerThread = addTemporaries(needed, vectors);
}

void ThreadModel::estimateTile(KernelResources &resources) {
  lanes = 1;
  resources.threadsPerBlock = kTileThreads;
  resources.elementsPerThread = kTileRows;
  // A tile's rows are loaded together, and stored one after the other.
  int64_t loaded = kTileRows * sumPacked(true);
  int64_t computed = getPeak(1);
  int64_t needed =
      resources.registersPerThread + 4 + std::max(loaded, computed + kTileRows);
  resources.registersPerThread = addTemporaries(needed, 1);
}

void ThreadModel::estimateRows(KernelResources &resources) {
  int64_t length = getReducedLength(*llvm::find_if(members.ops, isReduction));
  lanes = std::gcd(length, lanes);
  int64_t count = length / lanes, group = kWarp, vectors = 0;
  if (count <= kWarp)
    group = llvm::PowerOf2Ceil(count);
  else
    group = std::max<int64_t>(kWarp, llvm::PowerOf2Ceil(llvm::divideCeil(
                                         count, kHeldElements / lanes)));
  bool isLong = group >= kMaxRowThreads;
  group = std::min(group, kMaxRowThreads);
  vectors = llvm::divideCeil(count, group);
  if (isLong && vectors * lanes > kHeldByAll)
    vectors = 0;
  threadsPerRow = group;
  resources.threadsPerBlock = std::max(kRowThreads, group);
  resources.elementsPerThread = std::max<int64_t>(vectors, 1) * lanes;

  // Which ops a reduction needs.
  int64_t full = 0;
  llvm::DenseSet<Operation *> feeds;
  for (Operation *op : llvm::reverse(members.ops)) {
    if (isReduction(op)) {
      full = std::max(full, legality.getNumElements(op->getOperand(0)));
      feeds.insert(op);
    }
    if (feeds.contains(op))
      for (Value operand : op->getOperands())
        if (Operation *producer = members.getProducer(operand))
          feeds.insert(producer);
  }
  auto isFull = [&](Value value) {
    return legality.getNumElements(value) >= full;
  };
  // What a reduction reads and something behind it reads too is held.
  int64_t held = 0, summed = 0, most = 0;
  SmallVector<int64_t> change(2 * members.ops.size() + 1);
  for (auto &[value, interval] : live) {
    if (!isFull(value))
      continue;
    Operation *producer = members.getProducer(value);
    bool isFed = false;
    for (Operation *user : value.getUsers())
      isFed |= feeds.contains(user);
    if (producer ? !feeds.contains(producer) : !isFed)
      continue;
    bool isHeld = false;
    for (size_t i = (interval.begin + 1) / 2; 2 * i <= interval.end; ++i)
      isHeld |= isReduction(members.ops[i]) &&
                (2 * i < interval.end || isNamed(members.ops[i]));
    if (!isHeld || vectors == 0)
      continue;
    int64_t registers =
        getElementRegisters(value) * resources.elementsPerThread;
    change[interval.begin] += registers;
    change[interval.end + 1] -= registers;
  }
  for (auto [point, amount] : llvm::enumerate(change)) {
    held += amount;
    if (held > most) {
      most = held;
      peak = members.ops[point / 2];
    }
  }
  // Where that is more than there is, a long row is read again.
  if (isLong &&
      most + kWorkRegisters > unitRegisters / resources.threadsPerBlock) {
    most = vectors = 0;
    resources.elementsPerThread = lanes;
  }
  // Half of the elements are under way while a reduction adds them up.
  for (Operation *op : members.ops)
    if (isReduction(op))
      summed = std::max(summed, getElementRegisters(op->getOperand(0)) *
                                    std::max(lanes, lanes * vectors / 2));
  int64_t warps = group > kWarp ? group / kWarp : 0;
  // Behind the last reduction a vector at a time is stored, and what that reads
  // is under way for the next one too; in blocks that may have all registers
  // for half of the row, as in its sums.
  int64_t late = 0, written = 0;
  for (auto &[value, interval] : live) {
    bool isLate = llvm::none_of(value.getUsers(), [&](Operation *user) {
      return feeds.contains(user);
    });
    if (isLate && isLoaded(value))
      late += packed(value, lanes);
  }
  for (Operation *op : members.ops)
    if (isNamed(op))
      for (Value scale : op->getOperands().drop_front())
        late += packed(scale, lanes);
  for (Value value : stored)
    if (isFull(value))
      written += packed(value, lanes);
  int64_t base = resources.registersPerThread + (vectors == 1 ? 2 : 6);
  int64_t ahead = vectors <= 1 ? 1
                  : isLong     ? std::max<int64_t>(vectors / 2, 2)
                               : 2;
  int64_t storing = late * ahead + written;
  int64_t needed = base + std::max({summed, most + warps / 2, most + storing});
  // The loops over a row that is read again are unrolled.
  if (isLong && vectors == 0)
    needed = std::max(needed, kFreeRegisters);
  resources.registersPerThread = addTemporaries(needed, 1);
  // Blocks of many threads have few registers each: short of some, the
  // assembler computes addresses again.
  int64_t cap = unitRegisters / resources.threadsPerBlock;
  if (100 * resources.registersPerThread <= kSqueezable * cap)
    resources.registersPerThread = std::min(resources.registersPerThread, cap);
}

void ThreadModel::estimateColumns(KernelResources &resources) {
  resources.threadsPerBlock = kColumnThreads;
  resources.elementsPerThread = lanes;
  Operation *first = *llvm::find_if(members.ops, isReduction);
  int64_t parts = 1, together = kLoadsUnderWay,
          length = getReducedLength(first);
  while (parts < kMaxParts && parts * kElementsOfPart < length)
    parts *= 2;
  // The loads of several elements are under way, of all operands together.
  int64_t rank =
      cast<RankedTensorType>(first->getOperand(0).getType()).getRank();
  int64_t operands = 0, loaded = 0;
  for (auto &[value, range] : live)
    if (isInput(value) &&
        cast<RankedTensorType>(value.getType()).getRank() == rank) {
      ++operands;
      loaded += packed(value, lanes);
    }
  together /= std::clamp<int64_t>(operands, 1, kLoadsUnderWay);
  together = llvm::bit_floor<uint64_t>(
      std::clamp<int64_t>(length / parts, 1, together));
  int64_t needed = resources.registersPerThread + 4 + (together - 1) * loaded +
                   getPeak(lanes);
  resources.registersPerThread = addTemporaries(needed, 1);
}

void ThreadModel::estimate(GroupKind kind, KernelResources &resources) {
  findLiveness();
  if (kind == GroupKind::RowReduce && llvm::any_of(members.ops, isReduction))
    estimateRows(resources);
  else if (kind == GroupKind::ColumnReduce)
    estimateColumns(resources);
  else if (isTile())
    estimateTile(resources);
  else
    estimateLoop(resources);
  resources.peak = peak ? peak : members.ops.front();
}

int64_t fusion::estimateGpuThread(const MemberSet &members, GroupKind kind,
                                  const FusionLegality &legality,
                                  const DeviceModel &device,
                                  KernelResources &resources) {
  resources.registersPerThread = device.registerOverhead;
  ThreadModel model(members, legality, device.registersPerUnit);
  model.estimate(kind, resources);
  int64_t wanted = device.threadsPerBlock * device.residentBlocks;
  resources.residentBlocks =
      std::max<int64_t>(1, wanted / resources.threadsPerBlock);
  return model.threadsPerRow;
}
