//===- RewriteRecord.cpp - What was rewritten -----------------------------===//
//
// Keeps `fusion.rewrites` and drops what rewrites left unused.
//
//===----------------------------------------------------------------------===//
#include "RewriteRecord.h"

#include "fusion/IR/FusionDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;

void fusion::recordRewrites(ModuleOp module, StringRef rule, int64_t count) {
  if (count == 0)
    return;
  SmallVector<Attribute> entries;
  if (auto old = module->getAttrOfType<ArrayAttr>(kRewritesAttr))
    entries.assign(old.begin(), old.end());
  Builder builder(module.getContext());
  std::string prefix = (rule + " x").str();
  for (Attribute &entry : entries) {
    auto text = dyn_cast<StringAttr>(entry);
    int64_t before = 0;
    if (!text || !text.getValue().starts_with(prefix) ||
        text.getValue().drop_front(prefix.size()).getAsInteger(10, before))
      continue;
    entry = builder.getStringAttr(prefix + std::to_string(before + count));
    module->setAttr(kRewritesAttr, builder.getArrayAttr(entries));
    return;
  }
  entries.push_back(builder.getStringAttr(prefix + std::to_string(count)));
  module->setAttr(kRewritesAttr, builder.getArrayAttr(entries));
}

void fusion::eraseDead(Operation *op,
                       llvm::function_ref<void(Operation *)> onErase) {
  SmallVector<Operation *> worklist;
  if (isOpTriviallyDead(op))
    worklist.push_back(op);
  while (!worklist.empty()) {
    Operation *next = worklist.pop_back_val();
    llvm::SmallSetVector<Operation *, 4> operands;
    for (Value operand : next->getOperands())
      if (Operation *def = operand.getDefiningOp())
        operands.insert(def);
    if (onErase)
      onErase(next);
    next->erase();
    // An op dies with its last reader, so it is listed once.
    for (Operation *def : operands)
      if (isOpTriviallyDead(def))
        worklist.push_back(def);
  }
}

void fusion::eraseUnusedParameters(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  module.walk([&](Operation *op) {
    // Any attribute may name a symbol: a program op, a user's own op.
    op->getAttrDictionary().walk(
        [&](SymbolRefAttr ref) { used.insert(ref.getRootReference()); });
  });
  for (auto parameter :
       llvm::make_early_inc_range(module.getOps<ParameterOp>()))
    if (parameter.getKind() == ParameterKind::Const &&
        !used.contains(parameter.getSymNameAttr()))
      parameter.erase();
}
