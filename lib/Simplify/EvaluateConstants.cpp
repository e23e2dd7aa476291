//===- EvaluateConstants.cpp - Replace computed constants by values -------===//
//
// One walk in program order evaluates each op whose operands are known, if the
// module does not grow too much by it. Values are kept while a later op may
// still use them; only those that an op at run time reads become constants.
// Broadcasts and iotas are evaluated for other evaluations but stay where they
// are read at run time: there they cost nothing.
//
// What one walk replaces may leave a constant to a reader that the limit
// stopped, so the walk is repeated until it changes nothing: a second run of
// the pass has nothing to do.
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

/// On a module that reached `total-growth`: the bytes that were added.
static constexpr llvm::StringLiteral kGrowthAttr = "fusion.evaluated_bytes";

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
  /// `totalGrowth` is what earlier runs have added to the module.
  BlockEvaluator(ModuleOp module, ConstantReader &reader, const Limits &limits,
                 int64_t totalGrowth)
      : module(module), reader(reader), limits(limits),
        totalGrowth(totalGrowth) {}

  /// Before each walk over the functions: counts what reads each parameter and
  /// forgets what stopped ops in the last walk.
  void startWalk();
  /// Evaluates the ops of a block and says whether it changed.
  bool run(Block &block);

  /// Of the last block: ops that became constants, and those among them that
  /// may differ in the last bit from what a target computes.
  int64_t getEvaluatedCount() const { return evaluatedCount; }
  int64_t getRoundedCount() const { return roundedCount; }
  /// Of the last walk: ops that a limit stopped, with the reason.
  ArrayRef<std::pair<Location, std::string>> getStopped() const {
    return stopped;
  }
  bool wasStopped() const { return isStopped; }
  bool isTotalReached() const { return totalReached; }
  int64_t getTotalGrowth() const { return totalGrowth; }

private:
  void visit(Operation *op);
  bool tryEvaluate(Operation *op);
  Known *lookup(Value value);
  void need(Value value);
  void release(Value value);
  bool replace();

  ModuleOp module;
  ConstantReader &reader;
  Limits limits;
  llvm::DenseMap<StringAttr, int64_t> parameterReads;
  llvm::DenseMap<Value, Known> known;
  SmallVector<Value> evaluated;
  /// Constants and parameters that were read.
  SmallVector<Value> leaves;
  SmallVector<std::pair<Location, std::string>> stopped;
  bool isStopped = false, totalReached = false;
  int64_t totalGrowth;
  int64_t evaluatedCount = 0;
  int64_t roundedCount = 0;
};
} // namespace

static int64_t countUses(Value value) {
  return std::distance(value.use_begin(), value.use_end());
}

static bool hasOneUser(Value value) {
  return !value.use_empty() && llvm::all_equal(value.getUsers());
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
  bool isOnlyReader = hasOneUser(value);
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
    isStopped = true;
    totalReached |= growth <= limits.growth;
    // A broadcast or iota stays in any case.
    if (!isa<BroadcastOp, IotaOp>(op))
      stopped.emplace_back(
          op->getLoc(),
          llvm::formatv("evaluating {0} adds {1} bytes, limit {2} an op and "
                        "{3} left in all",
                        op->getName().getStringRef(), growth, limits.growth,
                        limits.totalGrowth - totalGrowth));
    return false;
  }

  Known entry;
  entry.data = evaluate(op, operands);
  entry.op = op;
  entry.isExact = plan->isExact;
  entry.growth = growth;
  Value result = op->getResult(0);
  entry.freed = hasOneUser(result) ? freed : 0;
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

/// Puts constants where they are needed and erases what they replace; says
/// whether there was any.
bool BlockEvaluator::replace() {
  bool changed = false;
  for (Value value : evaluated) {
    Known &entry = known[value];
    if (!entry.isNeeded || entry.isKept) {
      totalGrowth -= entry.growth;
      continue;
    }
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
    if (op->use_empty()) {
      op->erase();
      changed = true;
    }
  }
  for (Value value : leaves)
    if (value.use_empty()) {
      value.getDefiningOp()->erase();
      changed = true;
    }
  return changed;
}

void BlockEvaluator::startWalk() {
  stopped.clear();
  isStopped = totalReached = false;
  parameterReads.clear();
  for (auto function : module.getOps<FunctionOpInterface>())
    function->walk([&](GetParameterOp get) {
      ++parameterReads[get.getParameterAttr().getAttr()];
    });
}

bool BlockEvaluator::run(Block &block) {
  known.clear();
  evaluated.clear();
  leaves.clear();
  evaluatedCount = roundedCount = 0;
  for (Operation &op : block)
    visit(&op);
  return replace();
}

namespace {
struct EvaluateConstants final
    : fusion::impl::EvaluateConstantsBase<EvaluateConstants> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    declareRewrite(module, kRule, "an op whose operands are all constants");
    ConstantReader reader(module, getParameterFolder(module, parameterFolder));
    auto earlier = module->getAttrOfType<IntegerAttr>(kGrowthAttr);
    BlockEvaluator evaluator(module, reader,
                             {growth, totalGrowth, exactRewritesOnly},
                             earlier ? earlier.getInt() : 0);
    llvm::MapVector<Operation *, int64_t> evaluated;
    int64_t rounded = 0;
    // Only what a limit stopped can gain from another walk.
    for (bool isChanged = true; isChanged;) {
      isChanged = false;
      evaluator.startWalk();
      for (auto function : module.getOps<FunctionOpInterface>()) {
        if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
          continue;
        isChanged |= evaluator.run(function.getFunctionBody().front());
        evaluated[function] += evaluator.getEvaluatedCount();
        rounded += evaluator.getRoundedCount();
      }
      isChanged &= evaluator.wasStopped();
    }
    for (const auto &[location, reason] : evaluator.getStopped())
      remark::missed(location, getRemarkOpts(kRule))
          << remark::reason("{0}", reason);
    for (auto [function, count] : evaluated)
      if (count > 0)
        remark::passed(function->getLoc(), getRemarkOpts(kRule))
            << remark::add("computed what depends on constants only")
            << remark::metric("Constants", count);
    // Another run of the pass does not get the same bytes again.
    if (earlier || evaluator.isTotalReached())
      module->setAttr(kGrowthAttr, Builder(module).getI64IntegerAttr(
                                       evaluator.getTotalGrowth()));
    recordRewrites(module, kRule, rounded);
    eraseUnusedParameters(module);
  }
};
} // namespace
