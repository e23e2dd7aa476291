//===- ConcatPieces.cpp - Concats whose operands are written in place -----===//
//
// A concat along the outermost dimension is its operands' bytes, one run after
// the other. Where each operand is computed for it alone, its producer can
// write the run itself: such a group gets the runs' offsets instead of a
// kernel, and the planner the duty to lay the operands out so.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/IR/TensorData.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// The concat that is all that `group` does, if it takes each input once.
static ConcatOp findOnlyConcat(GroupOp group) {
  Block *body = group.getBodyBlock();
  auto concat = dyn_cast<ConcatOp>(body->front());
  if (!concat || concat->getNextNode() != body->getTerminator() ||
      group.getOutputs().size() != 1 ||
      concat.getInputs().size() != group.getInputs().size())
    return nullptr;
  llvm::SmallDenseSet<Value> seen;
  for (Value input : concat.getInputs())
    if (!isa<BlockArgument>(input) || !seen.insert(input).second)
      return nullptr;
  return concat;
}

/// Whether the value is made by a command that may write it anywhere, and only
/// one op reads it.
static bool isMadeForOne(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
      value = reshape.getInput();
      continue;
    }
    auto group = dyn_cast_or_null<GroupOp>(op);
    return group && !group->hasAttr(kViewAttr) && !group->hasAttr(kPiecesAttr);
  }
  return false;
}

/// Whether the planner is free to say where `value` lies: it is not returned,
/// or once, as a result that has no argument's bytes.
static bool isFree(Value value) {
  auto function = value.getParentRegion()->getParentOfType<func::FuncOp>();
  SmallVector<Value> worklist{value};
  SmallVector<unsigned> results;
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      if (isa<func::ReturnOp>(use.getOwner()))
        results.push_back(use.getOperandNumber());
      if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
        worklist.push_back(reshape.getResult());
    }
  if (results.size() > 1)
    return false;
  return results.empty() ||
         llvm::none_of(llvm::seq<unsigned>(0, function.getNumArguments()),
                       [&](unsigned i) {
                         auto donated = function.getArgAttrOfType<IntegerAttr>(
                             i, FusionDialect::kDonatedAttr);
                         return donated && donated.getInt() == results.front();
                       });
}

bool codegen::markPieces(GroupOp group) {
  ConcatOp concat = findOnlyConcat(group);
  if (!concat || !isFree(group.getOutputs().front()))
    return false;
  RankedTensorType type = concat.getResult().getType();
  if (!type.hasStaticShape() ||
      llvm::any_of(type.getShape().take_front(concat.getAxis()),
                   [](int64_t size) { return size != 1; }))
    return false;
  SmallVector<int64_t> offsets(group.getInputs().size());
  int64_t offset = 0, width = getElementBytes(type.getElementType());
  for (Value input : concat.getInputs()) {
    unsigned index = cast<BlockArgument>(input).getArgNumber();
    // Its producer's kernel counts on where values begin.
    if (offset % kPlannedAlignment != 0 ||
        !isMadeForOne(group.getInputs()[index]))
      return false;
    offsets[index] = offset;
    offset += cast<RankedTensorType>(input.getType()).getNumElements() * width;
  }
  group->setAttr(kPiecesAttr, OpBuilder(group).getDenseI64ArrayAttr(offsets));
  return true;
}
