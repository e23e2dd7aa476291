//===- RewriteRecord.cpp - What was rewritten -----------------------------===//
//
// Keeps `fusion.rewrites`.
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
