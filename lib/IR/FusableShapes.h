//===- FusableShapes.h - Helpers of iteration spaces and maps ---*- C++ -*-===//
//
// Small functions that the implementations of FusableOpInterface share.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_IR_FUSABLESHAPES_H
#define FUSION_LIB_IR_FUSABLESHAPES_H

#include "fusion/IR/FusionDialect.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {

/// Product of the factors; a `?` counts 1, an overflow gives the largest
/// int64_t.
int64_t saturatingProduct(llvm::ArrayRef<int64_t> factors);

llvm::SmallVector<int64_t> shapeOf(mlir::Value value);

/// Number of elements, a `?` counting 1.
int64_t countElements(mlir::Value value);

/// (d0, ..., d[dims - 1]) -> (results).
mlir::AffineMap mapOf(unsigned dims, llvm::ArrayRef<mlir::AffineExpr> results,
                      mlir::MLIRContext *context);

/// The map to the dimensions `selected`, in that order.
mlir::AffineMap selectDims(unsigned dims, llvm::ArrayRef<int64_t> selected,
                           mlir::MLIRContext *context);

} // namespace fusion

#endif // FUSION_LIB_IR_FUSABLESHAPES_H
