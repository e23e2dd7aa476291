//===- CallLibdevice.cpp - Transcendentals on a GPU -----------------------===//
//
// What is no instruction of a GPU is a function of libdevice, NVIDIA's library
// of math in LLVM bitcode, in f32 or f64: lane by lane, as it has no vectors.
// The library is linked, and its functions inlined, where code is made.
//
//===----------------------------------------------------------------------===//
#include "LowerCudaKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

/// Ops that are an instruction, or a few, of a GPU.
static bool isInstruction(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::IsFiniteOp,
             math::IsInfOp, math::IsNaNOp, math::IsNormalOp, math::RoundEvenOp,
             math::RoundOp, math::RsqrtOp, math::SqrtOp, math::TruncOp>(op);
}

/// The name in libdevice without prefix and suffix, or "".
static StringRef getFunctionName(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](arith::RemFOp) { return "fmod"; })
      .Case([](math::AcosOp) { return "acos"; })
      .Case([](math::AcoshOp) { return "acosh"; })
      .Case([](math::AsinOp) { return "asin"; })
      .Case([](math::AsinhOp) { return "asinh"; })
      .Case([](math::AtanOp) { return "atan"; })
      .Case([](math::Atan2Op) { return "atan2"; })
      .Case([](math::AtanhOp) { return "atanh"; })
      .Case([](math::CbrtOp) { return "cbrt"; })
      .Case([](math::CosOp) { return "cos"; })
      .Case([](math::CoshOp) { return "cosh"; })
      .Case([](math::ErfOp) { return "erf"; })
      .Case([](math::ErfcOp) { return "erfc"; })
      .Case([](math::ExpOp) { return "exp"; })
      .Case([](math::Exp2Op) { return "exp2"; })
      .Case([](math::ExpM1Op) { return "expm1"; })
      .Case([](math::FPowIOp) { return "powi"; })
      .Case([](math::LogOp) { return "log"; })
      .Case([](math::Log10Op) { return "log10"; })
      .Case([](math::Log1pOp) { return "log1p"; })
      .Case([](math::Log2Op) { return "log2"; })
      .Case([](math::PowFOp) { return "pow"; })
      .Case([](math::SinOp) { return "sin"; })
      .Case([](math::SinhOp) { return "sinh"; })
      .Case([](math::TanOp) { return "tan"; })
      .Case([](math::TanhOp) { return "tanh"; })
      .Default([](Operation *) { return ""; });
}

static LogicalResult check(Operation *op, StringRef name) {
  if (name.empty())
    return op->emitError("'") << op->getName() << "' has no code on a GPU";
  Type type = op->getResult(0).getType();
  if (auto vector = dyn_cast<VectorType>(type);
      vector && (vector.getRank() != 1 || vector.isScalable()))
    return op->emitError("'") << op->getName() << "' of " << type
                              << " has no code on a GPU, which takes vectors "
                                 "of one dimension";
  for (Value operand : op->getOperands()) {
    Type element = getElementTypeOrSelf(operand.getType());
    bool isCount = isa<math::FPowIOp>(op) && element.isInteger(32);
    if (!element.isF32() && !element.isF64() && !isCount)
      return op->emitError("'") << op->getName() << "' of " << element
                                << " has no code on a GPU; compute it in f32 "
                                   "or f64";
  }
  return success();
}

static LLVM::LLVMFuncOp declare(ModuleOp kernels, StringRef symbol, Type result,
                                ArrayRef<Type> arguments) {
  if (auto known = kernels.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return known;
  OpBuilder builder = OpBuilder::atBlockBegin(kernels.getBody());
  auto function =
      LLVM::LLVMFuncOp::create(builder, kernels.getLoc(), symbol,
                               LLVM::LLVMFunctionType::get(result, arguments));
  function.setNoUnwind(true);
  return function;
}

LogicalResult codegen::callLibdevice(ModuleOp kernels) {
  SmallVector<Operation *> worklist;
  kernels.walk([&](Operation *op) {
    if (isa<arith::RemFOp>(op) ||
        (isa<math::MathDialect>(op->getDialect()) && !isInstruction(op)))
      worklist.push_back(op);
  });
  llvm::StringMap<LLVM::LLVMFuncOp> declared;
  for (Operation *op : worklist) {
    StringRef name = getFunctionName(op);
    if (failed(check(op, name)))
      return failure();
    OpBuilder builder(op);
    Location loc = op->getLoc();
    Type type = op->getResult(0).getType();
    Type element = getElementTypeOrSelf(type);
    std::string symbol = ("__nv_" + name + (element.isF32() ? "f" : "")).str();
    LLVM::LLVMFuncOp &function = declared[symbol];
    if (!function) {
      SmallVector<Type> arguments;
      for (Value operand : op->getOperands())
        arguments.push_back(getElementTypeOrSelf(operand.getType()));
      function = declare(kernels, symbol, element, arguments);
    }
    auto vector = dyn_cast<VectorType>(type);
    Value result;
    if (!vector) {
      result = LLVM::CallOp::create(builder, loc, function, op->getOperands())
                   .getResult();
    } else {
      result = LLVM::PoisonOp::create(builder, loc, vector);
      for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
        Value at = LLVM::ConstantOp::create(builder, loc,
                                            builder.getI32IntegerAttr(lane));
        SmallVector<Value> operands;
        for (Value operand : op->getOperands())
          operands.push_back(
              LLVM::ExtractElementOp::create(builder, loc, operand, at));
        Value one =
            LLVM::CallOp::create(builder, loc, function, operands).getResult();
        result = LLVM::InsertElementOp::create(builder, loc, result, one, at);
      }
    }
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
  return success();
}
