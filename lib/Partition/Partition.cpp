//===- Partition.cpp - From a single device to one rank -------------------===//
//
// Reads what @main's arguments say, lets ShardingPlanner decide, and builds the
// rank's body beside the old one, which then goes. Named ops that need whole
// what is cut become their composition first, since that can be split.
//
//===----------------------------------------------------------------------===//
#include "LocalOps.h"

#include "fusion/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

namespace fusion {
#define GEN_PASS_DEF_PARTITION
#include "fusion/Partition/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// What the program says
//===----------------------------------------------------------------------===//

namespace {

/// Shardings of the function's ports.
struct Ports {
  SmallVector<Sharding> arguments;
  SmallVector<std::optional<Sharding>> results;
  llvm::StringMap<Sharding> parameters;
  /// Whether anything says how to cut.
  bool isSharded = false;
};

} // namespace

/// The mesh of the module, made from `text` where it has none; null if there is
/// none at all.
static FailureOr<MeshOp> findMesh(ModuleOp module, StringRef text) {
  MeshOp found;
  for (auto mesh : module.getOps<MeshOp>()) {
    if (found) {
      mesh.emitError("a program has one mesh, and this is a second one: leave "
                     "one of the two out")
              .attachNote(found.getLoc())
          << "the first one is @" << found.getSymName();
      return failure();
    }
    found = mesh;
  }
  if (text.empty())
    return found;
  auto axes = parseMesh(text);
  if (!axes)
    return module.emitError("bad mesh '")
           << text << "', " << llvm::toString(axes.takeError())
           << ", write it as dp=2,tp=1";
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;
  for (const auto &[name, size] : *axes) {
    names.push_back(name);
    sizes.push_back(size);
  }
  OpBuilder builder(module.getBodyRegion());
  ArrayAttr nameList = builder.getStrArrayAttr(names);
  if (found) {
    if (found.getAxisNames() != nameList ||
        found.getAxisSizes() != ArrayRef(sizes))
      return found.emitError("this mesh is not the wanted one, ")
             << text << ": leave out one of the two";
    return found;
  }
  std::string symbol = "mesh";
  while (SymbolTable::lookupSymbolIn(module, symbol))
    symbol += "_";
  return MeshOp::create(builder, module.getLoc(), symbol, nameList,
                        builder.getDenseI64ArrayAttr(sizes));
}

static bool isData(func::FuncOp function, unsigned argument) {
  if (function.getArgAttr(argument, kBatchArgAttr))
    return true;
  auto role = function.getArgAttrOfType<StringAttr>(argument, kRoleAttr);
  return role && role.getValue() == "data";
}

static bool isParameter(func::FuncOp function, unsigned argument) {
  auto role = function.getArgAttrOfType<StringAttr>(argument, kRoleAttr);
  return role && (role.getValue() == "parameter" || role.getValue() == "state");
}

/// Adds the cut of dimension 0 over `axis` that data or shards of parameters
/// have.
static void cutFirstDim(Sharding &sharding, RankedTensorType type,
                        unsigned axis, const Mesh &mesh) {
  if (type.getRank() == 0 || mesh.sizes[axis] == 1 || sharding.findDim(axis))
    return;
  DimSharding &cut = sharding.dims[0];
  cut.axes.push_back(axis);
  cut.local = llvm::divideCeil(type.getDimSize(0),
                               mesh.ranks(ArrayRef<unsigned>(cut.axes)));
}

static FailureOr<Ports> readPorts(func::FuncOp function, const Mesh &mesh,
                                  bool shardState) {
  Ports ports;
  std::optional<unsigned> dp = mesh.find("dp");
  if (shardState && !dp)
    return function.emitError("shards of parameters need a mesh axis 'dp', and "
                              "@")
           << mesh.op.getSymName() << " has none";
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return function.emitError("argument ")
             << i << " is no ranked tensor, and can't be partitioned";
    ports.arguments.push_back(Sharding::replicated(type));
    if (Attribute attribute = function.getArgAttr(i, kShardingAttr)) {
      FailureOr<Sharding> sharding = parseSharding(attribute, type, mesh, [&] {
        return function.emitError("argument ") << i << ": ";
      });
      if (failed(sharding))
        return failure();
      ports.arguments.back() = std::move(*sharding);
      ports.isSharded = true;
    }
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[i]);
    if (!type)
      return function.emitError("result ")
             << i << " is no ranked tensor, and can't be partitioned";
    ports.results.emplace_back();
    if (Attribute attribute = function.getResultAttr(i, kShardingAttr)) {
      FailureOr<Sharding> sharding = parseSharding(attribute, type, mesh, [&] {
        return function.emitError("result ") << i << ": ";
      });
      if (failed(sharding))
        return failure();
      ports.results.back() = std::move(*sharding);
      ports.isSharded = true;
    }
  }
  for (auto parameter :
       function->getParentOfType<ModuleOp>().getOps<ParameterOp>()) {
    Attribute attribute = parameter->getAttr(kShardingAttr);
    auto type = dyn_cast<RankedTensorType>(parameter.getType());
    if (!attribute || !type)
      continue;
    FailureOr<Sharding> sharding = parseSharding(
        attribute, type, mesh, [&] { return parameter.emitError(); });
    if (failed(sharding))
      return failure();
    ports.parameters[parameter.getSymName()] = std::move(*sharding);
    ports.isSharded = true;
  }
  // Where no attribute speaks of dp, data is cut over it.
  bool isNamed = false;
  auto namesDp = [&](Attribute attribute) {
    if (attribute)
      attribute.walk([&](StringAttr axis) { isNamed |= axis == "dp"; });
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    namesDp(function.getArgAttr(i, kShardingAttr));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    namesDp(function.getResultAttr(i, kShardingAttr));
  if (dp && !isNamed)
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (!isData(function, i))
        continue;
      if (typeOf(argument).getRank() != 0 && typeOf(argument).isDynamicDim(0))
        return function.emitError("argument ")
               << i
               << ": the batch '?' can't be cut over 'dp': give the model a "
                  "static batch";
      cutFirstDim(ports.arguments[i], typeOf(argument), *dp, mesh);
      ports.isSharded = true;
    }
  if (shardState)
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (!isParameter(function, i) || typeOf(argument).getRank() == 0 ||
          typeOf(argument).isDynamicDim(0) || ports.arguments[i].findDim(*dp))
        continue;
      cutFirstDim(ports.arguments[i], typeOf(argument), *dp, mesh);
      ports.arguments[i].stored = axisBit(*dp);
      ports.isSharded = true;
    }
  // A donated argument's bytes are its result's.
  for (BlockArgument argument : function.getArguments())
    if (auto result = function.getArgAttrOfType<IntegerAttr>(
            argument.getArgNumber(), FusionDialect::kDonatedAttr))
      if (result.getInt() >= 0 &&
          result.getInt() < int64_t(ports.results.size()) &&
          (!ports.results[result.getInt()] ||
           function.getResultAttr(result.getInt(), kShardingAttr) ==
               function.getArgAttr(argument.getArgNumber(), kShardingAttr)) &&
          function.getResultTypes()[result.getInt()] == argument.getType())
        ports.results[result.getInt()] =
            ports.arguments[argument.getArgNumber()];
  return ports;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

static remark::RemarkOpts optionsOf(FusionRule rule, func::FuncOp function) {
  return remark::RemarkOpts::name(getFusionRuleInfo(rule).id)
      .category("fusion")
      .function(function.getSymName());
}

/// Every split, and every operand that had to be gathered.
static void report(func::FuncOp function, Operation *op, const OpPlan &plan,
                   const Mesh &mesh) {
  for (auto [f, axes] : llvm::enumerate(plan.axes))
    for (unsigned axis : axes) {
      bool isSum = plan.rule.factors[f].kind == FactorKind::Reduced;
      remark::passed(op->getLoc(),
                     optionsOf(isSum ? FusionRule::PartitionPartial
                                     : FusionRule::PartitionSplit,
                               function))
          << remark::add("{0} is split over {1}", op->getName().getStringRef(),
                         mesh.names[axis])
          << remark::metric("Dim", unsigned(f))
          << remark::metric("Size", plan.rule.factors[f].size)
          << remark::metric("Part", plan.local[f]);
      if (plan.isPadded(f, mesh))
        remark::passed(op->getLoc(),
                       optionsOf(FusionRule::PartitionPadded, function))
            << remark::add("the last parts of {0} hold padding",
                           op->getName().getStringRef())
            << remark::metric("Size", plan.rule.factors[f].size)
            << remark::metric("Part", plan.local[f]);
    }
  for (const RefusedCut &cut : plan.refused) {
    auto text = remark::add("operand {0} of {1}, cut over {2}, is gathered",
                            cut.operand, op->getName().getStringRef(),
                            mesh.names[cut.axis]);
    if (getFusionRuleInfo(cut.why).accepts)
      remark::passed(op->getLoc(), optionsOf(cut.why, function)) << text;
    else
      remark::missed(op->getLoc(), optionsOf(cut.why, function)) << text;
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Compositions in place of the ops that the planner names.
static LogicalResult decompose(ArrayRef<Operation *> ops) {
  for (Operation *op : ops) {
    OpBuilder builder(op);
    FailureOr<SmallVector<Value>> values =
        cast<DecomposableOpInterface>(op).decompose(builder);
    if (failed(values))
      return op->emitOpError(
          "is cut along a dimension that it needs whole, and "
          "has no composition at this shape: cut another "
          "dimension");
    op->replaceAllUsesWith(*values);
    op->erase();
  }
  return success();
}

/// Whether the body can be partitioned; an error says why not.
static LogicalResult checkBody(func::FuncOp function) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError(
        "has control flow; a model is straight-line code");
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (op.getNumRegions() != 0)
      return op.emitOpError("stands in a program that is to be partitioned: "
                            "partition before ops are grouped");
    for (Value value : op.getResults())
      if (!isa<RankedTensorType>(value.getType()))
        return op.emitOpError(
            "has a result that is no ranked tensor, and can't "
            "be partitioned");
  }
  return success();
}

/// Writes what the ports became.
static void setPort(NamedAttrList &attributes, const Sharding &sharding,
                    RankedTensorType global, const Mesh &mesh) {
  Builder builder(global.getContext());
  if (sharding.getAxes())
    attributes.set(kShardingAttr, getShardingAttr(sharding, mesh));
  if (sharding.isPadded(global, mesh))
    attributes.set(kGlobalShapeAttr,
                   builder.getDenseI64ArrayAttr(global.getShape()));
}

static LogicalResult partition(func::FuncOp function, const Mesh &mesh,
                               const Ports &ports) {
  Block &old = function.getBody().front();
  std::optional<ShardingPlanner> planner;
  do {
    if (planner && failed(decompose(planner->toDecompose)))
      return failure();
    planner.emplace(old, mesh, ports.arguments, ports.results);
    planner->parameters = ports.parameters;
    planner->run();
  } while (!planner->toDecompose.empty());

  Block *body = new Block;
  function.getBody().push_back(body);
  OpBuilder builder(function.getContext());
  builder.setInsertionPointToStart(body);
  LocalValues values(builder, mesh);
  SmallVector<Type> inputs, outputs;
  for (auto [argument, sharding] :
       llvm::zip_equal(old.getArguments(), ports.arguments)) {
    RankedTensorType type = sharding.getLocalType(typeOf(argument));
    inputs.push_back(type);
    values.set(argument, body->addArgument(type, argument.getLoc()), sharding);
    NamedAttrList attributes(function.getArgAttrDict(argument.getArgNumber()));
    setPort(attributes, sharding, typeOf(argument), mesh);
    function.setArgAttrs(argument.getArgNumber(), attributes);
  }
  for (Operation &op : old.without_terminator()) {
    const OpPlan &plan = planner->getPlan(&op);
    report(function, &op, plan, mesh);
    buildLocalOp(builder, &op, plan, values, mesh);
  }
  SmallVector<Value> returned;
  for (auto [i, value] : llvm::enumerate(old.getTerminator()->getOperands())) {
    Sharding sharding = planner->getReturned(i);
    returned.push_back(
        values.get(value, sharding, old.getTerminator()->getLoc()));
    outputs.push_back(returned.back().getType());
    NamedAttrList attributes(function.getResultAttrDict(i));
    setPort(attributes, sharding, typeOf(value), mesh);
    function.setResultAttrs(i, attributes.getDictionary(function.getContext()));
  }
  func::ReturnOp::create(builder, old.getTerminator()->getLoc(), returned);
  function.setFunctionType(
      FunctionType::get(function.getContext(), inputs, outputs));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(old)))
    op.erase();
  old.erase();
  // What was made whole and is used only in parts.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

namespace {

struct Partition final : fusion::impl::PartitionBase<Partition> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>("main");
    FailureOr<MeshOp> op = findMesh(module, mesh);
    if (failed(op))
      return signalPassFailure();
    if (!function || function.isExternal() ||
        function->hasAttr(kPartitionedAttr))
      return;
    if (!*op) {
      if (failed(checkNoMesh(function)))
        signalPassFailure();
      return;
    }
    if (op->getAxisNames().size() > 16) {
      op->emitError("a mesh that a program is partitioned for has at most 16 "
                    "axes");
      return signalPassFailure();
    }
    Mesh axes(*op);
    FailureOr<Ports> ports = readPorts(function, axes, shardState);
    if (failed(ports))
      return signalPassFailure();
    if (!ports->isSharded) // one device, or a rank's program written by hand
      return warnUnused(*op, function);
    if (failed(checkBody(function)) ||
        failed(partition(function, axes, *ports)))
      return signalPassFailure();
    function->setAttr(kPartitionedAttr, UnitAttr::get(&getContext()));
    warnUnused(*op, function);
  }

  /// An axis that somebody asked for and nothing is cut over may be a typo.
  void warnUnused(MeshOp op, func::FuncOp function) {
    if (mesh.empty())
      return;
    llvm::DenseSet<Attribute> used;
    function.walk([&](CommunicationOpInterface collective) {
      for (Attribute axis : collective.getCommunicationAxes())
        used.insert(axis);
    });
    AttrTypeWalker walker;
    walker.addWalk([&](StringAttr name) { used.insert(name); });
    auto see = [&](Attribute sharding) {
      if (sharding)
        walker.walk(sharding);
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      see(function.getArgAttr(i, kShardingAttr));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      see(function.getResultAttr(i, kShardingAttr));
    for (auto [axis, size] : llvm::zip(op.getAxisNames(), op.getAxisSizes()))
      if (size > 1 && !used.contains(axis))
        mlir::emitWarning(function.getLoc())
            << "axis '" << cast<StringAttr>(axis).getValue()
            << "' of the mesh cuts nothing: its " << size
            << " ranks compute the same; name it dp to cut the batch, or give "
               "arguments a fusion.sharding over it";
  }

  /// Shardings need a mesh to speak of.
  LogicalResult checkNoMesh(func::FuncOp function) {
    if (shardState)
      return function.emitError("shards of parameters need a mesh: add "
                                "fusion.mesh, or give --mesh dp=2");
    SmallVector<Attribute> shardings;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      shardings.push_back(function.getArgAttr(i, kShardingAttr));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      shardings.push_back(function.getResultAttr(i, kShardingAttr));
    llvm::erase(shardings, Attribute());
    if (shardings.empty())
      return success();
    SmallVector<std::string> axes;
    for (Attribute sharding : shardings)
      sharding.walk([&](StringAttr axis) {
        std::string size = axis.str() + "=2";
        if (!llvm::is_contained(axes, size))
          axes.push_back(std::move(size));
      });
    return function.emitError("has shardings, and the module no mesh: add "
                              "fusion.mesh, or give --mesh ")
           << (axes.empty() ? "dp=2" : llvm::join(axes, ","))
           << "; with sizes of 1 it is one device's program";
  }
};

} // namespace

void fusion::buildPartitionPipeline(OpPassManager &manager,
                                    const PartitionOptions &options) {
  manager.addPass(createPartition(options));
  manager.addNestedPass<func::FuncOp>(createNarrowGathers());
}
