//===- Model.cpp - The program that is interpreted ------------------------===//
//
// Diagnostics of the parser and the verifier become one error message, so that
// a batch of models can go on after a bad one.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/Messages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace fusion;
using namespace fusion::interpret;
using fusion::reference::fail;
using fusion::reference::FailureKind;

void interpret::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<FusionDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect,
                  mlir::DLTIDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect,
                  mlir::scf::SCFDialect, mlir::NVVM::NVVMDialect,
                  mlir::ub::UBDialect, mlir::vector::VectorDialect>();
}

llvm::Expected<Model> interpret::loadModel(mlir::MLIRContext &context,
                                           llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  std::error_code error = llvm::sys::fs::status(path, status);
  if (!error && !llvm::sys::fs::is_regular_file(status))
    error = std::make_error_code(std::errc::invalid_argument);
  if (error)
    return fail(FailureKind::Usage, "cannot read the model '" + path +
                                        "': " + error.message() +
                                        "; name a .mlir or bytecode file");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(FailureKind::Usage, "cannot read the model '" + path +
                                        "': " + buffer.getError().message());

  std::string messages;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
          return;
        llvm::raw_string_ostream os(messages);
        if (!messages.empty())
          os << "; ";
        if (std::string place = describePlace(diagnostic.getLocation());
            !place.empty())
          os << place << ": ";
        os << shortenMessage(diagnostic.str());
      });
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  Model model;
  model.module = mlir::parseSourceFile<mlir::ModuleOp>(
      sources, mlir::ParserConfig(&context));
  if (!model.module)
    return fail(FailureKind::Program, messages.empty()
                                          ? "'" + path + "' is no valid module"
                                          : llvm::Twine(messages));
  llvm::SmallString<128> directory(path);
  llvm::sys::path::remove_filename(directory);
  model.directory = directory.empty() ? "." : directory.str().str();
  return std::move(model);
}

llvm::Expected<mlir::func::FuncOp>
interpret::findFunction(mlir::ModuleOp module, llvm::StringRef name) {
  if (auto function = module.lookupSymbol<mlir::func::FuncOp>(name))
    return function;
  if (module.lookupSymbol<ProgramOp>(name))
    return fail(FailureKind::Usage,
                "@" + name +
                    " is a program of commands; interpret the module "
                    "before it is scheduled");
  std::string names;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    names += (names.empty() ? "@" : ", @") + function.getName().str();
  return fail(FailureKind::Usage, "the module has no function @" + name +
                                      "; it has " +
                                      (names.empty() ? "none" : names) +
                                      ", choose one with --function");
}
