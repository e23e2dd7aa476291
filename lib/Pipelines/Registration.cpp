//===- Registration.cpp - Dialects and passes of the compiler -------------===//
//
// See Registration.h. A phase's passes are registered by the phase.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/Registration.h"

#include "fusion/Codegen/Passes.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/Partition/Passes.h"
#include "fusion/Pipelines/Compile.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Schedule/Passes.h"
#include "fusion/Simplify/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void fusion::registerDialects(DialectRegistry &registry) {
  registry.insert<FusionDialect, func::FuncDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, DLTIDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  NVVM::NVVMDialect, ub::UBDialect, vector::VectorDialect>();
}

void fusion::registerPasses() {
  registerTransformsPasses();
  registerSimplifyPasses();
  registerSimplifyPipelines();
  registerPartitionPasses();
  registerFusePasses();
  registerFusePipeline();
  registerCodegenPasses();
  registerCodegenPipelines();
  registerSchedulePasses();
  registerPipelinesPasses();
  registerPipelines();
}
