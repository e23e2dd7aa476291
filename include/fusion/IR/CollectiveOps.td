//===- CollectiveOps.td - Ops between the ranks of a mesh -----------------===//
//
// A mesh names the axes of the ranks; a collective works within the groups that
// its axes form. All but axis_index read and write the communication resource,
// so that no generic pass hoists, sinks, merges or drops one.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_COLLECTIVEOPS_TD
#define FUSION_IR_COLLECTIVEOPS_TD

include "fusion/IR/FusionBase.td"
include "fusion/IR/FusionInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

def Fusion_CommunicationResource : Resource<"::fusion::CommunicationResource">;

def Fusion_MeshOp : Fusion_Op<"mesh", [Symbol]> {
  let summary = "names the axes of the ranks";
  let description = [{
    The ranks are numbered row-major: the last axis varies fastest.
    Constraints: C1 at least one axis, names distinct; C2 sizes >= 1, their
    product at most 1,048,576.

    Example:
    ```mlir
    fusion.mesh @m(dp = 4, tp = 2)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axis_names, DenseI64ArrayAttr:$axis_sizes);
  let assemblyFormat = "$sym_name `(` custom<MeshAxes>($axis_names, $axis_sizes) `)` attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Size of the axis, or nullopt if the mesh has none of that name.
    std::optional<int64_t> getAxisSize(::llvm::StringRef axis);
  }];
}

def Fusion_AxisIndexOp : Fusion_PureOp<"axis_index", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "this rank's position along a mesh axis";
  let description = [{
    Pure, but it differs from rank to rank. C1: the mesh has the axis.

    Example:
    ```mlir
    %i = fusion.axis_index @m[dp] : tensor<i64>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "custom<MeshGroup>($mesh, $axes) attr-dict `:` type($result)";
}

def Fusion_RankConcatOp : Fusion_PureOp<"rank_concat", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "rows of all ranks in their order, given from this rank on";
  let description = [{
    The operands one after the other along the first dimension are one part for
    each rank of the group: this rank's, that of the rank behind it, and so on,
    around. In the result they stand in rank order: on rank r of n, with parts of
    p rows and c the operands one after the other,
    `result[(i + r * p) mod (n * p)] = c[i]`. Pure, but it differs from rank to rank.

    Constraints: C1 the mesh has the axes; C2 at least one operand, static shapes
    of one element type that differ in the first dimension only; C3 the result has
    all of their rows; C4 they make one part of equal size for each rank, and no
    operand has rows of two parts.

    Example:
    ```mlir
    %y = fusion.rank_concat %own, %next on @m[tp] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$inputs `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` functional-type($inputs, $result)";
  let extraClassDeclaration = [{
    /// Of each operand, the first of its rows in the operands one after the other.
    ::llvm::SmallVector<int64_t> getFirstRows();
  }];
  let hasFolder = 1;
}

def Fusion_RankSliceOp : Fusion_PureOp<"rank_slice", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "this rank's part of a tensor's rows";
  let description = [{
    From row `start` on, the first dimension has a part of p rows for each rank of
    the group, in their order; the result is this rank's, or with a `shift` that of
    the rank so many behind it, around: on rank r of n,
    `result[i] = input[start + ((r + shift) mod n) * p + i]`. Rows before and behind all parts are no
    rank's. Pure, but it differs from rank to rank; no bytes are moved.

    Constraints: C1 the mesh has the axes; C2 static shapes of one element type that
    differ in the first dimension only; C3 the parts of all ranks are rows of the
    operand; C4 a part, and what is in front of the first one, are multiples of 16
    bytes, which kernels expect of addresses; C5 the shift is below n.

    Example:
    ```mlir
    %y = fusion.rank_slice %x start = 0 on @m[tp] : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, I64Attr:$start, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes,
                       DefaultValuedOptionalAttr<I64Attr, "0">:$shift);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `start` `=` $start (`shift` `=` $shift^)? `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` functional-type($input, $result)";
  let extraClassDeclaration = [{
    /// What part addresses are multiples of, in bytes.
    static constexpr int64_t kAlignment = 16;
    /// Bytes of the input in front of the first part, and of a part.
    int64_t getStartBytes();
    int64_t getPartBytes();
  }];
  let hasFolder = 1;
}

/// A collective: variadic operands (a bucket is one op), results one to one.
class Fusion_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Fusion_Op<mnemonic, !listconcat([
        MemoryEffects<[MemRead<Fusion_CommunicationResource>, MemWrite<Fusion_CommunicationResource>]>,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>, Fusion_CommunicationOpInterface], traits)> {
  let results = (outs Variadic<Fusion_Tensor>:$outputs);
}

def Fusion_AllReduceOp : Fusion_CollectiveOp<"all_reduce"> {
  let summary = "reduces tensors over a group; every rank gets the result";
  let description = [{
    Element i of a result combines element i of the operand over the group's
    ranks, in rank order, accumulated in f32 for f16 and bf16. `mean` divides by the group's size.

    Constraints: C1 the mesh has the axes; C2 result types are the operands'; C3 at least one operand.

    Example:
    ```mlir
    %r = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
    ```
  }];
  let arguments = (ins Fusion_ReduceKindAttr:$kind, Variadic<Fusion_NumberTensor>:$inputs, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "`` $kind `,` $inputs `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` custom<MatchingTypes>(type($inputs), type($outputs))";
}

def Fusion_AllGatherOp : Fusion_CollectiveOp<"all_gather"> {
  let summary = "concatenates every rank's tensor along a dimension";
  let description = [{
    In rank order along `dim`, whose size is multiplied by the group's size.

    Constraints: C1 the mesh has the axes; C2 `dim` below the rank; C3 result
    types are the operands' with `dim` times the group's size; C4 at least one operand.

    Example:
    ```mlir
    %r = fusion.all_gather %a dim = 0 on @m[tp] : (tensor<4x2xf32>) -> tensor<8x2xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, I64Attr:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "$inputs `dim` `=` $dim `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` functional-type($inputs, $outputs)";
}

def Fusion_ReduceScatterOp : Fusion_CollectiveOp<"reduce_scatter"> {
  let summary = "reduces tensors over a group; each rank gets its part";
  let description = [{
    As `all_reduce`, then rank r keeps the r-th of equal parts along `dim`.

    Constraints: C1 the mesh has the axes; C2 `dim` below the rank, its size a
    multiple of the group's; C3 result types are the operands' with `dim` divided; C4 at least one operand.

    Example:
    ```mlir
    %r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<8xf32>) -> tensor<2xf32>
    ```
  }];
  let arguments = (ins Fusion_ReduceKindAttr:$kind, Variadic<Fusion_NumberTensor>:$inputs, I64Attr:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "`` $kind `,` $inputs `dim` `=` $dim `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` functional-type($inputs, $outputs)";
}

def Fusion_AllToAllOp : Fusion_CollectiveOp<"all_to_all"> {
  let summary = "each rank sends a part to each rank";
  let description = [{
    The operand is cut in equal parts along `split_dim`; part j goes to rank j;
    the parts received are concatenated in rank order along `concat_dim`.

    Constraints: C1 the mesh has the axes; C2 both dims below the rank, the split
    one's size a multiple of the group's; C3 the result types follow; C4 at least one operand.

    Example:
    ```mlir
    %r = fusion.all_to_all %a split_dim = 0 concat_dim = 1 on @m[tp] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, I64Attr:$split_dim, I64Attr:$concat_dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "$inputs `split_dim` `=` $split_dim `concat_dim` `=` $concat_dim `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` functional-type($inputs, $outputs)";
}

def Fusion_CollectiveBroadcastOp : Fusion_CollectiveOp<"collective_broadcast"> {
  let summary = "every rank gets one rank's tensor";
  let description = [{
    Constraints: C1 the mesh has the axes; C2 `0 <= root < group size`; C3
    result types are the operands'; C4 at least one operand.

    Example:
    ```mlir
    %r = fusion.collective_broadcast %a root = 0 on @m[dp] : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, I64Attr:$root, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "$inputs `root` `=` $root `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` custom<MatchingTypes>(type($inputs), type($outputs))";
}

def Fusion_CollectivePermuteOp : Fusion_CollectiveOp<"collective_permute"> {
  let summary = "ranks send tensors along given pairs";
  let description = [{
    `sources[i]` sends to `targets[i]`; a rank that receives nothing gets zeros.

    Constraints: C1 the mesh has the axes; C2 both lists have one length, entries
    in the group, no source twice, no target twice; C3 result types are the
    operands'; C4 at least one operand.

    Example:
    ```mlir
    %r = fusion.collective_permute %a sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, DenseI64ArrayAttr:$sources, DenseI64ArrayAttr:$targets, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let assemblyFormat = "$inputs `sources` `=` $sources `targets` `=` $targets `on` custom<MeshGroup>($mesh, $axes) attr-dict `:` custom<MatchingTypes>(type($inputs), type($outputs))";
}

#endif // FUSION_IR_COLLECTIVEOPS_TD
