//===- PlanMemory.cpp - From values to byte ranges ------------------------===//
//
// The bufferization: each value of the graph gets a storage (a part of the
// const segment, a whole input or output segment, or a buffer of the arena),
// then each group becomes one command over byte ranges. What a value is stored
// in is decided in program order; lifetimes and offsets follow from the uses.
//
//===----------------------------------------------------------------------===//
#include "Donation.h"
#include "fusion/Schedule/Passes.h"

#include "ArenaPlan.h"

#include "fusion/Analysis/BatchExtents.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/TensorData.h"
#include "fusion/Support/SeededBugs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_PLANMEMORY
#include "fusion/Schedule/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

/// Where a value's bytes are. Several values (views) share one storage.
struct Storage {
  SegmentKind kind = SegmentKind::Private;
  std::string segment; ///< its symbol
  int64_t offset = 0;  ///< in the segment, or in the buffer of the arena
  int64_t size = 0;    ///< bytes at the largest batch
  int64_t buffer = -1; ///< index into the arena's buffers
};

/// Plans one function.
class Planner {
public:
  Planner(func::FuncOp function, ModuleOp module)
      : function(function), module(module), builder(function.getContext()) {}

  FailureOr<ProgramOp> plan();

  int64_t arenaBytes = 0; ///< size of the arena
  int64_t valueBytes = 0; ///< sum of all intermediates
  int64_t viewBytes = 0;  ///< of values that are parts of others

private:
  LogicalResult checkOps();
  LogicalResult bindInputs();
  LogicalResult bindValues();
  LogicalResult bindOutputs();
  LogicalResult emitCommand(GroupOp group);
  LogicalResult emitCopies();

  FailureOr<int64_t> bytesOf(Value value);
  FailureOr<Extent> extentOf(Value value);
  int64_t add(Storage storage) {
    storages.push_back(std::move(storage));
    return storages.size() - 1;
  }
  /// Equal for values that are the same bytes, donated ones too.
  int64_t bytesIdOf(Value value) {
    int64_t storage = storageOf(value);
    auto found = donor.find(storage);
    return found == donor.end() ? storage : found->second;
  }
  /// Storage of `value`, through views.
  int64_t storageOf(Value value) { return valueStorage.lookup(value); }
  LogicalResult bindConstant(Value value, StringRef key);
  LogicalResult bindView(GroupOp group);
  std::optional<unsigned> findInPlace(GroupOp group, unsigned output);
  RangeAttr rangeOf(Value value);
  ArrayAttr accesses(GroupOp group, ArrayRef<int64_t> operands, bool ofKernel);
  PortOp emitPort(SegmentKind kind, StringRef name, StringRef segment,
                  Value value);
  ExtentAttr extentAttr(Extent extent) {
    return ExtentAttr::get(builder.getContext(), extent.scale, extent.base);
  }

  func::FuncOp function;
  ModuleOp module;
  OpBuilder builder;
  BatchExtents extents;
  int64_t maxBatch = 1;
  SmallVector<GroupOp> groups;
  DenseMap<Operation *, int64_t> position; ///< of a group, its command
  SmallVector<Storage> storages;
  DenseMap<Value, int64_t> valueStorage;
  SmallVector<Lifetime> buffers;
  llvm::StringMap<int64_t> constants;
  SmallVector<Operation *> contents; ///< of the const segment, in order
  int64_t constBytes = 0;
  SmallVector<Donation> donations;
  DenseMap<int64_t, int64_t> donor; ///< result's storage -> argument's
  SmallVector<std::pair<Value, unsigned>> copies;
  SmallVector<int64_t> storageLastUse; ///< last command that reads a storage
};

} // namespace

FailureOr<Extent> Planner::extentOf(Value value) {
  std::optional<Extent> count = extents.getNumElements(value);
  if (!count)
    return emitError(value.getLoc(), "the size of ")
           << value.getType() << " is not affine in the batch";
  return *count;
}

FailureOr<int64_t> Planner::bytesOf(Value value) {
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
LogicalResult Planner::checkOps() {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError(
        "has control flow; a model is straight-line code");
  for (Operation &op : function.getBody().front()) {
    if (auto group = dyn_cast<GroupOp>(op)) {
      if (group->hasAttr(kViewAttr))
        continue;
      if (!group.getKernel() && !group->hasAttr("fusion.call"))
        return group.emitError("has no kernel: run code generation first");
      position[group] = groups.size();
      groups.push_back(group);
    } else if (isa<CommunicationOpInterface, AsyncOp, AwaitOp>(op)) {
      return op.emitError("'")
             << op.getName()
             << "' is not compiled for the cpu target: evaluate "
                "the model with fusion-interpret --ranks";
    } else if (isa<func::ReturnOp>(op)) {
      for (Value value : op.getOperands())
        if (baseOf(value) != rootOf(value))
          return emitError(value.getLoc(),
                           "a result can't be a view of another value: compute "
                           "it, without 'fusion.view'");
    } else if (!isa<ConstantOp, GetParameterOp, ReshapeOp>(op)) {
      return op.emitError("'")
             << op.getName() << "' is in no group: run the fuse phase first";
    }
  }
  return success();
}

LogicalResult Planner::bindInputs() {
  for (BlockArgument argument : function.getArguments()) {
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

LogicalResult Planner::bindConstant(Value value, StringRef key) {
  auto [it, inserted] = constants.try_emplace(key, -1);
  if (inserted) {
    FailureOr<int64_t> bytes = bytesOf(value);
    if (failed(bytes))
      return failure();
    Storage storage;
    storage.kind = SegmentKind::Const;
    storage.segment = "weights";
    storage.offset = constBytes;
    storage.size = *bytes;
    constBytes = llvm::alignTo(constBytes + *bytes, kArenaAlignment);
    it->second = add(storage);
    contents.push_back(value.getDefiningOp());
  }
  valueStorage[value] = it->second;
  return success();
}

/// Each output is a part of the input in its place.
LogicalResult Planner::bindView(GroupOp group) {
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

/// The input whose bytes `output` of `group` may take over, if any: code
/// generation allows it, the bytes belong to the arena and this group is the
/// last to read them.
std::optional<unsigned> Planner::findInPlace(GroupOp group, unsigned output) {
  auto pairs = group->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place");
  if (!pairs)
    return std::nullopt;
  ArrayRef<int64_t> list = pairs.asArrayRef();
  for (size_t i = 0; i + 1 < list.size(); i += 2) {
    if (list[i] != output)
      continue;
    Value input = group.getInputs()[list[i + 1]];
    const Storage &storage = storages[storageOf(input)];
    if (storage.kind != SegmentKind::Private ||
        baseOf(input) != rootOf(input) ||
        (storageLastUse[storageOf(input)] != position[group] &&
         !(seededBug(11) && input.hasOneUse())))
      continue;
    // Nobody else in this group may read the bytes at other indices.
    if (llvm::count_if(group.getInputs(), [&](Value other) {
          return storageOf(baseOf(other)) == storageOf(input);
        }) != 1)
      continue;
    FailureOr<int64_t> bytes = bytesOf(group.getOutputs()[output]);
    if (succeeded(bytes) && *bytes == storage.size)
      return list[i + 1];
  }
  return std::nullopt;
}

LogicalResult Planner::bindValues() {
  // Last command that uses each value's bytes, over all of its views.
  DenseMap<Value, int64_t> last;
  for (GroupOp group : groups)
    for (Value input : group.getInputs())
      last[baseOf(input)] = position[group];
  auto returned = function.getBody().front().getTerminator()->getOperands();
  DenseMap<Value, unsigned> resultOf; // root -> output whose bytes it gets
  for (auto [i, value] : llvm::enumerate(returned)) {
    Value root = rootOf(value);
    if (root.getDefiningOp<GroupOp>())
      resultOf.try_emplace(root, i);
  }
  FailureOr<SmallVector<Donation>> found = findDonations(function, groups);
  if (failed(found))
    return failure();
  donations = std::move(*found);
  // A result that can't be written over its argument yet is copied at the end.
  llvm::DenseMap<unsigned, Value> directDonor; // result -> argument
  for (Donation &donation : donations) {
    auto result = resultOf.find(rootOf(returned[donation.result]));
    if (result == resultOf.end() || result->second != donation.result)
      donation.isDirect = false;
    else if (!donation.isDirect) {
      last[result->first] = groups.size(); // the copies come last
      resultOf.erase(result);
    }
    if (donation.isDirect)
      directDonor[donation.result] = function.getArgument(donation.argument);
  }

  storageLastUse.assign(storages.size(), -1);
  auto record = [&](int64_t storage, Value root) {
    if (storage >= int64_t(storageLastUse.size()))
      storageLastUse.resize(storage + 1, -1);
    auto it = last.find(root);
    if (it != last.end())
      storageLastUse[storage] = std::max(storageLastUse[storage], it->second);
  };
  for (Operation &op : function.getBody().front()) {
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      valueStorage[reshape.getResult()] = storageOf(reshape.getInput());
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      // Attributes are uniqued: the same value is stored once.
      std::string key =
          llvm::formatv("value:{0}", constant.getValue().getAsOpaquePointer());
      if (failed(bindConstant(constant, key)))
        return failure();
    } else if (auto get = dyn_cast<GetParameterOp>(op)) {
      std::string key = ("parameter:" + get.getParameter()).str();
      if (failed(bindConstant(get, key)))
        return failure();
    } else if (auto view = dyn_cast<GroupOp>(op);
               view && view->hasAttr(kViewAttr)) {
      if (failed(bindView(view)))
        return failure();
    } else if (auto group = dyn_cast<GroupOp>(op)) {
      for (auto [i, output] : llvm::enumerate(group.getOutputs())) {
        FailureOr<int64_t> bytes = bytesOf(output);
        if (failed(bytes))
          return failure();
        valueBytes += *bytes;
        auto result = resultOf.find(output);
        Storage storage;
        storage.size = *bytes;
        if (result != resultOf.end()) {
          storage.kind = SegmentKind::Output;
          storage.segment = llvm::formatv("out{0}", result->second);
          valueStorage[output] = add(storage);
          if (auto given = directDonor.find(result->second);
              given != directDonor.end())
            donor[valueStorage[output]] = storageOf(given->second);
        } else if (std::optional<unsigned> input = findInPlace(group, i)) {
          int64_t shared = storageOf(group.getInputs()[*input]);
          valueStorage[output] = shared;
          Lifetime &buffer = buffers[storages[shared].buffer];
          auto use = last.find(output);
          if (use != last.end())
            buffer.last = std::max(buffer.last, use->second);
        } else {
          storage.segment = "arena";
          storage.buffer = buffers.size();
          Lifetime buffer;
          buffer.first = buffer.last = position[group];
          auto use = last.find(output);
          if (use != last.end())
            buffer.last = use->second;
          buffer.size = *bytes;
          buffers.push_back(buffer);
          valueStorage[output] = add(storage);
        }
        record(valueStorage[output], output);
      }
    }
  }
  return success();
}

LogicalResult Planner::bindOutputs() {
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
    copies.push_back({value, unsigned(i)});
  }
  return success();
}

RangeAttr Planner::rangeOf(Value value) {
  const Storage &storage = storages[storageOf(value)];
  int64_t offset = storage.offset;
  if (storage.buffer >= 0)
    offset += buffers[storage.buffer].offset;
  return RangeAttr::get(
      builder.getContext(),
      FlatSymbolRefAttr::get(builder.getContext(), storage.segment), offset,
      storage.size, storage.buffer + 1);
}

/// The accesses of a command whose operand i is `operands[i]`, an index into
/// the group's inputs followed by its outputs. A kernel that computes in place
/// says so; a library call reads its inputs and writes its last operand,
/// whatever they share.
ArrayAttr Planner::accesses(GroupOp group, ArrayRef<int64_t> operands,
                            bool ofKernel) {
  unsigned firstOutput = group.getInputs().size();
  SmallVector<Attribute> list;
  for (int64_t index : operands) {
    bool output = index >= int64_t(firstOutput);
    Value value = output ? Value(group.getOutputs()[index - firstOutput])
                         : Value(group.getInputs()[index]);
    // In place: the same bytes under an input and an output.
    auto shares = [&](Value other) {
      return bytesIdOf(other) == bytesIdOf(value);
    };
    bool inPlace =
        ofKernel && (output ? llvm::any_of(group.getInputs(), shares)
                            : llvm::any_of(group.getOutputs(), shares));
    list.push_back(AccessAttr::get(
        builder.getContext(),
        inPlace  ? AccessKind::ReadWrite
        : output ? AccessKind::Write
                 : AccessKind::Read,
        rangeOf(value), ofKernel ? getElementTypeOrSelf(value) : Type()));
  }
  return builder.getArrayAttr(list);
}

LogicalResult Planner::emitCommand(GroupOp group) {
  unsigned firstOutput = group.getInputs().size();
  auto all = llvm::to_vector(
      llvm::seq<int64_t>(0, firstOutput + group.getOutputs().size()));
  ExtentAttr units;
  IntegerAttr grain;
  if (SymbolRefAttr kernel = group.getKernelAttr()) {
    Operation *function = SymbolTable::lookupSymbolIn(module, kernel);
    if (function) {
      units = function->getAttrOfType<ExtentAttr>("fusion.units");
      grain = function->getAttrOfType<IntegerAttr>("fusion.grain");
    }
    if (!units || !grain)
      return group.emitError("the kernel ")
             << kernel << " is missing or says no units";
  }
  auto call = group->getAttrOfType<DictionaryAttr>("fusion.call");
  if (!call) {
    // A horizontal kernel has its members' operands, one after the other.
    auto order =
        group->getAttrOfType<DenseI64ArrayAttr>("fusion.kernel_operands");
    LaunchOp::create(builder, group.getLoc(), group.getKernelAttr(),
                     builder.getI64IntegerAttr(0), units, grain,
                     accesses(group, order ? order.asArrayRef() : all,
                              /*ofKernel=*/true));
    return success();
  }
  auto op = call.getAs<StringAttr>("op");
  auto operands = call.getAs<DenseI64ArrayAttr>("operands");
  if (!op || !operands)
    return group.emitError("'fusion.call' needs 'op' and 'operands'");
  ArrayAttr tailOperands;
  if (units) {
    auto tail = group->getAttrOfType<DenseI64ArrayAttr>("fusion.tail_operands");
    ArrayRef<int64_t> list = tail ? tail.asArrayRef() : ArrayRef<int64_t>(all);
    SmallVector<Attribute> entries;
    // What the call writes: the last operand of each of its members.
    size_t numMembers = 1;
    if (auto members = call.getAs<IntegerAttr>("members"))
      numMembers = members.getInt();
    size_t perMember = operands.size() / std::max<size_t>(numMembers, 1);
    llvm::SmallDenseSet<int64_t> targets;
    for (size_t i = perMember; i <= size_t(operands.size()); i += perMember)
      targets.insert(operands[i - 1]);
    // The tail reads and writes what the call wrote, in place.
    for (auto [index, access] : llvm::zip_equal(
             list,
             accesses(group, list, /*ofKernel=*/true).getAsRange<AccessAttr>()))
      entries.push_back(
          targets.contains(index)
              ? AccessAttr::get(builder.getContext(), AccessKind::ReadWrite,
                                access.getRange(), access.getElementType())
              : access);
    tailOperands = builder.getArrayAttr(entries);
  }
  CallOp::create(builder, group.getLoc(), op, builder.getI64IntegerAttr(0),
                 accesses(group, operands, /*ofKernel=*/false), call,
                 group.getKernelAttr(), units, grain, tailOperands);
  return success();
}

LogicalResult Planner::emitCopies() {
  for (auto [value, output] : copies) {
    FailureOr<Extent> count = extentOf(value);
    if (failed(count))
      return failure();
    int64_t width = getElementBytes(
        cast<RankedTensorType>(value.getType()).getElementType());
    RangeAttr source = rangeOf(value);
    auto target = RangeAttr::get(
        builder.getContext(),
        FlatSymbolRefAttr::get(builder.getContext(),
                               llvm::formatv("out{0}", output).str()),
        0, source.getSize(), 0);
    CopyOp::create(builder, value.getLoc(), builder.getI64IntegerAttr(0),
                   source, target,
                   extentAttr({count->scale * width, count->base * width}));
  }
  return success();
}

PortOp Planner::emitPort(SegmentKind kind, StringRef name, StringRef segment,
                         Value value) {
  SmallVector<Attribute> shape;
  for (Extent extent : extents.getShape(value))
    shape.push_back(extentAttr(extent));
  return PortOp::create(builder, value.getLoc(),
                        SegmentKindAttr::get(builder.getContext(), kind),
                        builder.getStringAttr(name),
                        FlatSymbolRefAttr::get(builder.getContext(), segment),
                        TypeAttr::get(value.getType()),
                        builder.getArrayAttr(shape), IntegerAttr());
}

/// The names the model gives to its inputs and outputs, made distinct.
static std::string portName(StringAttr name, StringRef fallback,
                            unsigned index) {
  return name && !name.getValue().empty() ? name.getValue().str()
                                          : (fallback + Twine(index)).str();
}

FailureOr<ProgramOp> Planner::plan() {
  FailureOr<BatchExtents> analysis = BatchExtents::analyze(function);
  if (failed(analysis))
    return failure();
  extents = std::move(*analysis);
  int64_t minBatch = 1;
  if (auto bounds = function->getAttrOfType<DenseI64ArrayAttr>(
          FusionDialect::kBatchAttr)) {
    minBatch = bounds[0];
    maxBatch = bounds[1];
  }
  if (failed(checkOps()) || failed(bindInputs()) || failed(bindValues()) ||
      failed(bindOutputs()))
    return failure();
  arenaBytes = planArena(buffers);

  Location loc = function.getLoc();
  builder.setInsertionPoint(function);
  auto program = ProgramOp::create(
      builder, loc, function.getSymNameAttr(),
      builder.getDenseI64ArrayAttr({minBatch, maxBatch}),
      builder.getI64IntegerAttr(1), builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(arenaBytes));
  builder.setInsertionPointToStart(&program.getBody().emplaceBlock());

  auto segment = [&](StringRef name, SegmentKind kind, int64_t size) {
    SegmentOp::create(builder, loc, builder.getStringAttr(name),
                      SegmentKindAttr::get(builder.getContext(), kind),
                      builder.getI64IntegerAttr(size),
                      builder.getI64IntegerAttr(kArenaAlignment));
  };
  for (BlockArgument argument : function.getArguments()) {
    const Storage &storage = storages[storageOf(argument)];
    segment(storage.segment, storage.kind, storage.size);
  }
  auto returned = function.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(returned)) {
    FailureOr<int64_t> bytes = bytesOf(value);
    if (failed(bytes))
      return failure();
    segment(llvm::formatv("out{0}", i).str(), SegmentKind::Output, *bytes);
  }
  if (!contents.empty())
    segment("weights", SegmentKind::Const, constBytes);
  if (!buffers.empty())
    segment("arena", SegmentKind::Private, arenaBytes);
  for (Operation *op : contents) {
    auto get = dyn_cast<GetParameterOp>(op);
    ContentOp::create(builder, op->getLoc(), rangeOf(op->getResult(0)),
                      get ? get.getParameterAttr() : FlatSymbolRefAttr(),
                      get ? ElementsAttr()
                          : cast<ConstantOp>(op).getValueAttr(),
                      TypeAttr::get(op->getResult(0).getType()));
  }
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    PortOp port = emitPort(SegmentKind::Input,
                           portName(function.getArgAttrOfType<StringAttr>(
                                        i, FusionDialect::kNameAttr),
                                    "arg", i),
                           storages[storageOf(argument)].segment, argument);
    if (auto donated = function.getArgAttrOfType<IntegerAttr>(
            i, FusionDialect::kDonatedAttr))
      port.setDonatedToAttr(builder.getI64IntegerAttr(donated.getInt()));
  }
  for (auto [i, value] : llvm::enumerate(returned))
    emitPort(SegmentKind::Output,
             portName(function.getResultAttrOfType<StringAttr>(
                          i, FusionDialect::kNameAttr),
                      "out", i),
             llvm::formatv("out{0}", i).str(), value);
  for (GroupOp group : groups)
    if (failed(emitCommand(group)))
      return failure();
  if (failed(emitCopies()))
    return failure();
  return program;
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
    Planner planner(target, getOperation());
    FailureOr<ProgramOp> program = planner.plan();
    if (failed(program))
      return signalPassFailure();
    if (memoryLimit != 0 && uint64_t(planner.arenaBytes) > memoryLimit) {
      emitError(target, ErrorKind::Resources)
          << "needs " << planner.arenaBytes
          << " bytes for intermediates; the memory limit is "
          << uint64_t(memoryLimit);
      return signalPassFailure();
    }
    remark::passed(target.getLoc(), remark::RemarkOpts::name("plan-memory")
                                        .category("fusion")
                                        .function(function))
        << remark::add("planned the arena")
        << remark::metric("ArenaBytes", planner.arenaBytes)
        << remark::metric("IntermediateBytes", planner.valueBytes)
        << remark::metric("ViewBytes", planner.viewBytes);
    target.erase();
  }
};

} // namespace
