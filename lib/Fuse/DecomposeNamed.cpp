//===- DecomposeNamed.cpp - Replaces named ops that have no emitter -------===//
//
// Asks each op's own decomposition. What stays named is what an emitter or a
// library takes as one op.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/Target.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fusion {
#define GEN_PASS_DEF_DECOMPOSENAMED
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// What keeps a library from computing an op that has no other kernel: "" or
/// ": " and the reason.
static std::string whyNoLibrary(Operation *op) {
  std::string reason;
  if (!isa<AttentionOp, AttentionGradOp>(op) || !isForCuda(op) ||
      findLibraryRule(op, &reason))
    return "";
  return ": " + reason;
}

/// Replaces the op by its composition, and what that contains in turn.
static LogicalResult decompose(Operation *root) {
  SmallVector<Operation *> worklist{root};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    auto decomposable = dyn_cast<DecomposableOpInterface>(op);
    if (!decomposable || getOpFamily(op) != OpFamily::Opaque)
      continue;
    OpBuilder builder(op);
    Operation *before = op->getPrevNode();
    FailureOr<SmallVector<Value>> values = decomposable.decompose(builder);
    if (failed(values))
      return op->emitOpError("has no kernel, and no composition at this shape: "
                             "give the dimensions of the op static sizes");
    remark::analysis(op->getLoc(),
                     remark::RemarkOpts::name("decompose").category("fusion"))
        << remark::add(
               "{0} has no kernel of its own and becomes primitive ops{1}",
               op->getName().getStringRef(), whyNoLibrary(op));
    Operation *first =
        before ? before->getNextNode() : &op->getBlock()->front();
    for (Operation *made = first; made != op; made = made->getNextNode())
      worklist.push_back(made);
    op->replaceAllUsesWith(*values);
    op->erase();
  }
  return success();
}

namespace {

struct DecomposeNamed : fusion::impl::DecomposeNamedBase<DecomposeNamed> {
  using DecomposeNamedBase::DecomposeNamedBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    SmallVector<Operation *> named;
    for (Block &block : getOperation().getFunctionBody())
      for (Operation &op : block)
        if (isa<DecomposableOpInterface>(op))
          named.push_back(&op);
    for (Operation *op : named)
      if (failed(decompose(op)))
        return signalPassFailure();
  }
};

} // namespace
