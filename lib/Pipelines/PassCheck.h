//===- PassCheck.h - A user's passes, checked by evaluation -----*- C++ -*-===//
#ifndef FUSION_LIB_PIPELINES_PASSCHECK_H
#define FUSION_LIB_PIPELINES_PASSCHECK_H

#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringSet.h"

#include <memory>
#include <optional>

namespace fusion {

/// For a pass manager on a module at the graph level, without threads:
/// evaluates each public function before and behind each pass that changes it,
/// on generated inputs, and compares the results. A pass that changes values is
/// an error of kind `Check` at the function, one that changes roundings a
/// warning. With `names`, only passes of these names are checked. Parameters'
/// files are relative to `parameterFolder`; empty: to the model's.
std::unique_ptr<mlir::PassInstrumentation>
createPassCheck(llvm::StringRef parameterFolder,
                std::optional<llvm::StringSet<>> names = std::nullopt);

} // namespace fusion

#endif // FUSION_LIB_PIPELINES_PASSCHECK_H
