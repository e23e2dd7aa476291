//===- DropOrder.cpp - Removes fusion.after when groups are final ---------===//
//
// The order that these ops ask for has done its work: it kept a value computed
// again apart from the first one, through all passes that merge equal ops or
// group them. From here on the list of commands is the order.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"

namespace fusion {
#define GEN_PASS_DEF_DROPORDER
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

struct DropOrder : fusion::impl::DropOrderBase<DropOrder> {
  using DropOrderBase::DropOrderBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Block &block : getOperation().getFunctionBody())
      for (AfterOp op : llvm::make_early_inc_range(block.getOps<AfterOp>())) {
        op.getResult().replaceAllUsesWith(op.getInput());
        op.erase();
      }
  }
};

} // namespace
