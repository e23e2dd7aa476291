//===- Passes.td - Passes of the fuse phase -------------------------------===//
#ifndef FUSION_FUSE_PASSES_TD
#define FUSION_FUSE_PASSES_TD

include "fusion/Fuse/CommPasses.td"
include "mlir/Pass/PassBase.td"

def DecomposeNamed : Pass<"fusion-decompose-named", "::mlir::func::FuncOp"> {
  let summary = "replaces named ops that have no emitter by primitive ops";
  let description = [{
    attention and its gradient, rope, batch_norm, batch_norm_training, and softmax and log_softmax
    along any dimension but the last become what their decomposition says. Norms
    and softmax over rows stay: one kernel serves each.

    Requires: nothing. Ensures: every op left has an emitter or a library.
    Leaves alone: groups and ops inside regions.
    Reports: `decompose`, for each op.

    Before:
    ```mlir
    func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
      %0 = fusion.softmax %x axis = 1 : tensor<2x3x4xf32>
      return %0 : tensor<2x3x4xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
      %0 = fusion.reduce max, %x dims = [1] : tensor<2x3x4xf32>
      ...
      %5 = fusion.div %3, %4 : tensor<2x3x4xf32>
      return %5 : tensor<2x3x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def DropOrder : Pass<"fusion-drop-order", "::mlir::func::FuncOp"> {
  let summary = "replaces each fusion.after by its input";
  let description = [{
    Requires: final groups; ops keep their order from here on. Ensures: no
    `fusion.after` is left. Leaves alone: all else. Reports: nothing.

    Before:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %dy: tensor<2xf32>) -> tensor<4xf32> {
      %0 = fusion.after %x, %dy : tensor<4xf32>, tensor<2xf32>
      return %0 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %dy: tensor<2xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
    ```
  }];
}

def FuseGradients : Pass<"fusion-fuse-gradients", "::mlir::func::FuncOp"> {
  let summary = "computes gradients beside the product that a library computes";
  let description = [{
    For a GPU, a product of two matrices becomes a group with what cuBLASLt
    computes in the same kernel:
    - the sum over the rows of a side that the product reads transposed or of
      the other one: the gradient of a bias beside that of weights;
    - the product's result times the slope of gelu's tanh form at another
      tensor, and the sum of that over its rows.

    A slope is recognised by its values, however it is written. Narrow sums are
    taken in f32 and rounded once; one that is read in f32 stays apart.

    Requires: a module that says what it is compiled for. Ensures: each group is
    one call. Idempotent.
    Leaves alone: strict arithmetic, f64, batches of matrices, rows that are no
    multiple of 8 elements; slopes of other activations, that of relu among
    them, which the library reads as bits of its own.
    Reports: `fuse-gradient` for each product that has one; `gradient-form`,
    `ready-time`, `no-gain` or `compute-density` with the reason for one that
    could have.

    Before, in a module with `fusion.target = "cuda"` and `fusion.fp = "fast"`:
    ```mlir
    %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
    %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
    ```
    After:
    ```mlir
    %0:2 = fusion.group library (%a = %x : tensor<64x16xf32>, %b = %dy : tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) attributes {fusion.gradients} {
      %1 = fusion.matmul %a, %b {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
      %2 = fusion.reduce sum, %b dims = [0] : tensor<64x32xf32>
      fusion.yield %1, %2 : tensor<16x32xf32>, tensor<32xf32>
    }
    ```
  }];
  let options = [
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def SplitReductions : Pass<"fusion-split-reductions", "::mlir::func::FuncOp"> {
  let summary = "does long reductions of few results in two";
  let description = [{
    On a GPU, a reduction whose results are too few to occupy the device becomes
    a reduction of equal parts of its outermost reduced dimension, and one of the
    parts' results, where two launches are predicted faster (three, if an op
    computes the values: it stays outside). The parts of f16 and bf16 are f32. A
    mean is the mean of its parts' means. The order of a sum then depends on the
    graph and the device, and not on what is fused.

    There are as many parts as occupy the device; of one result also as many as
    there are 16,384 elements, so that the blocks of a large tensor come in
    several waves. Divisors that leave rows of whole vectors are preferred.

    Where whole sums are the terms of a sum of a row of scalars, as in a norm of
    all gradients, that sum adds their parts: at most 32,768 numbers, which one
    block holds. If they would be more, the smaller tensors have fewer parts
    first, then all. A term has parts of a multiple of 16 bytes where its
    elements allow, so that its kernel writes them into the row.

    Requires: nothing. Ensures: no reduction is left that two would serve better,
    but for sizes without a divisor. Idempotent.
    Leaves alone: sizes that depend on the batch; devices that are no GPU; sums
    of what others reduced, up to 32,768 numbers.
    Reports: `split-reductions`, for each that is short of results: the share of
    the device, the parts, the predicted microseconds.

    Before, for an H200:
    ```mlir
    %0 = fusion.reduce sum, %x dims = [0] : tensor<8192x4096xf32>
    ```
    After:
    ```mlir
    %1 = fusion.reshape %x : tensor<8192x4096xf32> to tensor<4x2048x4096xf32>
    %2 = fusion.reduce sum, %1 dims = [1] : tensor<4x2048x4096xf32>
    %0 = fusion.reduce sum, %2 dims = [0] : tensor<4x4096xf32>
    ```
  }];
  let options = [
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def MergeProjections : Pass<"fusion-merge-projections", "::mlir::ModuleOp"> {
  let summary = "computes the projections of one value by one product";
  let description = [{
    Matmuls, or 1x1 convolutions of layout nhwc, that read the same value (views
    aside) and have known weights become one, whose weights lie side by side,
    packed at compile time; each result is a slice. Widths may differ. Biases
    are packed too; a member without one gets -0.0, which changes no sum. An op
    of one operand that follows each of them is done before the slices.

    Requires: nothing.
    Ensures: each column is the same sum of the same terms as before: no bit
    changes, as by any grouping. Nothing is concatenated at run time. Idempotent.
    Leaves alone: weights computed at run time, or `state`; left sides read
    transposed; different element types, batch dimensions of the weights,
    strides; members more than `distance` ops apart; weights that others read
    too, if the packed copy adds more than `growth` bytes; sets that the cost
    model finds faster apart, one after the other or on several streams: results
    that are read whole (by a product, or returned) must be copied out of the
    merged one, and packed weights may leave the cache. On a GPU, with `batches`,
    products of one shape that the library computes as one batch: that is as fast
    as one product, and each result is dense.
    Reports: `merge-projections`, for each set and each product that can't join
    one, with the predicted microseconds of the three ways.

    Before:
    ```mlir
    func.func @main(%x: tensor<2x1xf32>) -> (tensor<2x2xf32>, tensor<1x2xf32>) {
      %w = fusion.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
      %v = fusion.constant dense<3.0> : tensor<1x1xf32>
      %0 = fusion.matmul %x, %w : tensor<2x1xf32>, tensor<1x2xf32>
      %1 = fusion.matmul %x, %v : tensor<2x1xf32>, tensor<1x1xf32>
      %2 = fusion.transpose %1 permutation = [1, 0] : tensor<2x1xf32>
      return %0, %2 : tensor<2x2xf32>, tensor<1x2xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<2x1xf32>) -> (tensor<2x2xf32>, tensor<1x2xf32>) {
      %w = fusion.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
      %0 = fusion.matmul %x, %w : tensor<2x1xf32>, tensor<1x3xf32>
      %1 = fusion.slice %0 starts = [0, 0] limits = [2, 2] strides = [1, 1] : tensor<2x3xf32>
      %2 = fusion.slice %0 starts = [0, 2] limits = [2, 3] strides = [1, 1] : tensor<2x3xf32>
      %3 = fusion.transpose %2 permutation = [1, 0] : tensor<2x1xf32>
      return %1, %3 : tensor<2x2xf32>, tensor<1x2xf32>
    }
    ```
  }];
  let options = [
    Option<"growth", "growth", "int64_t", "65536",
           "bytes that the weights may grow by, for each merge">,
    Option<"distance", "distance", "int64_t", "64",
           "ops between one member and the next">,
    Option<"batches", "batches", "bool", "true",
           "whether equal library calls become one, on a GPU">,
    Option<"parameterFolder", "parameter-folder", "std::string", "",
           "folder that parameters' files are relative to (default: the module's own)">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def FuseVertical : Pass<"fusion-fuse-vertical", "::mlir::func::FuncOp"> {
  let summary = "puts every op into a group, producers with their consumers";
  let description = [{
    A producer joins its consumer if the ops of both groups are together one that
    an emitter handles (FusionLegality.h), within the limits. Preference: epilogues
    of contractions and pools, ops around reductions and scatters, loops; of two
    producers the later one. A value with readers elsewhere becomes one more output
    of the group where its shape allows. Broadcasts, iotas and widening casts are
    repeated in each group that reads them; cheap arithmetic is, and is computed
    for other positions, where the cost model predicts a gain; what is dear is
    computed once. A merge that would raise the peak of memory above the limit is
    refused. What computes the rows that a matmul reads runs in its kernel where that
    kernel is our own and the model predicts a gain. Near-linear; a function of the
    graph and the device alone.

    Requires: one block; named ops without an emitter are decomposed.
    Ensures: constants, parameters, reshapes, groups and ops with effects are all
    that is left outside groups; splat constants are inside the groups that use
    them. Idempotent.
    Leaves alone: existing groups; ops with effects, which nothing is fused across.
    Reports: each pair of a producer and its consumer under the id of the rule that
    decided (FusionRules.h), with the bytes of traffic at stake, the value against
    its limit, and, where the cost model was asked, predicted microseconds apart
    and fused.

    Before:
    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.exp %x : tensor<4xf32>
      %1 = fusion.neg %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
        %1 = fusion.exp %a : tensor<4xf32>
        %2 = fusion.neg %1 : tensor<4xf32>
        fusion.yield %2 : tensor<4xf32>
      }
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", "8", "named and arithmetic ops on the longest path of a group">,
    Option<"maxInputs", "max-inputs", "int64_t", "64", "inputs and outputs of a group, together">,
    Option<"maxGroupOps", "max-group-ops", "int64_t", "64", "ops of a group">,
    Option<"maxLoads", "max-loads", "int64_t", "64", "different reads of inputs for one element">,
    Option<"compileBudget", "compile-budget", "int64_t", "256", "scalar ops that a kernel is compiled from">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes of intermediates, 0: the device's memory">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">,
    Option<"separate", "separate", "bool", "false", "put each op into a group of its own">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def FuseHorizontal : Pass<"fusion-fuse-horizontal", "::mlir::func::FuncOp"> {
  let summary = "puts independent groups of one kind into one launch";
  let description = [{
    Groups with the same ops, attributes and element types become the members of
    one group of kind `horizontal`. Each keeps its own shape: nothing is padded.
    Members of kind `library` or `contraction` also have equal shapes. Groups of one
    level (longest path over groups, first from the inputs, then from the results)
    can't depend on each other, so levels and keys decide; what no level holds is
    offered to the few launches of its key before it. Near-linear.
    A launch that the cost model finds slower than its members, one after the other
    or on several streams, is left out. Where the function communicates and more of
    it would be exposed than without launches, members of launches that run while a
    collective is waited for are left apart, or whole launches, as few as it takes,
    unless the step gets more than 1 % longer.

    Requires: one block; every op in a group (fusion-fuse-vertical).
    Ensures: members keep their order; a launch stands where its last member stood.
    Leaves alone: functions that hold a horizontal group already (so it is
    idempotent); groups with rng_uniform; anything across ops with effects.
    Reports: each launch (`fuse-horizontal`) with the predicted microseconds of the
    three ways, and for each two neighbouring groups of one key that stay apart the
    rule that keeps them so, with value and limit; what all launches would expose
    more (`horizontal-exposed`), and each group left apart for it
    (`horizontal-hidden`).

    Before:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %y: tensor<9xf32>) -> (tensor<4xf32>, tensor<9xf32>) {
      %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
        %2 = fusion.exp %a : tensor<4xf32>
        fusion.yield %2 : tensor<4xf32>
      }
      %1 = fusion.group loop (%a = %y : tensor<9xf32>) -> tensor<9xf32> {
        %2 = fusion.exp %a : tensor<9xf32>
        fusion.yield %2 : tensor<9xf32>
      }
      return %0, %1 : tensor<4xf32>, tensor<9xf32>
    }
    ```
    After:
    ```mlir
    func.func @main(%x: tensor<4xf32>, %y: tensor<9xf32>) -> (tensor<4xf32>, tensor<9xf32>) {
      %0:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<9xf32>) -> (tensor<4xf32>, tensor<9xf32>) {
        %1 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
          %3 = fusion.exp %c : tensor<4xf32>
          fusion.yield %3 : tensor<4xf32>
        }
        %2 = fusion.group loop (%c = %b : tensor<9xf32>) -> tensor<9xf32> {
          %3 = fusion.exp %c : tensor<9xf32>
          fusion.yield %3 : tensor<9xf32>
        }
        fusion.yield %1, %2 : tensor<4xf32>, tensor<9xf32>
      }
      return %0#0, %0#1 : tensor<4xf32>, tensor<9xf32>
    }
    ```
  }];
  let options = [
    Option<"maxMembers", "max-members", "int64_t", "64", "groups of one launch">,
    Option<"maxOperands", "max-operands", "int64_t", "512", "tensors that one launch reads and writes">,
    Option<"maxExtraBytes", "max-extra-bytes", "int64_t", "0", "bytes that may live longer for one launch (0: half of what the device's cache holds, 16 MiB at least)">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes of intermediates at once, which launches must not exceed (0: no limit)">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def SplitGroups : Pass<"fusion-split-groups", "::mlir::func::FuncOp"> {
  let summary = "cuts groups that need more than the device has";
  let description = [{
    The kernel of a group must fit the device: 32-bit registers of a thread and
    of a unit (a multiprocessor or core) with the wanted resident blocks, shared
    memory, bytes of arguments; with a kernel probe also: no spills. One that
    does not is cut where the fewest values cross, if both sides are groups that
    an emitter handles and fit; else near its middle, and again. It stays whole where
    one op alone needs as much. Broadcasts, iotas and widening casts are repeated in
    each part that reads them. Near-linear.

    Requires: one block. Ensures: groups within the limits, but for those that
    can't be cut. Idempotent.
    Leaves alone: horizontal groups, groups that have a kernel.
    Reports: each cut under the id of the limit (FusionRules.h): value, limit,
    values live across it, registers of both parts, predicted microseconds; a
    failure for a part that exceeds a limit and has no cut.

    Before, on a device with 32 registers a thread, 24 of them overhead:
    ```mlir
    %g = fusion.group loop (%a = %x : tensor<8xf32>, %b = %y : tensor<8xf32>, %c = %z : tensor<8xf32>) -> tensor<8xf32> {
      %0 = fusion.add %a, %b : tensor<8xf32>
      %1 = fusion.exp %0 : tensor<8xf32>
      %2 = fusion.mul %1, %c : tensor<8xf32>
      %3 = fusion.add %2, %b : tensor<8xf32>
      fusion.yield %3 : tensor<8xf32>
    }
    ```
    After:
    ```mlir
    %0 = fusion.group loop (%a = %x : tensor<8xf32>, %b = %y : tensor<8xf32>) -> tensor<8xf32> {
      %2 = fusion.add %a, %b : tensor<8xf32>
      %3 = fusion.exp %2 : tensor<8xf32>
      fusion.yield %3 : tensor<8xf32>
    }
    %1 = fusion.group loop (%a = %0 : tensor<8xf32>, %c = %z : tensor<8xf32>, %b = %y : tensor<8xf32>) -> tensor<8xf32> {
      %2 = fusion.mul %a, %c : tensor<8xf32>
      %3 = fusion.add %2, %b : tensor<8xf32>
      fusion.yield %3 : tensor<8xf32>
    }
    ```
  }];
  let options = [
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def TrackDecisions : Pass<"fusion-track-decisions", "::mlir::ModuleOp"> {
  let summary = "starts the record of what fusion decides, with a plan to follow";
  let description = [{
    The passes that decide on groups behind it write down what they decided, for
    fusion-write-plan, fusion-explain-pair and fusion-verify-fusion; and they follow
    the plan, if one is given (docs/plans.md).

    Requires: nothing. Ensures: a record a function until the pass manager ends.
    Leaves alone: everything.
    Reports: what of the plan is about another device, function or graph, as
    warnings, or as errors if strict; a file that is no plan is an error always.
  }];
  let options = [
    Option<"plan", "plan", "std::string", "\"\"", "plan file to follow">,
    Option<"strict", "strict", "bool", "false", "a line that can't be honoured is an error">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"launches", "launches", "bool", "true", "horizontal fusion will run">,
    Option<"keepOriginal", "keep-original", "bool", "false", "keep a copy of each function, for fusion-verify-fusion">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def WritePlan : Pass<"fusion-write-plan", "::mlir::ModuleOp"> {
  let summary = "writes the groups that were decided to a plan file";
  let description = [{
    Requires: fusion-track-decisions before the passes that decide.
    Ensures: the file, replaced as a whole; the module carries the SHA-256
    of the plan without its notes as `fusion.plan`, if `digest`. Leaves alone: everything else. Reports: nothing.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"\"", "file to write, - for the standard output, empty for none">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">,
    Option<"digest", "digest", "bool", "false", "put the hash of the plan on the module">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def PrintCosts : Pass<"fusion-print-costs", "::mlir::ModuleOp"> {
  let summary = "writes the predicted time of each kernel as JSON";
  let description = [{
    For each function an object with its `name`, the microseconds `us` of a run
    (`run_us` of the device and all kernels one after the other) and its
    `kernels` in order: `kind` of the group (or the name of an op in none), the
    `class` that the device file has figures of, `us`, and what the kernel does:
    `memory_bytes`, `cached_bytes`, `reread_bytes`, `spilled_bytes`, `blocks`
    and `flops` by the names of their rates. Times that are no numbers are null.

    Requires: groups. Ensures: the file, replaced as a whole. Leaves alone:
    everything. Reports: an error where sizes are no function of the batch.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"-\"", "file to write, - for the standard output">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def ExplainPair : Pass<"fusion-explain-pair", "::mlir::ModuleOp"> {
  let summary = "says why two ops are in one group or not";
  let description = [{
    Names of ops are as of docs/plans.md: `@name` of a location, `#3`, `:12` for a
    line of the model.

    Requires: fusion-track-decisions before the passes that decide.
    Ensures: one diagnostic remark, the answer. Leaves alone: everything.
    Reports: an error, with the nearest names, for a name that fits no op or several.
  }];
  let options = [
    Option<"pair", "pair", "std::string", "\"\"", "the two ops, as @a,@b">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def RecordFusionCertificate : Pass<"fusion-record-fusion-certificate", "::mlir::func::FuncOp"> {
  let summary = "remembers what the graph computes, for fusion-verify-fusion-certificate";
  let description = [{
    Requires: one block. Ensures: a record lives until the pass manager ends or a
    pass runs that does not keep it, as those that decide about fusion do.
    Leaves alone: everything. Reports: nothing.
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def VerifyFusionCertificate : Pass<"fusion-verify-fusion-certificate", "::mlir::func::FuncOp"> {
  let summary = "proves that groups compute what the graph before computed";
  let description = [{
    Sees through groups and numbers the expressions of the function: results must
    be the recorded expressions, ops with effects the same in the same order, and
    only cheap ops may be computed more often than before. Every group must be one
    that an emitter handles, of the kind it says.

    Requires: a record (fusion-record-fusion-certificate) or `against`; without both
    only the groups are checked. Ensures: an internal error otherwise.
    Leaves alone: everything. Reports: nothing.
  }];
  let options = [
    Option<"against", "against", "std::string", "\"\"", "compare with this function of the module instead">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def UnfuseGroups : Pass<"fusion-unfuse-groups", "::mlir::func::FuncOp"> {
  let summary = "puts the ops of all groups back into the function";
  let description = [{
    Requires: nothing. Ensures: no groups; what was computed inside a group more
    than once is computed so outside too.
    Leaves alone: everything else. Reports: nothing.
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

#endif // FUSION_FUSE_PASSES_TD
