//===- FuseGradients.cpp - Gradients beside products ----------------------===//
//
// Puts a product and the gradients that the library computes with it into one
// group: what LibraryGradients finds, where the cost model predicts no loss. It
// is done ahead of what cuts reductions, since half a sum is none, and of
// vertical fusion, which joins what reads each other, not two readers of one
// value.
//
//===----------------------------------------------------------------------===//
#include "BuildGroup.h"
#include "DecidingPass.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/LibraryGradients.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/FormatVariadic.h"

namespace fusion {
#define GEN_PASS_DEF_FUSEGRADIENTS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// What the group is compared across, for messages.
static constexpr llvm::StringLiteral kStep = "fusion of gradients";

namespace {

/// A product with its gradients, or why they stay apart.
struct Decision {
  MatmulOp root;
  std::optional<LibraryGradients> gradients; ///< null: refused
  FusionRule rule;
  std::string reason;
  FusionProfit profit;
  SmallVector<Operation *> moved; ///< readers that stand in front of the group
};

struct FuseGradients
    : DecidingPass<fusion::impl::FuseGradientsBase<FuseGradients>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;

private:
  Decision decide(MatmulOp root, LibraryGradients gradients,
                  const FusionLegality &legality) const;
};

} // namespace

static bool isOf(Operation *op, Value value) {
  return value && op == value.getDefiningOp();
}

static Value getSummed(MatmulOp root, const LibraryGradients &gradients) {
  switch (gradients.summed) {
  case SummedMatrix::Lhs:
    return root.getLhs();
  case SummedMatrix::Rhs:
    return root.getRhs();
  case SummedMatrix::None:
  case SummedMatrix::Result:
    return gradients.result;
  }
  llvm_unreachable("unknown matrix");
}

/// The op that the group takes the place of: all that it reads is there, and
/// what it gives is not read yet.
static Operation *getPlace(MatmulOp root, const LibraryGradients &gradients) {
  return gradients.slopeAt ? gradients.result.getDefiningOp() : root;
}

/// Ops between a sum and its readers behind the product, at most.
static constexpr size_t kMaxMoved = 16;

/// What reads `sum` in front of `place`, directly or not, in order: it moves
/// behind the group. Nothing, with `isTied`, if one of these has effects, as a
/// communication, which would wait for the product.
static SmallVector<Operation *> getEarlyReaders(Value sum, Operation *place,
                                                bool &isTied) {
  isTied = false;
  llvm::SetVector<Operation *> early;
  SmallVector<Value> open;
  if (sum)
    open.push_back(sum);
  while (!open.empty())
    for (Operation *user : open.pop_back_val().getUsers()) {
      Operation *reader = place->getBlock()->findAncestorOpInBlock(*user);
      if (reader == place || !reader->isBeforeInBlock(place) ||
          !early.insert(reader))
        continue;
      isTied |= !isMemoryEffectFree(reader) || reader->getNumRegions() > 0 ||
                early.size() > kMaxMoved;
      if (isTied)
        return {};
      llvm::append_range(open, reader->getResults());
    }
  SmallVector<Operation *> order = early.takeVector();
  llvm::sort(order, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  return order;
}

Decision FuseGradients::decide(MatmulOp root, LibraryGradients gradients,
                               const FusionLegality &legality) const {
  Decision decision{root, std::nullopt, FusionRule::GradientForm, "", {}, {}};
  llvm::SmallPtrSet<Operation *, 32> inside(gradients.ops.begin(),
                                            gradients.ops.end());
  auto isReadOutside = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !inside.contains(user);
    });
  };
  if (!isReadOutside(gradients.result) ||
      (gradients.sum && !isReadOutside(gradients.sum))) {
    decision.reason = "one of the results is not read";
    return decision;
  }
  bool isTied;
  decision.moved =
      getEarlyReaders(gradients.sum, getPlace(root, gradients), isTied);
  if (isTied) {
    decision.rule = FusionRule::ReadyTime;
    decision.reason = "the sum is needed before the product is computed";
    return decision;
  }
  // The library's kernel against the product's, one for the slope and one for
  // the sum.
  auto isResult = [&](Operation *op) {
    return op == root.getOperation() || isOf(op, gradients.result) ||
           isOf(op, gradients.sum);
  };
  SmallVector<KernelWork> apart;
  Operation *product = root;
  for (ArrayRef<Operation *> ops :
       {ArrayRef(product), ArrayRef(gradients.slopeOps),
        ArrayRef(gradients.sumOps)})
    if (!ops.empty())
      apart.push_back(
          computeKernelWork(ops, isResult, legality, model->getDevice()));
  // cuBLASLt sums and takes the slope in passes of its own behind the product.
  const DeviceModel &device = model->getDevice();
  SmallVector<KernelWork> joined{
      computeKernelWork(ArrayRef(product), isResult, legality, device)};
  auto addPass = [&](KernelClass kernel, double bytes) {
    KernelWork &pass = joined.emplace_back();
    pass.kernel = kernel;
    pass.memoryBytes = bytes;
    pass.blocks = device.units;
  };
  if (gradients.slopeAt)
    addPass(KernelClass::Slope, 3 * legality.getByteSize(gradients.result));
  if (gradients.sum && !gradients.slopeAt)
    addPass(KernelClass::OperandSum,
            legality.getByteSize(getSummed(root, gradients)));
  decision.profit = predictProfit(*model, apart, joined);
  const FusionProfit &profit = decision.profit;
  if (profit.refusal) {
    decision.rule = *profit.refusal;
    decision.reason = getFusionRuleInfo(decision.rule).text.str();
    return decision;
  }
  decision.rule = FusionRule::FuseGradient;
  decision.reason =
      gradients.slopeAt ? "the slope of gelu" : "the sum of an operand";
  if (gradients.slopeAt && gradients.sum)
    decision.reason += " and the sum of the result";
  decision.gradients = std::move(gradients);
  return decision;
}

static void report(const Decision &decision) {
  const FusionRuleInfo &info = getFusionRuleInfo(decision.rule);
  auto options = remark::RemarkOpts::name(info.id).category("fusion");
  Location loc = decision.root->getLoc();
  auto remark = info.accepts ? remark::passed(loc, options)
                             : remark::missed(loc, options);
  remark << remark::reason("{0}: {1}", info.text, decision.reason);
  if (decision.profit.beforeUs > 0)
    remark << remark::metric(
                  "us_unfused",
                  llvm::formatv("{0:f2}", decision.profit.beforeUs).str())
           << remark::metric(
                  "us_fused",
                  llvm::formatv("{0:f2}", decision.profit.afterUs).str());
}

/// Makes the group, and drops what it computes.
static void form(const Decision &decision) {
  const LibraryGradients &gradients = *decision.gradients;
  OpBuilder builder(getPlace(decision.root, gradients));
  SmallVector<Operation *> outputs{gradients.result.getDefiningOp()};
  if (gradients.sum)
    outputs.push_back(gradients.sum.getDefiningOp());
  IRMapping values;
  Operation *last =
      buildGroup(gradients.ops, outputs, GroupKind::Library, values, builder);
  last->setAttr(kGradientsAttr, builder.getUnitAttr());
  for (Operation *reader : decision.moved) {
    reader->moveAfter(last);
    last = reader;
  }
  for (Operation *op : outputs)
    op->getResult(0).replaceAllUsesWith(values.lookup(op->getResult(0)));
  // What else is read, as a matrix widened for another sum, stays. The group
  // has numbers of its own.
  llvm::SetVector<Operation *> numbers;
  for (Operation *op : llvm::reverse(gradients.ops)) {
    if (!op->use_empty())
      continue;
    for (Value operand : op->getOperands())
      if (auto constant = operand.getDefiningOp<ConstantOp>())
        numbers.insert(constant);
    op->erase();
  }
  for (Operation *constant : numbers)
    if (constant->use_empty())
      constant->erase();
}

LogicalResult FuseGradients::decide(FunctionOpInterface function,
                                    Block &block) {
  const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::FuseGradient);
  declareRewrite(function, info.id, info.text);
  SmallVector<MatmulOp> products(block.getOps<MatmulOp>());
  std::optional<FusionLegality> legality;
  std::optional<GraphFingerprint> before;
  auto isInside = [&](Operation *op) { return op->getBlock() == &block; };
  for (MatmulOp root : products) {
    std::string reason;
    auto gradients = findLibraryGradients(root, isInside, &reason);
    if (!gradients) {
      if (!reason.empty())
        report({root, std::nullopt, FusionRule::GradientForm, reason, {}, {}});
      continue;
    }
    if (!legality) {
      FailureOr<FusionLegality> made =
          FusionLegality::create(function, GroupLimits());
      if (failed(made))
        return failure();
      legality.emplace(std::move(*made));
      before.emplace(function);
    }
    Decision decision = decide(root, std::move(*gradients), *legality);
    report(decision);
    if (decision.gradients)
      form(decision);
  }
  return before ? before->verify(function, kStep) : success();
}
