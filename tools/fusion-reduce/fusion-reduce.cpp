//===- fusion-reduce.cpp - Shrinks model IR that shows a fault ------------===//
//
// Runs MLIR's reducer with Fusion's dialects, which the stock tool refuses.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerDialects(registry);
  fusion::registerPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
