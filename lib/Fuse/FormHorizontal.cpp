//===- FormHorizontal.cpp - Rewrites a function into planned launches -----===//
//
// Moves the ops of the block into the plan's order, members into a group of
// kind horizontal. A view follows what it views; constants and parameters come
// first, as they read nothing.
//
//===----------------------------------------------------------------------===//
#include "HorizontalPlan.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;

/// The op that has to come before a view: what computes its root, or null.
static Operation *getRootOp(Operation *view) {
  while (view && isView(view))
    view = view->getOperand(0).getDefiningOp();
  return view;
}

/// Moves the members before `end`, into a new group, which gives their results.
static GroupOp formLaunch(ArrayRef<GroupOp> members, Operation *end) {
  SmallVector<Value> inputs;
  SmallVector<Value> outputs;
  SmallVector<Location> locations;
  for (GroupOp member : members) {
    llvm::append_range(inputs, member.getInputs());
    llvm::append_range(outputs, member.getOutputs());
    locations.push_back(member.getLoc());
  }
  OpBuilder builder(end);
  Location loc = FusedLoc::get(builder.getContext(), locations);
  auto launch = GroupOp::create(builder, loc, TypeRange(ValueRange(outputs)),
                                GroupKind::Horizontal, inputs, SymbolRefAttr());
  Block *body = builder.createBlock(&launch.getBody());
  for (auto [output, result] : llvm::zip(outputs, launch.getOutputs()))
    output.replaceAllUsesWith(result);
  for (GroupOp member : members) {
    member->moveBefore(body, body->end());
    for (OpOperand &operand : member->getOpOperands())
      operand.set(
          body->addArgument(operand.get().getType(), operand.get().getLoc()));
  }
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, loc, outputs);
  return launch;
}

void fusion::formHorizontal(Block &block, const HorizontalGraph &graph,
                            const HorizontalPlan &plan) {
  Operation *end = block.getTerminator();
  // Views by what they wait for, in program order.
  llvm::DenseMap<Operation *, SmallVector<Operation *, 1>> views;
  SmallVector<Operation *> sources;
  SmallVector<Operation *> sourceViews;
  for (Operation &op : block.without_terminator()) {
    if (getOpFamily(&op) == OpFamily::Source)
      sources.push_back(&op);
    if (!isView(&op))
      continue;
    Operation *root = getRootOp(&op);
    if (!root || getOpFamily(root) == OpFamily::Source)
      sourceViews.push_back(&op);
    else
      views[root].push_back(&op);
  }
  for (Operation *source : sources)
    source->moveBefore(end);
  for (Operation *view : sourceViews)
    view->moveBefore(end);
  for (const PlannedLaunch &launch : plan.launches) {
    SmallVector<GroupOp> members;
    if (launch.members.size() > 1) {
      for (unsigned member : launch.members)
        members.push_back(graph[member].group);
      formLaunch(members, end);
    } else {
      graph[launch.members.front()].op->moveBefore(end);
    }
    for (unsigned member : launch.members)
      for (Operation *view : views.lookup(graph[member].op))
        view->moveBefore(end);
  }
}
