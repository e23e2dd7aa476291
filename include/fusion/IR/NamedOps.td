//===- NamedOps.td - Ops that models and libraries name -------------------===//
//
// Contractions, pools, normalizations, softmax, attention and rope. Each one
// that a library call need not serve decomposes into elementwise + structural ops.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_NAMEDOPS_TD
#define FUSION_IR_NAMEDOPS_TD

include "fusion/IR/FusionBase.td"
include "fusion/IR/FusionInterfaces.td"

class Fusion_NamedOp<string mnemonic, list<Trait> traits = []>
    : Fusion_PureOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<Fusion_FusableOpInterface, ["getReductionDims"]>], traits)>;

class Fusion_DecomposedOp<string mnemonic, list<Trait> traits = []>
    : Fusion_NamedOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<Fusion_DecomposableOpInterface>], traits)>;

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

def Fusion_MatmulOp : Fusion_NamedOp<"matmul", [InferTypeOpAdaptor]> {
  let summary = "matrix product, batched over leading dimensions";
  let description = [{
    `result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`; `transpose_lhs`
    and `transpose_rhs` read the operand's last two dimensions swapped. A rank-2
    rhs is shared by all batches of lhs.

    Constraints: C1 ranks >= 2 and equal, or rhs has rank 2; C2 batch dimensions
    agree; C3 k agrees and is static; C4 element types agree and are numbers.

    Example:
    ```mlir
    %y = fusion.matmul %a, %b : tensor<8x2x4xf32>, tensor<4x3xf32>
    ```
  }];
  let arguments = (ins Fusion_NumberTensor:$lhs, Fusion_NumberTensor:$rhs,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs Fusion_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}

def Fusion_ConvOp : Fusion_NamedOp<"conv", [InferTypeOpAdaptor]> {
  let summary = "convolution over 1 to 3 spatial dimensions";
  let description = [{
    Cross-correlation with zero padding. Input `[N, C, spatial...]` or
    `[N, spatial..., C]` by `layout`; weights always `[O, C / groups, window...]`;
    bias `[O]`; the result has the input's layout. `pad_low` and `pad_high` are for
    each spatial dimension, of size
    `floor((in + low + high - dilation * (window - 1) - 1) / stride) + 1`.

    Constraints: C1 rank 3 to 5, the same for input and weights; C2 one entry a
    spatial dimension in each list, strides and dilations >= 1, pads >= 0; C3
    `groups` divides C and O, and the weights' second dimension is C / groups; C4 the
    bias is `[O]`; C5 spatial and channel dimensions are static and the window
    fits the padded input; C6 one float element type.

    Example:
    ```mlir
    %y = fusion.conv %x, %w bias %b strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw
         : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$weights, Optional<Fusion_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$dilations, I64Attr:$groups, Fusion_LayoutAttr:$layout);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weights (`bias` $bias^)? `strides` `=` $strides `pad_low` `=` $pad_low `pad_high` `=` $pad_high
    `dilations` `=` $dilations `groups` `=` $groups `layout` `=` `` $layout attr-dict
    `:` type($input) `,` type($weights) (`,` type($bias)^)?
  }];
}

def Fusion_ConvTransposeOp : Fusion_NamedOp<"conv_transpose", [InferTypeOpAdaptor]> {
  let summary = "transposed convolution over 1 to 3 spatial dimensions";
  let description = [{
    The gradient of `conv` with respect to its input. Weights
    `[C, O / groups, window...]`; group g maps input channels
    `[g * C / groups, ...)` to output channels `[g * O / groups, ...)`. A spatial
    result has `(in - 1) * stride + dilation * (window - 1) + 1 + output_padding - low - high`
    elements.

    Constraints: as `conv`, with C3 `groups` divides C and the weights' first
    dimension is C; C7 `0 <= output_padding < max(stride, dilation)`.

    Example:
    ```mlir
    %y = fusion.conv_transpose %x, %w strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] output_padding = [0, 0] dilations = [1, 1] groups = 2 layout = nchw
         : tensor<1x4x5x5xf32>, tensor<4x2x3x3xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$weights, Optional<Fusion_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high,
                       DenseI64ArrayAttr:$output_padding, DenseI64ArrayAttr:$dilations, I64Attr:$groups, Fusion_LayoutAttr:$layout);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weights (`bias` $bias^)? `strides` `=` $strides `pad_low` `=` $pad_low `pad_high` `=` $pad_high
    `output_padding` `=` $output_padding `dilations` `=` $dilations `groups` `=` $groups `layout` `=` `` $layout attr-dict
    `:` type($input) `,` type($weights) (`,` type($bias)^)?
  }];
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

def Fusion_MaxPoolOp : Fusion_NamedOp<"max_pool", [InferTypeOpAdaptor]> {
  let summary = "largest element of each window";
  let description = [{
    Padding takes no part; a NaN in the window gives NaN. Sizes as `conv`.

    Constraints: C1 rank 3 to 5; C2 one entry a spatial dimension in each list,
    strides, dilations and window >= 1, pads >= 0; C3 each window holds at least
    one element of the input; C4 spatial and channel dimensions are static; where the
    dilation exceeds the input, at most 65,536 windows begin in the padding.

    Example:
    ```mlir
    %y = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
    ```
  }];
  let arguments = (ins Fusion_NumberTensor:$input, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high, DenseI64ArrayAttr:$dilations, Fusion_LayoutAttr:$layout);
  let results = (outs Fusion_NumberTensor:$result);
  let assemblyFormat = [{
    $input `window` `=` $window `strides` `=` $strides `pad_low` `=` $pad_low `pad_high` `=` $pad_high
    `dilations` `=` $dilations `layout` `=` `` $layout attr-dict `:` type($input)
  }];
}

def Fusion_AvgPoolOp : Fusion_NamedOp<"avg_pool", [InferTypeOpAdaptor]> {
  let summary = "mean of each window";
  let description = [{
    The sum of the window's elements inside the input, divided by their number,
    or, with `count_include_pad`, by the number inside the padded input. Sizes as
    `conv`; the constraints are those of `max_pool`, and C5 the element type is a float.

    Example:
    ```mlir
    %y = fusion.avg_pool %x window = [8, 8] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pad_low, DenseI64ArrayAttr:$pad_high, DenseI64ArrayAttr:$dilations, Fusion_LayoutAttr:$layout,
                       UnitAttr:$count_include_pad);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input `window` `=` $window `strides` `=` $strides `pad_low` `=` $pad_low `pad_high` `=` $pad_high
    `dilations` `=` $dilations `layout` `=` `` $layout attr-dict `:` type($input)
  }];
}

//===----------------------------------------------------------------------===//
// Normalizations
//===----------------------------------------------------------------------===//

def Fusion_BatchNormOp : Fusion_DecomposedOp<"batch_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "normalization by given statistics (inference)";
  let description = [{
    `(x - mean) / sqrt(variance + epsilon) * scale + bias` along dimension `axis`,
    in f32 for f16 and bf16.

    Constraints: C1 `axis` below the rank; C2 scale, bias, mean and variance are
    `[size of axis]`, which is static; C3 they share one float element type, which may be wider
    than the input's; C4 epsilon >= 0.

    Example:
    ```mlir
    %y = fusion.batch_norm %x, %s, %b, %m, %v epsilon = 1.0e-5 axis = 1 : tensor<2x4x8x8xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$scale, Fusion_FloatTensor:$bias,
                       Fusion_FloatTensor:$mean, Fusion_FloatTensor:$variance, F64Attr:$epsilon, I64Attr:$axis);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `,` $mean `,` $variance `epsilon` `=` $epsilon `axis` `=` $axis attr-dict
    `:` type($input) `,` custom<SameTypes>(type($scale), type($bias), type($mean), type($variance))
  }];
  let hasVerifier = 1;
}

def Fusion_BatchNormTrainingOp : Fusion_DecomposedOp<"batch_norm_training", [InferTypeOpAdaptor]> {
  let summary = "normalization by the batch's own statistics (training)";
  let description = [{
    Results: the normalized tensor, and mean and biased variance over all
    dimensions but `axis`, computed in two passes. Never folded.

    Constraints: C1-C4 as `batch_norm`, scale and bias only.

    Example:
    ```mlir
    %y, %m, %v = fusion.batch_norm_training %x, %s, %b epsilon = 1.0e-5 axis = 1 : tensor<2x4x8x8xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$scale, Fusion_FloatTensor:$bias, F64Attr:$epsilon, I64Attr:$axis);
  let results = (outs Fusion_FloatTensor:$result, Fusion_FloatTensor:$batch_mean, Fusion_FloatTensor:$batch_variance);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `epsilon` `=` $epsilon `axis` `=` $axis attr-dict
    `:` type($input) `,` custom<SameTypes>(type($scale), type($bias))
  }];
}

class Fusion_RowNormOp<string mnemonic> : Fusion_DecomposedOp<mnemonic, [AttrSizedOperandSegments, AllTypesMatch<["input", "result"]>]> {
  let arguments = (ins Fusion_FloatTensor:$input, Optional<Fusion_FloatTensor>:$scale, Optional<Fusion_FloatTensor>:$bias,
                       F64Attr:$epsilon, I64Attr:$axis);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^)? (`bias` $bias^)? `epsilon` `=` $epsilon `axis` `=` $axis attr-dict
    `:` custom<RowNormTypes>(ref($scale), ref($bias), type($input), type($scale), type($bias))
  }];
  let hasVerifier = 1;
}

def Fusion_LayerNormOp : Fusion_RowNormOp<"layer_norm"> {
  let summary = "normalization of each row by its mean and variance";
  let description = [{
    Over the dimensions from `axis` on:
    `(x - mean) / sqrt(var + epsilon) * scale + bias`, var biased, in two passes,
    computed in f32 for f16 and bf16. A missing scale is 1, a missing bias 0.

    Constraints: C1 `axis` below the rank, the dimensions from it on static; C2 scale and bias have shape
    `input.shape[axis:]` and the input's element type; C3 epsilon >= 0.

    Example:
    ```mlir
    %y = fusion.layer_norm %x scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>
    ```
  }];
}

def Fusion_RmsNormOp : Fusion_RowNormOp<"rms_norm"> {
  let summary = "normalization of each row by its root mean square";
  let description = [{
    As `layer_norm` without the mean: `x / sqrt(mean(x^2) + epsilon) * scale + bias`.

    Example:
    ```mlir
    %y = fusion.rms_norm %x scale %s epsilon = 1.0e-5 axis = 1 : tensor<2x8xf32>, tensor<8xf32>
    ```
  }];
}

class Fusion_SoftmaxLikeOp<string mnemonic> : Fusion_DecomposedOp<mnemonic, [SameOperandsAndResultType]> {
  let arguments = (ins Fusion_FloatTensor:$input, I64Attr:$axis);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$input `axis` `=` $axis attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Fusion_SoftmaxOp : Fusion_SoftmaxLikeOp<"softmax"> {
  let summary = "exponentials of a row divided by their sum";
  let description = [{
    `exp(x - max(x)) / sum(exp(x - max(x)))` along `axis`, in f32 for f16 and
    bf16. A row of all -inf gives NaN. C1: `axis` is below the rank.

    Example:
    ```mlir
    %y = fusion.softmax %x axis = 1 : tensor<2x8xf32>
    ```
  }];
}

def Fusion_LogSoftmaxOp : Fusion_SoftmaxLikeOp<"log_softmax"> {
  let summary = "logarithm of softmax";
  let description = [{
    `(x - max(x)) - ln(sum(exp(x - max(x))))` along `axis`. C1: `axis` is below the rank.

    Example:
    ```mlir
    %y = fusion.log_softmax %x axis = 1 : tensor<2x8xf32>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Fusion_AttentionOp : Fusion_DecomposedOp<"attention", [InferTypeOpAdaptor]> {
  let summary = "scaled dot product attention";
  let description = [{
    `softmax(scale * q k^T + mask) v` over q `[B, H, S, D]`, k `[B, G, T, D]`,
    v `[B, G, T, E]`; head h reads group `h / (H / G)`. The scores are f32 for f16
    and bf16. `causal` masks t > s + (T - S) with -inf. `mask` is added and has
    shape `[B or 1, H or 1, S, T]`. A fully masked row gives NaN.

    Constraints: C1 rank 4; C2 B, D and T agree, G divides H, only B may be `?`;
    C3 one element type; C4 the mask's shape and element type.

    Example:
    ```mlir
    %y = fusion.attention %q, %k, %v scale = 0.25 : tensor<1x4x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$query, Fusion_FloatTensor:$key, Fusion_FloatTensor:$value,
                       Optional<Fusion_FloatTensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? `scale` `=` $scale (`causal` $causal^)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) (`,` type($mask)^)?
  }];
}

def Fusion_RopeOp : Fusion_DecomposedOp<"rope", [AllTypesMatch<["input", "result"]>, AllTypesMatch<["cosine", "sine"]>]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates pairs of the last dimension D of `[..., S, D]` by the angles whose
    cosine and sine are `[S, D / 2]`: pair i is (i, i + D / 2), or
    (2i, 2i + 1) with `interleaved`: `(a c - b s, b c + a s)`.

    Constraints: C1 rank >= 2, S and D static, D even; C2 cosine and sine are `[S, D / 2]` of the
    input's element type.

    Example:
    ```mlir
    %y = fusion.rope %x, %c, %s : tensor<1x4x8x16xf32>, tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$cosine, Fusion_FloatTensor:$sine, UnitAttr:$interleaved);
  let results = (outs Fusion_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cosine `,` $sine attr-dict `:` type($input) `,` type($cosine)";
  let hasVerifier = 1;
}

#endif // FUSION_IR_NAMEDOPS_TD
