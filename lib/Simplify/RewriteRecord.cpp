//===- RewriteRecord.cpp - What was rewritten -----------------------------===//
//
// Keeps `fusion.rewrites` and drops parameters that rewrites left unused.
//
//===----------------------------------------------------------------------===//
#include "RewriteRecord.h"

#include "fusion/IR/FusionDialect.h"
#include "mlir/IR/Builders.h"

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
