//===- FloatBuilder.h - Short names for float arithmetic --------*- C++ -*-===//
//
// What the expansions are written with. All values are scalars or vectors of
// one shape; no fastmath flag is ever set.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_CODEGEN_CPU_FLOATBUILDER_H
#define FUSION_LIB_CODEGEN_CPU_FLOATBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace fusion::codegen {

class FloatBuilder {
public:
  using Value = mlir::Value;
  using F = mlir::arith::CmpFPredicate;
  using I = mlir::arith::CmpIPredicate;

  /// `hasFma`: mulAdd rounds once. Never a choice of the code's shape, or
  /// scalar and vector code would differ.
  FloatBuilder(mlir::OpBuilder &b, mlir::Location loc, bool hasFma = false)
      : b(b), loc(loc), hasFma(hasFma) {}

  template <typename OpTy, typename... Args> Value op(Args &&...args) {
    return OpTy::create(b, loc, std::forward<Args>(args)...).getResult();
  }
  mlir::Type like(Value shaped, mlir::Type element) {
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(shaped.getType()))
      return vector.clone(element);
    return element;
  }
  Value number(Value shaped, double value) {
    mlir::Type element = mlir::getElementTypeOrSelf(shaped.getType());
    return constant(shaped.getType(), b.getFloatAttr(element, value));
  }
  Value integer(Value shaped, uint64_t bits) {
    mlir::Type element = mlir::getElementTypeOrSelf(shaped.getType());
    unsigned width = element.getIntOrFloatBitWidth();
    llvm::APInt value = llvm::APInt(64, bits).trunc(width);
    return constant(shaped.getType(), b.getIntegerAttr(element, value));
  }
  Value add(Value x, Value y) { return op<mlir::arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return op<mlir::arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return op<mlir::arith::MulFOp>(x, y); }
  /// x * y + z, rounded once where the processor can.
  Value mulAdd(Value x, Value y, Value z) {
    return hasFma ? op<mlir::math::FmaOp>(x, y, z) : add(mul(x, y), z);
  }
  Value mulAdd(Value x, double y, Value z) {
    return mulAdd(x, number(x, y), z);
  }
  Value mulAdd(Value x, Value y, double z) {
    return mulAdd(x, y, number(x, z));
  }
  Value div(Value x, Value y) { return op<mlir::arith::DivFOp>(x, y); }
  Value add(Value x, double y) { return add(x, number(x, y)); }
  Value sub(Value x, double y) { return sub(x, number(x, y)); }
  Value mul(Value x, double y) { return mul(x, number(x, y)); }
  Value abs(Value x) { return op<mlir::math::AbsFOp>(x); }
  Value copySign(Value magnitude, Value sign) {
    return op<mlir::math::CopySignOp>(magnitude, sign);
  }
  Value iadd(Value x, Value y) { return op<mlir::arith::AddIOp>(x, y); }
  Value isub(Value x, Value y) { return op<mlir::arith::SubIOp>(x, y); }
  Value iadd(Value x, uint64_t y) { return iadd(x, integer(x, y)); }
  Value isub(Value x, uint64_t y) { return isub(x, integer(x, y)); }
  Value iand(Value x, uint64_t y) {
    return op<mlir::arith::AndIOp>(x, integer(x, y));
  }
  Value ior(Value x, Value y) { return op<mlir::arith::OrIOp>(x, y); }
  Value shl(Value x, unsigned n) {
    return op<mlir::arith::ShLIOp>(x, integer(x, n));
  }
  Value shr(Value x, unsigned n) {
    return op<mlir::arith::ShRUIOp>(x, integer(x, n));
  }
  Value less(Value x, double y) { return compare(F::OLT, x, number(x, y)); }
  Value greater(Value x, double y) { return compare(F::OGT, x, number(x, y)); }
  Value equal(Value x, double y) { return compare(F::OEQ, x, number(x, y)); }
  Value compare(F predicate, Value x, Value y) {
    return op<mlir::arith::CmpFOp>(predicate, x, y);
  }
  Value compare(I predicate, Value x, Value y) {
    return op<mlir::arith::CmpIOp>(predicate, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return op<mlir::arith::SelectOp>(c, x, y);
  }
  Value bits(Value x) {
    unsigned width =
        mlir::getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
    return op<mlir::arith::BitcastOp>(like(x, b.getIntegerType(width)), x);
  }
  Value fromBits(Value x, mlir::Type element) {
    return op<mlir::arith::BitcastOp>(like(x, element), x);
  }
  Value widen(Value x) {
    return op<mlir::arith::ExtFOp>(like(x, b.getF64Type()), x);
  }
  Value narrow(Value x) {
    return op<mlir::arith::TruncFOp>(like(x, b.getF32Type()), x);
  }
  /// c[0] + x c[1] + x^2 c[2] + ...
  Value polynomial(Value x, llvm::ArrayRef<double> c) {
    Value sum = number(x, c.back());
    for (double coefficient : llvm::reverse(c.drop_back()))
      sum = mulAdd(sum, x, coefficient);
    return sum;
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  bool hasFma;

private:
  Value constant(mlir::Type type, mlir::TypedAttr element) {
    mlir::TypedAttr attr = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
      attr = mlir::DenseElementsAttr::get(vector, mlir::Attribute(element));
    return op<mlir::arith::ConstantOp>(attr);
  }
};

} // namespace fusion::codegen

#endif // FUSION_LIB_CODEGEN_CPU_FLOATBUILDER_H
