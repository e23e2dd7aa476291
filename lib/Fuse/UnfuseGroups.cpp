//===- UnfuseGroups.cpp - Takes groups apart again ------------------------===//
//
// The inverse of fusion, for tests that compare fused and unfused code and for
// people who want to start over.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fusion {
#define GEN_PASS_DEF_UNFUSEGROUPS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Puts the group's ops in its place. Groups inside come along, to be next.
static void inlineGroup(GroupOp group, SmallVectorImpl<GroupOp> &worklist) {
  Block *body = group.getBodyBlock();
  for (auto [argument, input] :
       llvm::zip(body->getArguments(), group.getInputs()))
    argument.replaceAllUsesWith(input);
  YieldOp yield = group.getYield();
  group->replaceAllUsesWith(yield.getValues());
  yield->erase();
  for (Operation &op : llvm::make_early_inc_range(*body)) {
    op.moveBefore(group);
    if (auto nested = dyn_cast<GroupOp>(op))
      worklist.push_back(nested);
  }
  group->erase();
}

namespace {

struct UnfuseGroups : fusion::impl::UnfuseGroupsBase<UnfuseGroups> {
  using UnfuseGroupsBase::UnfuseGroupsBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    SmallVector<GroupOp> worklist;
    for (Block &block : getOperation().getFunctionBody())
      llvm::append_range(worklist, block.getOps<GroupOp>());
    while (!worklist.empty())
      inlineGroup(worklist.pop_back_val(), worklist);
  }
};

} // namespace
