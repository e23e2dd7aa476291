//===- IterationSpace.cpp - Spaces that loops and reductions share --------===//
//
// Loops: from the outputs back, each member collects the index maps under which
// it is read. Dear arithmetic must be under one map, and under it must be
// evaluated no more often than it has elements; ops that only move elements may
// be repeated, and cheap arithmetic under a few maps: whether that pays is the
// cost model's question.
//
// Reductions: from the inputs on, each member is either of the full space or of
// the reduced one, and only a broadcast leads from the second to the first.
//
//===----------------------------------------------------------------------===//
#include "IterationSpace.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {

/// One way in which a value is read: how many times an element of it is
/// evaluated in all. Two reads are the same map only if the id agrees.
struct IndexMap {
  unsigned id;
  int64_t evaluations;
};

} // namespace

/// Index maps under which cheap arithmetic may be read: each repeats what
/// stands before it.
static constexpr size_t kMaxMaps = 4;

/// Whether evaluating the op again is free of arithmetic.
static bool isRepeatable(Operation *op) {
  return isa<CastOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp,
             IotaOp>(op);
}

bool fusion::selectsPosition(Operation *op) {
  return isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp, ConcatOp,
             PadOp, GatherOp, GatherNdOp, UpdateSliceOp>(op);
}

/// Evaluations of operand `operand` of a moving op whose result is evaluated
/// `evaluations` times.
static int64_t getOperandEvaluations(OpOperand &operand, int64_t evaluations,
                                     const FusionLegality &legality) {
  // These read each operand only where it lands in the result.
  Operation *op = operand.getOwner();
  bool piecewise = isa<ConcatOp>(op) ||
                   (isa<PadOp>(op) && operand.getOperandNumber() == 0) ||
                   (isa<UpdateSliceOp>(op) && operand.getOperandNumber() == 1);
  if (piecewise && evaluations <= legality.getNumElements(op->getResult(0)))
    return std::min(evaluations, legality.getNumElements(operand.get()));
  return evaluations;
}

GroupVerdict fusion::checkLoopSpace(const MemberSet &members,
                                    const FusionLegality &legality,
                                    SmallVectorImpl<double> *evaluations) {
  // One iteration space: that of the values read outside.
  Operation *root = nullptr;
  for (Operation *op : members.ops) {
    if (!members.escapes(op))
      continue;
    if (root && !legality.haveSameShape(op->getResult(0), root->getResult(0)))
      return GroupVerdict::refuse(FusionRule::IterationShape, op);
    root = op;
  }
  if (!root)
    return GroupVerdict::refuse(FusionRule::IterationShape, nullptr);
  int64_t spaceSize = legality.getNumElements(root->getResult(0));

  unsigned numMaps = 1;
  int64_t emittedOps = 0;
  SmallVector<SmallVector<IndexMap, 1>> maps(members.ops.size());
  if (evaluations)
    evaluations->assign(members.ops.size(), 0);
  for (unsigned i = members.ops.size(); i-- > 0;) {
    Operation *op = members.ops[i];
    SmallVector<IndexMap, 1> &own = maps[i];
    if (members.escapes(op))
      own.push_back({0, spaceSize});
    llvm::sort(own, [](IndexMap a, IndexMap b) { return a.id < b.id; });
    own.erase(
        llvm::unique(own, [](IndexMap a, IndexMap b) { return a.id == b.id; }),
        own.end());
    bool isCheap = isCheapToRecompute(op);
    if (!isRepeatable(op)) {
      size_t maxMaps = isCheap ? kMaxMaps : 1;
      if (own.size() > maxMaps)
        return GroupVerdict::refuse(FusionRule::TwoIndexMaps, op, own.size(),
                                    maxMaps);
      int64_t numElements = legality.getNumElements(op->getResult(0));
      if (!isCheap && !own.empty() && own.front().evaluations > numElements)
        return GroupVerdict::refuse(FusionRule::Recompute, op,
                                    own.front().evaluations, numElements);
    }
    emittedOps += own.size();
    if (evaluations)
      for (IndexMap map : own)
        (*evaluations)[i] += map.evaluations;
    bool elementwise = isa<ElementwiseOpInterface>(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *producer = members.getProducer(operand.get());
      if (!producer)
        continue;
      SmallVector<IndexMap, 1> &target = maps[members.index.lookup(producer)];
      for (IndexMap map : own)
        target.push_back(
            elementwise
                ? map
                : IndexMap{numMaps++, getOperandEvaluations(
                                          operand, map.evaluations, legality)});
    }
  }
  GroupVerdict verdict =
      GroupVerdict::accept(FusionRule::FuseLoop, GroupKind::Loop);
  verdict.emittedOps = emittedOps;
  return verdict;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

bool fusion::isWidenedToRepeat(Operation *op, const MemberSet &members) {
  return isa<CastOp>(op) && isCheapToClone(op) && !members.escapes(op) &&
         !members.getProducer(op->getOperand(0)) &&
         llvm::all_of(op->getUsers(), [&](Operation *user) {
           return isa<BroadcastOp>(user) || !members.index.contains(user);
         });
}

namespace {

/// Which space a member's value lies in; beside both is what is only repeated.
enum class Space { Full, Reduced, Beside };

class ReductionSpace {
public:
  ReductionSpace(const MemberSet &members, Operation *reduction,
                 const FusionLegality &legality)
      : members(members), legality(legality), full(reduction->getOperand(0)),
        range(*getReducedRange(reduction)),
        isRow(range.second ==
              static_cast<int64_t>(legality.getShape(full).size())) {
    SmallVector<Extent> shape = legality.getShape(full);
    llvm::append_range(kept, ArrayRef(shape).take_front(range.first));
    llvm::append_range(kept, ArrayRef(shape).drop_front(range.second));
    dropUnits(kept);
  }

  GroupVerdict check();

private:
  static bool isUnit(Extent extent) { return extent == Extent{0, 1}; }
  static void dropUnits(SmallVector<Extent> &shape) {
    llvm::erase_if(shape, isUnit);
  }

  bool isFullShape(Value value) const {
    return legality.haveSameShape(value, full);
  }
  /// Unit dimensions aside: the same elements in the same order.
  bool isReducedShape(Value value) const {
    SmallVector<Extent> shape = legality.getShape(value);
    dropUnits(shape);
    return shape == kept;
  }

  std::optional<FusionRule> place(Operation *op, Space &space) const;
  std::optional<FusionRule> placeReduction(Operation *op, Space &space) const;
  std::optional<FusionRule> placeElementwise(Operation *op, Space &space) const;
  std::optional<FusionRule> placeBroadcast(BroadcastOp op, Space &space) const;
  std::optional<FusionRule> placeByShape(Operation *op, Space &space) const;
  Space getSpace(Operation *op) const {
    return spaces[members.index.lookup(op)];
  }

  const MemberSet &members;
  const FusionLegality &legality;
  /// A value of the full space.
  Value full;
  /// The reduced dimensions of the full space.
  std::pair<int64_t, int64_t> range;
  bool isRow;
  /// The sizes of the dimensions that stay, without units.
  SmallVector<Extent> kept;
  SmallVector<Space> spaces;
};

} // namespace

std::optional<FusionRule> ReductionSpace::placeReduction(Operation *op,
                                                         Space &space) const {
  FusionRule otherSpace = isRow ? FusionRule::RowSpace : FusionRule::ColumnOp;
  Operation *producer = members.getProducer(op->getOperand(0));
  if (*getReducedRange(op) != range || !isFullShape(op->getOperand(0)) ||
      (producer && getSpace(producer) != Space::Full))
    return otherSpace;
  // Scale and bias are read whole, whatever the row.
  for (Value operand : op->getOperands().drop_front())
    if (members.getProducer(operand))
      return FusionRule::RowSpace;
  space = isa<ReduceOp>(op) ? Space::Reduced : Space::Full;
  return std::nullopt;
}

std::optional<FusionRule> ReductionSpace::placeByShape(Operation *op,
                                                       Space &space) const {
  if (isFullShape(op->getResult(0)))
    space = Space::Full;
  else if (isReducedShape(op->getResult(0)))
    space = Space::Reduced;
  else
    return isRow ? FusionRule::RowSpace : FusionRule::ColumnOp;
  return std::nullopt;
}

std::optional<FusionRule> ReductionSpace::placeElementwise(Operation *op,
                                                           Space &space) const {
  std::optional<Space> common;
  for (Value operand : op->getOperands()) {
    Operation *producer = members.getProducer(operand);
    if (!producer)
      continue;
    // Where a row has one element both spaces have one shape: still, a value
    // gets from one to the other only by a broadcast.
    if (common && *common != getSpace(producer))
      return FusionRule::RowSpace;
    common = getSpace(producer);
  }
  if (!common && isWidenedToRepeat(op, members)) {
    space = Space::Beside;
    return std::nullopt;
  }
  if (!common)
    return placeByShape(op, space);
  if (*common == Space::Beside)
    return FusionRule::RowSpace;
  space = *common;
  return std::nullopt;
}

std::optional<FusionRule> ReductionSpace::placeBroadcast(BroadcastOp op,
                                                         Space &space) const {
  Operation *producer = members.getProducer(op.getInput());
  if (!producer || getSpace(producer) == Space::Beside)
    return placeByShape(op, space);
  if (getSpace(producer) != Space::Reduced)
    return FusionRule::RowSpace;
  if (isFullShape(op.getResult())) {
    // Back to the rows: each dimension that stays goes to where it came from.
    for (auto [extent, dim] :
         llvm::zip(legality.getShape(op.getInput()), op.getDims()))
      if (!isUnit(extent) && dim >= range.first && dim < range.second)
        return FusionRule::RowSpace;
    space = Space::Full;
    return std::nullopt;
  }
  if (!isReducedShape(op.getResult()))
    return FusionRule::RowSpace;
  space = Space::Reduced;
  return std::nullopt;
}

std::optional<FusionRule> ReductionSpace::place(Operation *op,
                                                Space &space) const {
  if (getOpFamily(op) == OpFamily::Reduction)
    return placeReduction(op, space);
  if (isa<ElementwiseOpInterface>(op))
    return placeElementwise(op, space);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return placeBroadcast(broadcast, space);
  // Ops that select elements of values outside are evaluated where they are
  // read; a transpose would be read against the grain once a pass.
  if (isa<IotaOp, SliceOp, ReverseOp, GatherOp, GatherNdOp>(op) &&
      llvm::none_of(op->getOperands(),
                    [&](Value value) { return members.getProducer(value); }))
    return placeByShape(op, space);
  // A view inside only adds or drops unit dimensions of the reduced shape.
  if (isa<ReshapeOp>(op) &&
      getSpace(members.getProducer(op->getOperand(0))) == Space::Reduced &&
      isReducedShape(op->getResult(0))) {
    space = Space::Reduced;
    return std::nullopt;
  }
  return isRow ? FusionRule::RowOp : FusionRule::ColumnOp;
}

GroupVerdict ReductionSpace::check() {
  for (Operation *op : members.ops) {
    Space space = Space::Full;
    if (std::optional<FusionRule> refusal = place(op, space))
      return GroupVerdict::refuse(*refusal, op);
    spaces.push_back(space);
  }
  return isRow ? GroupVerdict::accept(FusionRule::FuseRowReduce,
                                      GroupKind::RowReduce)
               : GroupVerdict::accept(FusionRule::FuseColumnReduce,
                                      GroupKind::ColumnReduce);
}

GroupVerdict fusion::checkReductionSpace(const MemberSet &members,
                                         Operation *reduction,
                                         const FusionLegality &legality) {
  return ReductionSpace(members, reduction, legality).check();
}
