//===- ExplainPair.cpp - Answers --fusion-why -----------------------------===//
//
// Finds the two ops that a person named and prints the answer as a remark.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/FusionDecisions.h"
#include "fusion/Fuse/Passes.h"

namespace fusion {
#define GEN_PASS_DEF_EXPLAINPAIR
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// The two names of `@a,@b`: a comma separates them if a name starts behind it,
/// so that names may have commas.
static std::optional<std::pair<StringRef, StringRef>>
splitPair(StringRef text) {
  std::optional<std::pair<StringRef, StringRef>> result;
  for (size_t at = text.find(','); at != StringRef::npos;
       at = text.find(',', at + 1)) {
    StringRef first = text.take_front(at), second = text.drop_front(at + 1);
    bool starts = second.starts_with("@") || second.starts_with("#") ||
                  second.starts_with(":") || second.contains('#');
    if (first.empty() || second.empty() || !starts)
      continue;
    if (result)
      return std::nullopt;
    result = {first, second};
  }
  return result;
}

namespace {

struct ExplainPair : fusion::impl::ExplainPairBase<ExplainPair> {
  using ExplainPairBase::ExplainPairBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto names = splitPair(pair);
    if (!names) {
      getOperation().emitError("'")
          << pair
          << "' names no two ops; write '@a,@b', where each is '@name', "
             "'#3' or ':12' for a line of the model";
      return signalPassFailure();
    }
    auto record = getCachedAnalysis<FusionRecord>();
    std::string problem;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      FusionDecisions *decisions =
          record ? record->get().find(function) : nullptr;
      if (!decisions || decisions->ops.size() == 0)
        continue;
      const OpTable &ops = decisions->ops;
      llvm::Expected<unsigned> first = ops.lookup(names->first);
      llvm::Expected<unsigned> second = ops.lookup(names->second);
      if (first && second) {
        mlir::emitRemark(ops[*second].loc)
            << explainPair(*decisions, *first, *second);
        return;
      }
      for (auto *op : {&first, &second})
        if (!*op) {
          std::string message = llvm::toString(op->takeError());
          if (problem.empty())
            problem = message;
        }
    }
    if (problem.empty())
      problem = "no decisions on groups were recorded; run "
                "fusion-track-decisions before the passes that decide";
    getOperation().emitError() << problem;
    signalPassFailure();
  }
};

} // namespace
