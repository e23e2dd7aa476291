//===- SliceView.cpp - Groups that are views of their inputs --------------===//
//
// A slice whose elements lie together in the input is no work: its bytes are
// the input's from some offset on. Such groups, and launches of nothing else,
// get the offsets instead of a kernel.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/IR/Target.h"
#include "fusion/IR/TensorData.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

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

/// Whether a call of cuDNN reads `value`: it takes no operand that begins
/// elsewhere than at a multiple of kPlannedAlignment.
static bool isReadByDnn(Value value) {
  if (!isForCuda(value.getParentRegion()->getParentOp()))
    return false;
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    for (OpOperand &use : next.getUses()) {
      if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
        worklist.push_back(reshape.getResult());
      auto reader = dyn_cast<GroupOp>(use.getOwner());
      if (!reader)
        continue;
      Block *body = reader.getBodyBlock();
      if (reader.getKind() == GroupKind::Horizontal)
        worklist.push_back(body->getArgument(use.getOperandNumber()));
      if (reader.getKind() == GroupKind::Library &&
          llvm::any_of(*body, [](Operation &op) {
            return isa<ConvOp, ConvTransposeOp, AttentionOp, AttentionGradOp>(
                op);
          }))
        return true;
    }
  }
  return false;
}

bool codegen::markView(GroupOp group) {
  SmallVector<GroupOp> members{group};
  if (group.getKind() == GroupKind::Horizontal)
    members = llvm::to_vector(group.getBodyBlock()->getOps<GroupOp>());
  SmallVector<int64_t> offsets;
  for (GroupOp member : members) {
    std::optional<int64_t> offset = findView(member);
    if (!offset)
      return false;
    offsets.push_back(*offset);
  }
  if (offsets.size() != group.getInputs().size() ||
      offsets.size() != group.getOutputs().size() || isReturned(group))
    return false;
  for (auto [input, output, offset] :
       llvm::zip(group.getInputs(), group.getOutputs(), offsets))
    if (std::gcd(findAlignment(input), offset) < kPlannedAlignment &&
        isReadByDnn(output))
      return false;
  // A view of a view is one as well: the planner adds the offsets up.
  group->setAttr("fusion.view", OpBuilder(group).getDenseI64ArrayAttr(offsets));
  return true;
}
