//===- GroupViews.cpp - Groups that are views of their inputs -------------===//
//
// See GroupViews.h.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/GroupViews.h"

#include "fusion/IR/TensorData.h"

using namespace mlir;
using namespace fusion;

/// Elements of the input before the first one of `slice`, if what it takes lies
/// together whatever the batch is.
static std::optional<int64_t> findOffset(SliceOp slice) {
  ArrayRef<int64_t> from = slice.getInput().getType().getShape(),
                    to = slice.getResult().getType().getShape();
  // Innermost dimensions taken whole, then one part, then single positions.
  bool whole = true;
  std::optional<int64_t> offset = 0, stride = 1;
  for (int64_t d = from.size(); d-- > 0;) {
    if (!whole && to[d] != 1)
      return std::nullopt;
    if (from[d] != to[d]) {
      // A dimension that depends on the batch is taken whole always.
      if (to[d] > 1 && slice.getStrides()[d] != 1)
        return std::nullopt;
      whole = false;
    }
    int64_t start = slice.getStarts()[d], add;
    if (start != 0 && (!stride || llvm::MulOverflow(start, *stride, add) ||
                       llvm::AddOverflow(*offset, add, *offset)))
      return std::nullopt;
    int64_t next;
    if (!stride || ShapedType::isDynamic(from[d]) ||
        llvm::MulOverflow(*stride, from[d], next))
      stride = std::nullopt;
    else
      stride = next;
  }
  return offset;
}

/// Bytes of the one input before the one output, if the group is a view.
static std::optional<int64_t> findView(GroupOp group) {
  if (group.getInputs().size() != 1 || group.getOutputs().size() != 1)
    return std::nullopt;
  Value value = group.getYield().getValues().front();
  int64_t bytes =
      getElementBytes(cast<RankedTensorType>(value.getType()).getElementType());
  int64_t offset = 0;
  bool isEmpty =
      llvm::is_contained(cast<RankedTensorType>(value.getType()).getShape(), 0);
  while (Operation *op = value.getDefiningOp()) {
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      value = reshape.getInput();
      continue;
    }
    auto slice = dyn_cast<SliceOp>(op);
    std::optional<int64_t> elements = slice ? findOffset(slice) : std::nullopt;
    int64_t add;
    if (!elements || llvm::MulOverflow(*elements, bytes, add) ||
        llvm::AddOverflow(offset, add, offset))
      return std::nullopt;
    value = slice.getInput();
  }
  return isEmpty ? std::nullopt : std::optional(offset);
}

/// Whether the function returns a value of `group`: its bytes are the caller's.
static bool isReturned(GroupOp group) {
  SmallVector<Value> worklist(group.getOutputs());
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        return true;
      if (auto reshape = dyn_cast<ReshapeOp>(user))
        worklist.push_back(reshape.getResult());
    }
  return false;
}

std::optional<SmallVector<int64_t>> fusion::findViewOffsets(GroupOp group) {
  SmallVector<GroupOp> members{group};
  if (group.getKind() == GroupKind::Horizontal)
    members = llvm::to_vector(group.getBodyBlock()->getOps<GroupOp>());
  SmallVector<int64_t> offsets;
  for (GroupOp member : members) {
    std::optional<int64_t> offset = findView(member);
    if (!offset)
      return std::nullopt;
    offsets.push_back(*offset);
  }
  if (offsets.size() != group.getInputs().size() ||
      offsets.size() != group.getOutputs().size() || isReturned(group))
    return std::nullopt;
  return offsets;
}
