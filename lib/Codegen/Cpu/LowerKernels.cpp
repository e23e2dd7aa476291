//===- LowerKernels.cpp - Kernels to the LLVM dialect ---------------------===//
//
// The pass: expansions first (they choose what is arithmetic and what is a
// call), then upstream's conversions. Kernels become functions that a shared
// object exports.
//
//===----------------------------------------------------------------------===//
#include "../Cuda/LowerCudaKernels.h"
#include "EraseBf16.h"
#include "ExpandMath.h"

#include "fusion/Analysis/RuntimeProgram.h"
#include "fusion/Codegen/Passes.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace fusion {
#define GEN_PASS_DEF_LOWERKERNELS
#include "fusion/Codegen/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static CpuAbilities parseAbilities(StringRef features) {
  CpuAbilities abilities;
  for (StringRef feature : llvm::split(features, ',')) {
    feature = feature.trim();
    if (feature == "sse4.1" || feature == "avx")
      abilities.rounding = true;
    if (feature == "f16c")
      abilities.halfConversion = true;
    if (feature == "fma")
      abilities.fusedMultiplyAdd = true;
  }
  return abilities;
}

namespace {
class LowerKernels : public fusion::impl::LowerKernelsBase<LowerKernels> {
public:
  using LowerKernelsBase::LowerKernelsBase;
  void runOnOperation() override;

private:
  LogicalResult lower(ModuleOp kernels);
};
} // namespace

/// Keeps the rounding to f32 of what is computed in f64 and then rounded to
/// f16: LLVM's instruction selection merges the two, which changes bits and
/// needs a function that no module has (seen: __truncdfhf2 when an f16 select
/// or minimum follows).
static void fenceRoundings(LLVM::LLVMFuncOp function) {
  SmallVector<LLVM::FPTruncOp> roundings;
  bool hasHalf = false;
  function.walk([&](LLVM::FPTruncOp op) {
    hasHalf |= getElementTypeOrSelf(op.getType()).isF16();
    // One that has its fence was lowered before.
    if (getElementTypeOrSelf(op.getArg().getType()).isF64() &&
        !llvm::any_of(op->getUsers(), llvm::IsaPred<LLVM::CallIntrinsicOp>))
      roundings.push_back(op);
  });
  if (!hasHalf)
    return;
  for (LLVM::FPTruncOp op : roundings) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto fence = LLVM::CallIntrinsicOp::create(
        builder, op.getLoc(), op.getType(),
        builder.getStringAttr("llvm.arithmetic.fence"), op.getResult());
    op.getResult().replaceAllUsesExcept(fence.getResult(0), fence);
  }
}

LogicalResult LowerKernels::lower(ModuleOp kernels) {
  MLIRContext *context = kernels.getContext();
  CpuAbilities abilities = parseAbilities(features);
  ImportTable imports;
  if (failed(expandMath(kernels, abilities, imports)))
    return failure();
  expandNarrowFloats(kernels, abilities);

  RewritePatternSet controlFlow(context);
  populateSCFToControlFlowConversionPatterns(controlFlow);
  ConversionTarget flat(*context);
  flat.addIllegalDialect<scf::SCFDialect>();
  flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  if (failed(applyPartialConversion(kernels, flat, std::move(controlFlow))))
    return failure();

  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  if (failed(applyPartialConversion(kernels, target, std::move(patterns))))
    return failure();
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    // No unwind tables; the module is never a symbol's only definition.
    function.setDsoLocal(true);
    function.setNoUnwind(true);
    fenceRoundings(function);
    eraseBf16(function);
  }
  declareImports(kernels, imports);
  return success();
}

/// The kernels that the program launches, not only as members of others; all of
/// them if there is nothing but kernels.
static llvm::StringSet<> findLaunched(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](Operation *op) {
    if (auto group = dyn_cast<GroupOp>(op);
        group && !isa<GroupOp>(op->getParentOp())) {
      if (group.getKernelAttr())
        names.insert(group.getKernelAttr().getLeafReference());
      if (auto call = group->getAttrOfType<DictionaryAttr>("fusion.call"))
        if (auto name = call.getAs<StringAttr>("fallback"))
          names.insert(name.getValue());
    }
    forEachKernel(op, [&](StringRef name) { names.insert(name); });
  });
  return names;
}

void LowerKernels::runOnOperation() {
  ModuleOp module = getOperation();
  bool isAlone = module.getSymName() == "kernels";
  ModuleOp kernels =
      isAlone ? module : module.lookupSymbol<ModuleOp>("kernels");
  if (target != "cpu" && target != "cuda") {
    module.emitError("unknown target '")
        << target << "' of fusion-lower-kernels; use cpu or cuda";
    return signalPassFailure();
  }
  if (!kernels)
    return;
  LogicalResult lowered = success();
  if (target == "cuda") {
    llvm::StringSet<> launched;
    if (!isAlone)
      launched = findLaunched(module);
    lowered = lowerCudaKernels(kernels, [&](StringRef name) {
      return isAlone || launched.contains(name);
    });
  } else {
    lowered = lower(kernels);
  }
  if (failed(lowered))
    signalPassFailure();
}
