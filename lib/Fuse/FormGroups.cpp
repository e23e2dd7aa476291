//===- FormGroups.cpp - Rewrites a function into planned groups -----------===//
//
// Builds the new body behind the old one and erases the old one. Constants and
// parameters stay; a view is made where its value is first needed outside a
// group; a cheap op that was split for its readers becomes one group again for
// those that did not take it in.
//
//===----------------------------------------------------------------------===//
#include "BuildGroup.h"
#include "VerticalPlan.h"
#include "fusion/Analysis/LibraryRules.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

namespace {

class GroupFormer {
public:
  GroupFormer(Block &block, const FuseGraph &graph, const VerticalPlan &plan,
              llvm::function_ref<void(const FormedGroup &)> onFormed)
      : block(block), graph(graph), plan(plan), onFormed(onFormed),
        builder(OpBuilder::atBlockTerminator(&block)) {}

  void run();

private:
  /// The ops of a group that are computed inside it, in order: views of values
  /// outside are left out.
  SmallVector<Operation *> getBody(const PlannedGroup &group) const;
  void findOutsideReads();
  /// The product of a library's group to be kept, if any.
  Operation *findOwnPlace(ArrayRef<Operation *> body, GroupKind kind) const;
  void form(const PlannedGroup &group);
  /// The value in the new body that `value` of the old one has become.
  Value getNew(Value value) { return getOutside(value, values, builder); }
  unsigned getIndex(const PlannedGroup &group) const {
    return &group - plan.groups.begin();
  }

  Block &block;
  const FuseGraph &graph;
  const VerticalPlan &plan;
  llvm::function_ref<void(const FormedGroup &)> onFormed;
  OpBuilder builder;
  /// Values of the old body -> values of the new one, outside groups.
  IRMapping values;
  /// Ops of the old body whose values are read outside their group.
  llvm::DenseSet<Operation *> readOutside;
  /// Values that the function returns in an argument's bytes -> the argument.
  llvm::DenseMap<Value, Value> donorOf;
};

} // namespace

SmallVector<Operation *> GroupFormer::getBody(const PlannedGroup &group) const {
  llvm::SetVector<Operation *> body;
  for (unsigned member : group.members) {
    Operation *op = graph[member].op;
    if (isa<ReshapeOp>(op) && !body.contains(op->getOperand(0).getDefiningOp()))
      continue;
    body.insert(op);
  }
  return body.takeVector();
}

/// Reshapes aside, the value whose group has to exist for `value` to be read.
static Value getStored(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return value;
}

void GroupFormer::findOutsideReads() {
  auto addReads = [&](Operation *reader,
                      const llvm::SmallPtrSetImpl<Operation *> &inside) {
    for (Value operand : reader->getOperands())
      if (Operation *producer = getStored(operand).getDefiningOp())
        if (!inside.contains(operand.getDefiningOp()))
          readOutside.insert(producer);
  };
  addReads(block.getTerminator(), llvm::SmallPtrSet<Operation *, 1>());
  // From the last group back: a clone that stands alone reads something only if
  // it is read itself.
  for (const PlannedGroup &group : llvm::reverse(plan.groups)) {
    SmallVector<Operation *> body = getBody(group);
    if (body.empty() ||
        (group.members.size() == 1 && graph[group.members.front()].isClone &&
         !readOutside.contains(body.front())))
      continue;
    llvm::SmallPtrSet<Operation *, 16> inside(body.begin(), body.end());
    for (Operation *op : body) {
      addReads(op, inside);
      for (Region &region : op->getRegions())
        region.walk([&](Operation *nested) { addReads(nested, inside); });
    }
  }
}

/// A library's product that only its tail reads is computed in the bytes of one
/// of the group's results. Where that result takes the bytes of an argument
/// that the tail has yet to read, the product would keep it from being there at
/// once, and a copy would follow: the product gets a place of its own.
Operation *GroupFormer::findOwnPlace(ArrayRef<Operation *> body,
                                     GroupKind kind) const {
  auto isProduct = [](Operation *op) { return isa<MatmulOp>(op); };
  auto it = llvm::find_if(body, isProduct);
  if (kind != GroupKind::Library || it == body.end())
    return nullptr;
  Value product = (*it)->getResult(0);
  if (product.hasOneUse() &&
      classifyLibraryEpilogue(*it, *product.user_begin(), product,
                              /*hasBias=*/false,
                              /*hasAddend=*/false) != LibraryEpilogue::None)
    return nullptr;
  auto isDonated = [&](Operation *op) {
    Value donor = donorOf.lookup(op->getResult(0));
    return donor && op->getResult(0).getType() == product.getType() &&
           llvm::any_of(body, [&](Operation *reader) {
             return llvm::is_contained(reader->getOperands(), donor);
           });
  };
  return llvm::any_of(body, isDonated) ? *it : nullptr;
}

void GroupFormer::form(const PlannedGroup &group) {
  SmallVector<Operation *> body = getBody(group);
  if (body.empty())
    return;
  const FuseNode &first = graph[group.members.front()];
  if (first.family == OpFamily::Outside) {
    IRMapping operands;
    for (Value value : first.op->getOperands())
      operands.map(value, getNew(value));
    for (Region &region : first.op->getRegions())
      region.walk([&](Operation *nested) {
        for (Value value : nested->getOperands())
          if (value.getParentBlock() == &block)
            operands.map(value, getNew(value));
      });
    Operation *copy = builder.clone(*first.op, operands);
    values.map(first.op->getResults(), copy->getResults());
    onFormed({getIndex(group), copy, {first.op}, {}});
    return;
  }
  // The first of the clones that stand alone serves all that read one.
  bool sharedClone = group.members.size() == 1 && first.isClone;
  if (sharedClone && (!readOutside.contains(first.op) ||
                      values.contains(first.op->getResult(0))))
    return;
  llvm::SmallPtrSet<Operation *, 16> outputs;
  // A user's kernel writes all of its results, read or not.
  for (unsigned member : group.members)
    if ((sharedClone || !graph[member].isClone) &&
        !llvm::is_contained(group.repeated, member) &&
        (readOutside.contains(graph[member].op) ||
         isa<KernelCallOp>(graph[member].op)))
      outputs.insert(graph[member].op);
  if (Operation *product = findOwnPlace(body, group.kind))
    outputs.insert(product);
  FormedGroup formed{getIndex(group), nullptr, body, {}};
  llvm::copy_if(body, std::back_inserter(formed.outputs),
                [&](Operation *op) { return outputs.contains(op); });
  formed.op = buildGroup(body, formed.outputs, group.kind, values, builder);
  onFormed(formed);
}

void GroupFormer::run() {
  SmallVector<Operation *> sources, old;
  for (Operation &op : block.without_terminator())
    (getOpFamily(&op) == OpFamily::Source ? sources : old).push_back(&op);
  findOutsideReads();
  auto returned = block.getTerminator()->getOperands();
  if (auto function = dyn_cast<FunctionOpInterface>(block.getParentOp()))
    for (BlockArgument argument : block.getArguments())
      if (auto index = function.getArgAttrOfType<IntegerAttr>(
              argument.getArgNumber(), FusionDialect::kDonatedAttr);
          index && index.getValue().ult(returned.size()))
        donorOf[returned[index.getInt()]] = argument;
  for (const PlannedGroup &group : plan.groups)
    form(group);
  for (OpOperand &operand : block.getTerminator()->getOpOperands())
    operand.set(getNew(operand.get()));
  // What is still read is a view of an argument or parameter.
  for (ArrayRef<Operation *> ops : {ArrayRef(old), ArrayRef(sources)})
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty())
        op->erase();
}

void fusion::formGroups(
    Block &block, const FuseGraph &graph, const VerticalPlan &plan,
    llvm::function_ref<void(const FormedGroup &)> onFormed) {
  GroupFormer(block, graph, plan, onFormed).run();
}
