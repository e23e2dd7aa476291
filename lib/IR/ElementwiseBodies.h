//===- ElementwiseBodies.h - Helpers of the elementwise bodies --*- C++ -*-===//
//
// A thin wrapper of the builder that the bodies are written with. Every value
// is a scalar or a vector; constants take the shape of a value they are used
// with. No fastmath flag is ever set: a body is exact IEEE arithmetic.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_IR_ELEMENTWISEBODIES_H
#define FUSION_LIB_IR_ELEMENTWISEBODIES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace fusion::detail {

/// `shaped`'s vector shape (if any) with elements of `element`.
inline mlir::Type withElement(mlir::Type shaped, mlir::Type element) {
  if (auto vector = llvm::dyn_cast<mlir::VectorType>(shaped))
    return vector.clone(element);
  return element;
}

/// Builds arithmetic at one insertion point.
class BodyBuilder {
public:
  BodyBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  template <typename OpTy, typename... Args> mlir::Value op(Args &&...args) {
    return OpTy::create(builder, loc, std::forward<Args>(args)...).getResult();
  }

  static bool isFloat(mlir::Value value) {
    return llvm::isa<mlir::FloatType>(
        mlir::getElementTypeOrSelf(value.getType()));
  }

  /// The float `value`, rounded once to the precision of `like`.
  mlir::Value number(mlir::Value like, double value) {
    mlir::Type type = like.getType();
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    mlir::TypedAttr attr = builder.getFloatAttr(element, value);
    return constant(type, attr);
  }

  /// The integer `value`, wrapped to the width of `like`.
  mlir::Value integer(mlir::Value like, int64_t value) {
    mlir::Type type = like.getType();
    unsigned width = mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    llvm::APInt bits = llvm::APInt(64, static_cast<uint64_t>(value))
                           .trunc(std::min(width, 64u));
    mlir::TypedAttr attr =
        builder.getIntegerAttr(mlir::getElementTypeOrSelf(type), bits);
    return constant(type, attr);
  }

  /// 0 of `like`'s type, float or integer.
  mlir::Value zero(mlir::Value like) {
    return isFloat(like) ? number(like, 0.0) : integer(like, 0);
  }

  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return op<mlir::arith::SelectOp>(condition, a, b);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a,
                      mlir::Value b) {
    return op<mlir::arith::CmpFOp>(predicate, a, b);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a,
                      mlir::Value b) {
    return op<mlir::arith::CmpIOp>(predicate, a, b);
  }

  /// `type`'s element type over the shape of `value`.
  mlir::Type like(mlir::Value value, mlir::Type element) {
    return withElement(value.getType(), element);
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;

private:
  mlir::Value constant(mlir::Type type, mlir::TypedAttr element) {
    mlir::TypedAttr attr = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
      attr = mlir::DenseElementsAttr::get(vector, mlir::Attribute(element));
    return op<mlir::arith::ConstantOp>(attr);
  }
};

} // namespace fusion::detail

#endif // FUSION_LIB_IR_ELEMENTWISEBODIES_H
