//===- ElementwiseBase.td - Base classes of elementwise ops ---------------===//
//
// All operands and the result of an op have one shape: broadcasting is explicit.
// Each op implements the elementwise body in lib/IR/ElementwiseBodies.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_ELEMENTWISEBASE_TD
#define FUSION_IR_ELEMENTWISEBASE_TD

include "fusion/IR/FusionBase.td"
include "fusion/IR/FusionInterfaces.td"

/// An elementwise op; `flops` is the cost of one element.
class Fusion_ElementwiseOp<string mnemonic, list<Trait> traits = [], int flops = 1>
    : Fusion_PureOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<Fusion_ElementwiseOpInterface>,
        Fusion_FusableOpInterface], traits)> {
  code elementwiseClassDeclaration = "int64_t getFlopsPerElement() { return " # flops # [{; }
    ::llvm::SmallVector<int64_t> getIterationShape() {
      return ::fusion::detail::elementwiseShape(*this);
    }
    std::optional<::mlir::AffineMap> getOperandMap(unsigned) {
      return ::fusion::detail::elementwiseMap(*this);
    }
    int64_t getFlops() {
      return ::fusion::detail::elementwiseFlops(*this, getFlopsPerElement());
    }
  }];
  let extraClassDeclaration = elementwiseClassDeclaration;
}

class Fusion_UnaryOp<string mnemonic, TypeConstraint tensor, list<Trait> traits = [], int flops = 1>
    : Fusion_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType], traits), flops> {
  let arguments = (ins tensor:$input);
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

class Fusion_PredicateOp<string mnemonic>
    : Fusion_ElementwiseOp<mnemonic, [InferTypeOpAdaptor, SameOperandsAndResultShape]> {
  let arguments = (ins Fusion_FloatTensor:$input);
  let results = (outs Fusion_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

class Fusion_BinaryOp<string mnemonic, TypeConstraint tensor, list<Trait> traits = [], int flops = 1>
    : Fusion_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType], traits), flops> {
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}

#endif // FUSION_IR_ELEMENTWISEBASE_TD
