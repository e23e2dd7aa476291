//===- RewriteProof.h - Nothing but what was declared changed ---*- C++ -*-===//
//
// For a pass that replaces values of a function: it declares each replacement,
// and in the end everything else must be as it was. Always on, by two walks
// over functions in which something is replaced. Whether a replacement equals
// what it replaces is for --verify-fusion to see (RewriteLog.h).
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_REWRITEPROOF_H
#define FUSION_ANALYSIS_REWRITEPROOF_H

#include "fusion/Analysis/GraphFingerprint.h"
#include "fusion/Analysis/RewriteLog.h"

#include <optional>

namespace fusion {

class RewriteProof {
public:
  /// `rule` is the id of what is rewritten; `log` may be null. A function of
  /// several blocks is logged only.
  RewriteProof(mlir::FunctionOpInterface function, llvm::StringRef rule,
               RewriteLog *log)
      : function(function), rule(rule), log(log) {}

  /// Before the first change of the function.
  void start();

  /// `now`, computed by new ops, is about to replace `old`. Both exist.
  void declare(mlir::Value old, mlir::Value now, bool isExact);

  /// `op` is about to be erased.
  void forget(mlir::Operation *op);

  /// Succeeds if nothing but the declared values changed. Emits an error
  /// otherwise.
  llvm::LogicalResult verify() const;

private:
  mlir::FunctionOpInterface function;
  llvm::StringRef rule;
  RewriteLog *log;
  std::optional<GraphFingerprint> before;
  /// New values by the number of what they replace.
  llvm::DenseMap<mlir::Value, unsigned> equal;
};

} // namespace fusion

#endif // FUSION_ANALYSIS_REWRITEPROOF_H
