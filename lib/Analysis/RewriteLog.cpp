//===- RewriteLog.cpp - Old and new expressions, side by side -------------===//
//
// A new op is one that the mapping does not know; it is cloned behind the op
// whose value it helps to replace.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/RewriteLog.h"
#include "fusion/IR/FusionDialect.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

void RewriteLog::stop() {
  rewrites.clear();
  mapping.clear();
  module = nullptr;
  isStale = false;
  unlogged.clear();
}

void RewriteLog::start(ModuleOp original) {
  stop();
  OpBuilder builder(original.getContext());
  module = cast<ModuleOp>(builder.clone(*original, mapping));
}

/// The new ops that `value` is computed by, each behind those that it reads.
static SmallVector<Operation *> getNewOps(Value value,
                                          const IRMapping &mapping) {
  llvm::SetVector<Operation *> ops;
  SmallVector<std::pair<Operation *, unsigned>> stack;
  auto push = [&](Value read) {
    Operation *op = read.getDefiningOp();
    if (op && !mapping.contains(read) && !ops.contains(op))
      stack.push_back({op, 0});
  };
  push(value);
  while (!stack.empty()) {
    auto &[op, next] = stack.back();
    if (next < op->getNumOperands()) {
      push(op->getOperand(next++));
      continue;
    }
    Operation *done = op;
    stack.pop_back();
    ops.insert(done);
  }
  return ops.takeVector();
}

/// Parameters that were made since the start come along.
void RewriteLog::copyParameters(Operation *op) {
  auto get = dyn_cast<GetParameterOp>(op);
  if (!get || SymbolTable::lookupSymbolIn(*module, get.getParameterAttr()))
    return;
  if (Operation *parameter =
          SymbolTable::lookupNearestSymbolFrom(op, get.getParameterAttr()))
    OpBuilder::atBlockBegin(module->getBody()).clone(*parameter);
}

void RewriteLog::declare(StringRef rule, Value old, Value now, bool isExact) {
  if (isStale) {
    if (unlogged.empty())
      unlogged = rule.str();
    return;
  }
  auto before = dyn_cast_or_null<OpResult>(mapping.lookupOrNull(old));
  auto result = dyn_cast<OpResult>(now);
  if (!module || !before || !result)
    return;
  auto function = dyn_cast<func::FuncOp>(before.getOwner()->getParentOp());
  if (!function)
    return;
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(before.getOwner());
  for (Operation *op : getNewOps(now, mapping)) {
    copyParameters(op);
    builder.clone(*op, mapping);
  }
  auto after = dyn_cast<OpResult>(mapping.lookup(now));
  if (!after)
    return;
  rewrites.push_back({rule.str(), function, before, after, isExact});
  // What reads the new value later is compared on the old one.
  mapping.map(now, before);
}

void RewriteLog::forget(Operation *op) {
  // Another op may stand at its address.
  for (Value result : op->getResults())
    mapping.erase(result);
}
