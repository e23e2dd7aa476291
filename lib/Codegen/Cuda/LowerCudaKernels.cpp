//===- LowerCudaKernels.cpp - Kernels to NVVM in the LLVM dialect ---------===//
//
// See LowerCudaKernels.h. What a GPU has an instruction for stays LLVM's own
// operation; other math is libdevice's, element by element.
//
//===----------------------------------------------------------------------===//
#include "LowerCudaKernels.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kAttributes[] = {
    "fusion.units", "fusion.grain", "fusion.threads", "fusion.operands",
    "fusion.description"};

/// Operations that are instructions: correctly rounded, and of vectors.
static void keepInstructions(ModuleOp kernels) {
  kernels.walk([](Operation *op) {
    OpBuilder b(op);
    Value value =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case([&](math::SqrtOp sqrt) {
              return LLVM::SqrtOp::create(b, op->getLoc(), sqrt.getOperand());
            })
            .Case([&](math::AbsFOp abs) {
              return LLVM::FAbsOp::create(b, op->getLoc(), abs.getOperand());
            })
            .Case([&](math::FloorOp floor) {
              return LLVM::FFloorOp::create(b, op->getLoc(),
                                            floor.getOperand());
            })
            .Case([&](math::CeilOp ceil) {
              return LLVM::FCeilOp::create(b, op->getLoc(), ceil.getOperand());
            })
            .Case([&](math::RoundEvenOp round) {
              return LLVM::RoundEvenOp::create(b, op->getLoc(),
                                               round.getOperand());
            })
            .Default(Value());
    if (!value)
      return;
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  });
}

/// The entry of `body`, whose name and description it takes over.
static void makeEntry(func::FuncOp body, StringRef name) {
  OpBuilder b(body);
  MLIRContext *context = b.getContext();
  Location loc = body.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto operands = body->getAttrOfType<IntegerAttr>("fusion.operands");
  auto threads = body->getAttrOfType<IntegerAttr>("fusion.threads");
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, b.getI64Type()});
  auto entry = LLVM::LLVMFuncOp::create(b, loc, name, type);
  for (StringRef attribute : kAttributes)
    if (Attribute value = body->getAttr(attribute)) {
      entry->setAttr(attribute, value);
      body->removeAttr(attribute);
    }
  entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                 b.getDenseI32ArrayAttr({int32_t(threads.getInt()), 1, 1}));
  entry.setArgAttr(0, LLVM::LLVMDialect::getByValAttrName(),
                   TypeAttr::get(LLVM::LLVMArrayType::get(
                       pointer, std::max<int64_t>(operands.getInt(), 1))));
  entry.setArgAttr(0, LLVM::LLVMDialect::getAlignAttrName(),
                   b.getI64IntegerAttr(8));
  entry.setArgAttr(0, NVVM::NVVMDialect::getGridConstantAttrName(),
                   b.getUnitAttr());
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  Value number = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  number = arith::ExtUIOp::create(b, loc, b.getI64Type(), number);
  func::CallOp::create(
      b, loc, body,
      ValueRange{block->getArgument(0), block->getArgument(1), number});
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

LogicalResult
codegen::lowerCudaKernels(ModuleOp kernels,
                          llvm::function_ref<bool(StringRef)> isLaunched) {
  MLIRContext *context = kernels.getContext();
  SmallVector<func::FuncOp> functions;
  for (auto function : kernels.getOps<func::FuncOp>())
    if (function->hasAttr("fusion.threads"))
      functions.push_back(function);
  SymbolTable symbols(kernels);
  for (func::FuncOp function : functions) {
    std::string name = function.getSymName().str();
    if (failed(symbols.rename(function, name + ".body")))
      return failure();
    function.setPrivate();
    if (isLaunched(name))
      makeEntry(function, name);
  }

  keepInstructions(kernels);
  RewritePatternSet controlFlow(context);
  populateSCFToControlFlowConversionPatterns(controlFlow);
  ConversionTarget flat(*context);
  flat.addIllegalDialect<scf::SCFDialect>();
  flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  if (failed(applyPartialConversion(kernels, flat, std::move(controlFlow))))
    return failure();

  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  populateLibDeviceConversionPatterns(types, patterns, /*benefit=*/2);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addLegalOp<ModuleOp>();
  // These have a form in the LLVM dialect that NVPTX can't select.
  target.addIllegalOp<LLVM::CosOp, LLVM::ExpOp, LLVM::Exp2Op, LLVM::LogOp,
                      LLVM::Log10Op, LLVM::Log2Op, LLVM::PowOp, LLVM::SinOp,
                      LLVM::FRemOp>();
  if (failed(applyPartialConversion(kernels, target, std::move(patterns))))
    return failure();
  Builder b(context);
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    function.setNoUnwind(true);
    if (function.isDeclaration() || !function.getSymName().ends_with(".body"))
      continue;
    function.setLinkage(LLVM::Linkage::Internal);
    function.setPassthroughAttr(
        b.getArrayAttr({b.getStringAttr("alwaysinline")}));
  }
  return success();
}
