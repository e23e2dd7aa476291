//===- Registration.cpp - Dialects and passes of the compiler -------------===//
//
// See Registration.h. A phase's passes are registered by the phase.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"

#include "fusion/Codegen/Passes.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/Pipelines/Compile.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Schedule/Passes.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;

void fusion::registerDialects(DialectRegistry &registry) {
  registry.insert<FusionDialect, func::FuncDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, DLTIDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  ub::UBDialect, vector::VectorDialect>();
}

std::string fusion::getPluginPath(llvm::StringRef path) {
  return (path.contains('/') || path.empty() ? "" : "./") + path.str();
}

std::string fusion::describePluginError(llvm::StringRef path,
                                        llvm::StringRef error,
                                        llvm::StringRef option) {
  std::string name = path.str();
  std::string where = ", " + option.str() + ", ";
  if (!llvm::sys::fs::is_regular_file(path))
    return "no file '" + name + "'" + where +
           "give the path of a pass plugin, a shared library";
  if (error.contains("entry point not found"))
    return "'" + name + "' is no pass plugin: it has no function " +
           "mlirGetPassPluginInfo" + where + "write one as in examples/plugin";
  if (error.contains("API version"))
    return "the plugin '" + name + "' was built for another version of MLIR" +
           where + "build it against this compiler's headers";
  // "Could not load library 'p': p: the loader's reason"
  error = error.split('\n').first;
  size_t at = error.rfind(path);
  llvm::StringRef reason =
      at == llvm::StringRef::npos ? error : error.substr(at + path.size());
  return "cannot load the plugin '" + name +
         "': " + reason.ltrim("': ").rtrim().str() + where +
         "build it against this compiler's headers and libraries";
}

void fusion::registerPasses() {
  registerTransformsPasses();
  registerSimplifyPasses();
  registerSimplifyPipelines();
  registerFusePasses();
  registerFusePipeline();
  registerCodegenPasses();
  registerCodegenPipelines();
  registerSchedulePasses();
  registerPipelinesPasses();
  registerPipelines();
}
