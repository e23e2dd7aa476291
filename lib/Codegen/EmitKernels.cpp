//===- EmitKernels.cpp - Groups to kernels --------------------------------===//
//
// The pass: decomposes named ops inside groups, then gives each group a kernel,
// its own or that of an equal group, by the emitter of its kind. Linear in the
// number of ops.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/Codegen/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace fusion {
#define GEN_PASS_DEF_EMITKERNELS
#include "fusion/Codegen/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

namespace {

/// What emission adds to a group, to be repeated for its equals.
struct Emitted {
  GroupOp group;
  SmallVector<NamedAttribute> attributes;
  SymbolRefAttr kernel;
};

class EmitKernels : public fusion::impl::EmitKernelsBase<EmitKernels> {
public:
  using EmitKernelsBase::EmitKernelsBase;
  void runOnOperation() override;

private:
  LogicalResult decomposeBodies(SmallVectorImpl<GroupOp> &groups);
  LogicalResult emit(GroupOp group, const BatchExtents &extents);
  LogicalResult emitKernel(GroupOp group, const BatchExtents &extents,
                           const LibraryPlan *library);

  ModuleOp kernels;
  unsigned numKernels = 0;
  llvm::DenseMap<size_t, SmallVector<Emitted, 1>> known;
};

} // namespace

/// Replaces named ops by their definitions, until none is left.
LogicalResult EmitKernels::decomposeBodies(SmallVectorImpl<GroupOp> &groups) {
  for (GroupOp group : groups) {
    SmallVector<Operation *> worklist;
    auto collect = [&](Operation *op) {
      if (isa<DecomposableOpInterface>(op))
        worklist.push_back(op);
    };
    for (Operation &op : *group.getBodyBlock())
      collect(&op);
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      Operation *before = op->getPrevNode();
      OpBuilder builder(op);
      auto values = cast<DecomposableOpInterface>(op).decompose(builder);
      if (failed(values))
        return op->emitError("can't be decomposed");
      for (Operation *made = before ? before->getNextNode()
                                    : &group.getBodyBlock()->front();
           made != op; made = made->getNextNode())
        collect(made);
      op->replaceAllUsesWith(*values);
      op->erase();
    }
    // Ops that nothing reads cost nothing, but would shape the kernel.
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(*group.getBodyBlock())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
  return success();
}

static std::string describe(GroupOp group) {
  std::string text = stringifyGroupKind(group.getKind()).str() + ":";
  unsigned count = 0;
  for (Operation &op : *group.getBodyBlock()) {
    if (isa<YieldOp, ConstantOp, BroadcastOp, ReshapeOp>(op))
      continue;
    if (++count > 8)
      return text + " ...";
    text +=
        " " + op.getName().getStringRef().drop_front(strlen("fusion.")).str();
  }
  return text;
}

LogicalResult EmitKernels::emitKernel(GroupOp group,
                                      const BatchExtents &extents,
                                      const LibraryPlan *library) {
  unsigned numInputs = group.getInputs().size();
  SmallVector<int64_t> operands; // of the kernel, in inputs ++ outputs
  llvm::DenseMap<int64_t, unsigned> position;
  auto addOperand = [&](int64_t index) {
    if (position.try_emplace(index, operands.size()).second)
      operands.push_back(index);
    return position[index];
  };
  OperandRange yielded = group.getYield().getValues();
  SmallVector<std::pair<Value, unsigned>> stores;
  SmallVector<std::pair<unsigned, unsigned>> inPlace;
  std::optional<RowSpace> rows;
  // What the outputs need, back to the inputs or to the library's result.
  Value chained = library ? library->chained : nullptr;
  SmallVector<Value> worklist;
  for (Value value : yielded)
    if (value != chained)
      worklist.push_back(value);
  llvm::DenseSet<Value> seen;
  SmallVector<Operation *> ops;
  SmallVector<int64_t> inputs;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second || value == chained)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      inputs.push_back(argument.getArgNumber());
      continue;
    }
    Operation *op = value.getDefiningOp();
    ops.push_back(op);
    worklist.append(op->operand_begin(), op->operand_end());
  }
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  if (library) {
    llvm::sort(inputs);
    for (int64_t input : inputs)
      addOperand(input);
    addOperand(numInputs + library->output);
    for (auto [i, value] : llvm::enumerate(yielded))
      if (value != library->chained)
        stores.push_back({value, addOperand(numInputs + i)});
  } else {
    for (unsigned i = 0; i < numInputs; ++i)
      addOperand(i);
    for (auto [i, value] : llvm::enumerate(yielded))
      stores.push_back({value, addOperand(numInputs + i)});
    rows = findRowSpace(group.getBodyBlock());
    inPlace = findInPlacePairs(group, rows);
  }

  std::string name = "k" + std::to_string(numKernels++);
  KernelBuilder k(kernels, name, operands.size(), group.getLoc(), extents);
  for (auto [output, input] : inPlace)
    k.allowInPlace(position[numInputs + output], position[input]);
  k.sealAliases();
  BodyEvaluator evaluator(k, group.getBodyBlock());
  if (library) {
    for (BlockArgument argument : group.getBodyBlock()->getArguments())
      if (auto found = position.find(argument.getArgNumber());
          found != position.end())
        evaluator.bindOperand(argument, found->second);
    evaluator.bindOperand(library->chained,
                          position[numInputs + library->output]);
  }
  KernelTask task{k, evaluator, group, stores, ops};

  std::string reason;
  std::optional<KernelShape> shape;
  bool hasScatter = !group.getBodyBlock()->getOps<ScatterOp>().empty();
  if (hasScatter)
    shape = emitScatter(task, reason);
  else if (rows && rows->trailing)
    shape = emitRowReduce(task, *rows, reason);
  else if (rows)
    shape = emitColumnReduce(task, *rows, reason);
  else
    shape = emitLoop(task, reason);
  if (!shape)
    return group.emitError("can't be compiled as one kernel: ")
           << reason << "; split the group";
  k.finish(shape->units, shape->grain, describe(group));

  OpBuilder builder(group);
  auto kernel =
      SymbolRefAttr::get(kernels.getSymNameAttr(),
                         {FlatSymbolRefAttr::get(builder.getContext(), name)});
  group.setKernelAttr(kernel);
  if (library)
    group->setAttr("fusion.tail_operands",
                   builder.getDenseI64ArrayAttr(operands));
  SmallVector<int64_t> flat;
  for (auto [output, input] : inPlace)
    flat.append({output, input});
  if (!flat.empty())
    group->setAttr("fusion.in_place", builder.getDenseI64ArrayAttr(flat));
  remark::passed(group.getLoc(),
                 remark::RemarkOpts::name("emit-kernel").category("fusion"))
      << remark::reason("one kernel for each distinct group body")
      << describe(group) << " is kernel " << name;
  return success();
}

LogicalResult EmitKernels::emit(GroupOp group, const BatchExtents &extents) {
  if (group.getKind() == GroupKind::Horizontal)
    return group.emitError(
        "groups of kind horizontal have no emitter for this target");
  std::string reason;
  if (!canEmit(group, reason))
    return group.emitError("has no kernel: ") << reason;

  size_t hash = hashGroup(group, extents);
  SmallVector<Emitted, 1> &candidates = known[hash];
  for (const Emitted &candidate : candidates)
    if (areEquivalent(candidate.group, group, extents)) {
      if (candidate.kernel)
        group.setKernelAttr(candidate.kernel);
      for (NamedAttribute attribute : candidate.attributes)
        group->setAttr(attribute.getName(), attribute.getValue());
      return success();
    }

  if (group.getKind() == GroupKind::Library) {
    FailureOr<LibraryPlan> plan = planLibrary(group, extents);
    if (failed(plan))
      return failure();
    group->setAttr("fusion.call", plan->call);
    if (plan->hasTail && failed(emitKernel(group, extents, &*plan)))
      return failure();
    if (plan->inPlace)
      group->setAttr("fusion.in_place",
                     OpBuilder(group).getDenseI64ArrayAttr(
                         {plan->inPlace->first, plan->inPlace->second}));
  } else if (failed(emitKernel(group, extents, nullptr))) {
    return failure();
  }
  Emitted emitted{group, {}, group.getKernelAttr()};
  for (StringRef name :
       {"fusion.call", "fusion.tail_operands", "fusion.in_place"})
    if (Attribute attribute = group->getDiscardableAttr(name))
      emitted.attributes.push_back(
          {StringAttr::get(group.getContext(), name), attribute});
  candidates.push_back(std::move(emitted));
  return success();
}

void EmitKernels::runOnOperation() {
  ModuleOp module = getOperation();
  known.clear();
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  SmallVector<GroupOp> groups;
  for (func::FuncOp function : functions)
    function.walk([&](GroupOp group) {
      if (!group.getKernelAttr() && !group->hasAttr("fusion.call"))
        groups.push_back(group);
    });
  if (groups.empty())
    return;
  if (failed(decomposeBodies(groups)))
    return signalPassFailure();

  kernels = module.lookupSymbol<ModuleOp>("kernels");
  if (!kernels) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    kernels = ModuleOp::create(builder, module.getLoc(), "kernels");
  }
  numKernels = llvm::range_size(kernels.getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    FailureOr<BatchExtents> extents = BatchExtents::analyze(function);
    if (failed(extents))
      return signalPassFailure();
    for (GroupOp group : groups)
      if (group->getParentOfType<func::FuncOp>() == function &&
          failed(emit(group, *extents)))
        return signalPassFailure();
    known.clear();
  }
}
