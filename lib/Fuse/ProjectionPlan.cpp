//===- ProjectionPlan.cpp - Which projections become one ------------------===//
//
// Products are collected by the value on their left side, views aside; those
// whose weights are known and whose shapes agree are a set. A set is merged if
// the cost model finds one product, with the copies of results that are read
// whole, no slower than the members one after the other, or side by side; but
// for equal members that a library computes as one batch.
//
//===----------------------------------------------------------------------===//
#include "Projections.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"
#include "fusion/Support/SeededBugs.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value skipViews(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

Value Projection::getResult() const {
  if (!tail.empty())
    return tail.back()->getResult(0);
  return (biasAdd ? biasAdd : op)->getResult(0);
}

int64_t ProjectionSet::getWidth() const {
  int64_t width = 0;
  for (const Projection &member : members)
    width += member.width;
  return width;
}

void ProjectionSet::print(raw_ostream &os) const {
  os << members.size() << " projections:";
  for (const Projection &member : members)
    os << ' ' << member.width;
  os << ", one product " << cost.times.fusedUs << " us, apart "
     << cost.times.serialUs << " us, on streams " << cost.times.streamsUs
     << " us";
  if (!refusal.empty())
    os << ", not merged: " << refusal;
  os << '\n';
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

static bool isPointwise(ConvOp conv) {
  auto isZero = [](int64_t pad) { return pad == 0; };
  return conv.getLayout() == Layout::NHWC && conv.getGroups() == 1 &&
         llvm::all_of(typeOf(conv.getWeights()).getShape().drop_front(2),
                      [](int64_t size) { return size == 1; }) &&
         llvm::all_of(conv.getPadLow(), isZero) &&
         llvm::all_of(conv.getPadHigh(), isZero);
}

/// Whether `value` is known and the same in every row: a splat, or a tensor of
/// the columns behind a broadcast. Returns what there is to pack, or null.
static Value getColumnBias(Value value, int64_t width,
                           const ConstantReader &reader) {
  RankedTensorType type = typeOf(value);
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    RankedTensorType from = typeOf(broadcast.getInput());
    bool isColumn = from.getRank() == 1 && from.getDimSize(0) == width &&
                    broadcast.getDims()[0] == type.getRank() - 1;
    if (!isColumn && !isSplatConstant(broadcast.getInput()))
      return {};
    value = broadcast.getInput();
  } else if (!isSplatConstant(value) &&
             (!type.hasStaticShape() || type.getNumElements() != width)) {
    return {};
  }
  return reader.isConstant(skipViews(value)) ? value : Value();
}

/// Takes the add behind a matmul for its bias, if it is one.
static void findBias(Projection &member, const ConstantReader &reader) {
  if (auto conv = dyn_cast<ConvOp>(member.op)) {
    member.bias = conv.getBias();
    return;
  }
  Value product = member.op->getResult(0);
  if (!product.hasOneUse())
    return;
  auto add = dyn_cast<AddOp>(*product.user_begin());
  if (!add)
    return;
  Value other = add.getLhs() == product ? add.getRhs() : add.getLhs();
  if (Value bias = getColumnBias(other, member.width, reader)) {
    member.bias = bias;
    member.biasAdd = add;
  }
}

namespace {
/// Products with one left side, in program order.
struct SharedLhs {
  SmallVector<Projection, 3> fit;
  SmallVector<ProjectionRefusal, 1> unfit;
};
} // namespace

/// Whether `op` may be a projection at all.
static bool isProjection(Operation *op) {
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return !matmul.getTransposeLhs();
  auto conv = dyn_cast<ConvOp>(op);
  return conv && isPointwise(conv);
}

/// What the weights or the bias have against packing them, or "".
static std::string checkKnown(const Projection &member,
                              const ConstantReader &reader) {
  auto check = [&](Value value, StringRef name) -> std::string {
    value = skipViews(value);
    if (reader.isConstant(value))
      return "";
    if (ParameterOp parameter = reader.getParameter(value))
      return llvm::formatv("its {0}: state parameter @{1}, which the program "
                           "updates",
                           name, parameter.getSymName());
    return llvm::formatv("its {0}: computed at run time", name);
  };
  std::string reason = check(member.weights, "weights");
  if (reason.empty() && isa<ConvOp>(member.op) && member.bias)
    reason = check(member.bias, "bias");
  return reason;
}

static void collect(Block &block, const ConstantReader &reader,
                    llvm::MapVector<Value, SharedLhs> &byLhs) {
  int64_t position = 0;
  for (Operation &op : block) {
    OpFamily family = getOpFamily(&op);
    if (family != OpFamily::Source && family != OpFamily::View)
      ++position;
    if (!isProjection(&op))
      continue;
    Projection member;
    member.op = &op;
    member.lhs = op.getOperand(0);
    member.weights = op.getOperand(1);
    member.position = position;
    RankedTensorType type = typeOf(op.getResult(0));
    member.width = type.getShape().back();
    SharedLhs &shared = byLhs[skipViews(member.lhs)];
    findBias(member, reader);
    if (ShapedType::isDynamic(member.width) ||
        !typeOf(member.weights).hasStaticShape())
      shared.unfit.push_back({&op, "its weights are of unknown size"});
    else if (std::string why = checkKnown(member, reader); !why.empty())
      shared.unfit.push_back({&op, why});
    else
      shared.fit.push_back(std::move(member));
  }
}

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

/// Rows of K elements, the weights' batch dimensions, and the rest that one
/// product has once.
static std::string findDifference(const Projection &a, const Projection &b) {
  if (a.op->getName() != b.op->getName())
    return "one is a matmul, the other a convolution";
  RankedTensorType weightsA = typeOf(a.weights), weightsB = typeOf(b.weights);
  if (weightsA.getElementType() != weightsB.getElementType())
    return llvm::formatv("element types {0} and {1} differ",
                         weightsA.getElementType(), weightsB.getElementType());
  if (auto conv = dyn_cast<ConvOp>(a.op)) {
    auto other = cast<ConvOp>(b.op);
    if (conv.getStrides() != other.getStrides())
      return "strides differ";
    if (a.lhs != b.lhs)
      return "the shapes that they read are different";
    return "";
  }
  RankedTensorType lhsA = typeOf(a.lhs), lhsB = typeOf(b.lhs);
  if (lhsA.getShape().back() != lhsB.getShape().back())
    return "rows of different lengths are read";
  if (weightsA.getRank() != weightsB.getRank() ||
      weightsA.getShape().drop_back(2) != weightsB.getShape().drop_back(2))
    return "the weights' batch dimensions differ";
  if (weightsA.getRank() > 2 && a.lhs != b.lhs)
    return "the weights have batch dimensions, and the shapes that are read "
           "differ";
  return "";
}

/// Splits the products of one left side into sets.
static void formSets(SharedLhs &shared, const MergeLimits &limits,
                     ProjectionPlan &plan) {
  // Sets that a product is compared with: few kinds share one left side.
  constexpr size_t kMaxKinds = 16;
  SmallVector<ProjectionSet, 1> sets;
  for (Projection &member : shared.fit) {
    std::string why;
    ProjectionSet *found = nullptr;
    // The latest set of its kind.
    for (ProjectionSet &set :
         llvm::reverse(MutableArrayRef(sets).take_back(kMaxKinds))) {
      std::string difference = findDifference(set.members.front(), member);
      if (!difference.empty()) {
        if (why.empty())
          why = difference;
        continue;
      }
      int64_t distance = member.position - set.members.back().position;
      if (distance <= limits.distance)
        found = &set;
      else
        why = llvm::formatv("{0} ops lie between it and the one before, limit "
                            "{1}: its result would wait in memory",
                            distance, limits.distance);
      break;
    }
    if (!found) {
      if (!sets.empty())
        plan.refusals.push_back({member.op, why});
      sets.emplace_back();
      found = &sets.back();
    }
    found->members.push_back(std::move(member));
  }
  for (ProjectionSet &set : sets)
    if (set.members.size() > 1)
      plan.sets.push_back(std::move(set));
}

/// What a `?` of the result is a multiple of B by; nullopt if it is none.
static std::optional<int64_t> findBatchScale(const ProjectionSet &set,
                                             const FusionLegality &legality) {
  Value result = set.members.front().op->getResult(0);
  std::optional<int64_t> scale = 1;
  if (typeOf(result).getNumDynamicDims() > 1)
    return std::nullopt;
  for (Extent extent : legality.getShape(result))
    if (!extent.isStatic())
      scale = extent.base == 0 ? std::optional(extent.scale) : std::nullopt;
  return scale;
}

/// While each member's result has one reader, and all readers are the same op
/// of one operand: that op is done on the merged result.
static void findCommonTail(ProjectionSet &set) {
  while (true) {
    SmallVector<Operation *> readers;
    for (const Projection &member : set.members) {
      Value result = member.getResult();
      if (!result.hasOneUse())
        return;
      Operation *reader = *result.user_begin();
      if (!isa<ElementwiseOpInterface>(reader) ||
          reader->getNumOperands() != 1 || reader->getNumResults() != 1)
        return;
      if (!readers.empty() &&
          (reader->getName() != readers.front()->getName() ||
           (!seededBug(7) && reader->getAttrDictionary() !=
                                 readers.front()->getAttrDictionary()) ||
           typeOf(reader->getResult(0)).getElementType() !=
               typeOf(readers.front()->getResult(0)).getElementType()))
        return;
      readers.push_back(reader);
    }
    for (auto [member, reader] : llvm::zip(set.members, readers))
      member.tail.push_back(reader);
  }
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

/// Adds the values that must be written densely where the merged result is read
/// in slices, although nothing had to be copied before: the result itself where
/// something reads it whole, or the last of the elementwise ops that ran on it
/// while it was in cache. Any other reader (a transpose, a reduction) is a pass
/// over it in any case, and reads the slice instead.
static void collectCopies(Value result, llvm::SetVector<Value> &copies) {
  constexpr size_t kMaxValues = 64;
  llvm::SetVector<Value> values;
  values.insert(result);
  for (size_t i = 0; i < values.size(); ++i) {
    Value value = values[i];
    if (values.size() > kMaxValues) {
      copies.insert(result);
      return;
    }
    for (Operation *reader : value.getUsers()) {
      switch (getOpFamily(reader)) {
      case OpFamily::View:
        values.insert(reader->getResult(0));
        break;
      case OpFamily::Elementwise:
        if (typeOf(reader->getResult(0)).getShape() == typeOf(value).getShape())
          values.insert(reader->getResult(0));
        break;
      case OpFamily::Injective:
      case OpFamily::Reduction:
        break;
      default:
        copies.insert(skipViews(value));
      }
    }
  }
}

/// Bytes of weights that stay although a merge copied them: something else
/// reads them.
static int64_t getGrowth(const ProjectionSet &set, const ConstantReader &reader,
                         const llvm::DenseMap<StringAttr, int64_t> &reads,
                         const FusionLegality &legality) {
  llvm::SmallPtrSet<Operation *, 8> inside;
  for (const Projection &member : set.members)
    inside.insert(member.op);
  int64_t growth = 0;
  llvm::SmallPtrSet<Value, 8> seen;
  for (const Projection &member : set.members) {
    // A second member that reads the same weights gets a copy of its own.
    bool isShared =
        !seen.insert(skipViews(member.weights)).second ||
        llvm::any_of(member.weights.getUsers(), [&](Operation *reader) {
          return !inside.contains(reader);
        });
    for (auto reshape = member.weights.getDefiningOp<ReshapeOp>(); reshape;
         reshape = reshape.getInput().getDefiningOp<ReshapeOp>())
      isShared |= !reshape.getInput().hasOneUse();
    if (ParameterOp parameter = reader.getParameter(skipViews(member.weights)))
      isShared |= reads.lookup(parameter.getSymNameAttr()) > 1;
    growth += isShared ? legality.getByteSize(member.weights) : 0;
  }
  return growth;
}

/// The ops that a member's product is, with its bias and what follows it.
static void appendOps(const Projection &member,
                      SmallVectorImpl<Operation *> &ops) {
  ops.push_back(member.op);
  if (member.biasAdd)
    ops.push_back(member.biasAdd);
  llvm::append_range(ops, member.tail);
}

/// Predicts the members one by one and the kernels of a merge.
static void predict(ProjectionSet &set, const llvm::SetVector<Value> &copies,
                    const FusionLegality &legality, const CostModel &model) {
  const DeviceModel &device = model.getDevice();
  SmallVector<KernelWork> apart;
  SmallVector<Operation *> all;
  double blocks = 0;
  llvm::SmallPtrSet<Operation *, 8> ends;
  auto escapes = [&](Operation *op) { return ends.contains(op); };
  for (const Projection &member : set.members) {
    SmallVector<Operation *> ops;
    appendOps(member, ops);
    ends.insert(ops.back());
    apart.push_back(computeKernelWork(ops, escapes, legality, device));
    blocks += apart.back().blocks;
    llvm::append_range(all, ops);
  }
  // All at once reads the left side once, and its weights are one operand.
  KernelWork merged = computeKernelWork(all, escapes, legality, device);
  merged.blocks = blocks;
  merged.rereadBytes = merged.spilledBytes = 0;
  const Projection &first = set.members.front();
  RankedTensorType weights = typeOf(first.weights);
  double products = 1;
  if (isa<MatmulOp>(first.op))
    for (int64_t size : weights.getShape().drop_back(2))
      products *= size;
  double rows = double(legality.getNumElements(first.op->getResult(0))) /
                std::max<int64_t>(first.width, 1);
  double withoutRereads = model.getMicroseconds(merged);
  if (products > 0)
    addRereads(merged, set.cost.weightBytes / products, rows / products,
               products, device);
  SmallVector<KernelWork> fused{merged};
  for (Value copy : copies)
    fused.push_back(computeCopyWork(legality.getByteSize(copy),
                                    legality.getNumElements(copy), device));
  MergeCost &cost = set.cost;
  cost.times = compareLaunches(model, apart, fused);
  cost.rereadUs = model.getMicroseconds(merged) - withoutRereads;
  for (const KernelWork &copy : ArrayRef(fused).drop_front())
    cost.copyUs += model.getMicroseconds(copy);
}

namespace {
/// What a library's call absorbs behind a member's product.
struct Absorbed {
  LibraryEpilogue bias = LibraryEpilogue::None, next = LibraryEpilogue::None;
  StringRef activation;

  bool operator==(const Absorbed &other) const {
    return bias == other.bias && next == other.next &&
           activation == other.activation;
  }
};
} // namespace

static Absorbed getAbsorbed(const Projection &member) {
  Absorbed absorbed;
  Value result = member.op->getResult(0);
  if (member.biasAdd) {
    absorbed.bias = classifyLibraryEpilogue(member.op, member.biasAdd, result,
                                            /*hasBias=*/false,
                                            /*hasAddend=*/false);
    result = member.biasAdd->getResult(0);
  }
  if (!result.hasOneUse())
    return absorbed;
  Operation *reader = *result.user_begin();
  absorbed.next = classifyLibraryEpilogue(
      member.op, reader, result, absorbed.bias == LibraryEpilogue::Bias,
      absorbed.bias == LibraryEpilogue::Addend);
  if (absorbed.next == LibraryEpilogue::Activation)
    absorbed.activation = getLibraryActivation(reader);
  return absorbed;
}

/// Whether the members are equal calls of a library that computes them as one
/// batch, of whose results each is dense: cuBLASLt's products.
static bool isBatch(const ProjectionSet &set) {
  const Projection &first = set.members.front();
  auto product = dyn_cast<MatmulOp>(first.op);
  if (!product || !isForCuda(product) || !findLibraryRule(product) ||
      typeOf(first.weights).getRank() > 2)
    return false;
  Absorbed absorbed = getAbsorbed(first);
  return llvm::all_of(set.members, [&](const Projection &member) {
    return member.width == first.width &&
           typeOf(member.lhs) == typeOf(first.lhs) &&
           cast<MatmulOp>(member.op).getTransposeRhs() ==
               product.getTransposeRhs() &&
           getAbsorbed(member) == absorbed;
  });
}

/// The one place that says whether a merge pays.
static void decide(ProjectionSet &set, const FusionLegality &legality,
                   const CostModel &model, const MergeLimits &limits) {
  MergeCost &cost = set.cost;
  llvm::SetVector<Value> copies;
  for (const Projection &member : set.members) {
    collectCopies(member.getResult(), copies);
    cost.weightBytes += legality.getByteSize(member.weights);
  }
  cost.copies = copies.size();
  for (Value copy : copies)
    cost.copyBytes += legality.getByteSize(copy);
  bool needsBroadcast =
      llvm::any_of(set.members, [](const Projection &m) { return m.biasAdd; });
  if (needsBroadcast && !set.batchScale) {
    set.refusal = "the batch extent of the result is no multiple of the batch";
    return;
  }
  if (cost.growthBytes > limits.growth) {
    set.refusal = llvm::formatv("the weights are read elsewhere too: packing "
                                "adds {0} bytes, limit {1}",
                                cost.growthBytes, limits.growth);
    return;
  }
  predict(set, copies, legality, model);
  if (limits.batches && isBatch(set)) {
    set.refusal = llvm::formatv(
        "one call computes the {0} equal products as a batch, and leaves each "
        "result dense",
        set.members.size());
    return;
  }
  const LaunchAlternatives &times = cost.times;
  if (times.choice == LaunchChoice::Streams)
    set.refusal = llvm::formatv(
        "on {0} streams the products are predicted faster: {1:f1} us side by "
        "side, {2:f1} us as one",
        std::min<int64_t>(model.getDevice().streams, set.members.size()),
        times.streamsUs, times.fusedUs);
  else if (times.choice == LaunchChoice::Serial && cost.copyUs > cost.rereadUs)
    set.refusal = llvm::formatv(
        "{0} results are read whole: with their {1} bytes written once more "
        "one product takes {2:f1} us, the products apart {3:f1} us",
        cost.copies, cost.copyBytes, times.fusedUs, times.serialUs);
  else if (times.choice == LaunchChoice::Serial && cost.rereadUs > 0)
    set.refusal = llvm::formatv(
        "packed weights of {0} bytes leave the cache: read again, which takes "
        "{1:f1} us, one product takes {2:f1} us, the products apart {3:f1} us",
        cost.weightBytes, cost.rereadUs, times.fusedUs, times.serialUs);
  else if (times.choice == LaunchChoice::Serial)
    set.refusal = llvm::formatv(
        "one product is predicted to take {0:f1} us, the products apart "
        "{1:f1} us",
        times.fusedUs, times.serialUs);
}

ProjectionPlan fusion::planProjections(Block &block,
                                       const ConstantReader &reader,
                                       const FusionLegality &legality,
                                       const CostModel &model,
                                       const MergeLimits &limits) {
  llvm::DenseMap<StringAttr, int64_t> reads;
  for (auto get : block.getOps<GetParameterOp>())
    ++reads[get.getParameterAttr().getAttr()];
  llvm::MapVector<Value, SharedLhs> byLhs;
  collect(block, reader, byLhs);
  ProjectionPlan plan;
  for (auto &[lhs, shared] : byLhs) {
    // Alone with its left side, a product is nothing to talk about.
    if (shared.fit.size() + shared.unfit.size() < 2)
      continue;
    llvm::append_range(plan.refusals, shared.unfit);
    formSets(shared, limits, plan);
  }
  for (ProjectionSet &set : plan.sets) {
    set.batchScale = findBatchScale(set, legality);
    findCommonTail(set);
    set.cost.growthBytes = getGrowth(set, reader, reads, legality);
    decide(set, legality, model, limits);
  }
  return plan;
}
