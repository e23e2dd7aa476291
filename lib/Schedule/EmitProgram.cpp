//===- EmitProgram.cpp - Commands over planned bytes ----------------------===//
//
// What MemoryPlanner decided becomes segments, ports and commands
// (EmitCommands.cpp).
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"
#include "fusion/IR/ShardingNames.h"
#include "fusion/IR/TensorData.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

RangeAttr MemoryPlanner::rangeOf(const Storage &storage) {
  int64_t offset = storage.offset;
  if (storage.buffer >= 0)
    offset += buffers[storage.buffer].offset;
  return RangeAttr::get(
      builder.getContext(),
      FlatSymbolRefAttr::get(builder.getContext(), storage.segment), offset,
      storage.size, storage.buffer + 1, storage.turn);
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

/// How an argument or result of the function is cut over the ranks.
static void copySharding(DictionaryAttr attributes, PortOp port) {
  if (!attributes)
    return;
  if (Attribute sharding = attributes.get(kShardingAttr))
    port->setAttr("sharding", sharding);
  if (Attribute shape = attributes.get(kGlobalShapeAttr))
    port->setAttr("global_shape", shape);
}

FailureOr<ProgramOp> MemoryPlanner::plan() {
  sortBuckets();
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
  if (failed(findCommands()) || failed(bindInputs()) || failed(bindValues()))
    return failure();
  bindOutputs();
  placeBuffers();
  settleDirectMoves();

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
    copySharding(function.getArgAttrDict(i), port);
  }
  for (auto [i, value] : llvm::enumerate(returned)) {
    PortOp port = emitPort(SegmentKind::Output,
                           portName(function.getResultAttrOfType<StringAttr>(
                                        i, FusionDialect::kNameAttr),
                                    "out", i),
                           llvm::formatv("out{0}", i).str(), value);
    copySharding(function.getResultAttrDict(i), port);
  }
  if (failed(emitCommands()) || failed(emitCopies()))
    return failure();
  program.setStreams(numStreams);
  program.setEvents(numEvents);
  return program;
}
