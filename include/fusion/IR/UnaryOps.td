//===- UnaryOps.td - Elementwise ops of one operand ----------------------===//
//
// Arithmetic, transcendental and logic ops on one element.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_UNARYOPS_TD
#define FUSION_IR_UNARYOPS_TD

include "fusion/IR/ElementwiseBase.td"

def Fusion_NegOp : Fusion_UnaryOp<"neg", Fusion_NumberTensor> {
  let summary = "the negation of each element";
  let description = [{
    Each element of the result is `-x`.

    Example:
    ```mlir
    %y = fusion.neg %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AbsOp : Fusion_UnaryOp<"abs", Fusion_NumberTensor> {
  let summary = "the absolute value of each element";
  let description = [{
    Each element of the result is `|x|`.

    Example:
    ```mlir
    %y = fusion.abs %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SignOp : Fusion_UnaryOp<"sign", Fusion_NumberTensor> {
  let summary = "the sign of each element";
  let description = [{
    Each element of the result is `-1, 0 or 1; NaN stays NaN and a zero keeps its sign`.

    Example:
    ```mlir
    %y = fusion.sign %x : tensor<4xf32>
    ```
  }];
}

def Fusion_CeilOp : Fusion_UnaryOp<"ceil", Fusion_FloatTensor> {
  let summary = "rounds up of each element";
  let description = [{
    Each element of the result is `the least integer not below x`.

    Example:
    ```mlir
    %y = fusion.ceil %x : tensor<4xf32>
    ```
  }];
}

def Fusion_FloorOp : Fusion_UnaryOp<"floor", Fusion_FloatTensor> {
  let summary = "rounds down of each element";
  let description = [{
    Each element of the result is `the greatest integer not above x`.

    Example:
    ```mlir
    %y = fusion.floor %x : tensor<4xf32>
    ```
  }];
}

def Fusion_RoundOp : Fusion_UnaryOp<"round", Fusion_FloatTensor> {
  let summary = "rounds to the nearest integer of each element";
  let description = [{
    Each element of the result is `the nearest integer, ties to even`.

    Example:
    ```mlir
    %y = fusion.round %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SqrtOp : Fusion_UnaryOp<"sqrt", Fusion_FloatTensor, [], 4> {
  let summary = "the square root of each element";
  let description = [{
    Each element of the result is `sqrt(x), correctly rounded`.

    Example:
    ```mlir
    %y = fusion.sqrt %x : tensor<4xf32>
    ```
  }];
}

def Fusion_RsqrtOp : Fusion_UnaryOp<"rsqrt", Fusion_FloatTensor, [], 4> {
  let summary = "the reciprocal square root of each element";
  let description = [{
    Each element of the result is `1 / sqrt(x)`.

    Example:
    ```mlir
    %y = fusion.rsqrt %x : tensor<4xf32>
    ```
  }];
}

def Fusion_ReciprocalOp : Fusion_UnaryOp<"reciprocal", Fusion_FloatTensor, [], 4> {
  let summary = "the reciprocal of each element";
  let description = [{
    Each element of the result is `1 / x`.

    Example:
    ```mlir
    %y = fusion.reciprocal %x : tensor<4xf32>
    ```
  }];
}

def Fusion_ExpOp : Fusion_UnaryOp<"exp", Fusion_FloatTensor, [], 16> {
  let summary = "the exponential of each element";
  let description = [{
    Each element of the result is `e^x`.

    Example:
    ```mlir
    %y = fusion.exp %x : tensor<4xf32>
    ```
  }];
}

def Fusion_Exp2Op : Fusion_UnaryOp<"exp2", Fusion_FloatTensor, [], 16> {
  let summary = "the exponential to base two of each element";
  let description = [{
    Each element of the result is `2^x`.

    Example:
    ```mlir
    %y = fusion.exp2 %x : tensor<4xf32>
    ```
  }];
}

def Fusion_Expm1Op : Fusion_UnaryOp<"expm1", Fusion_FloatTensor, [], 16> {
  let summary = "the exponential minus one of each element";
  let description = [{
    Each element of the result is `e^x - 1, accurate near zero`.

    Example:
    ```mlir
    %y = fusion.expm1 %x : tensor<4xf32>
    ```
  }];
}

def Fusion_LogOp : Fusion_UnaryOp<"log", Fusion_FloatTensor, [], 16> {
  let summary = "the natural logarithm of each element";
  let description = [{
    Each element of the result is `ln(x)`.

    Example:
    ```mlir
    %y = fusion.log %x : tensor<4xf32>
    ```
  }];
}

def Fusion_Log2Op : Fusion_UnaryOp<"log2", Fusion_FloatTensor, [], 16> {
  let summary = "the logarithm to base two of each element";
  let description = [{
    Each element of the result is `log2(x)`.

    Example:
    ```mlir
    %y = fusion.log2 %x : tensor<4xf32>
    ```
  }];
}

def Fusion_Log1pOp : Fusion_UnaryOp<"log1p", Fusion_FloatTensor, [], 16> {
  let summary = "the logarithm of one plus x of each element";
  let description = [{
    Each element of the result is `ln(1 + x), accurate near zero`.

    Example:
    ```mlir
    %y = fusion.log1p %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SinOp : Fusion_UnaryOp<"sin", Fusion_FloatTensor, [], 16> {
  let summary = "the sine of each element";
  let description = [{
    Each element of the result is `sin(x)`.

    Example:
    ```mlir
    %y = fusion.sin %x : tensor<4xf32>
    ```
  }];
}

def Fusion_CosOp : Fusion_UnaryOp<"cos", Fusion_FloatTensor, [], 16> {
  let summary = "the cosine of each element";
  let description = [{
    Each element of the result is `cos(x)`.

    Example:
    ```mlir
    %y = fusion.cos %x : tensor<4xf32>
    ```
  }];
}

def Fusion_TanOp : Fusion_UnaryOp<"tan", Fusion_FloatTensor, [], 16> {
  let summary = "the tangent of each element";
  let description = [{
    Each element of the result is `tan(x)`.

    Example:
    ```mlir
    %y = fusion.tan %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AsinOp : Fusion_UnaryOp<"asin", Fusion_FloatTensor, [], 16> {
  let summary = "the arc sine of each element";
  let description = [{
    Each element of the result is `arcsin(x)`.

    Example:
    ```mlir
    %y = fusion.asin %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AcosOp : Fusion_UnaryOp<"acos", Fusion_FloatTensor, [], 16> {
  let summary = "the arc cosine of each element";
  let description = [{
    Each element of the result is `arccos(x)`.

    Example:
    ```mlir
    %y = fusion.acos %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AtanOp : Fusion_UnaryOp<"atan", Fusion_FloatTensor, [], 16> {
  let summary = "the arc tangent of each element";
  let description = [{
    Each element of the result is `arctan(x)`.

    Example:
    ```mlir
    %y = fusion.atan %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SinhOp : Fusion_UnaryOp<"sinh", Fusion_FloatTensor, [], 16> {
  let summary = "the hyperbolic sine of each element";
  let description = [{
    Each element of the result is `sinh(x)`.

    Example:
    ```mlir
    %y = fusion.sinh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_CoshOp : Fusion_UnaryOp<"cosh", Fusion_FloatTensor, [], 16> {
  let summary = "the hyperbolic cosine of each element";
  let description = [{
    Each element of the result is `cosh(x)`.

    Example:
    ```mlir
    %y = fusion.cosh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AsinhOp : Fusion_UnaryOp<"asinh", Fusion_FloatTensor, [], 16> {
  let summary = "the inverse hyperbolic sine of each element";
  let description = [{
    Each element of the result is `arsinh(x)`.

    Example:
    ```mlir
    %y = fusion.asinh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AcoshOp : Fusion_UnaryOp<"acosh", Fusion_FloatTensor, [], 16> {
  let summary = "the inverse hyperbolic cosine of each element";
  let description = [{
    Each element of the result is `arcosh(x)`.

    Example:
    ```mlir
    %y = fusion.acosh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_AtanhOp : Fusion_UnaryOp<"atanh", Fusion_FloatTensor, [], 16> {
  let summary = "the inverse hyperbolic tangent of each element";
  let description = [{
    Each element of the result is `artanh(x)`.

    Example:
    ```mlir
    %y = fusion.atanh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_TanhOp : Fusion_UnaryOp<"tanh", Fusion_FloatTensor, [], 16> {
  let summary = "the hyperbolic tangent of each element";
  let description = [{
    Each element of the result is `tanh(x)`.

    Example:
    ```mlir
    %y = fusion.tanh %x : tensor<4xf32>
    ```
  }];
}

def Fusion_ErfOp : Fusion_UnaryOp<"erf", Fusion_FloatTensor, [], 16> {
  let summary = "the error function of each element";
  let description = [{
    Each element of the result is `erf(x)`.

    Example:
    ```mlir
    %y = fusion.erf %x : tensor<4xf32>
    ```
  }];
}

def Fusion_NotOp : Fusion_UnaryOp<"not", Fusion_LogicTensor> {
  let summary = "the bitwise complement of each element";
  let description = [{
    Each element of the result is `each bit inverted`.

    Example:
    ```mlir
    %y = fusion.not %x : tensor<4xi1>
    ```
  }];
}

def Fusion_IsNanOp : Fusion_PredicateOp<"is_nan"> {
  let summary = "whether a NaN, for each element";
  let description = [{
    Each element of the result is `x is NaN`.

    Example:
    ```mlir
    %y = fusion.is_nan %x : tensor<4xf32>
    ```
  }];
}

def Fusion_IsInfOp : Fusion_PredicateOp<"is_inf"> {
  let summary = "whether an infinity, for each element";
  let description = [{
    Each element of the result is `x is +inf or -inf`.

    Example:
    ```mlir
    %y = fusion.is_inf %x : tensor<4xf32>
    ```
  }];
}

#endif // FUSION_IR_UNARYOPS_TD
