//===- SelectOps.td - Compare, select, clamp, cast, random numbers -------===//
//
// The elementwise ops that mix types, and the random number generator.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_SELECTOPS_TD
#define FUSION_IR_SELECTOPS_TD

include "fusion/IR/ElementwiseBase.td"

//===----------------------------------------------------------------------===//
// Compare, select, clamp, cast
//===----------------------------------------------------------------------===//

def Fusion_CompareOp : Fusion_ElementwiseOp<"compare", [SameOperandsAndResultShape,
    AllTypesMatch<["lhs", "rhs"]>, InferTypeOpAdaptor]> {
  let summary = "compares two elements";
  let description = [{
    Floats compare ordered (false with a NaN), except `ne`, which is true with a
    NaN. Integers are signed; i1 orders false below true.

    Example:
    ```mlir
    %c = fusion.compare lt, %a, %b : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_CompareKindAttr:$kind, Fusion_Tensor:$lhs, Fusion_Tensor:$rhs);
  let results = (outs Fusion_BoolTensor:$result);
  let assemblyFormat = "`` $kind `,` $lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Fusion_SelectOp : Fusion_ElementwiseOp<"select", [SameOperandsAndResultShape,
    AllTypesMatch<["on_true", "on_false", "result"]>]> {
  let summary = "chooses between two elements";
  let description = [{
    `on_true` where `condition`, else `on_false`; the value not chosen has no
    influence, a NaN included.

    Example:
    ```mlir
    %y = fusion.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_BoolTensor:$condition, Fusion_Tensor:$on_true, Fusion_Tensor:$on_false);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($on_true)";
}

def Fusion_ClampOp : Fusion_ElementwiseOp<"clamp", [SameOperandsAndResultType]> {
  let summary = "limits an element to a range";
  let description = [{
    `minimum(maximum(x, low), high)`: with low above high the result is high; a
    NaN in any operand gives NaN.

    Example:
    ```mlir
    %y = fusion.clamp %x, %low, %high : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_NumberTensor:$input, Fusion_NumberTensor:$low, Fusion_NumberTensor:$high);
  let results = (outs Fusion_NumberTensor:$result);
  let assemblyFormat = "$input `,` $low `,` $high attr-dict `:` type($input)";
}

def Fusion_CastOp : Fusion_ElementwiseOp<"cast", [SameOperandsAndResultShape]> {
  let summary = "converts the element type";
  let description = [{
    Float to float rounds to nearest even. Integer to float rounds to nearest
    even. Float to integer truncates toward zero, saturates at the type's limits
    and maps NaN to 0. Integer to integer wraps or sign-extends. To i1: whether
    the value differs from zero (true for NaN). From i1: 0 or 1. A narrowing
    cast is never dropped.

    Example:
    ```mlir
    %y = fusion.cast %x : tensor<4xf32> to tensor<4xf16>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

def Fusion_RngUniformOp : Fusion_PureOp<"rng_uniform"> {
  let summary = "uniform random numbers in [0, 1) from a counter";
  let description = [{
    Philox4x32-10 (Salmon et al., SC'11) with key `seed` (low word first) and,
    for element i in row-major order, counter
    `(lo32(c), hi32(c), 0, 0)` with `c = offset + i / 4`, of which word `i % 4`
    is taken. f32: the word's upper 24 bits * 2^-24. f64: upper 32 bits * 2^-32.
    f16: upper 11 bits * 2^-11. bf16: upper 8 bits * 2^-8. Two ops with equal
    operands are equal: it is pure.

    C1: the result is static.

    Example:
    ```mlir
    %y = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<1024xf32>
    ```
  }];
  let arguments = (ins 0DTensorOf<[I64]>:$seed, 0DTensorOf<[I64]>:$offset);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$seed `,` $offset attr-dict `:` type($seed) `,` type($offset) `,` type($result)";
  let hasVerifier = 1;
}

#endif // FUSION_IR_SELECTOPS_TD
