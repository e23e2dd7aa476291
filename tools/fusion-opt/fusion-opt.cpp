//===- fusion-opt.cpp - Runs passes and phases on model IR ----------------===//
//
// The compiler engineer's tool: any pass, phase or the whole pipeline by flag,
// remarks with reasons, why two ops are in one group or not, plugins by
// explicit path.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

/// `--fusion-why=@a,@b` is the fuse phase with a question.
static std::string spellOut(llvm::StringRef argument) {
  llvm::StringRef pair = argument;
  if (pair.consume_front("--fusion-why=") || pair.consume_front("-fusion-why="))
    return ("--fusion-fuse=why={" + pair + "}").str();
  return argument.str();
}

int main(int argc, char **argv) {
  llvm::SmallVector<std::string> arguments;
  llvm::SmallVector<char *> pointers;
  for (int i = 0; i < argc; ++i)
    arguments.push_back(spellOut(argv[i]));
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  mlir::DialectRegistry registry;
  fusion::registerDialects(registry);
  fusion::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, pointers.data(), "Fusion's passes on model IR\n", registry));
}
