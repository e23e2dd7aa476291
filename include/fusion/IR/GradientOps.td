//===- GradientOps.td - What only training graphs need --------------------===//
//
// Gradients that no composition of other ops gives at a fair price, and the op
// that keeps a value's second computation apart from its first. All other
// gradients are written with the ops of the forward pass.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_GRADIENTOPS_TD
#define FUSION_IR_GRADIENTOPS_TD

include "fusion/IR/NamedOps.td"

def Fusion_AttentionGradOp : Fusion_PureOp<"attention_grad",
    [InferTypeOpAdaptor, DeclareOpInterfaceMethods<Fusion_DecomposableOpInterface>]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{
    With `P = softmax(scale * q k^T + mask)` and `y = P v` as in `attention`, and
    the gradient `dy` of y:

    ```
    dv = P^T dy        dP = dy v^T        dS = P * (dP - sum over t of P * dP) * scale
    dq = dS k          dk = dS^T q
    ```

    dk and dv sum over the heads that share a group. The scores are computed
    anew, in f32 for f16 and bf16; nothing of the forward pass is kept. The mask
    gets no gradient.

    Constraints: C1-C4 as `attention`; C5 `grad` has the shape and element type
    of attention's result.

    Example:
    ```mlir
    %dq, %dk, %dv = fusion.attention_grad %q, %k, %v, %dy scale = 0.25 causal : tensor<1x4x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x4x8x16xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$query, Fusion_FloatTensor:$key, Fusion_FloatTensor:$value,
                       Fusion_FloatTensor:$grad, Optional<Fusion_FloatTensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Fusion_FloatTensor:$query_grad, Fusion_FloatTensor:$key_grad, Fusion_FloatTensor:$value_grad);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $grad (`mask` $mask^)? `scale` `=` $scale (`causal` $causal^)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `,` type($grad) (`,` type($mask)^)?
  }];
}

def Fusion_MaxPoolGradOp : Fusion_NamedOp<"max_pool_grad", [AllTypesMatch<["input", "result"]>]> {
  let summary = "gradient of max_pool with respect to its input";
  let description = [{
    Each window hands its gradient to one element of the input: the first of its
    largest ones in row-major order of the window, or its first NaN if it holds
    one. Padding gets nothing. An element sums what its windows hand it, in
    row-major order of its offset in them, in f32 for f16 and bf16.

    Constraints: C1-C4 as `max_pool`; C5 `grad` has the type of max_pool's result;
    C6 the element type is a float.

    Example:
    ```mlir
    %dx = fusion.max_pool_grad %x, %dy window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw
         : tensor<1x4x8x8xf32>, tensor<1x4x4x4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$grad, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, Fusion_LayoutAttr:$layout);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $grad `window` `=` $window `strides` `=` $strides `pad_low` `=` $pad_low `pad_high` `=` $pad_high
    `dilations` `=` $dilations `layout` `=` `` $layout attr-dict `:` type($input) `,` type($grad)
  }];
  let hasVerifier = 1;
}

def Fusion_AfterOp : Fusion_PureOp<"after", [AllTypesMatch<["input", "result"]>]> {
  let summary = "a value that is used only once another one is known";
  let description = [{
    The result is `input`; what reads it depends on `other` too. A training graph
    that computes a forward value again in its backward pass reads the first
    value's operands through this op, behind a gradient: without it the two
    computations were one, and the value would be kept in between. The fuse phase
    drops the op when groups are final; it costs nothing at run time.

    Example:
    ```mlir
    %y = fusion.after %x, %dy : tensor<4x8xf32>, tensor<2xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_Tensor:$other);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `,` $other attr-dict `:` type($input) `,` type($other)";
}

#endif // FUSION_IR_GRADIENTOPS_TD
