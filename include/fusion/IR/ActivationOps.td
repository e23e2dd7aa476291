//===- ActivationOps.td - Activations ------------------------------------===//
//
// The activations that models name; each is elementwise.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_ACTIVATIONOPS_TD
#define FUSION_IR_ACTIVATIONOPS_TD

include "fusion/IR/ElementwiseBase.td"

def Fusion_ReluOp : Fusion_UnaryOp<"relu", Fusion_NumberTensor> {
  let summary = "the rectified linear unit";
  let description = [{
    Each element of the result is `maximum(x, 0); NaN stays NaN`.

    Example:
    ```mlir
    %y = fusion.relu %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SigmoidOp : Fusion_UnaryOp<"sigmoid", Fusion_FloatTensor, [], 16> {
  let summary = "the logistic function";
  let description = [{
    Each element of the result is `1 / (1 + exp(-x))`.

    Example:
    ```mlir
    %y = fusion.sigmoid %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SiluOp : Fusion_UnaryOp<"silu", Fusion_FloatTensor, [], 16> {
  let summary = "the sigmoid linear unit";
  let description = [{
    Each element of the result is `x * sigmoid(x)`.

    Example:
    ```mlir
    %y = fusion.silu %x : tensor<4xf32>
    ```
  }];
}

def Fusion_SoftplusOp : Fusion_UnaryOp<"softplus", Fusion_FloatTensor, [], 16> {
  let summary = "a smooth relu";
  let description = [{
    Each element of the result is `ln(1 + exp(x)), as maximum(x, 0) + log1p(exp(-|x|))`.

    Example:
    ```mlir
    %y = fusion.softplus %x : tensor<4xf32>
    ```
  }];
}

def Fusion_MishOp : Fusion_UnaryOp<"mish", Fusion_FloatTensor, [], 16> {
  let summary = "the mish activation";
  let description = [{
    Each element of the result is `x * tanh(softplus(x))`.

    Example:
    ```mlir
    %y = fusion.mish %x : tensor<4xf32>
    ```
  }];
}

def Fusion_HardSwishOp : Fusion_UnaryOp<"hard_swish", Fusion_FloatTensor> {
  let summary = "the piecewise linear swish";
  let description = [{
    Each element of the result is `x * clamp(x / 6 + 1/2, 0, 1)`.

    Example:
    ```mlir
    %y = fusion.hard_swish %x : tensor<4xf32>
    ```
  }];
}

def Fusion_HardSigmoidOp : Fusion_ElementwiseOp<"hard_sigmoid", [SameOperandsAndResultType]> {
  let summary = "the piecewise linear sigmoid";
  let description = [{
    Each element of the result is `clamp(alpha * x + beta, 0, 1)`.

    Example:
    ```mlir
    %y = fusion.hard_sigmoid %x alpha = 0.2 beta = 0.5 : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, F64Attr:$alpha, F64Attr:$beta);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$input `alpha` `=` $alpha `beta` `=` $beta attr-dict `:` type($input)";
}

def Fusion_LeakyReluOp : Fusion_ElementwiseOp<"leaky_relu", [SameOperandsAndResultType]> {
  let summary = "a relu with a slope below zero";
  let description = [{
    Each element of the result is `x where x >= 0, else alpha * x`.

    Example:
    ```mlir
    %y = fusion.leaky_relu %x alpha = 0.2 : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, F64Attr:$alpha);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$input `alpha` `=` $alpha attr-dict `:` type($input)";
}

def Fusion_EluOp : Fusion_ElementwiseOp<"elu", [SameOperandsAndResultType], 16> {
  let summary = "the exponential linear unit";
  let description = [{
    Each element of the result is `x where x > 0, else alpha * expm1(x)`.

    Example:
    ```mlir
    %y = fusion.elu %x alpha = 0.2 : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, F64Attr:$alpha);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$input `alpha` `=` $alpha attr-dict `:` type($input)";
}

def Fusion_GeluOp : Fusion_ElementwiseOp<"gelu", [SameOperandsAndResultType], 20> {
  let summary = "the Gaussian error linear unit";
  let description = [{
    `erf`: `x * (1 + erf(x / sqrt(2))) / 2`. `tanh`:
    `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`.

    Example:
    ```mlir
    %y = fusion.gelu erf, %x : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_GeluKindAttr:$kind, Fusion_FloatTensor:$input);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "`` $kind `,` $input attr-dict `:` type($input)";
}

#endif // FUSION_IR_ACTIVATIONOPS_TD
