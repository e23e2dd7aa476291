//===- RewriteLog.h - Old and new expressions, side by side -----*- C++ -*-===//
//
// Passes that replace values by others which should equal them write both down,
// for a check that evaluates them (fusion-verify-rewrites). The log is a copy
// of the module as it was, into which each new expression is put beside the old
// one: both read the same values, so the first wrong one is found whatever
// follows from it. Costs nothing where no log was started.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_REWRITELOG_H
#define FUSION_ANALYSIS_REWRITELOG_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/AnalysisManager.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <string>

namespace fusion {

/// One value and what it was replaced by, both in the log's module.
struct LoggedRewrite {
  std::string rule; ///< id of the rewrite
  mlir::func::FuncOp function;
  mlir::OpResult before, after;
  /// Equal bit by bit; else up to the roundings of a formula.
  bool isExact;
};

/// An analysis of a module that stays: it describes the module as it was. A
/// pass that keeps it up to date says that it preserves it; behind any other
/// that changes the module it logs no more, as it knows values by their
/// addresses.
class RewriteLog {
public:
  explicit RewriteLog(mlir::Operation *) {}

  bool isInvalidated(const mlir::AnalysisManager::PreservedAnalyses &passes) {
    if (module && !passes.isPreserved<RewriteLog>()) {
      mapping.clear();
      isStale = true;
    }
    return false;
  }

  /// Copies `module`; what was logged before is forgotten.
  void start(mlir::ModuleOp module);

  /// Logs that `now` replaces `old`. Both exist, and `now` is computed by ops
  /// made since the start from values that are older than `old`. What is no
  /// graph at the level of a function is passed over. In a stale log the rule
  /// is remembered only.
  void declare(llvm::StringRef rule, mlir::Value old, mlir::Value now,
               bool isExact);

  /// `op` of the module is about to be erased.
  void forget(mlir::Operation *op);

  /// Forgets everything, and logs no more.
  void stop();

  /// In the order of their declaration.
  llvm::ArrayRef<LoggedRewrite> getRewrites() const { return rewrites; }
  /// The first rule that could not be logged, as a pass before it changed the
  /// module unlogged; empty if there is none.
  llvm::StringRef getUnlogged() const { return unlogged; }
  /// Null before the start and behind the end.
  mlir::ModuleOp getModule() const {
    return module ? module.get() : mlir::ModuleOp();
  }

private:
  void copyParameters(mlir::Operation *op);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// From the module's values and ops to the log's.
  mlir::IRMapping mapping;
  llvm::SmallVector<LoggedRewrite, 0> rewrites;
  bool isStale = false;
  std::string unlogged;
};

/// What a pipeline adds around a pass that logs, if the log is to be checked.
struct RewriteChecks {
  std::function<void(mlir::OpPassManager &)> before, after;

  void addBefore(mlir::OpPassManager &manager) const {
    if (before)
      before(manager);
  }
  void addAfter(mlir::OpPassManager &manager) const {
    if (after)
      after(manager);
  }
};

} // namespace fusion

#endif // FUSION_ANALYSIS_REWRITELOG_H
