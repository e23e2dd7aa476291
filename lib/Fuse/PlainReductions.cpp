//===- PlainReductions.cpp - Reductions over ranks, made plain ------------===//
//
// No bit changes but where a sum of f16 or bf16 leaves its range: a mean
// divides the f32 sum before it is rounded, so it neither overflows nor rounds
// twice among the smallest numbers. Every rank runs the same program, so all of
// them drop a reduction or none does.
//
//===----------------------------------------------------------------------===//
#include "PlainReductions.h"
#include "BucketPlan.h"

#include "fusion/Analysis/CommSchedule.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace fusion;

static remark::RemarkOpts getOptions(FusionRule rule) {
  return remark::RemarkOpts::name(getFusionRuleInfo(rule).id)
      .category("fusion");
}

static void emitPassed(Operation *op, FusionRule rule) {
  remark::passed(op->getLoc(), getOptions(rule))
      << remark::reason("{0}", getFusionRuleInfo(rule).text);
}

/// The one value that all elements of a constant have, broadcasts looked
/// through; null if there is none.
static Attribute getSplat(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return Attribute();
  return elements.getSplatValue<Attribute>();
}

static std::optional<double> getSplatFloat(Value value) {
  auto number = dyn_cast_or_null<FloatAttr>(getSplat(value));
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

static bool isZero(Attribute splat) {
  if (auto number = dyn_cast_or_null<FloatAttr>(splat))
    return number.getValue().isZero();
  auto number = dyn_cast_or_null<IntegerAttr>(splat);
  return number && number.getValue().isZero();
}

/// Whether `op` divides `value` by the whole number `ranks`, or multiplies it
/// by the reciprocal.
static bool dividesBy(Operation *op, Value value, int64_t ranks) {
  double count = static_cast<double>(ranks);
  if (auto div = dyn_cast<DivOp>(op))
    return div.getLhs() == value && getSplatFloat(div.getRhs()) == count;
  auto mul = dyn_cast<MulOp>(op);
  if (!mul || mul.getLhs() == mul.getRhs())
    return false;
  Value other = mul.getLhs() == value ? mul.getRhs() : mul.getLhs();
  // The reciprocal of another number is rounded to the element type: nearly.
  std::optional<double> factor = getSplatFloat(other);
  return factor && std::abs(*factor * count - 1) < 1e-2;
}

static ReduceKindAttr getKind(Operation *reduction) {
  return reduction->getAttrOfType<ReduceKindAttr>("kind");
}

/// A sum that all readers divide becomes a mean, if that changes no bit.
static void useMean(Operation *op) {
  Value result = op->getResult(0);
  if (!isa<FloatType>(getElementTypeOrSelf(result.getType())) ||
      getKind(op).getValue() != ReduceKind::Sum || result.use_empty())
    return;
  int64_t ranks = getCommGroup(cast<CommunicationOpInterface>(op)).size;
  auto divides = [&](Operation *user) {
    return dividesBy(user, result, ranks);
  };
  if (ranks < 2 || !llvm::all_of(result.getUsers(), divides))
    return;
  if (!llvm::isPowerOf2_64(ranks)) {
    remark::missed(op->getLoc(), getOptions(FusionRule::InexactMean))
        << remark::reason("{0}",
                          getFusionRuleInfo(FusionRule::InexactMean).text)
        << remark::metric("ranks", ranks);
    return;
  }
  op->setAttr("kind", ReduceKindAttr::get(op->getContext(), ReduceKind::Mean));
  for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
    user->getResult(0).replaceAllUsesWith(result);
    user->erase();
  }
  emitPassed(op, FusionRule::MeanReduction);
}

/// Zeros on every rank are zeros when reduced: the gradient of a parameter that
/// is not used.
static bool dropZeros(Operation *op) {
  Value operand = op->getOperand(0);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Attribute splat = getSplat(operand);
  if (!isZero(splat) || !type.hasStaticShape())
    return false;
  emitPassed(op, FusionRule::ZeroGradient);
  if (operand.getType() != type) {
    OpBuilder builder(op);
    operand = ConstantOp::create(builder, op->getLoc(), type,
                                 DenseElementsAttr::get(type, splat));
  }
  op->getResult(0).replaceAllUsesWith(operand);
  op->erase();
  return true;
}

static bool isPlainReduction(Operation *op) {
  return op && isa<AllReduceOp, ReduceScatterOp>(op) &&
         op->getNumOperands() == 1 && !op->hasAttr(kBucketAttr);
}

/// A gradient that is widened or reshaped behind its reduction is not read yet:
/// moves such ops to their first reader, or each reduction would have to end
/// where the next gradient is computed. Keeps their order.
static void delayForms(Block &block) {
  llvm::DenseMap<Operation *, unsigned> numberOf;
  SmallVector<Operation *> forms;
  llvm::SmallPtrSet<Operation *, 16> isForm;
  unsigned count = 0;
  for (Operation &op : block) {
    numberOf[&op] = count++;
    if (!isa<CastOp, ReshapeOp, TransposeOp>(op))
      continue;
    Operation *from = op.getOperand(0).getDefiningOp();
    if (from && (isPlainReduction(from) || isForm.contains(from))) {
      forms.push_back(&op);
      isForm.insert(&op);
    }
  }
  // The reader that a form was moved to, and the first of the ops moved there.
  llvm::DenseMap<Operation *, Operation *> readerOf, firstAt;
  for (Operation *form : llvm::reverse(forms)) {
    Operation *reader = nullptr;
    for (Operation *user : form->getUsers()) {
      user = block.findAncestorOpInBlock(*user);
      if (Operation *later = user ? readerOf.lookup(user) : nullptr)
        user = later;
      if (user && (!reader || numberOf[user] < numberOf[reader]))
        reader = user;
    }
    if (!reader)
      continue;
    readerOf[form] = reader;
    Operation *&first = firstAt.try_emplace(reader, reader).first->second;
    form->moveBefore(first);
    first = form;
  }
}

/// Numbers that follow from a reduced number, and no reduction from them, can
/// wait: moves such ops behind the last reduction, or that of a loss, which is
/// ready early, could not go with a gradient's. Keeps their order.
static void delayReaders(Block &block) {
  llvm::SmallPtrSet<Operation *, 16> feeds;
  Operation *last = nullptr, *barrier = nullptr;
  for (Operation &op : llvm::reverse(block)) {
    if (isScheduleBarrier(&op)) {
      barrier = &op;
      break;
    }
    if (!last && isPlainReduction(&op))
      last = &op;
    bool isFeeding = isPlainReduction(&op);
    for (Operation *user : op.getUsers())
      isFeeding |= feeds.contains(block.findAncestorOpInBlock(*user));
    if (isFeeding)
      feeds.insert(&op);
  }
  if (!last)
    return;
  llvm::SmallPtrSet<Operation *, 16> late;
  SmallVector<Operation *> moved;
  for (Operation *op = barrier ? barrier->getNextNode() : &block.front();
       op != last; op = op->getNextNode()) {
    bool isNumber = llvm::all_of(op->getResultTypes(), [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.getRank() == 0;
    });
    if (isNumber && isPlainReduction(op)) {
      late.insert(op);
      continue;
    }
    if (!isNumber || feeds.contains(op) || !isMemoryEffectFree(op) ||
        op->getNumRegions() > 0 ||
        llvm::none_of(op->getOperands(), [&](Value operand) {
          return late.contains(operand.getDefiningOp());
        }))
      continue;
    late.insert(op);
    moved.push_back(op);
  }
  for (Operation *op : moved) {
    op->moveAfter(last);
    last = op;
  }
}

void fusion::simplifyReductions(Block &block) {
  // What is reduced already, since the last barrier.
  llvm::DenseMap<std::tuple<Value, Attribute, const void *>, Operation *> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isScheduleBarrier(&op))
      known.clear();
    if (!isPlainReduction(&op))
      continue;
    if (dropZeros(&op))
      continue;
    auto [it, isNew] =
        known.try_emplace({op.getOperand(0), op.getAttrDictionary(),
                           op.getName().getAsOpaquePointer()},
                          &op);
    if (isNew)
      continue;
    emitPassed(&op, FusionRule::RepeatedReduction);
    op.getResult(0).replaceAllUsesWith(it->second->getResult(0));
    op.erase();
  }
  for (Operation &op : block)
    if (isPlainReduction(&op))
      useMean(&op);
  delayForms(block);
  delayReaders(block);
}
