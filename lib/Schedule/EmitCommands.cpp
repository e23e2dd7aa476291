//===- EmitCommands.cpp - Commands over planned bytes ---------------------===//
//
// One command for each step, on its stream, and the events between streams. A
// region starts behind what the list has before it on stream 0; an await holds
// its own stream until the region is done. An order that is known already costs
// no event.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"
#include "fusion/Analysis/CommSchedule.h"

using namespace mlir;
using namespace fusion;

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

LogicalResult MemoryPlanner::emitGroup(GroupOp group, int64_t stream) {
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
                     builder.getI64IntegerAttr(stream), units, grain,
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
  CallOp::create(builder, group.getLoc(), op, builder.getI64IntegerAttr(stream),
                 accesses(group, operands, /*ofKernel=*/false), call,
                 group.getKernelAttr(), units, grain, tailOperands);
  return success();
}

/// The fields of a program's collective besides its ranges: `details` of
/// `fusion.collective`.
DictionaryAttr MemoryPlanner::getDetails(Operation *op,
                                         ArrayRef<bool> inPlace) {
  MLIRContext *context = builder.getContext();
  NamedAttrList details;
  SmallVector<Attribute> dtypes, shapes;
  for (Value input : op->getOperands()) {
    std::string dtype;
    llvm::raw_string_ostream(dtype) << getElementTypeOrSelf(input);
    dtypes.push_back(builder.getStringAttr(dtype));
    SmallVector<Attribute> shape;
    for (Extent extent : extents.getShape(input))
      shape.push_back(extentAttr(extent));
    shapes.push_back(builder.getArrayAttr(shape));
  }
  if (!isa<AxisIndexOp>(op)) {
    details.set("dtypes", builder.getArrayAttr(dtypes));
    details.set("shapes", builder.getArrayAttr(shapes));
    details.set("in_place", DenseBoolArrayAttr::get(context, inPlace));
  }
  // The op's own attributes keep their names.
  for (StringRef name :
       {"dim", "split_dim", "concat_dim", "root", "sources", "targets"})
    if (Attribute value = op->getInherentAttr(name).value_or(Attribute()))
      details.set(name, value);
  auto kind = llvm::TypeSwitch<Operation *, std::optional<ReduceKind>>(op)
                  .Case<AllReduceOp, ReduceScatterOp>(
                      [](auto reduction) { return reduction.getKind(); })
                  .Default(std::nullopt);
  if (kind)
    details.set("kind", builder.getStringAttr(stringifyReduceKind(*kind)));
  if (Attribute bucket = op->getAttr(kBucketAttr))
    details.set("bucket", bucket);
  auto transport = op->getAttrOfType<StringAttr>(kTransportAttr);
  if (getTransport(op) == Transport::Direct && !directMoves.contains(op))
    transport = builder.getStringAttr(stringifyTransport(Transport::Peer));
  if (transport)
    details.set("transport", transport);
  if (Attribute units = op->getAttr(kUnitsAttr))
    details.set("units", units);
  return details.getDictionary(context);
}

LogicalResult MemoryPlanner::emitCollective(Operation *op, int64_t stream) {
  MLIRContext *context = builder.getContext();
  SmallVector<Attribute> accesses;
  SmallVector<bool> inPlace;
  auto add = [&](AccessKind kind, Value value) {
    accesses.push_back(AccessAttr::get(context, kind, rangeOf(value),
                                       getElementTypeOrSelf(value)));
  };
  FlatSymbolRefAttr mesh;
  ArrayAttr axes;
  if (auto index = dyn_cast<AxisIndexOp>(op)) {
    mesh = index.getMeshAttr();
    axes = index.getAxesAttr();
    add(AccessKind::Write, index.getResult());
  } else {
    auto communication = cast<CommunicationOpInterface>(op);
    mesh = communication.getCommunicationMesh();
    axes = communication.getCommunicationAxes();
    if (op->getNumOperands() != op->getNumResults())
      return op->emitError("a program's collective has one result for each "
                           "operand");
    for (auto [input, output] :
         llvm::zip_equal(op->getOperands(), op->getResults())) {
      inPlace.push_back(bytesIdOf(input) == bytesIdOf(output));
      if (inPlace.back()) {
        add(AccessKind::ReadWrite, output);
        continue;
      }
      add(AccessKind::Read, input);
      add(AccessKind::Write, output);
    }
  }
  RunCollectiveOp::create(builder, op->getLoc(),
                          builder.getStringAttr(op->getName().stripDialect()),
                          mesh, axes, builder.getI64IntegerAttr(stream),
                          builder.getArrayAttr(accesses),
                          getDetails(op, inPlace));
  return success();
}

namespace {

/// Which commands of which stream are known to be done where.
class StreamClocks {
public:
  StreamClocks(OpBuilder &builder, int64_t numStreams)
      : builder(builder), clocks(numStreams, Clock(numStreams)),
        done(numStreams, -1) {}

  /// A command was added to `stream`.
  void tick(int64_t stream) { ++clocks[stream][stream]; }

  /// An event behind the commands of `stream` so far.
  int64_t record(int64_t stream, Location loc) {
    int64_t &event = done[stream];
    if (event >= 0 && events[event] == clocks[stream])
      return event;
    event = events.size();
    events.push_back(clocks[stream]);
    RecordOp::create(builder, loc, event, stream);
    return event;
  }

  /// Whether `stream` knows all that `other` has done and knows.
  bool knows(int64_t stream, const SmallVector<int64_t, 4> &clock) const {
    return llvm::all_of_zip(clocks[stream], clock,
                            [](int64_t a, int64_t b) { return a >= b; });
  }

  void wait(int64_t stream, int64_t event, Location loc) {
    if (knows(stream, events[event]))
      return;
    for (auto [mine, theirs] : llvm::zip_equal(clocks[stream], events[event]))
      mine = std::max(mine, theirs);
    WaitOp::create(builder, loc, event, stream);
  }

  /// `stream` goes on behind what `other` has done so far.
  void follow(int64_t stream, int64_t other, Location loc) {
    if (!knows(stream, clocks[other]))
      wait(stream, record(other, loc), loc);
  }

  int64_t getNumEvents() const { return events.size(); }

private:
  using Clock = SmallVector<int64_t, 4>;
  OpBuilder &builder;
  SmallVector<Clock> clocks; ///< by stream
  SmallVector<Clock> events;
  SmallVector<int64_t> done; ///< by stream: its newest event
};

} // namespace

LogicalResult MemoryPlanner::emitCommands() {
  for (const Step &step : commands.getSteps())
    numStreams = std::max(numStreams, step.stream + 1);
  StreamClocks clocks(builder, numStreams);
  llvm::DenseMap<Operation *, int64_t> ends; // region -> its event
  const Step *before = nullptr;
  for (const Step &step : commands.getSteps()) {
    if (before && before->region && before->region != step.region)
      ends[before->region] =
          clocks.record(before->stream, before->region->getLoc());
    if (step.region && (!before || before->region != step.region))
      clocks.follow(step.stream, 0, step.region->getLoc());
    before = &step;
    if (auto await = dyn_cast<AwaitOp>(step.op)) {
      // An empty region has no end to wait for.
      auto end = ends.find(await.getFuture().getDefiningOp());
      if (end != ends.end())
        clocks.wait(step.stream, end->second, await.getLoc());
      continue;
    }
    auto group = dyn_cast<GroupOp>(step.op);
    if (group && group->hasAttr(kPiecesAttr))
      continue;
    if (auto concat = dyn_cast<RankConcatOp>(step.op)) {
      FailureOr<int64_t> copied = emitRankConcat(concat, step.stream);
      if (failed(copied))
        return failure();
      if (*copied > 0)
        clocks.tick(step.stream);
      continue;
    }
    if (failed(group ? emitGroup(group, step.stream)
                     : emitCollective(step.op, step.stream)))
      return failure();
    clocks.tick(step.stream);
  }
  for (const auto &[stream, moves] : getReleases()) {
    clocks.follow(stream, 0, moves.front()->getLoc());
    emitRelease(stream, moves);
    clocks.tick(stream);
  }
  numEvents = clocks.getNumEvents();
  return success();
}
