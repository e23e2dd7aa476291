//===- BuildGroup.cpp - One group from ops of a graph ---------------------===//
//
// Clones the ops into the region of a new group; what they read from outside
// comes in as arguments.
//
//===----------------------------------------------------------------------===//
#include "BuildGroup.h"
#include "fusion/Analysis/FusionLegality.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

Value fusion::getOutside(Value value, IRMapping &values, OpBuilder &builder) {
  SmallVector<ReshapeOp> views;
  Value stored = value;
  while (!values.contains(stored)) {
    auto view = stored.getDefiningOp<ReshapeOp>();
    if (!view)
      return value;
    views.push_back(view);
    stored = view.getInput();
  }
  Value result = values.lookup(stored);
  for (ReshapeOp view : llvm::reverse(views)) {
    result = ReshapeOp::create(builder, view.getLoc(),
                               view.getResult().getType(), result);
    values.map(view.getResult(), result);
  }
  return result;
}

static bool isAnchor(Operation *op) {
  OpFamily family = getOpFamily(op);
  return family == OpFamily::Contraction || family == OpFamily::Window ||
         isa<KernelCallOp>(op);
}

GroupOp fusion::buildGroup(ArrayRef<Operation *> body,
                           ArrayRef<Operation *> outputs, GroupKind kind,
                           IRMapping &values, OpBuilder &builder) {
  llvm::SmallPtrSet<Operation *, 16> inside(body.begin(), body.end());
  // What a library computes, a pool or a user's kernel opens its group, and all
  // it reads comes from outside. A product of our own may have a prologue.
  Operation *anchor = kind == GroupKind::Library || kind == GroupKind::Window ||
                              isa<KernelCallOp>(body.front())
                          ? *llvm::find_if(body, isAnchor)
                          : nullptr;
  // What is read from outside, and which splat constants come along.
  llvm::SetVector<Value> inputs, constants;
  if (anchor)
    inputs.insert(anchor->operand_begin(), anchor->operand_end());
  for (Operation *op : body)
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()) &&
          !inputs.contains(operand))
        (isSplatConstant(operand) ? constants : inputs).insert(operand);
  SmallVector<Value> operands, results;
  for (Value input : inputs)
    operands.push_back(getOutside(input, values, builder));
  for (Operation *op : outputs)
    llvm::append_range(results, op->getResults());

  SmallVector<Location> locations =
      llvm::map_to_vector(body, [](Operation *op) { return op->getLoc(); });
  Location loc = FusedLoc::get(builder.getContext(), locations);
  auto group = GroupOp::create(builder, loc, TypeRange(ValueRange(results)),
                               kind, operands, SymbolRefAttr());
  OpBuilder::InsertionGuard guard(builder);
  Block *region = builder.createBlock(&group.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, region->addArgument(input.getType(), input.getLoc()));
  if (anchor)
    builder.clone(*anchor, mapping);
  for (Value constant : constants)
    builder.clone(*constant.getDefiningOp(), mapping);
  for (Operation *op : body)
    if (op != anchor)
      builder.clone(*op, mapping);
  YieldOp::create(builder, loc, llvm::map_to_vector(results, [&](Value result) {
                    return mapping.lookup(result);
                  }));
  for (auto [result, output] : llvm::zip(results, group.getOutputs()))
    values.map(result, output);
  return group;
}
