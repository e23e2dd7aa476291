//===- fusion-lsp-server.cpp - Editor support for model IR ----------------===//
//
// MLIR's language server with Fusion's dialects.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  fusion::setToolVersion(argv[0]);
  mlir::DialectRegistry registry;
  fusion::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
