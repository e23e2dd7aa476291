//===- FusionDialect.h - The dialect: ops, types, attributes ----*- C++ -*-===//
//
// The one header to include for working with the IR of the `fusion` dialect.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_FUSIONDIALECT_H
#define FUSION_IR_FUSIONDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fusion/IR/FusionDialect.h.inc"
#include "fusion/IR/FusionEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fusion/IR/FusionTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fusion/IR/FusionAttributes.h.inc"

namespace fusion {

/// What collectives read and write, so that no generic pass moves them.
struct CommunicationResource
    : public mlir::SideEffects::Resource::Base<CommunicationResource> {
  llvm::StringRef getName() final { return "fusion.communication"; }
};

/// Type in which an elementwise body computes on elements of `elementType`:
/// f32 for f16 and bf16, else the type itself.
mlir::Type getComputeType(mlir::Type elementType);

/// Whether `type` is a ranked tensor of at most 2^48 elements; a `?` counts 1,
/// and a size 0 does not hide the other sizes.
bool hasSupportedSize(mlir::Type type);

/// Whether the elements of `type` are of one of the dialect's element types.
bool hasSupportedElement(mlir::ShapedType type);

/// Shapes and costs that all elementwise ops share.
namespace detail {
/// Checks that all operands and results have one shape. The upstream traits let
/// a `?` agree with any size.
llvm::LogicalResult verifyOneShape(mlir::Operation *op);
llvm::SmallVector<int64_t> elementwiseShape(mlir::Operation *op);
mlir::AffineMap elementwiseMap(mlir::Operation *op);
int64_t elementwiseFlops(mlir::Operation *op, int64_t flopsPerElement);
} // namespace detail

} // namespace fusion

#include "fusion/IR/FusionInterfaces.h.inc"

#define GET_OP_CLASSES
#include "fusion/IR/FusionOps.h.inc"

#endif // FUSION_IR_FUSIONDIALECT_H
