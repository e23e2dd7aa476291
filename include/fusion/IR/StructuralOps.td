//===- StructuralOps.td - Ops that move or reduce elements ----------------===//
//
// Broadcast, reshape, transpose, slice, concat, pad, gather, scatter and the
// reductions: the primitives every named op decomposes into.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_STRUCTURALOPS_TD
#define FUSION_IR_STRUCTURALOPS_TD

include "fusion/IR/FusionBase.td"
include "fusion/IR/FusionInterfaces.td"

class Fusion_StructuralOp<string mnemonic, list<Trait> traits = []>
    : Fusion_PureOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<Fusion_FusableOpInterface, ["getReductionDims"]>], traits)>;

class Fusion_InferredOp<string mnemonic, list<Trait> traits = []>
    : Fusion_StructuralOp<mnemonic, !listconcat([InferTypeOpAdaptor], traits)>;

def Fusion_ConstantOp : Fusion_PureOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time";
  let description = [{
    `value` is a dense, splat or resource attribute. A result with a batch
    dimension is not allowed (C1): broadcast a constant instead.

    Example:
    ```mlir
    %c = fusion.constant dense<1.0> : tensor<4xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Fusion_BroadcastOp : Fusion_StructuralOp<"broadcast"> {
  let summary = "repeats a tensor along new or unit dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`; it has the same size
    or is 1 and repeated. Result dimensions not named repeat the operand.

    Constraints: C1 `dims` has one entry for each operand dimension, strictly
    increasing, each below the result's rank; C2 sizes agree or the operand's is 1;
    C3 element types agree; C4 `batch_scale` >= 1. A `?` of the result that no
    operand dimension gives is `batch_scale * B`; a unit dimension gives none.

    Example:
    ```mlir
    %y = fusion.broadcast %x dims = [1] : tensor<8xf32> to tensor<2x8x4xf32>
    ```

    Canonical form: a broadcast of a broadcast is one; one that only adds unit
    dimensions is a reshape.
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$dims,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$batch_scale);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Fusion_ReshapeOp : Fusion_StructuralOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Constraints: C1 element types agree; C2 the number of elements agrees; C3 at
    most one `?` on each side; with a `?`, the product of the other dimensions of
    the result divides that of the operand times the operand's batch scale.

    Example:
    ```mlir
    %y = fusion.reshape %x : tensor<2x3xf32> to tensor<6xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Fusion_TransposeOp : Fusion_InferredOp<"transpose"> {
  let summary = "permutes the dimensions";
  let description = [{
    Result dimension i is operand dimension `permutation[i]`. C1: `permutation`
    is a permutation of the operand's dimensions.

    Example:
    ```mlir
    %y = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
    ```

    Canonical form: a transpose of a transpose is one; one that moves only unit
    dimensions is a reshape.
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `permutation` `=` $permutation attr-dict `:` type($input)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_SliceOp : Fusion_InferredOp<"slice"> {
  let summary = "a strided box of a tensor";
  let description = [{
    Takes indices `starts[d], starts[d] + strides[d], ...` below `limits[d]`.

    Constraints: C1 one entry a dimension in each list; C2
    `0 <= starts <= limits <= size`; C3 `strides >= 1`; C4 a `?` dimension is
    taken whole: start 0, limit -1, stride 1.

    Example:
    ```mlir
    %y = fusion.slice %x starts = [0, 1] limits = [2, 3] strides = [1, 1] : tensor<2x4xf32>
    ```

    Canonical form: a slice of a slice is one.
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `starts` `=` $starts `limits` `=` $limits `strides` `=` $strides attr-dict `:` type($input)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_ReverseOp : Fusion_StructuralOp<"reverse", [SameOperandsAndResultType]> {
  let summary = "reverses the order along some dimensions";
  let description = [{
    C1: `dims` are distinct and below the rank.

    Example:
    ```mlir
    %y = fusion.reverse %x dims = [0] : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Fusion_ConcatOp : Fusion_InferredOp<"concat"> {
  let summary = "tensors one after the other along a dimension";
  let description = [{
    Constraints: C1 at least one operand; C2 `axis` below the rank; C3 ranks,
    element types and all other dimensions agree.

    Example:
    ```mlir
    %y = fusion.concat %a, %b axis = 0 : tensor<2x4xf32>, tensor<3x4xf32>
    ```

    Canonical form: a concat that only another one along the same axis uses is
    part of it; operands without elements along the axis are gone.
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$inputs `axis` `=` $axis attr-dict `:` type($inputs)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_PadOp : Fusion_InferredOp<"pad"> {
  let summary = "adds a border of one value";
  let description = [{
    Constraints: C1 one entry a dimension in `low` and `high`, none negative; C2
    `value` is a scalar of the same element type; C3 a `?` dimension is not padded.

    Example:
    ```mlir
    %y = fusion.pad %x, %v low = [0, 1] high = [0, 1] : tensor<2x3xf32>, tensor<f32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_Tensor:$value,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `,` $value `low` `=` $low `high` `=` $high attr-dict `:` type($input) `,` type($value)";
  let hasFolder = 1;
}

def Fusion_GatherOp : Fusion_InferredOp<"gather"> {
  let summary = "slices of a tensor chosen by indices along one dimension";
  let description = [{
    With leading batch dimensions b shared by both operands:
    `result[b, p, i..., s] = input[b, p, indices[b, i...], s]`, p the dimensions
    between the batch and `axis`, s those behind. An index is clamped to
    `[0, size - 1]`.

    Constraints: C1 `0 <= batch_dims <= axis < rank`; C2 the batch dimensions
    agree; C3 the dimension `axis` is static and not empty, unless the result is empty.

    Example:
    ```mlir
    %y = fusion.gather %x, %i axis = 0 : tensor<4x8xf32>, tensor<3xi64>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_IndexTensor:$indices, I64Attr:$axis,
                       DefaultValuedOptionalAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `axis` `=` $axis attr-dict `:` type($input) `,` type($indices)";
}

def Fusion_GatherNdOp : Fusion_InferredOp<"gather_nd"> {
  let summary = "slices of a tensor chosen by index vectors";
  let description = [{
    The last dimension of `indices`, of size k, indexes the k dimensions behind
    the `batch_dims` leading ones that both operands share:
    `result[b, i..., s] = input[b, indices[b, i..., 0..k), s]`. Indices are clamped.

    Constraints: C1 `indices` has rank >= 1 and a static last dimension k; C2
    `batch_dims + k <= rank(input)`, `batch_dims < rank(indices)`; C3 batch dimensions
    agree; C4 the indexed dimensions are static and not empty, unless the result is empty.

    Example:
    ```mlir
    %y = fusion.gather_nd %x, %i : tensor<4x8xf32>, tensor<3x2xi64>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_IndexTensor:$indices,
                       DefaultValuedOptionalAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `,` $indices attr-dict `:` type($input) `,` type($indices)";
}

def Fusion_ScatterOp : Fusion_StructuralOp<"scatter", [AllTypesMatch<["input", "result"]>]> {
  let summary = "a tensor with slices replaced or combined at index vectors";
  let description = [{
    The last dimension of `indices`, of size k, indexes the k leading dimensions
    of `input`; `updates[i..., s]` goes to `input[indices[i..., 0..k), s]`.
    `set` replaces (with repeated indices the last update in row-major order
    wins), `add`, `min` and `max` combine, in row-major order of the updates.
    An index outside the input drops its update.

    Constraints: C1 `k <= rank(input)`, k static; C2 `updates` has shape
    `indices.shape[:-1] ++ input.shape[k:]`; C3 element types agree; C4 `add`,
    `min` and `max` need numbers.

    Example:
    ```mlir
    %y = fusion.scatter add, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
    ```
  }];
  let arguments = (ins Fusion_ScatterKindAttr:$kind, Fusion_Tensor:$input,
                       Fusion_IndexTensor:$indices, Fusion_Tensor:$updates);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "`` $kind `,` $input `,` $indices `,` $updates attr-dict `:` type($input) `,` type($indices) `,` type($updates)";
  let hasVerifier = 1;
}

def Fusion_UpdateSliceOp : Fusion_StructuralOp<"update_slice", [AllTypesMatch<["input", "result"]>]> {
  let summary = "a tensor with a box replaced at a position known at run time";
  let description = [{
    The box `update` replaces the elements from `starts` on; each start is
    clamped so that the box lies inside.

    Constraints: C1 one scalar start a dimension; C2 ranks and element types
    agree; C3 the update is not larger than the input.

    Example:
    ```mlir
    %y = fusion.update_slice %x, %u at (%i, %j) : tensor<4x8xf32>, tensor<1x8xf32>, tensor<i64>, tensor<i64>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_Tensor:$update, Variadic<0DTensorOf<[I64]>>:$starts);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `,` $update `at` `(` $starts `)` attr-dict `:` type($input) `,` type($update) (`,` type($starts)^)?";
  let hasVerifier = 1;
}

def Fusion_IotaOp : Fusion_StructuralOp<"iota"> {
  let summary = "each element is its index along a dimension";
  let description = [{
    C1: `axis` is below the rank; C2: `batch_scale` >= 1. A `?` dimension is `batch_scale * B`.

    Example:
    ```mlir
    %y = fusion.iota axis = 1 : tensor<2x4xi64>
    ```
  }];
  let arguments = (ins I64Attr:$axis, DefaultValuedOptionalAttr<I64Attr, "1">:$batch_scale);
  let results = (outs Fusion_NumberTensor:$result);
  let assemblyFormat = "`axis` `=` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Fusion_ReduceOp : Fusion_InferredOp<"reduce"> {
  let summary = "combines the elements along some dimensions";
  let description = [{
    `sum` and `mean` of f16 and bf16 accumulate in f32. `mean` divides the sum by
    the number of elements. `max` and `min` propagate NaN. An empty `sum` is 0, an
    empty `prod` 1, an empty `mean` NaN. The order of combination is fixed by the
    shape and `dims`, never by grouping.

    Constraints: C1 `dims` are strictly increasing and below the rank; C2 `max`
    and `min` along a static empty dimension are refused unless the result is empty;
    C3 `mean` needs floats; C4 i1 allows only `max` (or) and `min` (and).

    Example:
    ```mlir
    %y = fusion.reduce sum, %x dims = [1] : tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Fusion_ReduceKindAttr:$kind, Fusion_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "`` $kind `,` $input `dims` `=` $dims attr-dict `:` type($input)";
  let hasFolder = 1;
}

class Fusion_ArgReduceOp<string mnemonic, string what> : Fusion_InferredOp<mnemonic> {
  let summary = "position of the " # what # " element along a dimension";
  let description = "The first position among equals, or the last with `select_last`; the first NaN wins"
    # " over every number. Constraints: C1 `axis` is below the rank; C2 the dimension is not empty.\n\n"
    # "Example:\n```mlir\n%y = fusion." # mnemonic # " %x axis = 1 : tensor<2x4xf32>\n```\n";
  let arguments = (ins Fusion_NumberTensor:$input, I64Attr:$axis, UnitAttr:$select_last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$input `axis` `=` $axis attr-dict `:` type($input)";
}

def Fusion_ArgMaxOp : Fusion_ArgReduceOp<"arg_max", "largest">;
def Fusion_ArgMinOp : Fusion_ArgReduceOp<"arg_min", "smallest">;

#endif // FUSION_IR_STRUCTURALOPS_TD
