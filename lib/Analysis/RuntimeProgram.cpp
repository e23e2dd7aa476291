//===- RuntimeProgram.cpp - fusion.program as plain structs ---------------===//
//
// See RuntimeProgram.h. Segments keep their order; a command keeps its place.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/RuntimeProgram.h"

#include "ModuleData.h"
#include "fusion/Analysis/CommSchedule.h"
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
            uint32_t(attr.getAllocation()), turn(attr.getTurn())};
  }
  uint32_t turn(TurnAttr attr);
  std::vector<rt::Operand> operands(ArrayAttr accesses);
  LogicalResult kernel(Operation *op, SymbolRefAttr symbol, uint32_t &index);
  LogicalResult port(PortOp op);
  LogicalResult launch(LaunchOp op, rt::Command &command);
  LogicalResult call(CallOp op, rt::Command &command);
  LogicalResult mesh();
  LogicalResult axes(Operation *op, ArrayAttr names, std::vector<uint32_t> &to);
  LogicalResult sharding(PortOp op, rt::Port &port);
  LogicalResult part(RunCollectiveOp op, size_t index,
                     rt::CollectiveCall &call);
  LogicalResult collective(RunCollectiveOp op, rt::Command &command);

  ProgramOp program;
  const llvm::StringMap<uint32_t> &kernels;
  llvm::StringMap<uint32_t> segments;
  llvm::DenseMap<Attribute, uint32_t> turns; ///< their numbers, from 1
  bool turnsFailed = false;
  MeshOp meshOp;
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
  if (failed(sharding(op, port)))
    return failure();
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
                  .Case("attention_grad", rt::LibraryOp::AttentionGrad)
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
            .Case("gelu_tanh_grad", rt::Activation::GeluTanhGrad)
            .Default(std::nullopt);
    if (!applied)
      return op.emitOpError("names an activation that no library computes: ")
             << activation;
    call.activation = *applied;
  }
  if (auto gradient = fields.getAs<StringAttr>("biasGradient")) {
    auto of =
        llvm::StringSwitch<std::optional<rt::BiasGradient>>(gradient.getValue())
            .Case("lhs", rt::BiasGradient::Lhs)
            .Case("rhs", rt::BiasGradient::Rhs)
            .Case("result", rt::BiasGradient::Result)
            .Default(std::nullopt);
    if (!of)
      return op.emitOpError("names no matrix whose sum is a bias gradient: ")
             << gradient;
    call.biasGradient = *of;
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
  if (auto units = fields.getAs<IntegerAttr>(kCallUnits))
    call.units = uint32_t(units.getInt());
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

/// The one mesh of the program's module, if it has one.
LogicalResult ProgramBuilder::mesh() {
  auto module = program->getParentOfType<ModuleOp>();
  if (!module)
    return success();
  for (auto op : module.getBody()->getOps<MeshOp>()) {
    if (meshOp)
      return op.emitOpError("is a second mesh beside @")
             << meshOp.getSymName() << "; a program has one";
    meshOp = op;
    result.mesh.name = op.getSymName().str();
    for (auto [name, size] :
         llvm::zip_equal(op.getAxisNames().getAsValueRange<StringAttr>(),
                         op.getAxisSizes()))
      result.mesh.axes.emplace_back(name.str(), uint32_t(size));
  }
  return success();
}

LogicalResult ProgramBuilder::axes(Operation *op, ArrayAttr names,
                                   std::vector<uint32_t> &to) {
  for (Attribute name : names) {
    auto text = dyn_cast<StringAttr>(name);
    auto it = llvm::find_if(result.mesh.axes, [&](const auto &axis) {
      return text && axis.first == text.getValue();
    });
    if (it == result.mesh.axes.end())
      return op->emitOpError("names an axis that the mesh lacks: ") << name;
    to.push_back(uint32_t(it - result.mesh.axes.begin()));
  }
  return success();
}

/// The number of a range's turn, 0 for none.
uint32_t ProgramBuilder::turn(TurnAttr attr) {
  if (!attr)
    return 0;
  auto [it, isNew] = turns.try_emplace(attr, result.turns.size() + 1);
  if (isNew) {
    rt::Turn &turn = result.turns.emplace_back();
    turn.step = uint64_t(attr.getStep());
    turn.shift = uint32_t(attr.getShift());
    turnsFailed |= failed(axes(program, attr.getAxes(), turn.axes));
  }
  return it->second;
}

/// What says how a port's tensor lies over the ranks.
LogicalResult ProgramBuilder::sharding(PortOp op, rt::Port &port) {
  if (auto global = op->getAttrOfType<DenseI64ArrayAttr>("global_shape"))
    port.globalShape = global.asArrayRef().vec();
  Attribute attr = op->getAttr("sharding");
  if (!attr)
    return success();
  auto dims = dyn_cast<ArrayAttr>(attr);
  if (!dims || !llvm::all_of(dims, llvm::IsaPred<ArrayAttr>))
    return op.emitOpError("'sharding' must be one list of axis names a "
                          "dimension");
  for (Attribute names : dims)
    if (failed(axes(op, cast<ArrayAttr>(names), port.sharding.emplace_back())))
      return failure();
  return success();
}

LogicalResult ProgramBuilder::part(RunCollectiveOp op, size_t index,
                                   rt::CollectiveCall &call) {
  DictionaryAttr details = op.getDetails();
  auto types = details.getAs<ArrayAttr>("dtypes");
  auto shapes = details.getAs<ArrayAttr>("shapes");
  auto inPlace = details.getAs<DenseBoolArrayAttr>("in_place");
  auto name = dyn_cast<StringAttr>(types[index]);
  auto shape =
      index < shapes.size() ? dyn_cast<ArrayAttr>(shapes[index]) : ArrayAttr();
  if (!name || !shape || (inPlace && index >= size_t(inPlace.size())))
    return op.emitOpError(
        "needs an element type, a shape and a flag 'in_place' "
        "for each part");
  rt::CollectivePart &to = call.parts.emplace_back();
  auto type = llvm::StringSwitch<std::optional<rt::DType>>(name.getValue())
                  .Case("f64", rt::DType::F64)
                  .Case("f32", rt::DType::F32)
                  .Case("f16", rt::DType::F16)
                  .Case("bf16", rt::DType::BF16)
                  .Case("i1", rt::DType::I1)
                  .Case("i8", rt::DType::I8)
                  .Case("i32", rt::DType::I32)
                  .Case("i64", rt::DType::I64)
                  .Default(std::nullopt);
  if (!type)
    return op.emitOpError("has an element type that a module cannot hold: ")
           << name;
  to.dtype = *type;
  to.inPlace = inPlace && inPlace[index];
  for (Attribute size : shape) {
    auto attr = dyn_cast<ExtentAttr>(size);
    if (!attr)
      return op.emitOpError("'shapes' must hold lists of extents");
    to.shape.push_back(extent(attr));
  }
  return success();
}

LogicalResult ProgramBuilder::collective(RunCollectiveOp op,
                                         rt::Command &command) {
  command.kind = rt::CommandKind::Collective;
  command.stream = op.getStream();
  command.operands = operands(op.getOperands());
  rt::CollectiveCall &call = command.collective;
  auto kind = llvm::StringSwitch<std::optional<rt::CollectiveOp>>(op.getOp())
                  .Case("all_reduce", rt::CollectiveOp::AllReduce)
                  .Case("all_gather", rt::CollectiveOp::AllGather)
                  .Case("reduce_scatter", rt::CollectiveOp::ReduceScatter)
                  .Case("all_to_all", rt::CollectiveOp::AllToAll)
                  .Case("collective_broadcast", rt::CollectiveOp::Broadcast)
                  .Case("collective_permute", rt::CollectiveOp::Permute)
                  .Case("axis_index", rt::CollectiveOp::AxisIndex)
                  .Case("release", rt::CollectiveOp::Release)
                  .Default(std::nullopt);
  if (!kind)
    return op.emitOpError("names no collective: ") << op.getOp();
  call.op = *kind;
  if (!meshOp || op.getMesh() != meshOp.getSymName())
    return op.emitOpError("names no mesh of the module: ") << op.getMeshAttr();
  if (failed(axes(op, op.getAxes(), call.axes)))
    return failure();
  DictionaryAttr details = op.getDetails();
  if (auto name = details.getAs<StringAttr>("kind")) {
    auto reduction =
        llvm::StringSwitch<std::optional<rt::Reduction>>(name.getValue())
            .Case("sum", rt::Reduction::Sum)
            .Case("mean", rt::Reduction::Mean)
            .Case("min", rt::Reduction::Min)
            .Case("max", rt::Reduction::Max)
            .Case("prod", rt::Reduction::Prod)
            .Default(std::nullopt);
    if (!reduction)
      return op.emitOpError("names no reduction: ") << name;
    call.reduction = *reduction;
  }
  auto number = [&](StringRef name, int64_t &to) {
    if (auto value = details.getAs<IntegerAttr>(name))
      to = value.getInt();
  };
  number("dim", call.dim);
  number("split_dim", call.splitDim);
  number("concat_dim", call.concatDim);
  number("root", call.root);
  number("bucket", call.bucket);
  if (auto units = details.getAs<IntegerAttr>("units"))
    call.units = uint32_t(units.getInt());
  if (auto name = details.getAs<StringAttr>("transport")) {
    auto transport =
        llvm::StringSwitch<std::optional<rt::CollectiveTransport>>(
            name.getValue())
            .Case("nccl", rt::CollectiveTransport::Nccl)
            .Cases({"peer", "direct"}, rt::CollectiveTransport::Peer)
            .Default(std::nullopt);
    if (!transport)
      return op.emitOpError("names no transport: ") << name;
    call.transport = *transport;
    call.isDirect = name == "direct";
  }
  if (auto list = details.getAs<DenseI64ArrayAttr>("sources"))
    call.sources = list.asArrayRef().vec();
  if (auto list = details.getAs<DenseI64ArrayAttr>("targets"))
    call.targets = list.asArrayRef().vec();
  if (call.op == rt::CollectiveOp::AxisIndex ||
      call.op == rt::CollectiveOp::Release)
    return success();
  auto types = details.getAs<ArrayAttr>("dtypes");
  if (!types || !details.getAs<ArrayAttr>("shapes"))
    return op.emitOpError("needs 'dtypes' and 'shapes' in its details");
  for (size_t i = 0; i < types.size(); ++i)
    if (failed(part(op, i, call)))
      return failure();
  return success();
}

FailureOr<rt::Program> ProgramBuilder::build() {
  if (failed(mesh()))
    return failure();
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
            .Case([&](RunCollectiveOp o) { return collective(o, command); })
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
              return o->emitOpError("does not belong in a program");
            });
    if (failed(ok))
      return failure();
    result.commands.push_back(std::move(command));
  }
  if (turnsFailed)
    return failure();
  return std::move(result);
}

FailureOr<rt::Program>
fusion::buildRuntimeProgram(ProgramOp program,
                            const llvm::StringMap<uint32_t> &kernels) {
  return ProgramBuilder(program, kernels).build();
}
