//===- EmitProgram.cpp - Commands over planned bytes ----------------------===//
//
// What MemoryPlanner decided becomes segments, ports and one command for each
// group that is not a view.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"
#include "fusion/IR/TensorData.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

RangeAttr MemoryPlanner::rangeOf(int64_t index) {
  const Storage &storage = storages[index];
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
ArrayAttr MemoryPlanner::accesses(GroupOp group, ArrayRef<int64_t> operands,
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

LogicalResult MemoryPlanner::emitCommand(GroupOp group) {
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

LogicalResult MemoryPlanner::emitCopies() {
  for (auto [value, source, target] : copies) {
    FailureOr<Extent> count = extentOf(value);
    if (failed(count))
      return failure();
    int64_t width = getElementBytes(
        cast<RankedTensorType>(value.getType()).getElementType());
    CopyOp::create(builder, value.getLoc(), builder.getI64IntegerAttr(0),
                   rangeOf(source), rangeOf(target),
                   extentAttr({count->scale * width, count->base * width}));
  }
  return success();
}

PortOp MemoryPlanner::emitPort(SegmentKind kind, StringRef name,
                               StringRef segment, Value value) {
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

FailureOr<ProgramOp> MemoryPlanner::plan() {
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
  if (failed(checkOps()) || failed(bindInputs()) || failed(bindValues()))
    return failure();
  bindOutputs();
  placeBuffers();

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
