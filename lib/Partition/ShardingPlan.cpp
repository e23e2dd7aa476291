//===- ShardingPlan.cpp - How each op is split ----------------------------===//
//
// Walks the block in order. For each op and axis the candidates are the factors
// that the axis cuts in some operand; one that needs no communication wins,
// else the bytes moved decide, and the lower factor among equals.
//
// What is known only from behind, how users want a value cut and whether a
// partial sum meets another one, is taken from the walk before; a few walks
// settle it. Every walk gives a right program, so the last one may be any.
//
//===----------------------------------------------------------------------===//
#include "ShardingPlan.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

/// Walks over the block before the last one.
static constexpr unsigned kMaxWalks = 8;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool OpPlan::isPadded(unsigned f, const Mesh &mesh) const {
  return !axes[f].empty() &&
         local[f] * mesh.ranks(ArrayRef<unsigned>(axes[f])) !=
             rule.factors[f].size;
}

ShardingPlanner::ShardingPlanner(Block &block, const Mesh &mesh,
                                 ArrayRef<Sharding> arguments,
                                 ArrayRef<std::optional<Sharding>> returned)
    : block(block), mesh(mesh), arguments(arguments), returned(returned) {}

double ShardingPlanner::getLocalBytes(Value value) const {
  RankedTensorType type =
      shardings.find(value)->second.getLocalType(typeOf(value));
  double bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 1 : size;
  return bytes;
}

std::optional<unsigned> ShardingPlanner::getWanted(Value value,
                                                   unsigned axis) const {
  auto it = wants.find(value);
  if (it == wants.end() || it->second[axis] < 0)
    return std::nullopt;
  return it->second[axis];
}

//===----------------------------------------------------------------------===//
// One op
//===----------------------------------------------------------------------===//

/// Axes over which the partial operands of a linear op may stay partial.
AxisSet
ShardingPlanner::findPassed(Operation *op, const OpRule &rule,
                            const llvm::DenseSet<Value> &reduced) const {
  auto partialOf = [&](unsigned i) -> AxisSet {
    Value value = op->getOperand(i);
    return reduced.contains(value) ? 0 : shardings.find(value)->second.partial;
  };
  auto isSum = [&](unsigned i) {
    return shardings.find(op->getOperand(i))->second.kind == ReduceKind::Sum;
  };
  auto axesOf = [&](unsigned i) {
    const Sharding &sharding = shardings.find(op->getOperand(i))->second;
    return sharding.getAxes() | sharding.partial;
  };
  auto cutsOf = [&](unsigned i) {
    return shardings.find(op->getOperand(i))->second.getAxes();
  };
  switch (rule.linearity) {
  case Linearity::None:
    return 0;
  case Linearity::Moves:
    return partialOf(0);
  case Linearity::Sums:
  case Linearity::Negates:
    return isSum(0) ? partialOf(0) : 0;
  case Linearity::Adds: {
    AxisSet partial =
        (isSum(0) ? partialOf(0) : 0) | (isSum(1) ? partialOf(1) : 0);
    return partial & ~cutsOf(0) & ~cutsOf(1);
  }
  case Linearity::Scales:
    if (partialOf(1) && isSum(1) && !partialOf(0))
      return partialOf(1) & ~axesOf(0);
    [[fallthrough]];
  case Linearity::Divides:
    return isSum(0) ? partialOf(0) & ~axesOf(1) : 0;
  }
  return 0;
}

/// Bytes that a rank sends when `axis` shares out factor `f`, or none.
/// `isFree`: no operand has to move.
double ShardingPlanner::getCost(Operation *op, const OpPlan &plan,
                                unsigned axis, std::optional<unsigned> f,
                                bool &isFree) const {
  double ranks = mesh.sizes[axis], share = (ranks - 1) / ranks, cost = 0;
  isFree = true;
  auto hasFactor = [&](const TensorFactors &tensor) {
    return f && llvm::any_of(tensor, [&](const DimFactors &dim) {
             return !dim.empty() && dim.front() == *f;
           });
  };
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    const Sharding &sharding = shardings.find(operand)->second;
    if (plan.rule.unread == i)
      continue;
    double bytes = getLocalBytes(operand);
    bool keeps = hasFactor(plan.rule.operands[i]);
    if (has(sharding.partial, axis)) {
      if (plan.rule.addend == i && f &&
          plan.rule.factors[*f].kind == FactorKind::Reduced)
        continue;
      cost += (keeps ? 1 : 2) * share * bytes;
      continue; // it has to be reduced in any case
    }
    std::optional<unsigned> dim = sharding.findDim(axis);
    if (!dim)
      continue;
    const DimFactors &factors = plan.rule.operands[i][*dim];
    if (f && !factors.empty() && factors.front() == *f)
      continue;
    isFree = false;
    cost += keeps ? share * bytes : (ranks - 1) * bytes;
  }
  if (!f || plan.rule.factors[*f].kind != FactorKind::Reduced)
    return cost;
  for (Value result : op->getResults()) {
    double bytes = llvm::divideCeil(typeOf(result).getElementTypeBitWidth(), 8);
    for (int64_t size : typeOf(result).getShape())
      bytes *= ShapedType::isDynamic(size) ? 1 : size;
    cost += 2 * share * bytes;
  }
  return cost;
}

/// The factor that `axis` shares out in `op`, if any.
std::optional<unsigned>
ShardingPlanner::chooseFactor(Operation *op, OpPlan &plan, unsigned axis) {
  SmallVector<unsigned> candidates;
  auto consider = [&](const DimFactors &factors) {
    if (factors.empty() || !plan.rule.canSplit(factors.front()))
      return false;
    if (!llvm::is_contained(candidates, factors.front()))
      candidates.push_back(factors.front());
    return true;
  };
  bool isWhole = false, isStored = false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (plan.rule.unread == i)
      continue;
    const Sharding &sharding = shardings.find(operand)->second;
    std::optional<unsigned> dim = sharding.findDim(axis);
    bool isCut = dim.has_value();
    // Partial, and its users agree on how it should be cut.
    if (!dim && has(sharding.partial, axis))
      dim = getWanted(operand, axis);
    if (!dim)
      continue;
    // Shards of parameters are gathered where they are used.
    if (isCut && has(sharding.stored, axis) && !plan.rule.keepsStored) {
      isStored = true;
      continue;
    }
    if (!consider(plan.rule.operands[i][*dim]) && isCut) {
      isWhole = true;
      plan.refused.push_back({unsigned(i), axis, FusionRule::PartitionWhole});
    }
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (std::optional<unsigned> dim = getWanted(result, axis))
      if (!plan.rule.results[i][*dim].empty() &&
          plan.rule.factors[plan.rule.results[i][*dim].front()].kind ==
              FactorKind::Parallel)
        consider(plan.rule.results[i][*dim]);
  if (isWhole && isa<DecomposableOpInterface>(op) &&
      !isa<AttentionOp, AttentionGradOp>(op) &&
      !llvm::is_contained(toDecompose, op))
    toDecompose.push_back(op);

  llvm::sort(candidates);
  std::optional<unsigned> best;
  double bestCost = 0;
  bool bestFree = false;
  for (unsigned f : candidates) {
    bool isFree;
    double cost = getCost(op, plan, axis, f, isFree);
    if (best && (isFree < bestFree || (isFree == bestFree && cost >= bestCost)))
      continue;
    best = f;
    bestCost = cost;
    bestFree = isFree;
  }
  if (best && !bestFree && !isStored) {
    bool isFree;
    double cost = getCost(op, plan, axis, std::nullopt, isFree);
    if (cost < bestCost)
      best = std::nullopt;
  }
  // Operands that are cut in another way.
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    const Sharding &sharding = shardings.find(op->getOperand(i))->second;
    std::optional<unsigned> dim = sharding.findDim(axis);
    if (!dim || plan.rule.unread == i ||
        llvm::any_of(plan.refused, [&](const RefusedCut &cut) {
          return cut.operand == i && cut.axis == axis;
        }))
      continue;
    const DimFactors &factors = plan.rule.operands[i][*dim];
    if (best && !factors.empty() && factors.front() == *best)
      continue;
    bool stored = has(sharding.stored, axis) && !plan.rule.keepsStored;
    plan.refused.push_back(
        {i, axis,
         stored ? FusionRule::PartitionStored : FusionRule::PartitionConflict,
         bestCost});
  }
  return best;
}

/// The order of the axes and the size of a part are those of the first operand
/// that is cut so, then of what users want.
void ShardingPlanner::orderAxes(Operation *op, OpPlan &plan) const {
  const OpRule &rule = plan.rule;
  for (unsigned f = 0; f < rule.factors.size(); ++f) {
    SmallVector<unsigned, 2> &axes = plan.axes[f];
    if (axes.empty())
      continue;
    SmallVector<unsigned, 2> order;
    int64_t local = llvm::divideCeil(rule.factors[f].size,
                                     mesh.ranks(ArrayRef<unsigned>(axes)));
    auto follow = [&](ArrayRef<DimSharding> cuts, const TensorFactors &tensor) {
      for (auto [cut, factors] : llvm::zip(cuts, tensor)) {
        if (factors.empty() || factors.front() != f)
          continue;
        int64_t minor = 1;
        for (unsigned other : ArrayRef(factors).drop_front())
          minor *= rule.factors[other].size;
        for (unsigned axis : cut.axes)
          if (llvm::is_contained(axes, axis) &&
              !llvm::is_contained(order, axis))
            order.push_back(axis);
        if (cut.axes.size() == axes.size() && cut.axes == order && minor > 0 &&
            cut.local % minor == 0)
          local = std::max(local, cut.local / minor);
      }
    };
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      follow(shardings.find(operand)->second.dims, rule.operands[i]);
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (auto known = asked.find(result); known != asked.end())
        follow(known->second, rule.results[i]);
    for (unsigned axis : axes)
      if (!llvm::is_contained(order, axis))
        order.push_back(axis);
    axes = order;
    plan.local[f] = local;
  }
}

void ShardingPlanner::planOp(Operation *op) {
  OpPlan plan;
  auto known = rules.find(op);
  if (known == rules.end())
    known = rules.try_emplace(op, getShardingRule(op)).first;
  plan.rule = known->second;
  const OpRule &rule = plan.rule;
  plan.axes.resize(rule.factors.size());
  for (const Factor &factor : rule.factors)
    plan.local.push_back(factor.size);
  plan.passed = findPassed(op, rule, reduced);
  auto get = dyn_cast<GetParameterOp>(op);
  if (auto known = get ? parameters.find(get.getParameter()) : parameters.end();
      known != parameters.end()) {
    for (auto [f, cut] : llvm::enumerate(known->second.dims)) {
      plan.axes[f] = cut.axes;
      plan.local[f] = cut.local;
    }
  } else {
    for (unsigned axis = 0; axis < mesh.size(); ++axis)
      if (mesh.sizes[axis] > 1 && !has(plan.passed, axis))
        if (std::optional<unsigned> f = chooseFactor(op, plan, axis))
          plan.axes[*f].push_back(axis);
    orderAxes(op, plan);
  }

  auto shard = [&](Value value, const TensorFactors &tensor) {
    Sharding sharding = Sharding::replicated(typeOf(value));
    for (auto [cut, factors] : llvm::zip_equal(sharding.dims, tensor)) {
      if (factors.empty() || plan.axes[factors.front()].empty())
        continue;
      cut.axes = plan.axes[factors.front()];
      cut.local = plan.local[factors.front()];
      for (unsigned other : ArrayRef(factors).drop_front())
        cut.local *= rule.factors[other].size;
    }
    return sharding;
  };
  AxisSet used = 0;
  AxisSet partial = 0;
  ReduceKind kind = ReduceKind::Sum;
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, plan.axes))
    if (factor.kind == FactorKind::Reduced && !axes.empty()) {
      kind = factor.reduce;
      for (unsigned axis : axes)
        partial |= axisBit(axis);
    }
  // A mean that meets another partial value is divided before they are added;
  // else the op reduces its sum itself, and the quotient is rounded once. The
  // narrow types have no room for a part of a sum.
  if (kind == ReduceKind::Mean && partial) {
    Type element = typeOf(op->getResult(0)).getElementType();
    if (getComputeType(element) == element &&
        !reduced.contains(op->getResult(0)))
      kind = ReduceKind::Sum;
    else
      partial = 0;
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    const Sharding &from = shardings.find(operand)->second;
    if (rule.unread == i) {
      plan.operands.push_back(from);
      continue;
    }
    Sharding required = shard(operand, rule.operands[i]);
    required.kind = from.kind;
    required.partial = from.partial & plan.passed;
    if (rule.linearity == Linearity::Adds)
      required.partial = plan.passed;
    if (rule.addend == i)
      required.partial = partial;
    if (required.partial &&
        (!from.partial || rule.linearity == Linearity::Adds))
      required.kind = ReduceKind::Sum;
    for (unsigned axis = 0; axis < mesh.size(); ++axis)
      if (required.findDim(axis) && from.findDim(axis) &&
          !has(from.stored, axis))
        used |= axisBit(axis);
    plan.operands.push_back(std::move(required));
  }
  for (auto [i, operand] : llvm::enumerate(plan.operands))
    if (operand.partial && rule.unread != i)
      kind = operand.kind;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Sharding sharding = shard(result, rule.results[i]);
    sharding.partial = partial | plan.passed;
    sharding.kind = kind;
    // Cut only because users want it so: they are what updates shards.
    sharding.stored = get ? 0 : sharding.getAxes() & ~used;
    shardings[result] = sharding;
    plan.results.push_back(std::move(sharding));
  }
  const OpPlan &done = plans[op] = std::move(plan);
  for (auto [use, required] :
       llvm::zip_equal(op->getOpOperands(), done.operands))
    recordUse(use, required);
}

/// Notes, for each axis, how `use` takes its value.
void ShardingPlanner::recordUse(OpOperand &use, const Sharding &required) {
  const Sharding &from = shardings.find(use.get())->second;
  SmallVector<int, 2> ways(mesh.size(), kNeutral);
  if (auto plan = plans.find(use.getOwner());
      plan != plans.end() && plan->second.rule.unread == use.getOperandNumber())
    ways.assign(mesh.size(), kUnread);
  for (unsigned axis = 0; axis < mesh.size(); ++axis) {
    if (ways[axis] == kUnread)
      continue;
    if (std::optional<unsigned> dim = required.findDim(axis)) {
      ways[axis] = *dim;
      continue;
    }
    if (has(required.partial, axis))
      continue;
    if (from.findDim(axis))
      ways[axis] = kWhole;
  }
  uses[&use] = std::move(ways);
  if (required.getAxes() & ~from.getAxes())
    asked[use.get()] = required.dims;
}

//===----------------------------------------------------------------------===//
// From behind
//===----------------------------------------------------------------------===//

/// How the uses of `value` want it along `axis`: a dimension that one of them
/// names and all others can live with, kWhole, or kNeutral.
int ShardingPlanner::combineUses(Value value, unsigned axis) const {
  int wanted = kNeutral;
  for (OpOperand &use : value.getUses()) {
    int way = uses.find(&use)->second[axis];
    auto plan = plans.find(use.getOwner());
    // Elementwise ops and sums take it as their own users want it; what others,
    // a broadcast say, would do with a part is anyone's guess.
    if (way == kNeutral) {
      if (plan == plans.end() || !plan->second.rule.keepsStored)
        way = kWhole;
      else if (isa<ElementwiseOpInterface>(use.getOwner()))
        if (auto known = wants.find(use.getOwner()->getResult(0));
            known != wants.end())
          way = known->second[axis];
    }
    if (way == kNeutral || way == kUnread)
      continue;
    if (way == kWhole || (wanted != kNeutral && wanted != way))
      return kWhole;
    wanted = way;
  }
  if (wanted < 0)
    return wanted;
  // The others have to take it cut so.
  for (OpOperand &use : value.getUses()) {
    if (uses.find(&use)->second[axis] != kNeutral)
      continue;
    const OpPlan &other = plans.find(use.getOwner())->second;
    const DimFactors &factors =
        other.rule.operands[use.getOperandNumber()][wanted];
    bool isUsed = llvm::any_of(other.axes, [&](const auto &axes) {
      return llvm::is_contained(axes, axis);
    });
    if (isUsed || factors.empty() || !other.rule.canSplit(factors.front()))
      return kWhole;
  }
  return wanted;
}

/// Takes from the last walk how values are wanted; whether that is news.
bool ShardingPlanner::findWants() {
  auto old = std::move(wants);
  wants.clear();
  for (Operation &op : llvm::reverse(block))
    for (Value result : op.getResults()) {
      if (result.use_empty() || !isa<RankedTensorType>(result.getType()))
        continue;
      SmallVector<int, 2> list(mesh.size(), kNeutral);
      bool any = false;
      for (unsigned axis = 0; axis < mesh.size(); ++axis)
        if (mesh.sizes[axis] > 1)
          any |= (list[axis] = combineUses(result, axis)) != kNeutral;
      if (!any)
        continue;
      wants[result] = std::move(list);
      for (Operation *user : result.getUsers())
        if (isa<ElementwiseOpInterface>(user))
          if (auto known = asked.find(user->getResult(0)); known != asked.end())
            asked[result] = SmallVector<DimSharding, 4>(known->second);
    }
  return wants != old;
}

/// Whether a partial value that only `use` reads gains by staying partial
/// there.
bool ShardingPlanner::gainsAt(OpOperand &use,
                              const llvm::DenseSet<Value> &gains) const {
  auto known = plans.find(use.getOwner());
  if (known == plans.end())
    return false;
  const OpPlan &plan = known->second;
  AxisSet partial = shardings.find(use.get())->second.partial;
  // What it could keep, whatever the walk before had decided.
  AxisSet kept = plan.rule.addend == use.getOperandNumber()
                     ? plan.operands[use.getOperandNumber()].partial
                     : findPassed(use.getOwner(), plan.rule, {});
  if (partial & ~kept)
    return false;
  if (plan.rule.addend == use.getOperandNumber() ||
      plan.rule.linearity == Linearity::Sums ||
      gains.contains(use.getOwner()->getResult(0)))
    return true;
  // Two partial sums become one.
  if (plan.rule.linearity != Linearity::Adds)
    return false;
  return llvm::all_of(use.getOwner()->getOperands(), [&](Value operand) {
    return shardings.find(operand)->second.partial & partial;
  });
}

/// Takes from the last walk which partial values gain by staying partial: they
/// meet another partial value, or become smaller. The others are reduced where
/// they are computed. Whether that is news.
bool ShardingPlanner::findGains() {
  llvm::DenseSet<Value> gains;
  llvm::DenseSet<Value> old = std::move(reduced);
  reduced.clear();
  for (Operation &op : llvm::reverse(block))
    for (Value result : op.getResults()) {
      auto sharding = shardings.find(result);
      if (sharding == shardings.end())
        continue;
      if (!sharding->second.partial) {
        if (old.contains(result)) // a mean, whole since then
          reduced.insert(result);
        continue;
      }
      OpOperand *reader = nullptr;
      unsigned readers = 0;
      for (OpOperand &use : result.getUses()) {
        auto plan = plans.find(use.getOwner());
        if (plan != plans.end() &&
            plan->second.rule.unread == use.getOperandNumber())
          continue;
        reader = &use;
        ++readers;
      }
      if (readers == 1 && gainsAt(*reader, gains))
        gains.insert(result);
      else
        reduced.insert(result);
    }
  return reduced != old;
}

Sharding ShardingPlanner::getReduced(Value value) const {
  Sharding sharding = shardings.find(value)->second;
  sharding.partial = 0;
  return sharding;
}

Sharding ShardingPlanner::getReturned(unsigned result) const {
  if (returned[result])
    return *returned[result];
  return getReduced(block.getTerminator()->getOperand(result));
}

void ShardingPlanner::run() {
  for (unsigned walk = 0;; ++walk) {
    plans.clear();
    uses.clear();
    shardings.clear();
    toDecompose.clear();
    for (auto [argument, sharding] :
         llvm::zip_equal(block.getArguments(), arguments))
      shardings[argument] = sharding;
    for (Operation &op : block.without_terminator())
      planOp(&op);
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      recordUse(use, getReturned(use.getOperandNumber()));
    if (!toDecompose.empty() || walk == kMaxWalks)
      return;
    bool isNews = findGains();
    isNews |= findWants();
    if (!isNews)
      return;
  }
}
