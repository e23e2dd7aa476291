//===- RuntimeProgram.cpp - fusion.program as plain structs ---------------===//
//
// See RuntimeProgram.h. Segments keep their order; a command keeps its place.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/RuntimeProgram.h"

#include "ModuleData.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

std::optional<rt::DType> fusion::getRuntimeType(Type type) {
  if (type.isF64())
    return rt::DType::F64;
  if (type.isF32())
    return rt::DType::F32;
  if (type.isF16())
    return rt::DType::F16;
  if (type.isBF16())
    return rt::DType::BF16;
  if (type.isInteger(1))
    return rt::DType::I1;
  if (type.isInteger(8))
    return rt::DType::I8;
  if (type.isInteger(32))
    return rt::DType::I32;
  if (type.isInteger(64))
    return rt::DType::I64;
  return std::nullopt;
}

namespace {

/// Translates the ops of one program; remembers the segments' positions.
class ProgramBuilder {
public:
  ProgramBuilder(ProgramOp program, const llvm::StringMap<uint32_t> &kernels)
      : program(program), kernels(kernels) {}

  FailureOr<rt::Program> build();

private:
  rt::Affine extent(ExtentAttr attr) {
    return {attr.getScale(), attr.getBase()};
  }
  rt::ByteRange range(RangeAttr attr) {
    return {segments.lookup(attr.getSegment().getValue()),
            uint64_t(attr.getOffset()), uint64_t(attr.getSize()),
            uint32_t(attr.getAllocation())};
  }
  std::vector<rt::Operand> operands(ArrayAttr accesses);
  LogicalResult kernel(Operation *op, SymbolRefAttr symbol, uint32_t &index);
  LogicalResult port(PortOp op);
  LogicalResult launch(LaunchOp op, rt::Command &command);
  LogicalResult call(CallOp op, rt::Command &command);

  ProgramOp program;
  const llvm::StringMap<uint32_t> &kernels;
  llvm::StringMap<uint32_t> segments;
  rt::Program result;
};

} // namespace

/// The name a message should give a command: that of the op it came from.
static std::string nameOf(Operation *op) {
  std::string name;
  op->getLoc()->walk([&](Location loc) {
    if (auto named = dyn_cast<NameLoc>(loc)) {
      name = named.getName().str();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return name;
}

std::vector<rt::Operand> ProgramBuilder::operands(ArrayAttr accesses) {
  std::vector<rt::Operand> list;
  for (auto access : accesses.getAsRange<AccessAttr>()) {
    rt::Operand operand;
    operand.range = range(access.getRange());
    operand.reads = access.getKind() != AccessKind::Write;
    operand.writes = access.getKind() != AccessKind::Read;
    if (Type type = access.getElementType())
      operand.dtype = getRuntimeType(type).value_or(rt::DType::I8);
    list.push_back(operand);
  }
  return list;
}

void fusion::forEachKernel(Operation *command,
                           llvm::function_ref<void(StringRef)> visit) {
  if (auto launch = dyn_cast<LaunchOp>(command))
    visit(launch.getKernel().getLeafReference().getValue());
  auto call = dyn_cast<CallOp>(command);
  if (!call)
    return;
  if (call.getTailKernel())
    visit(call.getTailKernel()->getLeafReference().getValue());
  if (auto name = call.getCall().getAs<StringAttr>("fallback"))
    visit(name.getValue());
}

LogicalResult ProgramBuilder::kernel(Operation *op, SymbolRefAttr symbol,
                                     uint32_t &index) {
  auto it = kernels.find(symbol.getLeafReference().getValue());
  if (it == kernels.end())
    return op->emitOpError("names no kernel: ") << symbol;
  index = it->second;
  return success();
}

LogicalResult ProgramBuilder::port(PortOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  std::optional<rt::DType> dtype;
  if (type)
    dtype = getRuntimeType(type.getElementType());
  if (!dtype)
    return op.emitOpError("has a type that a module cannot hold: ")
           << op.getType();
  rt::Port port;
  port.tensor.name = op.getName().str();
  port.tensor.dtype = *dtype;
  port.segment = segments.lookup(op.getSegment());
  port.donatedTo = op.getDonatedTo() ? int32_t(*op.getDonatedTo()) : -1;
  std::optional<ArrayAttr> shape = op.getShape();
  if (shape && int64_t(shape->size()) != type.getRank())
    return op.emitOpError("'shape' must have one extent a dimension");
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (shape)
      port.tensor.shape.push_back(extent(cast<ExtentAttr>((*shape)[d])));
    else if (type.isDynamicDim(d))
      return op.emitOpError("needs 'shape' for its batch dimension");
    else
      port.tensor.shape.push_back({0, type.getDimSize(d)});
  }
  if (op.getDirection() == SegmentKind::Input)
    result.inputs.push_back(std::move(port));
  else if (op.getDirection() == SegmentKind::Output)
    result.outputs.push_back(std::move(port));
  else
    return op.emitOpError("must be an input or an output");
  return success();
}

LogicalResult ProgramBuilder::launch(LaunchOp op, rt::Command &command) {
  command.kind = rt::CommandKind::Launch;
  command.stream = op.getStream();
  command.launch.operands = operands(op.getOperands());
  command.launch.units = extent(op.getUnits());
  command.launch.grain = op.getGrain();
  return kernel(op, op.getKernel(), command.launch.kernel);
}

LogicalResult ProgramBuilder::call(CallOp op, rt::Command &command) {
  command.kind = rt::CommandKind::Call;
  command.stream = op.getStream();
  command.operands = operands(op.getOperands());
  rt::LibraryCall &call = command.call;
  DictionaryAttr fields = op.getCall();
  auto kind = llvm::StringSwitch<std::optional<rt::LibraryOp>>(op.getOp())
                  .Case("conv", rt::LibraryOp::Conv)
                  .Case("conv_transpose", rt::LibraryOp::ConvTranspose)
                  .Case("matmul", rt::LibraryOp::MatMul)
                  .Case("avg_pool", rt::LibraryOp::AvgPool)
                  .Case("attention", rt::LibraryOp::Attention)
                  .Default(std::nullopt);
  if (!kind)
    return op.emitOpError("names no library op: ") << op.getOp();
  call.op = *kind;
  if (auto dtype = fields.getAs<StringAttr>("dtype")) {
    auto type = llvm::StringSwitch<std::optional<rt::DType>>(dtype.getValue())
                    .Case("f16", rt::DType::F16)
                    .Case("bf16", rt::DType::BF16)
                    .Case("f32", rt::DType::F32)
                    .Case("f64", rt::DType::F64)
                    .Default(std::nullopt);
    if (!type)
      return op.emitOpError("has an element type that no library computes: ")
             << dtype;
    call.dtype = *type;
  }
  if (auto activation = fields.getAs<StringAttr>("activation")) {
    auto applied =
        llvm::StringSwitch<std::optional<rt::Activation>>(activation.getValue())
            .Case("relu", rt::Activation::Relu)
            .Case("gelu_tanh", rt::Activation::GeluTanh)
            .Default(std::nullopt);
    if (!applied)
      return op.emitOpError("names an activation that no library computes: ")
             << activation;
    call.activation = *applied;
  }
  auto flag = [&](StringRef name) {
    Attribute value = fields.get(name);
    return isa_and_nonnull<UnitAttr>(value) ||
           (isa_and_nonnull<BoolAttr>(value) &&
            cast<BoolAttr>(value).getValue());
  };
  auto list = [&](StringRef name) -> std::vector<int64_t> {
    if (auto value = fields.getAs<DenseI64ArrayAttr>(name))
      return value.asArrayRef().vec();
    return {};
  };
  auto shape = [&](StringRef name) {
    std::vector<rt::Affine> sizes;
    if (auto value = fields.getAs<ArrayAttr>(name))
      for (Attribute size : value)
        if (auto attr = dyn_cast<ExtentAttr>(size))
          sizes.push_back(extent(attr));
    return sizes;
  };
  call.hasBias = flag("hasBias");
  call.hasAddend = flag("hasAddend");
  call.channelsLast = flag("channelsLast");
  call.weightsLast = flag("weightsLast");
  call.keepsOrder = flag("keepsOrder");
  call.computeTf32 = flag("computeTf32");
  call.transposeLhs = flag("transposeLhs");
  call.transposeRhs = flag("transposeRhs");
  call.countIncludePad = flag("countIncludePad");
  call.inputShape = shape("inputShape");
  call.weightShape = shape("weightShape");
  call.outputShape = shape("outputShape");
  call.maskShape = shape("maskShape");
  call.causal = flag("causal");
  if (auto scale = fields.getAs<FloatAttr>("scale"))
    call.scale = scale.getValueAsDouble();
  call.strides = list("strides");
  call.dilations = list("dilations");
  call.padLow = list("padLow");
  call.padHigh = list("padHigh");
  call.window = list("window");
  if (auto groups = fields.getAs<IntegerAttr>("groups"))
    call.groups = groups.getInt();
  if (auto members = fields.getAs<IntegerAttr>("members"))
    call.members = members.getInt();
  if (auto name = fields.getAs<StringAttr>("fallback")) {
    auto units = fields.getAs<ExtentAttr>("fallbackUnits");
    auto grain = fields.getAs<IntegerAttr>("fallbackGrain");
    auto symbol = SymbolRefAttr::get(
        op.getContext(), "kernels",
        {FlatSymbolRefAttr::get(op.getContext(), name.getValue())});
    if (!units || !grain)
      return op.emitOpError("has a fallback without its units");
    command.hasFallback = true;
    command.fallback.units = extent(units);
    command.fallback.grain = grain.getInt();
    if (failed(kernel(op, symbol, command.fallback.kernel)))
      return failure();
  }
  if (op.getTailKernel()) {
    command.hasTail = true;
    command.launch.operands = operands(op.getTailOperandsAttr());
    command.launch.units = extent(op.getTailUnitsAttr());
    command.launch.grain = *op.getTailGrain();
    return kernel(op, *op.getTailKernel(), command.launch.kernel);
  }
  return success();
}

FailureOr<rt::Program> ProgramBuilder::build() {
  result.name = program.getSymName().str();
  result.minBatch = program.getBatch()[0];
  result.maxBatch = program.getBatch()[1];
  result.streams = program.getStreams();
  result.events = program.getEvents();
  result.peakBytes = program.getPeak();
  for (auto segment : program.getBody().front().getOps<SegmentOp>()) {
    segments[segment.getSymName()] = result.segments.size();
    result.segments.push_back({rt::SegmentKind(segment.getKind()),
                               uint64_t(segment.getSize()),
                               uint32_t(segment.getAlign())});
  }
  for (Operation &op : program.getBody().front()) {
    if (isa<SegmentOp, ContentOp>(op))
      continue;
    if (auto portOp = dyn_cast<PortOp>(op)) {
      if (failed(port(portOp)))
        return failure();
      continue;
    }
    rt::Command command;
    command.name = nameOf(&op);
    LogicalResult ok =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](LaunchOp o) { return launch(o, command); })
            .Case([&](CallOp o) { return call(o, command); })
            .Case([&](CopyOp o) {
              command.kind = rt::CommandKind::Copy;
              command.stream = o.getStream();
              command.source = range(o.getSource());
              command.target = range(o.getTarget());
              command.copySize = extent(o.getSize());
              return success();
            })
            .Case([&](RecordOp o) {
              command.kind = rt::CommandKind::Record;
              command.stream = o.getStream();
              command.event = o.getEvent();
              return success();
            })
            .Case([&](WaitOp o) {
              command.kind = rt::CommandKind::Wait;
              command.stream = o.getStream();
              command.event = o.getEvent();
              return success();
            })
            .Default([](Operation *o) -> LogicalResult {
              return o->emitOpError("cannot be written to a module yet: this "
                                    "target runs no collectives");
            });
    if (failed(ok))
      return failure();
    result.commands.push_back(std::move(command));
  }
  return std::move(result);
}

FailureOr<rt::Program>
fusion::buildRuntimeProgram(ProgramOp program,
                            const llvm::StringMap<uint32_t> &kernels) {
  return ProgramBuilder(program, kernels).build();
}
