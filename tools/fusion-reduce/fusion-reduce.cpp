//===- fusion-reduce.cpp - Shrinks model IR that shows a fault ------------===//
//
// Runs MLIR's reducer with Fusion's dialects, which the stock tool refuses.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"
#include "fusion/Pipelines/ToolProcess.h"

#include "Process.h"
#include "Status.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/raw_ostream.h"

using namespace fusion;

/// The file of `-o`, if it is one of those that other arguments name.
static std::string findOverwritten(int argc, char **argv) {
  std::vector<std::string> written, others;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument(argv[i]);
    llvm::StringRef name = argument.ltrim('-');
    if (argument.starts_with("-") && name == "o" && i + 1 < argc)
      written.push_back(argv[++i]);
    else if (argument.starts_with("-") && name.consume_front("o="))
      written.push_back(name.str());
    else
      others.push_back(argument.str());
  }
  return rt::findOverwritten(written, others);
}

int main(int argc, char **argv) {
  ToolProcess process(argc, argv);
  if (std::string path = findOverwritten(argc, argv); !path.empty()) {
    llvm::errs() << "error: '" << path
                 << "' is read, and would be overwritten, -o, choose another\n";
    return int(rt::Code::Usage);
  }
  mlir::DialectRegistry registry;
  fusion::registerDialects(registry);
  fusion::registerPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
