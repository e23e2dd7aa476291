//===- FusionInterfaces.td - What passes ask of ops -----------------------===//
//
// Passes never look at op names: they ask these interfaces. A new op that
// implements them is fused, compiled, evaluated and overlapped like the others.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_FUSIONINTERFACES_TD
#define FUSION_IR_FUSIONINTERFACES_TD

include "mlir/IR/OpBase.td"

def Fusion_ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::fusion";
  let description = [{
    One result element depends on the operand elements of the same position only.
    All operands and the single result have one shape; a `?` is no other size.
  }];
  let verify = [{ return ::fusion::detail::verifyOneShape($_op); }];
  let methods = [
    InterfaceMethod<[{
        Builds the op's arithmetic on scalars or vectors. `operands` have the
        *compute type* of the operand's element type (see `getComputeType`); the
        result has the compute type of the result's element type, rounded to the
        result's precision by the caller. Builds upstream arith, math and ub ops.
      }],
      "::mlir::Value", "buildBody",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::ValueRange":$operands)>,
    InterfaceMethod<[{
        Cost of one element in flops; a transcendental counts 8 or more.
      }],
      "int64_t", "getFlopsPerElement", (ins), [{}], [{ return 1; }]>
  ];
}

def Fusion_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::fusion";
  let description = [{
    A named op that equals a composition of elementwise and structural ops. The
    decomposition is the op's definition for code generation.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the composition at the builder's insertion point and returns one
        value for each result, of the same type. Does not erase the op.
      }],
      "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def Fusion_FusableOpInterface : OpInterface<"FusableOpInterface"> {
  let cppNamespace = "::fusion";
  let description = [{
    How an op iterates: a rectangular space of parallel and reduction
    dimensions, and for each operand the map from a point of the space to the
    element it reads.
  }];
  let methods = [
    InterfaceMethod<"Sizes of the iteration space; `?` dimensions are kDynamic.",
      "::llvm::SmallVector<int64_t>", "getIterationShape", (ins)>,
    InterfaceMethod<"Which dimensions of the space are reduced.",
      "::llvm::SmallVector<int64_t>", "getReductionDims", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
        Map from the iteration space to the indices of operand `i`, or nullopt
        when the access is not affine (data dependent, or piecewise).
      }],
      "::std::optional<::mlir::AffineMap>", "getOperandMap", (ins "unsigned":$operand)>,
    InterfaceMethod<"Cost of the whole op in flops at the static size (`?` counts 1).",
      "int64_t", "getFlops", (ins)>
  ];
}

def Fusion_CommunicationOpInterface : OpInterface<"CommunicationOpInterface"> {
  let cppNamespace = "::fusion";
  let description = [{
    An op that talks to other ranks. Its place in the order of such ops is the
    same on all ranks.
  }];
  let methods = [
    InterfaceMethod<"The mesh symbol.", "::mlir::FlatSymbolRefAttr", "getCommunicationMesh", (ins),
      [{}], [{ return $_op.getMeshAttr(); }]>,
    InterfaceMethod<"The mesh axes that form the group.", "::mlir::ArrayAttr", "getCommunicationAxes", (ins),
      [{}], [{ return $_op.getAxesAttr(); }]>
  ];
}

#endif // FUSION_IR_FUSIONINTERFACES_TD
