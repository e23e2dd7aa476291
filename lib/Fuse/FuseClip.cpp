//===- FuseClip.cpp - Clipping by the global norm, without a pass ---------===//
//
// Recognises a norm of several gradients: the root of a sum of sums of squares.
// Each sum of squares moves right behind its gradient's reduction, as one row
// of a shape that all have in common, so that those of a bucket are one launch
// while other buckets are still sent. Those of some buckets before the last one
// stand behind that one: nothing else is left to compute while it is sent. The
// sums are added by one reduction in the order in which the graph adds them,
// not by a chain of kernels; sums over ranks (of gradients that ranks hold
// parts of) by one scalar collective a group. Of gradients that all ranks have,
// each may square its own part (ClipShares.cpp).
//
// How the factor follows from the norm stays as it is written, and with it what
// becomes of infinity, NaN and zero. It is a scalar: vertical fusion makes it
// an operand of the updates.
//
//===----------------------------------------------------------------------===//
#include "BucketPlan.h"
#include "ClipShares.h"
#include "DecidingPass.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "fusion-fuse-clip"

namespace fusion {
#define GEN_PASS_DEF_FUSECLIP
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

/// The root of a sum of squares.
struct GlobalNorm {
  Operation *root;
  SmallVector<NormTerm> terms; ///< in the order in which they are added
  /// Whether the terms are added one after the other.
  bool isChain = true;
};

/// What became of the gradients behind a norm.
struct ScaledGradients {
  int64_t count = 0; ///< products with a factor that follows from the norm
  /// Of these, the ones that are needed whole.
  SmallVector<Operation *> whole;
};

struct FuseClip : DecidingPass<fusion::impl::FuseClipBase<FuseClip>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;

private:
  void fuse(GlobalNorm &norm, const FusionLegality &legality);
  void placeParts(SmallVectorImpl<SquaredPart> &parts);
  std::optional<ClipShares> shareParts(SmallVectorImpl<SquaredPart> &parts,
                                       Operation *root,
                                       const FusionLegality &legality);
};

} // namespace

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool isScalar(Value value) { return getType(value).getRank() == 0; }

/// Fills in the gradient if the term is a sum of squares.
static void matchSquares(NormTerm &term) {
  auto sum = term.value.getDefiningOp<ReduceOp>();
  if (!sum || sum.getKind() != ReduceKind::Sum || !isScalar(sum))
    return;
  auto product = sum.getInput().getDefiningOp<MulOp>();
  if (!product || product.getLhs() != product.getRhs())
    return;
  Value squared = product.getLhs();
  if (!isa<FloatType>(getType(squared).getElementType()) ||
      !getType(squared).hasStaticShape())
    return;
  term.wide = getType(squared).getElementType();
  term.gradient = squared;
  if (auto widened = squared.getDefiningOp<CastOp>())
    if (isa<FloatType>(getType(widened.getInput()).getElementType()))
      term.gradient = widened.getInput();
}

/// The norm whose root `op` takes, if it takes one of squares.
static std::optional<GlobalNorm> matchNorm(Operation *op) {
  if (!isa<SqrtOp, RsqrtOp>(op) || !isScalar(op->getResult(0)))
    return std::nullopt;
  GlobalNorm norm{op, {}, true};
  SmallVector<NormTerm> worklist{{op->getOperand(0), {}, {}, {}}};
  auto isSum = [&](Value value) {
    return value.getDefiningOp<AddOp>() &&
           (value.hasOneUse() || value == op->getOperand(0));
  };
  while (!worklist.empty()) {
    NormTerm term = worklist.pop_back_val();
    auto overRanks = term.value.getDefiningOp<AllReduceOp>();
    if (overRanks && !term.overRanks &&
        overRanks.getKind() == ReduceKind::Sum) {
      unsigned number = cast<OpResult>(term.value).getResultNumber();
      worklist.push_back({overRanks.getInputs()[number], overRanks, {}, {}});
      continue;
    }
    if (isSum(term.value)) {
      auto add = term.value.getDefiningOp<AddOp>();
      norm.isChain &= !isSum(add.getRhs());
      worklist.push_back({add.getRhs(), term.overRanks, {}, {}});
      worklist.push_back({add.getLhs(), term.overRanks, {}, {}});
      continue;
    }
    matchSquares(term);
    norm.terms.push_back(term);
  }
  if (!isa<FloatType>(getType(op->getResult(0)).getElementType()) ||
      llvm::none_of(norm.terms, [](auto &term) { return term.gradient; }))
    return std::nullopt;
  // Ranks share it already.
  if (llvm::any_of(norm.terms, [](auto &term) {
        return term.gradient &&
               term.gradient.template getDefiningOp<RankSliceOp>();
      }))
    return std::nullopt;
  return norm;
}

/// Follows the norm through scalars to the products with gradients.
static ScaledGradients findScaled(const GlobalNorm &norm) {
  llvm::SmallDenseSet<Value> gradients;
  for (const NormTerm &term : norm.terms)
    if (term.gradient)
      gradients.insert(term.gradient);
  ScaledGradients scaled;
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> worklist{norm.root->getResult(0)};
  auto isElementwise = [](Operation *user) {
    return isa<ElementwiseOpInterface>(user);
  };
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (!seen.insert(user).second || user->getNumResults() != 1)
        continue;
      Value result = user->getResult(0);
      if (isa<BroadcastOp>(user) || (isElementwise(user) && isScalar(result))) {
        worklist.push_back(result);
        continue;
      }
      if (!isa<MulOp, DivOp>(user) ||
          llvm::none_of(user->getOperands(), [&](Value operand) {
            auto widened = operand.getDefiningOp<CastOp>();
            return gradients.contains(operand) ||
                   (widened && gradients.contains(widened.getInput()));
          }))
        continue;
      ++scaled.count;
      if (!llvm::all_of(result.getUsers(), isElementwise))
        scaled.whole.push_back(user);
    }
  return scaled;
}

static bool isExactCast(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  if (!cast)
    return false;
  auto from = dyn_cast<FloatType>(cast.getInput().getType().getElementType()),
       to = dyn_cast<FloatType>(cast.getResult().getType().getElementType());
  return from && to &&
         llvm::APFloat::isRepresentableBy(from.getFloatSemantics(),
                                          to.getFloatSemantics());
}

/// What has the elements of `gradient`, in any order, before they were moved.
/// Only their sum matters here, and a kernel that squares them where they lie
/// leaves the move to the one that updates: nothing is written in between.
static Value getUnmoved(Value gradient) {
  while (Operation *op = gradient.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp>(op) && !isExactCast(op))
      break;
    gradient = op->getOperand(0);
  }
  return gradient;
}

/// Whether all ranks that `term` sums over have the same gradient.
static bool countsRanksTwice(const NormTerm &term) {
  if (!term.overRanks || !term.gradient)
    return false;
  Value value = getUnmoved(term.gradient);
  AllReduceOp reduced = value.getDefiningOp<AllReduceOp>(),
              overRanks = term.overRanks;
  return reduced && reduced.getMesh() == overRanks.getMesh() &&
         llvm::any_of(overRanks.getAxes(), [&](Attribute axis) {
           return llvm::is_contained(reduced.getAxes(), axis);
         });
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

static remark::RemarkOpts getOptions(FusionRule rule) {
  return remark::RemarkOpts::name(getFusionRuleInfo(rule).id)
      .category("fusion");
}

static void emitMissed(Operation *op, FusionRule rule) {
  remark::missed(op->getLoc(), getOptions(rule))
      << remark::reason("{0}", getFusionRuleInfo(rule).text);
}

/// What is squared for `gradient`: the parts that BucketCollectives has reduced
/// apart, or what ranks reduced, as it came; else itself, in its own order.
static SmallVector<Value> getParts(Value gradient) {
  Value value = getUnmoved(gradient);
  if (isa_and_present<AllReduceOp, ReduceScatterOp>(value.getDefiningOp()))
    return {value};
  auto whole = value.getDefiningOp<ConcatOp>();
  auto isPart = [](Value part) {
    return part.getDefiningOp<AllReduceOp>() &&
           part.getDefiningOp()->hasAttr(kBucketAttr);
  };
  if (!whole || !llvm::all_of(whole.getInputs(), isPart))
    return {gradient};
  return llvm::to_vector(whole.getInputs());
}

/// The gradient or the part that `value` is, unsquared. What is in memory
/// anyway, reduced or scattered, is narrowed where it is read, unless its
/// kernel writes it narrow.
static SquaredPart getSource(Value value, NormTerm *term) {
  SquaredPart part;
  part.value = value;
  part.term = term;
  auto narrowed = value.getDefiningOp<CastOp>();
  Operation *source = narrowed ? narrowed.getInput().getDefiningOp() : nullptr;
  auto getWidth = [](Value of) { return getType(of).getElementTypeBitWidth(); };
  if (!isa_and_present<CommunicationOpInterface, ScatterOp>(source) ||
      !isa<FloatType>(getType(narrowed.getInput()).getElementType()) ||
      getWidth(narrowed.getInput()) <= getWidth(value) ||
      (isa<ScatterOp>(source) && source->hasOneUse() &&
       isNarrowedInPlace(cast<ScatterOp>(source), narrowed)))
    return part;
  part.value = narrowed.getInput();
  part.narrow = getType(value).getElementType();
  return part;
}

/// The sum of squares of `row`, of `part` or some of its elements.
static Value createSquares(OpBuilder &builder, const SquaredPart &part,
                           Value row) {
  Location loc = part.term->value.getLoc();
  Type wide = part.term->wide;
  for (Type element : {part.narrow, wide})
    if (element && element != getType(row).getElementType())
      row = CastOp::create(builder, loc, getType(row).clone(element), row);
  row = MulOp::create(builder, loc, row.getType(), row, row);
  return ReduceOp::create(builder, loc, RankedTensorType::get({}, wide),
                          ReduceKind::Sum, row,
                          builder.getDenseI64ArrayAttr({0}));
}

/// The sums of squares of `part`, as rows, where the builder is. The last op is
/// the first sum's.
static void createSums(OpBuilder &builder, SquaredPart &part,
                       const std::optional<ClipShares> &shares) {
  Location loc = part.term->value.getLoc();
  RankedTensorType type = getType(part.value);
  int64_t count = type.getNumElements();
  RankedTensorType flat = RankedTensorType::get({count}, type.getElementType());
  Value row = part.value;
  if (type.getRank() != 1)
    row = ReshapeOp::create(builder, loc, flat, row);
  remark::passed(loc, getOptions(FusionRule::ClipPartial))
      << remark::reason("{0}", getFusionRuleInfo(FusionRule::ClipPartial).text)
      << remark::metric("elements", count);
  if (part.share > 0) {
    int64_t end = part.share * shares->ranks;
    if (end < count) {
      Value rest = SliceOp::create(builder, loc,
                                   flat.clone(ArrayRef<int64_t>{count - end}),
                                   row, builder.getDenseI64ArrayAttr({end}),
                                   builder.getDenseI64ArrayAttr({count}),
                                   builder.getDenseI64ArrayAttr({1}));
      part.restSum = createSquares(builder, part, rest);
    }
    row = RankSliceOp::create(
        builder, loc, flat.clone(ArrayRef<int64_t>{part.share}), row,
        builder.getI64IntegerAttr(0), shares->mesh, shares->axes);
  }
  part.sum = createSquares(builder, part, row);
}

/// Puts each part behind its producer, but those of the last buckets before the
/// last collective behind that one, as far as they fill the time it takes.
void FuseClip::placeParts(SmallVectorImpl<SquaredPart> &parts) {
  llvm::SmallSetVector<Operation *, 8> collectives;
  for (SquaredPart &part : parts) {
    part.anchor = part.value.getDefiningOp();
    if (Operation *collective = findCollective(part))
      collectives.insert(collective);
  }
  if (collectives.size() < 2)
    return;
  SmallVector<Operation *> inOrder = collectives.takeVector();
  llvm::sort(inOrder,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  Operation *last = inOrder.pop_back_val();
  CommModel comm(model->getDevice());
  double leftUs =
      CollectiveCost(last, comm)
          .getUs(isa<AllGatherOp>(last) ? countBytes(last->getResults())
                                        : countBytes(last->getOperands()));
  llvm::SmallDenseSet<Operation *> late;
  for (; !inOrder.empty() && leftUs > 0; inOrder.pop_back()) {
    KernelWork work;
    work.memoryBytes = countBytes(inOrder.back()->getResults());
    leftUs -= model->getMicroseconds(work);
    late.insert(inOrder.back());
  }
  for (SquaredPart &part : parts)
    if (late.contains(part.anchor))
      part.anchor = last;
}

/// Terms that one kernel adds: it has an argument for each.
static constexpr size_t kMaxTerms = 1024;

/// The sum of scalars, in their order.
static Value createSum(OpBuilder &builder, Location loc,
                       ArrayRef<Value> values) {
  if (values.size() > kMaxTerms) {
    SmallVector<Value> sums;
    for (; !values.empty();
         values = values.drop_front(std::min(kMaxTerms, values.size())))
      sums.push_back(createSum(
          builder, loc, values.take_front(std::min(kMaxTerms, values.size()))));
    return createSum(builder, loc, sums);
  }
  if (values.size() <= 2) {
    Value sum = values.front();
    for (Value value : values.drop_front())
      sum = AddOp::create(builder, loc, sum.getType(), sum, value);
    return sum;
  }
  // A row of two dimensions, which no parameter's update shares.
  RankedTensorType scalar = getType(values.front());
  SmallVector<Value> elements;
  for (Value value : values)
    elements.push_back(ReshapeOp::create(
        builder, loc, scalar.clone(ArrayRef<int64_t>{1, 1}), value));
  int64_t count = values.size();
  Value row =
      ConcatOp::create(builder, loc, scalar.clone(ArrayRef<int64_t>{1, count}),
                       elements, builder.getI64IntegerAttr(1));
  return ReduceOp::create(builder, loc, scalar, ReduceKind::Sum, row,
                          builder.getDenseI64ArrayAttr({0, 1}));
}

/// Takes results that nothing reads out of a reduction over ranks.
static void dropUnread(AllReduceOp op) {
  SmallVector<Value> operands, kept;
  SmallVector<Type> types;
  for (auto [operand, result] : llvm::zip(op.getInputs(), op.getOutputs()))
    if (!result.use_empty()) {
      operands.push_back(operand);
      types.push_back(result.getType());
      kept.push_back(result);
    }
  if (!operands.empty() && operands.size() < op.getNumOperands()) {
    OpBuilder builder(op);
    OperationState state(op.getLoc(), op->getName(), operands, types,
                         op->getAttrs());
    Operation *fewer = builder.create(state);
    for (auto [old, result] : llvm::zip(kept, fewer->getResults()))
      old.replaceAllUsesWith(result);
  } else if (!operands.empty()) {
    return;
  }
  op->erase();
}

/// Erases what computes `values`, as far as nothing reads it.
static void eraseUnread(ArrayRef<Value> values) {
  llvm::SmallSetVector<Operation *, 8> worklist;
  auto push = [&](Value operand) {
    if (Operation *op = operand.getDefiningOp())
      worklist.insert(op);
  };
  llvm::for_each(values, push);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!op->use_empty() || !isa<AddOp, MulOp, CastOp, ReduceOp>(op))
      continue;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    llvm::for_each(operands, push);
  }
}

/// Lets ranks share squares where that is predicted to be faster.
std::optional<ClipShares>
FuseClip::shareParts(SmallVectorImpl<SquaredPart> &parts, Operation *root,
                     const FusionLegality &legality) {
  if (!share)
    return std::nullopt;
  std::optional<ClipShares> shares =
      shareSquares(parts, root, legality, *model);
  if (!shares)
    return std::nullopt;
  bool isShared = shares->isProfitable();
  auto rule = isShared ? FusionRule::ClipShare : FusionRule::ClipShareProfit;
  auto format = [](double us) { return llvm::formatv("{0:f2}", us).str(); };
  auto remark = isShared ? remark::passed(root->getLoc(), getOptions(rule))
                         : remark::missed(root->getLoc(), getOptions(rule));
  remark << remark::reason("{0}", getFusionRuleInfo(rule).text)
         << remark::metric("ranks", shares->ranks)
         << remark::metric("gradients", shares->parts)
         << remark::metric("bytes", shares->bytes)
         << remark::metric("us_saved", format(shares->savedUs))
         << remark::metric("us_cost", format(shares->costUs))
         << remark::metric("us_sum", format(shares->joinUs));
  return isShared ? shares : std::nullopt;
}

/// The sum over ranks of what each has of shared squares, behind all of them
/// and behind the collectives that gradients come from.
static Value createShared(const ClipShares &shares, ArrayRef<SquaredPart> parts,
                          Location loc) {
  SmallVector<Value> sums;
  Operation *behind = shares.behind;
  for (const SquaredPart &part : parts) {
    if (part.share == 0)
      continue;
    sums.push_back(part.sum);
    if (!behind || behind->isBeforeInBlock(part.sum.getDefiningOp()))
      behind = part.sum.getDefiningOp();
  }
  OpBuilder builder(behind->getContext());
  builder.setInsertionPointAfter(behind);
  Value local = createSum(builder, loc, sums);
  return AllReduceOp::create(
             builder, loc, TypeRange{local.getType()},
             ReduceKindAttr::get(builder.getContext(), ReduceKind::Sum),
             ValueRange{local}, shares.mesh, shares.axes)
      ->getResult(0);
}

void FuseClip::fuse(GlobalNorm &norm, const FusionLegality &legality) {
  ScaledGradients scaled = findScaled(norm);
  // Terms that are added as a tree would be added in another order.
  if (scaled.count == 0 || !norm.isChain)
    return emitMissed(norm.root, FusionRule::ClipForm);
  for (Operation *op : scaled.whole)
    emitMissed(op, FusionRule::ClipReader);

  OpBuilder builder(norm.root->getContext());
  Location loc = norm.root->getLoc();
  SmallVector<SquaredPart> squared;
  int64_t partials = 0;
  for (NormTerm &term : norm.terms) {
    if (countsRanksTwice(term)) {
      emitMissed(term.overRanks, FusionRule::ClipRanks);
      term.gradient = Value();
    }
    if (!term.gradient)
      continue;
    ++partials;
    for (Value part : getParts(term.gradient))
      squared.push_back(getSource(part, &term));
  }
  placeParts(squared);
  std::optional<ClipShares> shares = shareParts(squared, norm.root, legality);
  // What was moved behind the last reduction comes before what waits for it.
  llvm::DenseMap<Operation *, Operation *> lastBehind;
  for (bool waits : {false, true})
    for (SquaredPart &part : squared) {
      if (waits != (part.anchor == part.value.getDefiningOp()))
        continue;
      Operation *&behind = lastBehind[part.anchor];
      if (part.anchor)
        builder.setInsertionPointAfter(behind ? behind : part.anchor);
      else
        builder.setInsertionPointToStart(norm.root->getBlock());
      createSums(builder, part, shares);
      behind = part.sum.getDefiningOp();
    }

  // Terms of all ranks, and by group of ranks those of a rank.
  SmallVector<Value> terms, replaced;
  llvm::MapVector<Attribute, std::pair<AllReduceOp, SmallVector<Value>>> parts;
  llvm::SmallSetVector<Operation *, 4> oldReductions;
  const SquaredPart *next = squared.begin();
  for (NormTerm &term : norm.terms) {
    SmallVector<Value> *into = &terms;
    if (term.overRanks) {
      auto &group = parts[term.overRanks.getAxesAttr()];
      group.first = term.overRanks;
      into = &group.second;
      oldReductions.insert(term.overRanks);
    }
    if (!term.gradient) {
      into->push_back(term.value);
      continue;
    }
    const SquaredPart *first = next;
    for (; next != squared.end() && next->term == &term; ++next) {
      if (next->share == 0)
        into->push_back(next->sum);
      else if (next->restSum)
        into->push_back(next->restSum);
    }
    // Whoever else reads the sum reads the new one, unless that comes later or
    // is a rank's.
    if (next - first == 1 && first->share == 0 &&
        first->anchor == first->value.getDefiningOp()) {
      term.value.replaceAllUsesWith(first->sum);
      replaced.push_back(term.value);
    }
  }
  builder.setInsertionPoint(norm.root);
  for (auto &[axes, group] : parts) {
    Value local = createSum(builder, loc, group.second);
    OperationState state(group.first.getLoc(), group.first->getName(), {local},
                         {local.getType()}, group.first->getAttrs());
    state.attributes.erase(kBucketAttr);
    Operation *total = builder.create(state);
    terms.push_back(total->getResult(0));
  }
  if (shares)
    terms.push_back(createShared(*shares, squared, loc));
  Value old = norm.root->getOperand(0);
  norm.root->setOperand(0, createSum(builder, loc, terms));
  remark::passed(loc, getOptions(FusionRule::FuseClip))
      << remark::reason("{0}", getFusionRuleInfo(FusionRule::FuseClip).text)
      << remark::metric("gradients", partials)
      << remark::metric("scaled", scaled.count)
      << remark::metric("collectives", int64_t(parts.size()));
  replaced.push_back(old);
  eraseUnread(replaced);
  for (Operation *reduction : oldReductions) {
    SmallVector<Value> locals(reduction->getOperands());
    dropUnread(cast<AllReduceOp>(reduction));
    eraseUnread(locals);
  }
}

LogicalResult FuseClip::decide(FunctionOpInterface function, Block &block) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseClip);
  declareRewrite(function, info.id, info.text);
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return failure();
  // Roots stay, while what is under them may be part of several norms.
  SmallVector<Operation *> roots;
  for (Operation &op : block)
    if (isa<SqrtOp, RsqrtOp>(op))
      roots.push_back(&op);
  for (Operation *root : roots)
    if (std::optional<GlobalNorm> norm = matchNorm(root))
      fuse(*norm, *legality);
  return success();
}
