//===- ConstantEvaluator.cpp - Values of ops on known operands ------------===//
//
// Which ops can be evaluated and what that costs; splats stay splats.
//
//===----------------------------------------------------------------------===//
#include "ConstantEvaluator.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

static bool isMove(Operation *op) {
  return isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp, ConcatOp,
             PadOp, GatherOp, IotaOp>(op);
}

static bool areEqualSplats(ArrayRef<TensorData> operands) {
  return llvm::all_of(operands, [&](const TensorData &operand) {
    return operand.isSplat() &&
           operand.getBytes() == operands.front().getBytes();
  });
}

/// Whether every element of the result is the one element of its operands.
static bool makesSplat(Operation *op, ArrayRef<TensorData> operands) {
  if (isa<ElementwiseOpInterface>(op))
    return llvm::all_of(
        operands, [](const TensorData &operand) { return operand.isSplat(); });
  if (isa<ConcatOp, PadOp>(op))
    return areEqualSplats(operands);
  return isMove(op) && !isa<IotaOp>(op) && operands[0].isSplat();
}

/// Multiplications of a matmul, or nullopt on overflow.
static std::optional<int64_t> getWork(MatmulOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  int64_t rank = lhs.getRank();
  int64_t work = op.getType().getNumElements();
  int64_t depth = lhs.getDimSize(op.getTransposeLhs() ? rank - 2 : rank - 1);
  if (llvm::MulOverflow(work, depth, work))
    return std::nullopt;
  return work;
}

std::optional<EvaluationPlan>
fusion::planEvaluation(Operation *op, ArrayRef<TensorData> operands) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !getByteSize(type))
    return std::nullopt;
  bool isEmpty = llvm::is_contained(type.getShape(), 0);
  bool isFloat = isa<FloatType>(type.getElementType());
  EvaluationPlan plan;
  plan.work = isEmpty ? 0 : type.getNumElements();
  if (isa<ElementwiseOpInterface>(op)) {
    if (operands.empty() || operands.size() > 3 ||
        !fusion::detail::isEvaluableElementwise(op, plan.isExact))
      return std::nullopt;
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    plan.work = std::max(plan.work, operands[0].getNumElements());
    bool isOrder = reduce.getKind() == ReduceKind::Max ||
                   reduce.getKind() == ReduceKind::Min;
    plan.isExact = !isFloat || isOrder;
  } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
    std::optional<int64_t> work = getWork(matmul);
    if (!work)
      return std::nullopt;
    plan.work = *work;
    plan.isExact = !isFloat;
  } else if (!isMove(op)) {
    return std::nullopt;
  }
  plan.resultIsSplat = !isEmpty && makesSplat(op, operands);
  if (plan.resultIsSplat || isa<ReshapeOp>(op))
    plan.work = 1;
  return plan;
}

TensorData fusion::evaluate(Operation *op, ArrayRef<TensorData> operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  bool isEmpty = llvm::is_contained(type.getShape(), 0);
  bool isSplat = !isEmpty && makesSplat(op, operands);
  if (isa<ElementwiseOpInterface>(op))
    return fusion::detail::evaluateElementwise(op, operands, isSplat);
  if (isSplat)
    return operands[0].withType(type);
  if (isMove(op))
    return fusion::detail::evaluateMove(op, operands);
  return fusion::detail::evaluateContraction(op, operands);
}
