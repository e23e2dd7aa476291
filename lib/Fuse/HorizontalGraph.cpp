//===- HorizontalGraph.cpp - A function's groups as candidates ------------===//
//
// One walk over the function. Keys are compared exactly: no hash is trusted.
//
//===----------------------------------------------------------------------===//
#include "HorizontalGraph.h"
#include "BucketPlan.h"
#include "fusion/Analysis/LibraryGradients.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Allocator.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

namespace {

/// Numbers groups so that equal ones have equal numbers.
class KeyTable {
public:
  explicit KeyTable(const FusionLegality &legality) : legality(legality) {}

  /// The key of a group, with element types or without.
  unsigned find(GroupOp group, bool withTypes);

private:
  void addTensor(Value value);
  void addPointer(const void *pointer) {
    key.push_back(reinterpret_cast<uintptr_t>(pointer));
  }

  const FusionLegality &legality;
  llvm::DenseMap<ArrayRef<uintptr_t>, unsigned> known;
  llvm::BumpPtrAllocator storage;
  SmallVector<uintptr_t, 64> key;
  bool withTypes = true, withShapes = true;
};

} // namespace

void KeyTable::addTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (withTypes)
    addPointer(type.getElementType().getAsOpaquePointer());
  if (!withShapes)
    return;
  key.push_back(type.getRank());
  for (Extent extent : legality.getShape(value)) {
    key.push_back(extent.scale);
    key.push_back(extent.base);
  }
}

/// The number that a splat holds, whatever its type.
static uintptr_t getNumber(Attribute element) {
  if (auto number = dyn_cast<FloatAttr>(element))
    return llvm::bit_cast<uintptr_t>(number.getValueAsDouble());
  return cast<IntegerAttr>(element).getValue().getSExtValue();
}

/// The ops of a group behind what they read, in an order that follows from its
/// results: the same for groups that differ in where their ops stood before.
static SmallVector<Operation *> getOrderFromResults(GroupOp group) {
  SmallVector<Operation *> order;
  SmallVector<std::pair<Operation *, unsigned>> stack{{group.getYield(), 0}};
  llvm::SmallPtrSet<Operation *, 32> seen;
  while (!stack.empty()) {
    auto &[op, next] = stack.back();
    if (next == op->getNumOperands()) {
      order.push_back(op);
      stack.pop_back();
      continue;
    }
    Operation *producer = op->getOperand(next++).getDefiningOp();
    if (producer && seen.insert(producer).second)
      stack.push_back({producer, 0});
  }
  return order;
}

unsigned KeyTable::find(GroupOp group, bool types) {
  GroupKind kind = group.getKind();
  withTypes = types;
  // One grouped call serves equal contractions only, by their operands' order.
  withShapes = kind == GroupKind::Library || kind == GroupKind::Contraction;
  key.assign({static_cast<uintptr_t>(types), static_cast<uintptr_t>(kind),
              static_cast<uintptr_t>(group->hasAttr(kGradientsAttr))});
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto addArgument = [&](Value value) {
    if (isa<BlockArgument>(value) &&
        numbers.try_emplace(value, numbers.size()).second)
      addTensor(value);
  };
  if (withShapes)
    llvm::for_each(group.getBodyBlock()->getArguments(), addArgument);
  for (Operation *op : getOrderFromResults(group)) {
    addPointer(op->getName().getAsOpaquePointer());
    key.push_back(op->getNumOperands());
    // The type of a splat has the member's own shape.
    auto constant = dyn_cast<ConstantOp>(op);
    auto splat = constant ? dyn_cast<DenseElementsAttr>(constant.getValueAttr())
                          : DenseElementsAttr();
    if (splat && splat.isSplat())
      key.push_back(getNumber(splat.getSplatValue<Attribute>()));
    else
      addPointer(op->getAttrDictionary().getAsOpaquePointer());
    llvm::for_each(op->getOperands(), addArgument);
    for (Value operand : op->getOperands())
      key.push_back(numbers.lookup(operand));
    for (Value result : op->getResults()) {
      numbers.try_emplace(result, numbers.size());
      addTensor(result);
    }
  }
  auto it = known.find(key);
  if (it != known.end())
    return it->second;
  unsigned number = known.size();
  known.try_emplace(ArrayRef<uintptr_t>(key).copy(storage), number);
  return number;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// The values that an op reads, those of its regions included.
static llvm::SetVector<Value> getReadValues(Operation *op) {
  llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
  if (op->getNumRegions() > 0 && !op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    getUsedValuesDefinedAbove(op->getRegions(), read);
  return read;
}

static Value lookThroughViews(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return value;
}

/// What the tail of a library call finds in the cache because both are cut
/// into parts of this size; a smaller result stays there whole.
static double getNearBytes(GroupOp group, const FusionLegality &legality) {
  static constexpr int64_t kWholeBytes = 256 << 10;
  if (group.getKind() != GroupKind::Library)
    return 0;
  bool hasTail = llvm::any_of(*group.getBodyBlock(), [](Operation &op) {
    return isa<ElementwiseOpInterface>(op) && !isa<AddOp>(op);
  });
  int64_t bytes = legality.getByteSize(group.getOutputs().front());
  return hasTail && bytes > kWholeBytes ? bytes : 0;
}

/// Whether `op` takes rows of its input, which code generation makes a view: it
/// keeps no bytes alive but its input's.
static bool isRowsOfInput(Operation &op) {
  auto group = dyn_cast<GroupOp>(op);
  if (!group || !llvm::hasNItems(*group.getBodyBlock(), 2))
    return false;
  auto slice = dyn_cast<SliceOp>(group.getBodyBlock()->front());
  if (!slice || !slice.getInput().getType().hasStaticShape())
    return false;
  return llvm::equal(slice.getInput().getType().getShape().drop_front(
                         slice.getInput().getType().getRank() > 0),
                     slice.getResult().getType().getShape().drop_front(
                         slice.getResult().getType().getRank() > 0)) &&
         llvm::all_of(slice.getStrides(),
                      [](int64_t stride) { return stride == 1; });
}

void HorizontalGraph::addNode(Operation &op, const FusionLegality &legality,
                              const DeviceModel &device) {
  unsigned id = nodes.size();
  HorizontalNode &node = nodes.emplace_back();
  node.op = &op;
  node.segment = segment;
  bool hasEffects = !isMemoryEffectFree(&op);
  if (isScheduleBarrier(&op))
    node.segment = ++segment;
  llvm::SmallSetVector<unsigned, 4> producers, used;
  for (Value value : getReadValues(&op)) {
    auto it = valueOf.find(value);
    if (it == valueOf.end())
      continue;
    used.insert(it->second);
    producers.insert(values[it->second].producer);
    values[it->second].lastUse = id;
  }
  // Ops with effects keep their order.
  if (hasEffects) {
    if (lastEffect)
      producers.insert(*lastEffect);
    lastEffect = id;
  }
  node.producers.assign(producers.begin(), producers.end());
  llvm::sort(node.producers);
  for (unsigned producer : node.producers)
    nodes[producer].consumers.push_back(id);
  bool isView = isRowsOfInput(op);
  for (Value result : op.getResults()) {
    int64_t bytes = isa<RankedTensorType>(result.getType()) && !isView
                        ? legality.getByteSize(result)
                        : 0;
    valueOf[result] = values.size();
    used.insert(values.size());
    values.push_back({bytes, id, id});
  }
  node.values.assign(used.begin(), used.end());

  auto group = dyn_cast<GroupOp>(op);
  if (!group || group.getKind() == GroupKind::Horizontal || hasEffects)
    return;
  node.group = group;
  node.numOperands = op.getNumOperands() + op.getNumResults();
  node.work = computeKernelWork(group, legality, device);
  node.nearBytes = getNearBytes(group, legality);
  for (Value input : group.getInputs())
    node.reads.push_back(lookThroughViews(input));
  for (Operation &inner : *group.getBodyBlock()) {
    if (isa<RngUniformOp>(inner))
      node.alone = FusionRule::HorizontalRandom;
    else if (isa<KernelCallOp>(inner))
      node.alone = FusionRule::NoEmitter;
    if (isa<ScatterOp, UpdateSliceOp>(inner))
      if (auto argument = dyn_cast<BlockArgument>(inner.getOperand(0)))
        node.updates.push_back(node.reads[argument.getArgNumber()]);
  }
}

/// What a node waits for and what waits for it: an op with effects that it
/// needs, or that needs it, directly or not.
void HorizontalGraph::findCommunication() {
  auto isBarrier = [&](unsigned id) {
    return !isMemoryEffectFree(nodes[id].op);
  };
  for (unsigned id = 0; id < nodes.size(); ++id)
    for (unsigned producer : nodes[id].producers)
      nodes[id].needs = std::max({nodes[id].needs, nodes[producer].needs,
                                  isBarrier(producer) ? producer + 1 : 0});
  auto first = [](unsigned a, unsigned b) {
    return a == 0 ? b : b == 0 ? a : std::min(a, b);
  };
  for (unsigned id = nodes.size(); id-- > 0;)
    for (unsigned consumer : nodes[id].consumers)
      nodes[id].feeds =
          first(nodes[id].feeds,
                isBarrier(consumer) ? consumer + 1 : nodes[consumer].feeds);
}

/// The nodes that hold gradients of a bucket, by its collective: of several
/// that one reads, the first.
void HorizontalGraph::findBuckets() {
  for (bool readers : {true, false})
    for (HorizontalNode &node : nodes) {
      auto number = node.op->getAttrOfType<IntegerAttr>(kBucketAttr);
      if (!number)
        continue;
      for (unsigned other : readers ? node.consumers : node.producers)
        if (!nodes[other].bucket)
          nodes[other].bucket = number.getInt();
    }
}

HorizontalGraph::HorizontalGraph(Block &block, const FusionLegality &legality,
                                 const DeviceModel &device) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands())
        if (auto it = valueOf.find(value); it != valueOf.end())
          values[it->second].lastUse = HorizontalValue::kNeverDies;
      continue;
    }
    OpFamily family = getOpFamily(&op);
    if (family == OpFamily::Source)
      continue;
    if (!isView(&op)) {
      addNode(op, legality, device);
      continue;
    }
    auto it = valueOf.find(op.getOperand(0));
    if (it != valueOf.end()) {
      unsigned value = it->second;
      valueOf[op.getResult(0)] = value;
    }
  }
  KeyTable keys(legality);
  for (HorizontalNode &node : nodes)
    if (node.group) {
      node.key = keys.find(node.group, /*withTypes=*/true);
      node.looseKey = keys.find(node.group, /*withTypes=*/false);
    }
  findCommunication();
  findBuckets();
}

bool fusion::isView(Operation *op) {
  return getOpFamily(op) == OpFamily::View || isa<RankSliceOp>(op);
}

std::string fusion::describeBody(GroupOp group) {
  std::string text;
  unsigned count = 0;
  for (Operation &op : *group.getBodyBlock()) {
    if (isa<YieldOp, ConstantOp, ReshapeOp>(op))
      continue;
    if (++count > 6)
      return text + "+...";
    text += (text.empty() ? "" : "+") + op.getName().stripDialect().str();
  }
  return text;
}
