//===- Model.h - The program that is interpreted ----------------*- C++ -*-===//
#ifndef FUSION_TOOLS_FUSION_INTERPRET_MODEL_H
#define FUSION_TOOLS_FUSION_INTERPRET_MODEL_H

#include "fusion/Reference/Failure.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace fusion::interpret {

/// The dialects that a module may hold at graph level, kernels beside it
/// included. Listed here and not asked of the phases, so that the oracle links
/// nothing of what it judges.
void registerDialects(mlir::DialectRegistry &registry);

struct Model {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string directory; ///< that the files of parameters are relative to
};

/// Reads and verifies a module, text or bytecode. Fails with `Usage` when there
/// is no such file, with `Program` when it is no valid module; the message has
/// the parser's or the verifier's.
llvm::Expected<Model> loadModel(mlir::MLIRContext &context,
                                llvm::StringRef path);

/// The function of that name. Fails with `Usage`, naming those there are.
llvm::Expected<mlir::func::FuncOp> findFunction(mlir::ModuleOp module,
                                                llvm::StringRef name);

} // namespace fusion::interpret

#endif // FUSION_TOOLS_FUSION_INTERPRET_MODEL_H
