//===- SliceView.cpp - Groups that are views of their inputs --------------===//
//
// Groups that are views (GroupViews.h), and launches of nothing else, get the
// offsets instead of a kernel.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"

#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/GroupViews.h"
#include "fusion/IR/Target.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

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
  std::optional<SmallVector<int64_t>> offsets = findViewOffsets(group);
  if (!offsets)
    return false;
  for (auto [input, output, offset] :
       llvm::zip(group.getInputs(), group.getOutputs(), *offsets))
    if (std::gcd(findAlignment(input), offset) < kPlannedAlignment &&
        isReadByDnn(output))
      return false;
  // A view of a view is one as well: the planner adds the offsets up.
  group->setAttr(kViewAttr, OpBuilder(group).getDenseI64ArrayAttr(*offsets));
  return true;
}
