//===- FusionLegality.cpp - What may become one group ---------------------===//
//
// Families of ops, the limits of granularity, and the groups around one anchor
// (contraction, pool, scatter). Iteration spaces of loops and reductions are in
// IterationSpace.cpp.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionLegality.h"
#include "IterationSpace.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/LibraryGradients.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

OpFamily fusion::getOpFamily(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return OpFamily::Elementwise;
  return llvm::TypeSwitch<Operation *, OpFamily>(op)
      .Case<ConstantOp, GetParameterOp>([](auto) { return OpFamily::Source; })
      .Case<ReshapeOp>([](auto) { return OpFamily::View; })
      .Case<BroadcastOp, TransposeOp, SliceOp, ReverseOp, ConcatOp, PadOp,
            GatherOp, GatherNdOp, IotaOp, UpdateSliceOp, RngUniformOp>(
          [](auto) { return OpFamily::Injective; })
      .Case<ReduceOp, SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp>(
          [](auto op) {
            return getReducedRange(op) ? OpFamily::Reduction : OpFamily::Opaque;
          })
      .Case<ConvOp, ConvTransposeOp, MatmulOp>(
          [](auto) { return OpFamily::Contraction; })
      // No emitter of ours is fast: it is the library's, or decomposed.
      .Case<AttentionOp, AttentionGradOp>([](auto op) {
        return findLibraryRule(op) ? OpFamily::Contraction : OpFamily::Opaque;
      })
      .Case<MaxPoolOp, AvgPoolOp, MaxPoolGradOp>(
          [](auto) { return OpFamily::Window; })
      .Case<ScatterOp>([](auto) { return OpFamily::Scatter; })
      .Case<ArgMaxOp, ArgMinOp, BatchNormOp, BatchNormTrainingOp, RopeOp,
            KernelCallOp>([](auto) { return OpFamily::Opaque; })
      .Default([](auto) { return OpFamily::Outside; });
}

static int64_t getElementBytes(Type elementType) {
  return llvm::divideCeil(elementType.getIntOrFloatBitWidth(), 8);
}

bool fusion::isCheapToClone(Operation *op) {
  if (isa<BroadcastOp, IotaOp, SliceOp>(op))
    return true;
  auto cast = dyn_cast<CastOp>(op);
  return cast &&
         getElementBytes(cast.getInput().getType().getElementType()) <=
             getElementBytes(cast.getResult().getType().getElementType());
}

bool fusion::isNarrowedInPlace(ScatterOp scatter, CastOp narrowed) {
  auto indices = cast<RankedTensorType>(scatter.getIndices().getType()),
       type = cast<RankedTensorType>(scatter.getResult().getType());
  Type to = narrowed.getResult().getType().getElementType();
  if (!indices.hasStaticShape() ||
      ShapedType::getNumElements(indices.getShape().drop_back()) >
          kMaxNarrowedUpdates)
    return false;
  return isForCuda(scatter) && narrowed.getInput() == scatter.getResult() &&
         type.getElementType().isF32() && (to.isBF16() || to.isF16()) &&
         type.hasStaticShape() && type.getNumElements() > 0;
}

/// Divisions and square roots count 4; what is a call counts 8 or more.
static constexpr int64_t kMaxRecomputedFlops = 4;

bool fusion::isCheapToRecompute(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  return elementwise && elementwise.getFlopsPerElement() <= kMaxRecomputedFlops;
}

int64_t fusion::getOpWeight(Operation *op) {
  if (op->hasAttr(kPartialSumAttr))
    return 0;
  return isa<CastOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp,
             IotaOp, ConstantOp>(op)
             ? 0
             : 1;
}

std::optional<std::pair<int64_t, int64_t>>
fusion::getReducedRange(Operation *reduction) {
  int64_t rank =
      cast<RankedTensorType>(reduction->getOperand(0).getType()).getRank();
  if (auto reduce = dyn_cast<ReduceOp>(reduction)) {
    ArrayRef<int64_t> dims = reduce.getDims();
    if (dims.empty() ||
        dims.back() - dims.front() + 1 != static_cast<int64_t>(dims.size()))
      return std::nullopt;
    return std::pair(dims.front(), dims.back() + 1);
  }
  if (isa<LayerNormOp, RmsNormOp>(reduction)) {
    int64_t axis = reduction->getAttrOfType<IntegerAttr>("axis").getInt();
    return std::pair(axis, rank);
  }
  if (isa<SoftmaxOp, LogSoftmaxOp>(reduction)) {
    int64_t axis = reduction->getAttrOfType<IntegerAttr>("axis").getInt();
    if (axis != rank - 1)
      return std::nullopt;
    return std::pair(axis, rank);
  }
  return std::nullopt;
}

bool fusion::isSplatConstant(Value value) {
  DenseElementsAttr attr;
  return matchPattern(value, m_Constant(&attr)) && attr.isSplat();
}

/// Whether code generation hands the op to a library.
static bool isServedByLibrary(Operation *anchor) {
  return findLibraryRule(anchor) != nullptr;
}

//===----------------------------------------------------------------------===//
// Shapes with a batch
//===----------------------------------------------------------------------===//

/// The largest batch that `func` may be called with.
static int64_t getMaxBatch(Operation *func) {
  auto batch =
      func->getAttrOfType<DenseI64ArrayAttr>(FusionDialect::kBatchAttr);
  return batch && !batch.empty() ? batch.asArrayRef().back() : 1;
}

FailureOr<FusionLegality> FusionLegality::create(Operation *func,
                                                 GroupLimits limits) {
  FailureOr<BatchExtents> extents = BatchExtents::analyze(func);
  if (failed(extents))
    return failure();
  FusionLegality legality(std::move(*extents), limits, getMaxBatch(func));
  auto function = dyn_cast<FunctionOpInterface>(func);
  if (!function || !llvm::hasSingleElement(function.getFunctionBody()))
    return legality;
  Operation *end = &function.getFunctionBody().front().back();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto result = function.getArgAttrOfType<IntegerAttr>(
            i, FusionDialect::kDonatedAttr))
      if (result.getValue().ult(end->getNumOperands()))
        legality.updated.insert(end->getOperand(result.getInt()));
  return legality;
}

bool FusionLegality::haveSameShape(Value a, Value b) const {
  auto typeA = cast<RankedTensorType>(a.getType()),
       typeB = cast<RankedTensorType>(b.getType());
  if (typeA.getShape() != typeB.getShape())
    return false;
  return a == b || typeA.hasStaticShape() || getShape(a) == getShape(b);
}

int64_t FusionLegality::getNumElements(Value value) const {
  int64_t count = 1;
  for (Extent extent : getShape(value))
    if (llvm::MulOverflow(count, extent.at(maxBatch), count))
      return std::numeric_limits<int64_t>::max();
  return count;
}

int64_t FusionLegality::getByteSize(Value value) const {
  int64_t bytes;
  int64_t width =
      getElementBytes(cast<RankedTensorType>(value.getType()).getElementType());
  return llvm::MulOverflow(getNumElements(value), width, bytes)
             ? std::numeric_limits<int64_t>::max()
             : bytes;
}

//===----------------------------------------------------------------------===//
// Groups around an anchor
//===----------------------------------------------------------------------===//

/// Bytes of a row that a contraction's kernel may keep in its frame.
static constexpr int64_t kMaxRowBytes = 32 * 1024;

/// What computes the left side of a product of our own: its rows are computed
/// one by one, each once, just before the product reads it. `prologue` gets the
/// ops; none of their values may be read elsewhere.
static std::optional<GroupVerdict>
checkPrologue(const MemberSet &members, MatmulOp matmul,
              const FusionLegality &legality,
              llvm::SmallPtrSetImpl<Operation *> &prologue) {
  Operation *lhs = members.getProducer(matmul.getLhs());
  if (members.getProducer(matmul.getRhs()) || matmul.getTransposeLhs() ||
      isServedByLibrary(matmul))
    return GroupVerdict::refuse(FusionRule::AnchorOperand, lhs);
  RankedTensorType type = matmul.getLhs().getType();
  int64_t depth = type.getShape().back();
  // Narrow floats are kept as f32.
  int64_t element =
      std::max<int64_t>(getElementBytes(type.getElementType()),
                        isa<FloatType>(type.getElementType()) ? 4 : 1);
  if (ShapedType::isDynamic(depth) || depth > kMaxRowBytes / element)
    return GroupVerdict::refuse(
        FusionRule::AnchorOperand, lhs,
        ShapedType::isDynamic(depth) ? 0 : depth * element, kMaxRowBytes);
  // The number of rows is a function of the batch.
  if (llvm::count_if(legality.getShape(matmul.getLhs()),
                     [](Extent extent) { return !extent.isStatic(); }) > 1)
    return GroupVerdict::refuse(FusionRule::AnchorOperand, lhs);
  SmallVector<Operation *> worklist{lhs}, ops;
  prologue.insert(lhs);
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands())
      if (Operation *producer = members.getProducer(operand);
          producer && prologue.insert(producer).second)
        worklist.push_back(producer);
  Operation *reduction = nullptr;
  for (Operation *op : members.ops) {
    if (prologue.contains(op)) {
      if (members.escapes(op))
        return GroupVerdict::refuse(FusionRule::AnchorOperand, op);
      if (getOpFamily(op) == OpFamily::Reduction)
        reduction = op;
      ops.push_back(op);
      continue;
    }
    for (OpOperand &operand : op->getOpOperands())
      if (Operation *producer = members.getProducer(operand.get());
          producer && prologue.contains(producer) &&
          (op != matmul.getOperation() || operand.getOperandNumber() != 0))
        return GroupVerdict::refuse(FusionRule::AnchorOperand, producer);
  }
  auto isLhs = [&](Operation *op) { return op == lhs; };
  MemberSet rows(ops, isLhs);
  if (!reduction) {
    GroupVerdict verdict = checkLoopSpace(rows, legality);
    return verdict.isLegal() ? std::nullopt : std::optional(verdict);
  }
  // The reductions run along the same row.
  auto range = *getReducedRange(reduction);
  if (range != std::pair(type.getRank() - 1, type.getRank()) ||
      !legality.haveSameShape(reduction->getOperand(0), matmul.getLhs()))
    return GroupVerdict::refuse(FusionRule::RowSpace, reduction);
  GroupVerdict verdict = checkReductionSpace(rows, reduction, legality);
  return verdict.isLegal() ? std::nullopt : std::optional(verdict);
}

/// Whether a set is a product and the gradients that the library computes with
/// it, a sum among them, and gives those alone.
static bool hasBiasGradient(const MemberSet &members, MatmulOp matmul) {
  if (llvm::none_of(members.ops,
                    [](Operation *op) { return isa<ReduceOp>(op); }))
    return false;
  auto isMember = [&](Operation *op) { return members.index.contains(op); };
  auto found = findLibraryGradients(matmul, isMember);
  return found && found->sum && found->ops.size() == members.ops.size() &&
         llvm::all_of(found->ops, [&](Operation *op) {
           return members.escapes(op) == (op->getResult(0) == found->result ||
                                          op->getResult(0) == found->sum);
         });
}

/// A contraction or pool and the elementwise ops on its output, or before a
/// product.
static GroupVerdict checkEpilogue(const MemberSet &members, Operation *anchor,
                                  const FusionLegality &legality) {
  // Nothing could say which of its results an epilogue follows.
  if (anchor->getNumResults() != 1)
    return GroupVerdict::refuse(FusionRule::NoEmitter, anchor);
  if (auto matmul = dyn_cast<MatmulOp>(anchor);
      matmul && hasBiasGradient(members, matmul))
    return GroupVerdict::accept(FusionRule::FuseGradient, GroupKind::Library);
  llvm::SmallPtrSet<Operation *, 8> prologue;
  for (Value operand : anchor->getOperands())
    if (Operation *producer = members.getProducer(operand)) {
      auto matmul = dyn_cast<MatmulOp>(anchor);
      // Blocks share no row that one of them has computed.
      if (!matmul || isForCuda(anchor))
        return GroupVerdict::refuse(FusionRule::AnchorOperand, producer);
      if (auto refusal = checkPrologue(members, matmul, legality, prologue))
        return *refusal;
      break;
    }
  Value output = anchor->getResult(0);
  bool library = isServedByLibrary(anchor), writable = false;
  for (Operation *op : members.ops) {
    bool escapes = members.escapes(op);
    writable |= escapes && op->getResult(0).getType() == output.getType();
    if (op == anchor || prologue.contains(op))
      continue;
    if (isWidenedToRepeat(op, members))
      continue;
    if (isa<BroadcastOp>(op)) {
      if (Operation *producer = members.getProducer(op->getOperand(0));
          producer && !isWidenedToRepeat(producer, members))
        return GroupVerdict::refuse(FusionRule::EpilogueOp, producer);
      if (escapes)
        return GroupVerdict::refuse(FusionRule::EpilogueOp, op);
    } else if (getOpFamily(op) == OpFamily::Reduction) {
      return GroupVerdict::refuse(FusionRule::ReduceInEpilogue, op);
    } else if (!isa<ElementwiseOpInterface>(op)) {
      return GroupVerdict::refuse(FusionRule::EpilogueOp, op);
    }
    if (!legality.haveSameShape(op->getResult(0), output))
      return GroupVerdict::refuse(FusionRule::EpilogueShape, op);
  }
  if (library && !writable)
    return GroupVerdict::refuse(FusionRule::LibraryResult, anchor);
  GroupKind kind = library ? GroupKind::Library
                   : getOpFamily(anchor) == OpFamily::Contraction
                       ? GroupKind::Contraction
                       : GroupKind::Window;
  return GroupVerdict::accept(prologue.empty() ? FusionRule::FuseEpilogue
                                               : FusionRule::FusePrologue,
                              kind);
}

/// The tensor whose bytes `value` has, looking through views.
static Value lookThroughViews(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return value;
}

/// A scatter, the elementwise ops that give its updates, and a cast that
/// narrows what it gives.
static GroupVerdict checkScatter(const MemberSet &members, ScatterOp scatter,
                                 const FusionLegality &legality) {
  for (Value operand : scatter->getOperands().take_front(2))
    if (Operation *producer = members.getProducer(operand))
      return GroupVerdict::refuse(FusionRule::AnchorOperand, producer);
  Value base = lookThroughViews(scatter.getInput());
  CastOp narrowed;
  for (Operation *op : members.ops) {
    if (op == scatter.getOperation())
      continue;
    if (auto cast = dyn_cast<CastOp>(op);
        cast && cast.getInput() == scatter.getResult()) {
      if (narrowed || members.escapes(scatter) ||
          !isNarrowedInPlace(scatter, cast))
        return GroupVerdict::refuse(FusionRule::ScatterResult, op);
      narrowed = cast;
      continue;
    }
    if (members.escapes(op) || !isa<ElementwiseOpInterface, BroadcastOp>(op) ||
        !legality.haveSameShape(op->getResult(0), scatter.getUpdates()))
      return GroupVerdict::refuse(FusionRule::ScatterOp, op);
    for (Value operand : op->getOperands()) {
      Operation *producer = members.getProducer(operand);
      if (producer &&
          (isa<BroadcastOp>(op) || producer == scatter.getOperation() ||
           (narrowed && producer == narrowed.getOperation())))
        return GroupVerdict::refuse(FusionRule::ScatterOp, op);
      if (!producer && lookThroughViews(operand) == base)
        return GroupVerdict::refuse(FusionRule::InPlaceHazard, op);
    }
  }
  return GroupVerdict::accept(narrowed ? FusionRule::FuseScatterResult
                                       : FusionRule::FuseScatterUpdates,
                              GroupKind::Scatter);
}

/// The kind of a group of one op.
static GroupKind getSoloKind(Operation *op) {
  switch (getOpFamily(op)) {
  case OpFamily::Elementwise:
  case OpFamily::Injective:
  case OpFamily::View:
    return GroupKind::Loop;
  case OpFamily::Reduction:
    return getReducedRange(op)->second ==
                   cast<RankedTensorType>(op->getOperand(0).getType()).getRank()
               ? GroupKind::RowReduce
               : GroupKind::ColumnReduce;
  case OpFamily::Contraction:
    return isServedByLibrary(op) ? GroupKind::Library : GroupKind::Contraction;
  case OpFamily::Window:
    return isServedByLibrary(op) ? GroupKind::Library : GroupKind::Window;
  case OpFamily::Scatter:
    return GroupKind::Scatter;
  default:
    return GroupKind::Fallback;
  }
}

//===----------------------------------------------------------------------===//
// The check
//===----------------------------------------------------------------------===//

MemberSet::MemberSet(ArrayRef<Operation *> members,
                     llvm::function_ref<bool(Operation *)> escapes)
    : escapes(escapes) {
  for (Operation *op : members) {
    if (getOpFamily(op) == OpFamily::Source)
      continue;
    // A reshape of something outside is a view outside.
    if (isa<ReshapeOp>(op) && !getProducer(op->getOperand(0)))
      continue;
    index.try_emplace(op, ops.size());
    ops.push_back(op);
  }
}

/// Whether a set is an update in place: elementwise ops, one of which gives
/// what an argument becomes, and moves of elements, as of a gradient that ranks
/// hold parts of or that lies turned.
static bool isUpdate(const MemberSet &members, const FusionLegality &legality) {
  return llvm::all_of(members.ops,
                      [](Operation *op) {
                        return isa<ElementwiseOpInterface, BroadcastOp,
                                   ConcatOp, ReshapeOp, SliceOp, TransposeOp>(
                            op);
                      }) &&
         llvm::any_of(members.ops, [&](Operation *op) {
           return legality.isUpdated(op->getResult(0)) && members.escapes(op);
         });
}

/// Refuses a set that is too large, by the limit with the smallest cost to
/// check.
static std::optional<GroupVerdict> checkLimits(const MemberSet &members,
                                               const FusionLegality &legality) {
  const GroupLimits &limits = legality.getLimits();
  int64_t numOps = members.ops.size();
  if (numOps > limits.maxGroupOps)
    return GroupVerdict::refuse(FusionRule::MaxGroupOps, nullptr, numOps,
                                limits.maxGroupOps);
  SmallVector<int64_t> path(numOps);
  int64_t longest = 0, numOutputs = 0;
  llvm::SmallPtrSet<Value, 16> inputs;
  llvm::SmallDenseSet<std::pair<Value, Operation *>, 16> loads;
  for (auto [i, op] : llvm::enumerate(members.ops)) {
    for (Value operand : op->getOperands()) {
      if (Operation *producer = members.getProducer(operand))
        path[i] = std::max(path[i], path[members.index.lookup(producer)]);
      else if (!isSplatConstant(operand)) {
        inputs.insert(operand);
        // Elementwise readers of one input read the same element.
        loads.insert({operand, selectsPosition(op) ? op : nullptr});
      }
    }
    path[i] += getOpWeight(op);
    longest = std::max(longest, path[i]);
    numOutputs += members.escapes(op);
  }
  int64_t maxOps = limits.maxOps;
  if (longest > maxOps && isUpdate(members, legality))
    maxOps = std::max(maxOps, limits.maxUpdateOps);
  if (longest > maxOps)
    return GroupVerdict::refuse(FusionRule::MaxOps, nullptr, longest, maxOps);
  int64_t numValues = inputs.size() + numOutputs;
  if (numValues > limits.maxInputs)
    return GroupVerdict::refuse(FusionRule::MaxInputs, nullptr, numValues,
                                limits.maxInputs);
  int64_t numLoads = loads.size();
  if (numLoads > limits.maxLoads)
    return GroupVerdict::refuse(FusionRule::MaxLoads, nullptr, numLoads,
                                limits.maxLoads);
  if (getArgumentBytes(numValues) > limits.argumentBytes)
    return GroupVerdict::refuse(FusionRule::Arguments, nullptr,
                                getArgumentBytes(numValues),
                                limits.argumentBytes);
  return std::nullopt;
}

/// The checks that decide the kind of a set of two ops or more.
static GroupVerdict checkKind(const MemberSet &members,
                              const FusionLegality &legality) {
  Operation *anchor = nullptr;
  Operation *reduction = nullptr;
  for (Operation *op : members.ops) {
    switch (getOpFamily(op)) {
    case OpFamily::Contraction:
    case OpFamily::Window:
    case OpFamily::Scatter:
      if (anchor)
        return GroupVerdict::refuse(FusionRule::TwoAnchors, op);
      anchor = op;
      break;
    case OpFamily::Reduction:
      reduction = op;
      break;
    case OpFamily::Opaque:
    case OpFamily::Outside:
    case OpFamily::Source:
      return GroupVerdict::refuse(FusionRule::NoEmitter, op);
    case OpFamily::View:
    case OpFamily::Elementwise:
    case OpFamily::Injective:
      break;
    }
  }
  if (anchor) {
    if (auto scatter = dyn_cast<ScatterOp>(anchor))
      return checkScatter(members, scatter, legality);
    return checkEpilogue(members, anchor, legality);
  }
  return reduction ? checkReductionSpace(members, reduction, legality)
                   : checkLoopSpace(members, legality);
}

GroupVerdict
FusionLegality::check(ArrayRef<Operation *> ops,
                      llvm::function_ref<bool(Operation *)> escapes) const {
  MemberSet members(ops, escapes);
  if (members.ops.size() <= 1)
    return GroupVerdict::accept(FusionRule::FuseLoop,
                                members.ops.empty()
                                    ? GroupKind::Loop
                                    : getSoloKind(members.ops.front()));
  // What no limit could make legal is said first.
  GroupVerdict verdict = checkKind(members, *this);
  if (!verdict.isLegal())
    return verdict;
  if (std::optional<GroupVerdict> refusal = checkLimits(members, *this))
    return *refusal;
  if (verdict.emittedOps > limits.compileBudget)
    return GroupVerdict::refuse(FusionRule::CompileBudget, nullptr,
                                verdict.emittedOps, limits.compileBudget);
  return verdict;
}

GroupVerdict FusionLegality::check(GroupOp group) const {
  llvm::SmallPtrSet<Operation *, 4> yielded;
  for (Value value : group.getYield().getValues())
    yielded.insert(value.getDefiningOp());
  auto escapes = [&](Operation *op) { return yielded.contains(op); };
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBodyBlock()->without_terminator())
    ops.push_back(&op);
  MemberSet members(ops, escapes);
  if (members.ops.size() == 1)
    return GroupVerdict::accept(FusionRule::FuseLoop,
                                getSoloKind(members.ops.front()));
  return checkKind(members, *this);
}
