//===- Loop.cpp - The emitter of independent elements ---------------------===//
//
// Groups whose outputs all have one shape, each element computed on its own:
// elementwise and injective ops, pools, contractions, single ops of any kind.
// All outputs are evaluated at a position before the first is stored, so that
// an output may take the bytes of an input read at the same position.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Segments make code: not more than these of one op's parts.
static constexpr size_t kMaxSegments = 16;

namespace {
/// Concats and pads along the innermost dimension, and where they change what
/// they read.
struct SegmentPlan {
  SmallVector<int64_t> bounds;
  SmallVector<std::pair<Operation *, SmallVector<int64_t>>> ops; ///< own bounds
  int64_t dim = 0;
};
} // namespace

static std::optional<SegmentPlan> planSegments(const KernelTask &task,
                                               ArrayRef<int64_t> shape) {
  SegmentPlan plan;
  plan.dim = static_cast<int64_t>(shape.size()) - 1;
  while (plan.dim >= 0 && shape[plan.dim] == 1)
    --plan.dim;
  if (plan.dim < 0 || ShapedType::isDynamic(shape[plan.dim]))
    return std::nullopt;
  int64_t size = shape[plan.dim];
  // Values evaluated at the stores' own positions.
  SmallVector<Value> worklist;
  for (auto &[value, operand] : task.stores)
    worklist.push_back(value);
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (isa<ElementwiseOpInterface>(op)) {
      worklist.append(op->operand_begin(), op->operand_end());
    } else if (auto concat = dyn_cast<ConcatOp>(op);
               concat && static_cast<int64_t>(concat.getAxis()) == plan.dim) {
      SmallVector<int64_t> own{0};
      for (Value input : concat.getInputs())
        own.push_back(
            own.back() +
            cast<RankedTensorType>(input.getType()).getDimSize(plan.dim));
      plan.ops.push_back({op, own});
    } else if (auto pad = dyn_cast<PadOp>(op);
               pad && (pad.getLow()[plan.dim] || pad.getHigh()[plan.dim])) {
      int64_t low = pad.getLow()[plan.dim];
      plan.ops.push_back({op, {0, low, size - pad.getHigh()[plan.dim], size}});
    }
  }
  for (auto &[op, own] : plan.ops)
    plan.bounds.append(own);
  llvm::sort(plan.bounds);
  plan.bounds.erase(llvm::unique(plan.bounds), plan.bounds.end());
  if (plan.ops.empty() || plan.bounds.size() > kMaxSegments)
    return std::nullopt;
  return plan;
}

std::optional<KernelShape> codegen::emitLoop(KernelTask &task,
                                             std::string &reason) {
  KernelBuilder &k = task.k;
  Value first = task.stores.front().first;
  auto type = cast<RankedTensorType>(first.getType());
  for (auto &[value, operand] : task.stores)
    if (cast<RankedTensorType>(value.getType()).getShape() != type.getShape() ||
        k.extents.getShape(value) != k.extents.getShape(first)) {
      reason = "the outputs have different shapes";
      return std::nullopt;
    }
  auto storeAt = [&](ArrayRef<Index> at) {
    SmallVector<Value> values;
    for (auto &[value, operand] : task.stores)
      values.push_back(task.evaluator.evaluate(value, at));
    for (auto [value, store] : llvm::zip(values, task.stores))
      k.store(value, store.second, getElementTypeOrSelf(store.first.getType()),
              k.linearize(at, k.shape(store.first)));
  };
  std::optional<SegmentPlan> plan = planSegments(task, type.getShape());
  InnerSegments segments;
  if (plan) {
    segments.bounds = plan->bounds;
    segments.enter = [&](size_t i) {
      task.evaluator.chosen.clear();
      if (i + 1 >= segments.bounds.size())
        return;
      for (auto &[op, own] : plan->ops) {
        // The last own part that begins here or before; empty ones end as well.
        size_t part =
            llvm::upper_bound(own, segments.bounds[i]) - own.begin() - 1;
        // A pad's part 1 is its input, unless that is empty.
        size_t which = isa<ConcatOp>(op) ? part : part == 1;
        task.evaluator.chosen[op] = {plan->dim, which};
      }
    };
  }
  auto shape = iterate(
      task, k.extents.getShape(first), findMergeable(task.ops, type.getShape()),
      estimateCost(task.ops), storeAt, plan ? &segments : nullptr);
  if (!shape)
    reason = "the number of elements is not affine in the batch";
  return shape;
}
