//===- EvaluateConstants.cpp - Replace computed constants by values -------===//
//
// One walk in program order evaluates each op whose operands are known, if the
// module does not grow too much by it. Values are kept while a later op may
// still use them; only those that an op at run time reads become constants.
// Broadcasts and iotas are evaluated for other evaluations but stay where they
// are read at run time: there they cost nothing.
//
//===----------------------------------------------------------------------===//
#include "ConstantEvaluator.h"
#include "RewriteRecord.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/IR/Weights.h"
#include "fusion/Simplify/Passes.h"

#define DEBUG_TYPE "fusion-evaluate-constants"

namespace fusion {
#define GEN_PASS_DEF_EVALUATECONSTANTS
#include "fusion/Simplify/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kRule = "evaluate-constants";

/// Most elements that the evaluation of one op may touch.
static constexpr int64_t kMaxWork = int64_t(1) << 26;

namespace {
struct Limits {
  int64_t growth;
  int64_t totalGrowth;
  bool exactRewritesOnly;
};

/// A value that is known.
struct Known {
  TensorData data;
  /// Bytes of constants that go away if this value does.
  int64_t freed = 0;
  /// Bytes that the module grows by if this value becomes a constant.
  int64_t growth = 0;
  /// Uses by ops that the walk has not reached.
  int64_t pendingUses = 0;
  /// The op that was evaluated; null for a constant of the model.
  Operation *op = nullptr;
  bool isExact = true;
  /// An op at run time reads it.
  bool isNeeded = false;
  /// The op stays, reading values that are needed in turn.
  bool isKept = false;
  /// An op that stays reads it, and may be needed after all other uses.
  bool hasKeptUser = false;
};

class BlockEvaluator {
public:
  BlockEvaluator(ModuleOp module, ConstantReader &reader, const Limits &limits)
      : reader(reader), limits(limits) {
    for (auto function : module.getOps<FunctionOpInterface>())
      function->walk([&](GetParameterOp get) {
        ++parameterReads[get.getParameterAttr().getAttr()];
      });
  }

  /// Evaluates the ops of a block. Returns how many of them may differ in the
  /// last bit from what a target computes.
  int64_t run(Block &block);
  int64_t getEvaluatedCount() const { return evaluatedCount; }

private:
  void visit(Operation *op);
  bool tryEvaluate(Operation *op);
  Known *lookup(Value value);
  void need(Value value);
  void release(Value value);
  void replace();

  ConstantReader &reader;
  Limits limits;
  llvm::DenseMap<StringAttr, int64_t> parameterReads;
  llvm::DenseMap<Value, Known> known;
  SmallVector<Value> evaluated;
  /// Constants and parameters that were read.
  SmallVector<Value> leaves;
  int64_t totalGrowth = 0;
  int64_t evaluatedCount = 0;
  int64_t roundedCount = 0;
};
} // namespace

static int64_t countUses(Value value) {
  return std::distance(value.use_begin(), value.use_end());
}

/// An op that generated code computes from indices alone, at no cost.
static bool isFreeAtRunTime(Operation *op, const TensorData &result) {
  return isa<IotaOp>(op) || (isa<BroadcastOp>(op) && !result.isSplat());
}

/// What is known of `value`, reading constants and parameters on first sight.
Known *BlockEvaluator::lookup(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second.data ? &found->second : nullptr;
  if (!reader.isConstant(value))
    return nullptr;
  std::optional<TensorData> data = reader.read(value);
  Known &entry = known[value];
  if (!data)
    return nullptr;
  entry.data = *data;
  leaves.push_back(value);
  bool isOnlyReader = value.hasOneUse();
  if (auto get = value.getDefiningOp<GetParameterOp>())
    isOnlyReader &= parameterReads[get.getParameterAttr().getAttr()] == 1;
  entry.freed = isOnlyReader ? data->getStoredBytes() : 0;
  return &entry;
}

bool BlockEvaluator::tryEvaluate(Operation *op) {
  if (op->getNumResults() != 1 || isa<ConstantOp, GetParameterOp>(op) ||
      !isa_and_nonnull<FusionDialect>(op->getDialect()))
    return false;
  SmallVector<TensorData> operands;
  int64_t freed = 0;
  llvm::SmallDenseSet<Value, 4> seen;
  for (Value operand : op->getOperands()) {
    Known *entry = lookup(operand);
    if (!entry)
      return false;
    operands.push_back(entry->data);
    if (seen.insert(operand).second)
      freed += entry->freed;
  }
  std::optional<EvaluationPlan> plan = planEvaluation(op, operands);
  if (!plan || plan->work > kMaxWork ||
      (!plan->isExact && limits.exactRewritesOnly))
    return false;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  int64_t bytes = plan->resultIsSplat ? getElementBytes(type.getElementType())
                                      : *getByteSize(type);
  int64_t growth = std::max<int64_t>(bytes - freed, 0);
  if (growth > limits.growth || totalGrowth + growth > limits.totalGrowth) {
    // A broadcast or iota stays in any case.
    if (!isa<BroadcastOp, IotaOp>(op))
      remark::missed(op->getLoc(), getRemarkOpts(kRule)) << remark::reason(
          "evaluating {0} adds {1} bytes, limit {2} an op and {3} left "
          "in all",
          op->getName().getStringRef(), growth, limits.growth,
          limits.totalGrowth - totalGrowth);
    return false;
  }

  Known entry;
  entry.data = evaluate(op, operands);
  entry.op = op;
  entry.isExact = plan->isExact;
  entry.growth = growth;
  Value result = op->getResult(0);
  entry.freed = result.hasOneUse() ? freed : 0;
  entry.pendingUses = countUses(result);
  entry.isKept = isFreeAtRunTime(op, entry.data);
  if (entry.isKept)
    for (Value operand : op->getOperands())
      known[operand].hasKeptUser = true;
  totalGrowth += growth;
  known[result] = std::move(entry);
  evaluated.push_back(result);
  return true;
}

/// An op at run time reads `value`. If the op that made it stays, so do the
/// values that it reads.
void BlockEvaluator::need(Value value) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    auto found = known.find(next);
    if (found == known.end() || !found->second.op || found->second.isNeeded)
      continue;
    found->second.isNeeded = true;
    if (found->second.isKept)
      llvm::append_range(worklist, found->second.op->getOperands());
  }
}

/// One use of `value` was reached. Values that no later op reads and that do
/// not become constants are forgotten.
void BlockEvaluator::release(Value value) {
  auto found = known.find(value);
  if (found == known.end() || !found->second.op)
    return;
  Known &entry = found->second;
  if (--entry.pendingUses > 0)
    return;
  if (entry.isNeeded || entry.hasKeptUser)
    return;
  totalGrowth -= entry.growth;
  entry.growth = 0;
  entry.data = TensorData();
}

void BlockEvaluator::visit(Operation *op) {
  bool isEvaluated = tryEvaluate(op);
  if (!isEvaluated)
    op->walk([&](Operation *reader) {
      for (Value operand : reader->getOperands())
        need(operand);
    });
  for (Value operand : op->getOperands())
    release(operand);
}

/// Puts constants where they are needed and erases what they replace.
void BlockEvaluator::replace() {
  for (Value value : evaluated) {
    Known &entry = known[value];
    if (!entry.isNeeded || entry.isKept)
      continue;
    OpBuilder builder(entry.op);
    std::string name =
        (entry.op->getName().stripDialect() + "_evaluated").str();
    Value constant =
        ConstantOp::create(builder, entry.op->getLoc(), entry.data.getType(),
                           entry.data.getAttr(name));
    value.replaceAllUsesWith(constant);
    ++evaluatedCount;
    roundedCount += !entry.isExact;
  }
  for (Value value : llvm::reverse(evaluated)) {
    Operation *op = known[value].op;
    if (op->use_empty())
      op->erase();
  }
  for (Value value : leaves)
    if (value.use_empty())
      value.getDefiningOp()->erase();
}

int64_t BlockEvaluator::run(Block &block) {
  known.clear();
  evaluated.clear();
  leaves.clear();
  evaluatedCount = roundedCount = 0;
  for (Operation &op : block)
    visit(&op);
  replace();
  return roundedCount;
}

namespace {
struct EvaluateConstants final
    : fusion::impl::EvaluateConstantsBase<EvaluateConstants> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    declareRewrite(module, kRule, "an op whose operands are all constants");
    ConstantReader reader(module, getParameterFolder(module, parameterFolder));
    BlockEvaluator evaluator(module, reader,
                             {growth, totalGrowth, exactRewritesOnly});
    int64_t rounded = 0;
    for (auto function : module.getOps<FunctionOpInterface>()) {
      if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
        continue;
      rounded += evaluator.run(function.getFunctionBody().front());
      if (evaluator.getEvaluatedCount() > 0)
        remark::passed(function->getLoc(), getRemarkOpts(kRule))
            << remark::add("computed what depends on constants only")
            << remark::metric("Constants", evaluator.getEvaluatedCount());
    }
    recordRewrites(module, kRule, rounded);
    eraseUnusedParameters(module);
  }
};
} // namespace
