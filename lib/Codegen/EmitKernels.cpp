//===- EmitKernels.cpp - Groups to kernels --------------------------------===//
//
// The pass: decomposes named ops inside groups, then gives each group a kernel,
// its own or that of an equal group, by the emitter of its kind. Linear in the
// number of ops.
//
//===----------------------------------------------------------------------===//
#include "Cuda/LowerCudaKernels.h"
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/Codegen/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/CSE.h"

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
  void addFallback(GroupOp group, const BatchExtents &extents,
                   LibraryPlan &plan);
  DictionaryAttr addLaunchFallback(GroupOp launch, ArrayRef<GroupOp> members,
                                   DictionaryAttr call);
  LogicalResult emitLaunch(GroupOp launch);
  void noteMaxBatch(ArrayRef<func::FuncOp> functions);
  LogicalResult emitLaunchKernel(GroupOp launch, ArrayRef<GroupOp> members,
                                 ArrayRef<int64_t> operandCounts);

  ModuleOp kernels;
  Machine machine = Machine::Cpu;
  unsigned numKernels = 0;
  llvm::DenseMap<size_t, SmallVector<Emitted, 1>> known;
  llvm::StringMap<func::FuncOp> kernelOf;
  /// Kernels of launches by their members' kernels.
  llvm::StringMap<SymbolRefAttr> knownLaunches;
};

} // namespace

/// Replaces named ops by their definitions, until none is left but attention
/// that a library computes or its gradient, and attention in a loop, whose
/// elements would compute a softmax for each key.
LogicalResult EmitKernels::decomposeBodies(SmallVectorImpl<GroupOp> &groups) {
  for (GroupOp group : groups) {
    SmallVector<Operation *> worklist;
    auto collect = [&](Operation *op) {
      bool stays =
          (isa<AttentionOp>(op) && group.getKind() == GroupKind::Loop) ||
          (isa<AttentionOp, AttentionGradOp>(op) &&
           group.getKind() == GroupKind::Library && findLibraryRule(op));
      if (isa<DecomposableOpInterface>(op) && !stays)
        worklist.push_back(op);
    };
    for (Operation &op : *group.getBodyBlock())
      collect(&op);
    bool isNew = !worklist.empty();
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
    // A softmax and its logarithm have the same maximum and the same sum.
    if (isNew) {
      IRRewriter rewriter(group.getContext());
      DominanceInfo dominance(group);
      eliminateCommonSubExpressions(rewriter, dominance, group);
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
    if (isa<YieldOp, ConstantOp, BroadcastOp, ReshapeOp>(op) ||
        (group.getKind() == GroupKind::Library && isa<TransposeOp>(op)))
      continue;
    if (++count > 8)
      return text + " ...";
    text +=
        " " + op.getName().getStringRef().drop_front(strlen("fusion.")).str();
    if (auto call = dyn_cast<KernelCallOp>(op))
      text += " " + call.getEntry().str();
  }
  return text;
}

/// Inputs that the tail of a library's call may write over: it reads them where
/// it writes, and the call, which writes `library.output`, reads none of them.
/// `inputs` are those of the tail.
static SmallVector<std::pair<unsigned, unsigned>>
findTailInPlacePairs(GroupOp group, const LibraryPlan &library,
                     ArrayRef<int64_t> inputs) {
  auto operands = cast<DictionaryAttr>(library.call)
                      .getAs<DenseI64ArrayAttr>("operands")
                      .asArrayRef();
  SmallVector<std::pair<unsigned, unsigned>> pairs =
      findInPlacePairs(group, std::nullopt);
  llvm::erase_if(pairs, [&](const auto &pair) {
    return pair.first == library.output ||
           llvm::is_contained(operands, int64_t(pair.second)) ||
           !llvm::is_contained(inputs, int64_t(pair.second));
  });
  return pairs;
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
    inPlace = findTailInPlacePairs(group, *library, inputs);
  } else {
    for (unsigned i = 0; i < numInputs; ++i)
      addOperand(i);
    for (auto [i, value] : llvm::enumerate(yielded))
      stores.push_back({value, addOperand(numInputs + i)});
    rows = findRowSpace(group.getBodyBlock());
    inPlace = findInPlacePairs(group, rows);
  }

  std::string name = "k" + std::to_string(numKernels++);
  KernelBuilder k(kernels, name, operands.size(), group.getLoc(), extents,
                  machine);
  k.isFast = machine == Machine::Cuda && fp == "fast";
  for (auto [output, input] : inPlace)
    k.allowInPlace(position[numInputs + output], position[input]);
  k.sealAliases();
  if (machine == Machine::Cuda)
    describeOperands(k, group, operands, stores, inPlace);
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
  auto userKernels = group.getBodyBlock()->getOps<KernelCallOp>();
  bool hasScatter = !group.getBodyBlock()->getOps<ScatterOp>().empty();
  MatmulOp rowProduct = library || machine == Machine::Cuda
                            ? MatmulOp()
                            : findProductWithPrologue(task);
  if (machine == Machine::Cuda)
    shape = hasScatter               ? emitCudaScatter(task, reason)
            : rows && rows->trailing ? emitCudaRowReduce(task, *rows, reason)
            : rows                   ? emitCudaColumnReduce(task, *rows, reason)
                                     : emitCudaLoop(task, reason);
  else if (!userKernels.empty())
    shape = emitUserKernel(task, *userKernels.begin(), reason);
  else if (hasScatter)
    shape = emitScatter(task, reason);
  else if (rowProduct)
    shape = emitRowProduct(task, rowProduct);
  else if (rows && rows->trailing)
    shape = emitRowReduce(task, *rows, reason);
  else if (rows)
    shape = emitColumnReduce(task, *rows, reason);
  else
    shape = emitLoop(task, reason);
  if (!shape)
    return !userKernels.empty()
               ? group.emitError(reason)
               : group.emitError("can't be compiled as one kernel: ")
                     << reason << "; split the group";
  k.finish(shape->units, shape->grain, shape->threads, describe(group));
  kernelOf[name] = k.function;

  OpBuilder builder(group);
  auto kernel =
      SymbolRefAttr::get(kernels.getSymNameAttr(),
                         {FlatSymbolRefAttr::get(builder.getContext(), name)});
  group.setKernelAttr(kernel);
  if (library)
    group->setAttr("fusion.tail_operands",
                   builder.getDenseI64ArrayAttr(operands));
  SmallVector<int64_t> flat;
  if (library && library->inPlace)
    flat.append({library->inPlace->first, library->inPlace->second});
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

/// A kernel that stands in for a library's call, where one can be made.
void EmitKernels::addFallback(GroupOp group, const BatchExtents &extents,
                              LibraryPlan &plan) {
  std::string name = "k" + std::to_string(numKernels);
  func::FuncOp kernel =
      emitCudaFallback(kernels, name, group, plan, extents, fp == "fast",
                       "instead of " + describe(group));
  if (!kernel)
    return;
  ++numKernels;
  kernelOf[name] = kernel;
  plan.call = withFallback(cast<DictionaryAttr>(plan.call), kernel);
}

/// The same for all members of a launch, if each of them has one.
DictionaryAttr EmitKernels::addLaunchFallback(GroupOp launch,
                                              ArrayRef<GroupOp> members,
                                              DictionaryAttr call) {
  SmallVector<func::FuncOp> own;
  std::string key = "call";
  for (GroupOp member : members) {
    auto name = member->getAttrOfType<DictionaryAttr>("fusion.call")
                    .getAs<StringAttr>("fallback");
    if (!name)
      return call;
    func::FuncOp &function = kernelOf[name];
    if (!function) // from an earlier run
      function = kernels.lookupSymbol<func::FuncOp>(name);
    own.push_back(function);
    key += ' ' + name.str();
  }
  SymbolRefAttr &known = knownLaunches[key];
  if (!known) {
    std::string name = "k" + std::to_string(numKernels);
    if (!emitCudaFallbacks(kernels, name, launch, own,
                           "instead of " + std::to_string(members.size()) +
                               " x " + describe(members.front())))
      return call;
    ++numKernels;
    known = FlatSymbolRefAttr::get(launch.getContext(), name);
  }
  return withFallback(
      call, kernels.lookupSymbol<func::FuncOp>(known.getLeafReference()));
}

LogicalResult EmitKernels::emit(GroupOp group, const BatchExtents &extents) {
  // The members were emitted before.
  if (group.getKind() == GroupKind::Horizontal)
    return emitLaunch(group);
  std::string reason;
  if (machine == Machine::Cuda)
    for (KernelCallOp call : group.getBodyBlock()->getOps<KernelCallOp>())
      return call.emitError("the kernel '")
             << call.getEntry() << "' is written in " << call.getLanguage()
             << "; on a GPU there is no kernel but of ops: write it in ops, or "
                "in C and compile with --target=cpu";
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
    if (machine == Machine::Cuda)
      addFallback(group, extents, *plan);
    group->setAttr("fusion.call", plan->call);
    if (plan->hasTail && failed(emitKernel(group, extents, &*plan)))
      return failure();
    if (plan->inPlace && !plan->hasTail)
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

/// Indices into the inputs and outputs of a member as indices into those of its
/// launch, which are the members' one after the other.
static SmallVector<int64_t> mapToLaunch(ArrayRef<int64_t> indices,
                                        GroupOp member, GroupOp launch,
                                        int64_t firstInput,
                                        int64_t firstOutput) {
  int64_t numInputs = member.getInputs().size();
  int64_t allInputs = launch.getInputs().size();
  return llvm::map_to_vector(indices, [&](int64_t index) {
    return index < numInputs ? firstInput + index
                             : allInputs + firstOutput + index - numInputs;
  });
}

/// One kernel for the kernels of all members.
LogicalResult EmitKernels::emitLaunchKernel(GroupOp launch,
                                            ArrayRef<GroupOp> members,
                                            ArrayRef<int64_t> operandCounts) {
  std::string key;
  SmallVector<HorizontalMember> parts;
  int64_t firstOperand = 0;
  for (auto [i, count] : llvm::enumerate(operandCounts)) {
    GroupOp member = members[i];
    StringAttr symbol = member.getKernelAttr().getLeafReference();
    func::FuncOp &function = kernelOf[symbol];
    if (!function) // from an earlier run
      function = kernels.lookupSymbol<func::FuncOp>(symbol);
    auto units = function->getAttrOfType<ExtentAttr>("fusion.units");
    auto grain = function->getAttrOfType<IntegerAttr>("fusion.grain");
    parts.push_back({FlatSymbolRefAttr::get(function.getSymNameAttr()),
                     firstOperand, Extent{units.getScale(), units.getBase()},
                     grain.getInt()});
    if (auto threads = function->getAttrOfType<IntegerAttr>("fusion.threads"))
      parts.back().threads = threads.getInt();
    firstOperand += count;
    key += function.getSymName().str() + ':' + std::to_string(count) + ' ';
  }
  SymbolRefAttr &kernel = knownLaunches[key];
  if (!kernel) {
    std::string name = "k" + std::to_string(numKernels++);
    std::string description = "horizontal: " + std::to_string(members.size()) +
                              " x " + describe(members.front());
    auto emit = machine == Machine::Cuda ? emitCudaHorizontalKernel
                                         : emitHorizontalKernel;
    if (failed(emit(kernels, name, launch.getLoc(), parts, description)))
      return launch.emitError("the members have more units of work than a "
                              "launch can have; split the group");
    kernel =
        SymbolRefAttr::get(kernels.getSymNameAttr(),
                           {FlatSymbolRefAttr::get(launch.getContext(), name)});
    remark::passed(launch.getLoc(),
                   remark::RemarkOpts::name("emit-kernel").category("fusion"))
        << description << " is kernel " << name;
  }
  launch.setKernelAttr(kernel);
  return success();
}

/// The command of a horizontal group from those of its members: one launch, or
/// one grouped library call and one launch for all tails.
LogicalResult EmitKernels::emitLaunch(GroupOp launch) {
  SmallVector<GroupOp> members(launch.getBodyBlock()->getOps<GroupOp>());
  SmallVector<int64_t> callOperands, kernelOperands, operandCounts, inPlace;
  auto firstCall = withoutFallback(
      members.front()->getAttrOfType<DictionaryAttr>("fusion.call"));
  bool hasKernel = static_cast<bool>(members.front().getKernelAttr());
  int64_t firstInput = 0, firstOutput = 0;
  for (GroupOp member : members) {
    auto call =
        withoutFallback(member->getAttrOfType<DictionaryAttr>("fusion.call"));
    if (call != firstCall ||
        static_cast<bool>(member.getKernelAttr()) != hasKernel)
      return launch.emitError("members that a library computes must be one and "
                              "the same call; split the group");
    for (auto [number, input] : llvm::enumerate(member.getInputs()))
      if (auto argument = dyn_cast<BlockArgument>(input);
          !argument || argument.getArgNumber() != firstInput + number)
        return launch.emitError("its inputs must be those of its members, in "
                                "their order");
    for (auto [number, output] : llvm::enumerate(member.getOutputs())) {
      size_t at = firstOutput + number;
      if (at >= launch.getYield().getValues().size() ||
          launch.getYield().getValues()[at] != output)
        return launch.emitError("its outputs must be those of its members, in "
                                "their order");
    }
    auto map = [&](ArrayRef<int64_t> indices) {
      return mapToLaunch(indices, member, launch, firstInput, firstOutput);
    };
    if (call)
      callOperands.append(
          map(call.getAs<DenseI64ArrayAttr>("operands").asArrayRef()));
    if (hasKernel) {
      SmallVector<int64_t> own = llvm::to_vector(llvm::seq<int64_t>(
          0, member.getInputs().size() + member.getOutputs().size()));
      if (call)
        own = llvm::to_vector(
            member->getAttrOfType<DenseI64ArrayAttr>("fusion.tail_operands")
                .asArrayRef());
      kernelOperands.append(map(own));
      operandCounts.push_back(own.size());
    }
    if (auto pairs =
            member->getAttrOfType<DenseI64ArrayAttr>("fusion.in_place"))
      for (size_t i = 0; i + 1 < pairs.asArrayRef().size(); i += 2)
        inPlace.append({firstOutput + pairs.asArrayRef()[i],
                        firstInput + pairs.asArrayRef()[i + 1]});
    firstInput += member.getInputs().size();
    firstOutput += member.getOutputs().size();
  }
  if (firstInput != static_cast<int64_t>(launch.getInputs().size()) ||
      firstOutput != static_cast<int64_t>(launch.getOutputs().size()))
    return launch.emitError("has inputs or outputs that no member has");

  OpBuilder builder(launch);
  if (firstCall) {
    NamedAttrList call(firstCall);
    call.set("members", builder.getI64IntegerAttr(members.size()));
    call.set("operands", builder.getDenseI64ArrayAttr(callOperands));
    DictionaryAttr all = call.getDictionary(builder.getContext());
    if (machine == Machine::Cuda)
      all = addLaunchFallback(launch, members, all);
    launch->setAttr("fusion.call", all);
  }
  if (hasKernel) {
    launch->setAttr(firstCall ? "fusion.tail_operands"
                              : "fusion.kernel_operands",
                    builder.getDenseI64ArrayAttr(kernelOperands));
    if (failed(emitLaunchKernel(launch, members, operandCounts)))
      return failure();
  }
  if (!inPlace.empty())
    launch->setAttr("fusion.in_place", builder.getDenseI64ArrayAttr(inPlace));
  return success();
}

/// Says in the module of kernels how large a batch can be; not where a function
/// leaves it open.
void EmitKernels::noteMaxBatch(ArrayRef<func::FuncOp> functions) {
  int64_t most = 1;
  for (func::FuncOp function : functions) {
    auto range = function->getAttrOfType<DenseI64ArrayAttr>("fusion.batch");
    bool isOpen = llvm::any_of(function.getArgumentTypes(), [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && !tensor.hasStaticShape();
    });
    if (range && range.size() == 2)
      most = std::max(most, range[1]);
    else if (isOpen)
      return;
  }
  kernels->setAttr(codegen::kMaxBatchAttr,
                   Builder(&getContext()).getI64IntegerAttr(most));
}

void EmitKernels::runOnOperation() {
  ModuleOp module = getOperation();
  if (target != "cpu" && target != "cuda") {
    module.emitError("unknown target '")
        << target << "' of fusion-emit-kernels; use cpu or cuda";
    return signalPassFailure();
  }
  machine = target == "cuda" ? Machine::Cuda : Machine::Cpu;
  known.clear();
  knownLaunches.clear();
  kernelOf.clear();
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  SmallVector<GroupOp> groups;
  for (func::FuncOp function : functions) {
    for (GroupOp group : function.getOps<GroupOp>())
      if (markView(group))
        remark::passed(
            group.getLoc(),
            remark::RemarkOpts::name("slice-view").category("fusion"))
            << remark::reason("what it takes lies together in its input: no "
                              "bytes move");
    for (GroupOp group : function.getOps<GroupOp>())
      if (!group->hasAttr(kViewAttr) && markPieces(group))
        remark::passed(
            group.getLoc(),
            remark::RemarkOpts::name("concat-in-place").category("fusion"))
            << remark::reason("its operands are computed where they lie in "
                              "it: no bytes move");
    function.walk([&](GroupOp group) {
      if (!group.getKernelAttr() && !group->hasAttr("fusion.call") &&
          !group->hasAttr(kViewAttr) && !group->hasAttr(kPiecesAttr) &&
          !group->getParentOp()->hasAttr(kViewAttr))
        groups.push_back(group);
    });
  }
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
  if (machine == Machine::Cuda)
    noteMaxBatch(functions);
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
