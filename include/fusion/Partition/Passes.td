//===- Passes.td - Passes of the partition phase --------------------------===//
#ifndef FUSION_PARTITION_PASSES_TD
#define FUSION_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def Partition : Pass<"fusion-partition", "::mlir::ModuleOp"> {
  let summary = "turns a single-device program with shardings into one rank's program";
  let description = [{
    `fusion.sharding` on the arguments of `@main` says how each dimension is cut
    over the axes of the mesh. Every op is split along a dimension of its
    iteration space that its operands' cuts allow; a sum over a split dimension
    is a partial sum until something needs its value, and what an op can't use
    cut is gathered first. docs/partitioning.md says what each op does.

    Requires: `@main` of one block, before fusion; at most one `fusion.mesh`.
    Ensures: types are those of one rank; each collective stands in the program;
    all ranks together compute what the single device computes. `@main` has
    `fusion.partitioned`, so that a second run does nothing.
    Leaves alone: a program without shardings (which may have collectives of its
    own), other functions.
    Reports: each split, each partial sum, each gathered operand with its reason.

    Before:
    ```mlir
    fusion.mesh @mesh(dp = 2)
    func.func @main(%x: tensor<8x4xf32> {fusion.sharding = [["dp"], []]}) -> tensor<4xf32> {
      %0 = fusion.reduce sum, %x dims = [0] : tensor<8x4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<4x4xf32> {fusion.sharding = [["dp"], []]}) -> tensor<4xf32> attributes {fusion.partitioned} {
      %0 = fusion.reduce sum, %x dims = [0] : tensor<4x4xf32>
      %1 = fusion.all_reduce sum, %0 on @mesh[dp] : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"",
           "axes and sizes, dp=2,tp=1: made where the module has no mesh, else the same as its mesh">,
    Option<"shardState", "shard-state", "bool", "false",
           "cut parameters and optimizer state along dimension 0 over the axis dp">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def NarrowGathers : Pass<"fusion-narrow-gathers", "::mlir::func::FuncOp"> {
  let summary = "gathers elements in the narrower of the types they are cast to";
  let description = [{
    A cast that makes elements narrower moves from behind an `all_gather` ahead of
    it, through what only moves elements (a lookup of rows, reshapes, transposes,
    slices); one that widens them moves from ahead of it behind it. Both halve the
    bytes of an f32 that is used as bf16, and no bit changes: casts and moves work
    on each element alone.

    Requires: collectives of one operand, as they are before buckets.
    Ensures: the same values.
    Leaves alone: what any reader needs wide, or in two narrow types.
    Reports: `narrow-gather` with both types, or `narrow-reader`.

    Before:
    ```mlir
    fusion.mesh @mesh(dp = 2)
    func.func @main(%x: tensor<2x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xbf16> {
      %0 = fusion.all_gather %x dim = 0 on @mesh[dp] : (tensor<2x4xf32>) -> tensor<4x4xf32>
      %1 = fusion.gather %0, %i axis = 0 : tensor<4x4xf32>, tensor<3xi64>
      %2 = fusion.cast %1 : tensor<3x4xf32> to tensor<3x4xbf16>
      return %2 : tensor<3x4xbf16>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<2x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xbf16> {
      %0 = fusion.cast %x : tensor<2x4xf32> to tensor<2x4xbf16>
      %1 = fusion.all_gather %0 dim = 0 on @mesh[dp] : (tensor<2x4xbf16>) -> tensor<4x4xbf16>
      %2 = fusion.gather %1, %i axis = 0 : tensor<4x4xbf16>, tensor<3xi64>
      return %2 : tensor<3x4xbf16>
    }
    ```
  }];
  let dependentDialects = ["::fusion::FusionDialect"];
}

#endif // FUSION_PARTITION_PASSES_TD
