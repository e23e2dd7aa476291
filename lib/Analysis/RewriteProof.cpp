//===- RewriteProof.cpp - Nothing but what was declared changed -----------===//
//
// See RewriteProof.h.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/RewriteProof.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace fusion;

void RewriteProof::start() {
  if (!before && llvm::hasSingleElement(function.getFunctionBody()))
    before.emplace(function, /*withValues=*/true);
}

void RewriteProof::declare(Value old, Value now, bool isExact) {
  if (before)
    equal[now] = before->getNumber(old);
  if (log)
    log->declare(rule, old, now, isExact);
}

void RewriteProof::forget(Operation *op) {
  for (Value result : op->getResults())
    equal.erase(result);
  if (log)
    log->forget(op);
}

LogicalResult RewriteProof::verify() const {
  if (!before)
    return success();
  SmallVector<GraphFingerprint::Equation> equations;
  for (auto [now, number] : equal)
    equations.push_back({number, now});
  return before->verify(function, rule, equations);
}
