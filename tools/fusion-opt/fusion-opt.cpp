//===- fusion-opt.cpp - Runs passes and phases on model IR ----------------===//
//
// The compiler engineer's tool: any pass, phase or the whole pipeline by flag,
// remarks with reasons, plugins by explicit path.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerDialects(registry);
  fusion::registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Fusion's passes on model IR\n", registry));
}
