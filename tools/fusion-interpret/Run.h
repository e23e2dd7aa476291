//===- Run.h - One evaluation, and a batch of them --------------*- C++ -*-===//
#ifndef FUSION_TOOLS_FUSION_INTERPRET_RUN_H
#define FUSION_TOOLS_FUSION_INTERPRET_RUN_H

#include "Inputs.h"

#include "mlir/IR/DialectRegistry.h"

namespace fusion::interpret {

/// What the command line asks for.
struct Request {
  std::string model, outputDirectory, dumpDirectory;
  Inputs inputs;
  std::vector<std::string> functions = {"main"}; ///< name, or name@rank
  int64_t ranks = 1;
  bool perRank = false; ///< outputs go to rankN folders
  bool counts = false;
  int64_t batch = 0; ///< of random inputs; 0: the largest
  reference::Options options;
};

/// Evaluates one model and writes its outputs.
llvm::Error run(mlir::MLIRContext &context, Request &request);

/// Evaluates each line `model inputs-folder output-folder` of a file (fields
/// apart by blanks, or by tabs if there are any; lines that begin with # are
/// skipped). A failing case leaves `error.txt` in its output folder and does
/// not end the batch. Fails, with the kind of the first failing case, if any
/// failed.
llvm::Error runBatch(const mlir::DialectRegistry &registry,
                     llvm::StringRef path, const reference::Options &options);

} // namespace fusion::interpret

#endif // FUSION_TOOLS_FUSION_INTERPRET_RUN_H
