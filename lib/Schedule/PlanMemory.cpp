//===- PlanMemory.cpp - From values to byte ranges ------------------------===//
//
// The bufferization: each value of the graph gets a storage (a part of the
// const segment, a whole input or output segment, a buffer of the arena, or a
// part of another storage). What a value is stored in is decided in program
// order; lifetimes and offsets follow from the uses. The commands over those
// ranges are EmitProgram.cpp's matter.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/TensorData.h"
#include "fusion/Schedule/Passes.h"
#include "fusion/Support/SeededBugs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_PLANMEMORY
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

FailureOr<Extent> MemoryPlanner::extentOf(Value value) {
  std::optional<Extent> count = extents.getNumElements(value);
  if (!count)
    return emitError(value.getLoc(), "the size of ")
           << value.getType() << " is not affine in the batch";
  return *count;
}

FailureOr<int64_t> MemoryPlanner::bytesOf(Value value) {
  FailureOr<Extent> count = extentOf(value);
  if (failed(count))
    return failure();
  int64_t width =
      getElementBytes(cast<RankedTensorType>(value.getType()).getElementType());
  std::optional<Extent> bytes = multiply(*count, Extent{0, width});
  int64_t total;
  if (!bytes || llvm::MulOverflow(bytes->scale, maxBatch, total) ||
      llvm::AddOverflow(total, bytes->base, total))
    return emitError(value.getLoc(), "the size of ")
           << value.getType() << " in bytes overflows";
  return total;
}

/// Everything in the function must be something that planning knows.
LogicalResult MemoryPlanner::findCommands() {
  FailureOr<CommandOrder> order = CommandOrder::analyze(function);
  if (failed(order))
    return failure();
  commands = std::move(*order);
  for (const Step &step : commands.getSteps())
    if (auto group = dyn_cast<GroupOp>(step.op))
      groups.push_back(group);
  return success();
}

LogicalResult MemoryPlanner::bindInputs() {
  for (BlockArgument argument : function.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      return emitError(argument.getLoc(), "an argument is no tensor: ")
             << argument.getType();
    FailureOr<int64_t> bytes = bytesOf(argument);
    if (failed(bytes))
      return failure();
    Storage storage;
    storage.kind = SegmentKind::Input;
    storage.segment = llvm::formatv("in{0}", argument.getArgNumber());
    storage.size = *bytes;
    valueStorage[argument] = add(storage);
  }
  return success();
}

std::string MemoryPlanner::constantKey(Value value) {
  // Attributes are uniqued: the same value is stored once.
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return llvm::formatv("value:{0}", constant.getValue().getAsOpaquePointer());
  if (auto get = value.getDefiningOp<GetParameterOp>())
    return ("parameter:" + get.getParameter()).str();
  return "";
}

LogicalResult MemoryPlanner::bindConstant(Value value) {
  auto [it, inserted] = constants.try_emplace(constantKey(value), -1);
  if (inserted) {
    FailureOr<int64_t> bytes = bytesOf(value);
    if (failed(bytes))
      return failure();
    Storage storage;
    storage.kind = SegmentKind::Const;
    storage.segment = "weights";
    storage.offset = llvm::alignTo(constBytes, getAlignment(*bytes));
    storage.size = *bytes;
    constBytes = llvm::alignTo(storage.offset + *bytes, kArenaAlignment);
    it->second = add(storage);
    contents.push_back(value.getDefiningOp());
  }
  valueStorage[value] = it->second;
  return success();
}

/// Each output is a part of the input in its place.
LogicalResult MemoryPlanner::bindView(GroupOp group) {
  auto offsets = group->getAttrOfType<DenseI64ArrayAttr>(kViewAttr);
  if (!offsets || offsets.size() != int64_t(group.getInputs().size()) ||
      offsets.size() != int64_t(group.getOutputs().size()))
    return group.emitError("'fusion.view' needs one offset for each input and "
                           "output");
  for (auto [input, output, offset] :
       llvm::zip(group.getInputs(), group.getOutputs(), offsets.asArrayRef())) {
    FailureOr<int64_t> bytes = bytesOf(output);
    if (failed(bytes))
      return failure();
    Storage storage = storages[storageOf(input)];
    if (offset < 0 || *bytes > storage.size || offset > storage.size - *bytes)
      return group.emitError("'fusion.view' leaves its input: ")
             << *bytes << " bytes at " << offset << " of " << storage.size;
    storage.offset += offset;
    storage.size = *bytes;
    viewBytes += *bytes;
    valueStorage[output] = add(storage);
  }
  return success();
}

/// The rank's part lies in the input; its turn says how far behind the first.
LogicalResult MemoryPlanner::bindRankSlice(RankSliceOp slice) {
  FailureOr<int64_t> bytes = bytesOf(slice.getResult());
  if (failed(bytes))
    return failure();
  Storage storage = storages[storageOf(slice.getInput())];
  if (storage.turn)
    return slice.emitError("takes a part of what lies elsewhere on each rank");
  storage.offset += slice.getStartBytes();
  storage.size = *bytes;
  if (*bytes > 0)
    storage.turn = TurnAttr::get(slice.getContext(), *bytes,
                                 int64_t(slice.getShift()), slice.getAxes());
  viewBytes += *bytes;
  valueStorage[slice.getResult()] = add(storage);
  return success();
}

/// Whether nobody reads those bytes of a larger value that `part` is once `op`
/// has: the parts of a gradient that several reductions share stay where they
/// are.
bool MemoryPlanner::reducesPart(Operation *op, Value part) {
  std::optional<int64_t> offset = offsetInBase(part);
  auto sizeOf = [&](Value value) -> int64_t {
    // As large as possible if it isn't known, so that it is in the way.
    std::optional<Extent> count = extents.getNumElements(value);
    return count ? (count->scale * maxBatch + count->base) *
                       getElementBytes(cast<RankedTensorType>(value.getType())
                                           .getElementType())
                 : std::numeric_limits<int64_t>::max() / 2;
  };
  return offset && commands.isLastReaderOf(baseOf(part), *offset, sizeOf(part),
                                           commands.find(op), sizeOf);
}

/// The input whose bytes `output` of `op` may take over, if any: the kernel or
/// the collective allows it, the bytes belong to the arena and this command is
/// the last to read them.
std::optional<unsigned> MemoryPlanner::findInPlace(Operation *op,
                                                   unsigned output) {
  SmallVector<int64_t> list = getInPlacePairs(op);
  if (freshValues.contains(op->getResult(output)))
    return std::nullopt;
  for (size_t i = 0; i + 1 < list.size(); i += 2) {
    if (list[i] != output)
      continue;
    Value input = op->getOperand(list[i + 1]);
    Value base = baseOf(input);
    const Storage &storage = storages[storageOf(input)];
    if (storage.kind != SegmentKind::Private || copiedLast.contains(base) ||
        keptLast.contains(base))
      continue;
    if (base != rootOf(input)) {
      if (isa<AllReduceOp>(op) && reducesPart(op, input))
        return list[i + 1];
      continue;
    }
    if (!commands.isLastReader(base, commands.find(op)) &&
        !(seededBug(11) && input.hasOneUse()))
      continue;
    // Nobody else in this command may read the bytes at other indices.
    if (llvm::count_if(op->getOperands(), [&](Value other) {
          return storageOf(baseOf(other)) == storageOf(input);
        }) != 1)
      continue;
    // Nor may an earlier output have them.
    if (llvm::any_of(op->getResults().take_front(output), [&](Value other) {
          return storageOf(other) == storageOf(input);
        }))
      continue;
    FailureOr<int64_t> bytes = bytesOf(op->getResult(output));
    if (succeeded(bytes) && *bytes == storage.size)
      return list[i + 1];
  }
  return std::nullopt;
}

/// Gives each result of a command its storage.
LogicalResult MemoryPlanner::bindStep(Operation *op) {
  const Step &step = commands.getSteps()[commands.find(op)];
  for (auto [i, output] : llvm::enumerate(op->getResults())) {
    FailureOr<int64_t> bytes = bytesOf(output);
    if (failed(bytes))
      return failure();
    valueBytes += *bytes;
    // Until the last reader is done, and no shorter than the command.
    int64_t last = std::max(step.release, commands.getLastUse(output));
    if (copiedLast.contains(output) || keptLast.contains(output))
      last = commands.size();
    auto result = resultOf.find(output);
    FailureOr<int64_t> place = bindPiece(output, commands.find(op), last);
    if (failed(place))
      return failure();
    if (*place >= 0) {
      valueStorage[output] = *place;
      continue;
    }
    Storage storage;
    storage.size = *bytes;
    if (result != resultOf.end()) {
      storage.kind = SegmentKind::Output;
      storage.segment = llvm::formatv("out{0}", result->second);
      valueStorage[output] = add(storage);
      if (auto given = directDonor.find(result->second);
          given != directDonor.end())
        donor[valueStorage[output]] = storageOf(given->second);
    } else if (std::optional<unsigned> input = findInPlace(op, i)) {
      int64_t shared = storageOf(op->getOperand(*input));
      valueStorage[output] = shared;
      Lifetime &buffer = buffers[storages[shared].buffer];
      buffer.last = std::max(buffer.last, last);
    } else {
      storage.segment = "arena";
      storage.buffer = buffers.size();
      Lifetime buffer;
      buffer.first = commands.find(op);
      buffer.last = last;
      buffer.size = *bytes;
      buffers.push_back(buffer);
      valueStorage[output] = add(storage);
    }
  }
  return success();
}

LogicalResult MemoryPlanner::bindValues() {
  auto returned = function.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(returned)) {
    Value root = rootOf(value);
    if (commands.find(root.getDefiningOp()) >= 0)
      resultOf.try_emplace(root, i);
  }
  FailureOr<SmallVector<Donation>> found = findDonations(function, commands);
  if (failed(found))
    return failure();
  donations = std::move(*found);
  // A result that can't be written over its argument yet is copied at the end.
  for (Donation &donation : donations) {
    auto result = resultOf.find(rootOf(returned[donation.result]));
    if (result == resultOf.end() || result->second != donation.result)
      donation.isDirect = false;
    else if (!donation.isDirect) {
      copiedLast.insert(result->first); // the copies come last
      resultOf.erase(result);
    }
    if (donation.isDirect)
      directDonor[donation.result] = function.getArgument(donation.argument);
  }
  findBuckets();
  if (failed(findPieces()))
    return failure();
  findDirectMoves();
  if (failed(bindNeighbours()))
    return failure();
  auto bind = [&](Operation &op) -> LogicalResult {
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      valueStorage[reshape.getResult()] = storageOf(reshape.getInput());
    else if (isa<ConstantOp, GetParameterOp>(op))
      return bindConstant(op.getResult(0));
    else if (auto group = dyn_cast<GroupOp>(op);
             group && group->hasAttr(kViewAttr))
      return bindView(group);
    else if (auto slice = dyn_cast<RankSliceOp>(op))
      return bindRankSlice(slice);
    else if (isa<AwaitOp>(op))
      for (Value value : op.getResults())
        valueStorage[value] = storageOf(rootOf(value));
    else if (commands.find(&op) >= 0)
      return bindStep(&op);
    return success();
  };
  for (Operation &op : function.getBody().front()) {
    if (auto async = dyn_cast<AsyncOp>(op)) {
      for (Operation &inner : async.getBody().front())
        if (failed(bind(inner)))
          return failure();
    } else if (failed(bind(op))) {
      return failure();
    }
  }
  return success();
}

void MemoryPlanner::bindOutputs() {
  llvm::SmallDenseSet<unsigned> identities;
  for (const Donation &donation : donations)
    if (donation.isIdentity)
      identities.insert(donation.result);
  auto returned = function.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(returned)) {
    std::string segment = llvm::formatv("out{0}", i);
    const Storage &storage = storages[storageOf(value)];
    if (storage.kind == SegmentKind::Output && storage.segment == segment)
      continue;
    // The argument itself: its bytes are the result's already.
    if (identities.contains(i))
      continue;
    Storage target;
    target.kind = SegmentKind::Output;
    target.segment = segment;
    target.size = storage.size;
    copies.push_back({value, storageOf(value), add(target)});
  }
  orderFinalCopies();
}

/// A donated argument that is another result is copied there before its own
/// result is copied over it. Where such copies form a ring (two arguments that
/// swap their values), the value that the first of them overwrites waits in the
/// arena.
void MemoryPlanner::orderFinalCopies() {
  llvm::StringMap<int64_t> copyTo; // output's segment -> its copy
  for (auto [i, copy] : llvm::enumerate(copies))
    copyTo[storages[copy.target].segment] = i;
  llvm::DenseMap<int64_t, int64_t> overwriterOf; // argument's storage -> copy
  for (const Donation &donation : donations) {
    auto copy = copyTo.find(llvm::formatv("out{0}", donation.result).str());
    if (copy != copyTo.end())
      overwriterOf[storageOf(function.getArgument(donation.argument))] =
          copy->second;
  }
  SmallVector<int64_t> overwriters;
  for (const FinalCopy &copy : copies) {
    auto found = overwriterOf.find(copy.source);
    overwriters.push_back(found == overwriterOf.end() ? -1 : found->second);
  }

  auto [order, rings] = orderCopies(overwriters);
  SmallVector<FinalCopy> ordered;
  size_t numInLine = rings.empty() ? order.size() : rings.front();
  for (unsigned i : ArrayRef(order).take_front(numInLine))
    ordered.push_back(copies[i]);
  for (auto [number, start] : llvm::enumerate(rings)) {
    size_t end = number + 1 < rings.size() ? rings[number + 1] : order.size();
    FinalCopy last = copies[order[end - 1]];
    Storage aside;
    aside.segment = "arena";
    aside.size = storages[last.source].size;
    aside.buffer = buffers.size();
    // No value of the arena is read any more, and rings come one by one.
    Lifetime buffer;
    buffer.first = buffer.last = commands.size() + 1 + number;
    buffer.size = aside.size;
    buffers.push_back(buffer);
    int64_t saved = add(aside);
    ordered.push_back({last.value, last.source, saved});
    for (size_t i = start; i + 1 < end; ++i)
      ordered.push_back(copies[order[i]]);
    ordered.push_back({last.value, saved, last.target});
  }
  copies = std::move(ordered);
}

namespace {

struct PlanMemory final : fusion::impl::PlanMemoryBase<PlanMemory> {
  using Base::Base;

  void runOnOperation() override {
    Operation *symbol = getOperation().lookupSymbol(function);
    // Planned already.
    if (isa_and_nonnull<ProgramOp>(symbol))
      return markAllAnalysesPreserved();
    auto target = dyn_cast_or_null<func::FuncOp>(symbol);
    if (!target) {
      getOperation().emitError("has no function @") << function << " to plan";
      return signalPassFailure();
    }
    MemoryPlanner planner(target, getOperation(), memoryLimit);
    FailureOr<ProgramOp> program = planner.plan();
    if (failed(program))
      return signalPassFailure();
    if (memoryLimit != 0 && uint64_t(planner.arenaBytes) > memoryLimit) {
      // What heeds a limit estimates, and may have made it worse.
      uint64_t needed = planner.arenaBytes;
      if (enoughBytes != 0)
        needed = std::min<uint64_t>(needed, enoughBytes);
      InFlightDiagnostic error = emitError(target, ErrorKind::Resources)
                                 << "needs " << needed
                                 << " bytes for intermediates; the memory "
                                    "limit is "
                                 << uint64_t(memoryLimit);
      if (enoughBytes != 0)
        error << ", and a limit of " << uint64_t(enoughBytes) << " is enough";
      return signalPassFailure();
    }
    remark::passed(target.getLoc(), remark::RemarkOpts::name("plan-memory")
                                        .category("fusion")
                                        .function(function))
        << remark::add("planned the arena")
        << remark::metric("ArenaBytes", planner.arenaBytes)
        << remark::metric("IntermediateBytes", planner.valueBytes)
        << remark::metric("ViewBytes", planner.viewBytes)
        << remark::metric("GatheredBytes", planner.gatheredBytes);
    target.erase();
  }
};

} // namespace
