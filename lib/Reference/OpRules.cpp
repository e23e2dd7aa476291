//===- OpRules.cpp - One rule for each op ---------------------------------===//

#include "OpRules.h"

#include "llvm/Support/raw_ostream.h"

using namespace fusion::reference;

llvm::Error fusion::reference::failAt(mlir::Operation *op, FailureKind kind,
                                      const llvm::Twine &message) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "'" << op->getName() << "' at ";
  if (auto file = op->getLoc()->findInstanceOf<mlir::FileLineColLoc>())
    os << file.getFilename().getValue() << ":" << file.getLine() << ":"
       << file.getColumn();
  else
    os << op->getLoc();
  os << ": " << message;
  return fail(kind, text);
}

llvm::Error fusion::reference::requireShape(mlir::Operation *op,
                                            llvm::StringRef what,
                                            llvm::ArrayRef<int64_t> got,
                                            llvm::ArrayRef<int64_t> want) {
  if (got == want)
    return llvm::Error::success();
  return failAt(op, FailureKind::Program,
                what + " has shape " + toString(got) + " at this batch, " +
                    toString(want) +
                    " is needed; dimensions `?` of unlike multiples of the "
                    "batch meet here");
}

const RuleTable &fusion::reference::getRules() {
  static const RuleTable table = [] {
    RuleTable rules;
    addElementwiseRules(rules);
    addActivationRules(rules);
    addSelectRules(rules);
    addRandomRules(rules);
    addShapeRules(rules);
    addIndexingRules(rules);
    addReductionRules(rules);
    addMatmulRules(rules);
    addConvRules(rules);
    addPoolRules(rules);
    addNormalizationRules(rules);
    addSoftmaxRules(rules);
    addAttentionRules(rules);
    addConstantRules(rules);
    addCollectiveRules(rules);
    return rules;
  }();
  return table;
}
