//===- Passes.td - Passes of the simplify phase ---------------------------===//
//
// Each description is the pass's contract; its example is run by a lit file.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_SIMPLIFY_PASSES_TD
#define FUSION_SIMPLIFY_PASSES_TD

include "mlir/Pass/PassBase.td"

def FoldBatchNorm : Pass<"fusion-fold-batch-norm", "::mlir::ModuleOp"> {
  let summary = "folds inference BatchNorms into the weights that feed them";
  let description = [{
    `batch_norm(conv(x, W) + b)` becomes `conv(x, W * s) + (b - mean) * s + beta`
    with `s = scale / sqrt(variance + epsilon)`, computed in f64 and rounded once
    to the convolution's element type. The same for `conv_transpose` and for
    `matmul` with a constant right side.

    *Requires*: nothing.

    *Ensures*: a `batch_norm` that stays has a remark with the reason. New
    weights are new constants (or parameters named `<old>_folded`); the old ones
    are not changed and go away with their last use. Running the pass twice is
    running it once.

    *Leaves alone*: `batch_norm_training`; weights or statistics that are
    computed at run time or are `state`; a convolution whose result has other
    users, unless repeating it costs at most `clone-flops-per-element` (less
    than the pass over memory that the fold saves); statistics with
    `variance + epsilon` not above zero; a fold whose weights would overflow, or
    underflow so that the weights' rounding error grows fourfold; every BatchNorm with
    `exact-rewrites-only`, since a fold changes rounding.

    *Reports*: remark `fold-batch-norm`, passed or missed, for each `batch_norm`;
    one more, missed, if the module has convolutions and BatchNorms and nothing
    matched. Counts in `fusion.rewrites` of the module.

    Example:
    ```mlir
    %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
    %y = fusion.batch_norm %c, %scale, %bias, %mean, %variance epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
    ```
    becomes, for a weight of 3, scale 2, bias 1, mean 5 and variance 4,
    ```mlir
    %w1 = fusion.constant dense<3.0> : tensor<1x1x1xf32>
    %b1 = fusion.constant dense<-4.0> : tensor<1xf32>
    %y = fusion.conv %x, %w1 bias %b1 strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>, tensor<1xf32>
    ```
  }];
  let options = [
    Option<"exactRewritesOnly", "exact-rewrites-only", "bool", "false",
           "Fold nothing, since folding changes rounding">,
    Option<"cloneFlopsPerElement", "clone-flops-per-element", "int64_t", "32",
           "Repeat a convolution that has other users if it costs at most this many flops an element of its result">,
    Option<"foldsOnly", "folds-only", "bool", "false",
           "No remark on what is not folded: it was told before">,
    Option<"parameterFolder", "parameter-folder", "std::string", "",
           "Folder that parameters' files are relative to (default: the module's own)">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def EvaluateConstants : Pass<"fusion-evaluate-constants", "::mlir::ModuleOp"> {
  let summary = "replaces what is computed from constants by its value";
  let description = [{
    Ops whose operands are all known become constants, evaluated by the rules of
    the dialect: exactly rounded ops in the precision of the op, transcendental
    ones and sums of floats in f64 with one rounding, integers wrapping.

    *Requires*: nothing.

    *Ensures*: the module's constants grow by at most `growth` bytes an op and
    `total-growth` in all, counted as the result's bytes less those of the
    constants that only this op used; a splat counts as one element. A module
    that reached `total-growth` says so (`fusion.evaluated_bytes`), and another
    run counts on from there. The time is linear in the number of ops, for each
    walk; another walk follows where one left a stopped op a constant of its own.

    *Leaves alone*: broadcasts and iotas that only ops at run time read (they
    cost nothing there, their values would); `state` parameters; random numbers;
    with `exact-rewrites-only`, the ops whose value may differ in the last bit
    from what the target computes.

    *Reports*: remark `evaluate-constants`, missed, for each op that a limit
    stopped; one passed with the number of ops evaluated in a function. The ops
    of the last group are counted in `fusion.rewrites` of the module.

    Example:
    ```mlir
    %a = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = fusion.constant dense<0.5> : tensor<2xf32>
    %c = fusion.add %a, %b : tensor<2xf32>
    ```
    becomes
    ```mlir
    %c = fusion.constant dense<[1.5, 2.5]> : tensor<2xf32>
    ```
  }];
  let options = [
    Option<"exactRewritesOnly", "exact-rewrites-only", "bool", "false",
           "Evaluate only ops whose result is the same on every target">,
    Option<"growth", "growth", "int64_t", "65536",
           "Bytes that evaluating one op may add to the module">,
    Option<"totalGrowth", "total-growth", "int64_t", "16777216",
           "Bytes that evaluating all ops may add to the module">,
    Option<"parameterFolder", "parameter-folder", "std::string", "",
           "Folder that parameters' files are relative to (default: the module's own)">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def Canonicalize : Pass<"fusion-canonicalize", "::mlir::ModuleOp"> {
  let summary = "brings graphs to canonical form by exact rewrites";
  let description = [{
    Folds, merges and moves ops where no bit of a result changes: identities,
    data movement that cancels or merges, arithmetic on broadcasts done before
    the broadcast, division by powers of two; merges equal ops; drops dead ops
    and unused parameters.

    *Requires*: nothing.

    *Ensures*: results are equal bit for bit (NaN payloads aside). No reshape of
    a reshape, transpose of a transpose, or transpose that a reshape can do.
    Running the pass twice is running it once.

    *Leaves alone*: `x + 0.0` (it turns -0 into 0), `x * 0`, inverse pairs of
    transcendental functions, narrowing casts, the order of sums; `state`
    parameters; groups.

    *Reports*: nothing: every rewrite is unconditional.

    Example:
    ```mlir
    %c = fusion.constant dense<4.0> : tensor<2x3xf32>
    %t = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
    %u = fusion.transpose %t permutation = [1, 0] : tensor<3x2xf32>
    %y = fusion.div %u, %c : tensor<2x3xf32>
    ```
    becomes
    ```mlir
    %c = fusion.constant dense<2.500000e-01> : tensor<2x3xf32>
    %y = fusion.mul %x, %c : tensor<2x3xf32>
    ```
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def PropagateLayout : Pass<"fusion-propagate-layout", "::mlir::ModuleOp"> {
  let summary = "runs convolutions and pools channels-last";
  let description = [{
    Convolutions and pools of layout nchw become nhwc, and the transposes that
    this needs are moved through elementwise ops, broadcasts, concats, slices,
    pads, reductions, reshapes of the spatial dimensions and BatchNorms until
    they cancel. What is left stands at the borders: inputs, outputs and ops
    that need the order of the model.

    *Requires*: canonical form gives the best result, but nothing is assumed.

    *Ensures*: no convolution or pool of layout nchw; no transpose on a path
    from one to the next that leads through such ops only. Each op is visited
    twice: the time is linear. A transpose that moves unit dimensions only is
    a reshape. Functions without a convolution or pool do not change.

    *Leaves alone*: with `layout = keep`, everything; with
    `exact-rewrites-only`, reductions of floats whose order of summation would
    change.

    *Reports*: remark `propagate-layout`, passed, for each function, with the
    numbers of convolutions, of transposes and their bytes; missed, for each
    transpose that stays, with its bytes and the op that needs it.

    Example:
    ```mlir
    %p = fusion.max_pool %x window = [2] strides = [2] pad_low = [0] pad_high = [0] dilations = [1] layout = nchw : tensor<1x2x4xf32>
    %y = fusion.relu %p : tensor<1x2x2xf32>
    ```
    becomes
    ```mlir
    %t = fusion.transpose %x permutation = [0, 2, 1] : tensor<1x2x4xf32>
    %p = fusion.max_pool %t window = [2] strides = [2] pad_low = [0] pad_high = [0] dilations = [1] layout = nhwc : tensor<1x4x2xf32>
    %r = fusion.relu %p : tensor<1x2x2xf32>
    %y = fusion.transpose %r permutation = [0, 2, 1] : tensor<1x2x2xf32>
    ```
  }];
  let options = [
    Option<"layout", "layout", "::fusion::LayoutPolicy", "::fusion::LayoutPolicy::NHWC",
           "Layout of convolutions and pools",
           [{::llvm::cl::values(
             clEnumValN(::fusion::LayoutPolicy::NHWC, "nhwc", "channels last"),
             clEnumValN(::fusion::LayoutPolicy::Keep, "keep", "as in the model"))}]>,
    Option<"exactRewritesOnly", "exact-rewrites-only", "bool", "false",
           "Keep the order of summation of every reduction">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def RaiseIdioms : Pass<"fusion-raise-idioms", "::mlir::ModuleOp"> {
  let summary = "replaces chains of primitives by the named op that they spell";
  let description = [{
    `layer_norm`, `rms_norm`, `softmax`, `log_softmax`, `gelu` (erf and tanh) and
    `silu`, as exporters write them: operands in either order, with `sqrt`,
    `rsqrt` or a power, a division or a product with a reciprocal, reshapes of
    unit dimensions and broadcasts between.

    *Requires*: canonical form gives the best result, but nothing is assumed.

    *Ensures*: a named op has the meaning of the chain. On f32 and f64 a norm or
    softmax whose decomposition is the chain, op for op, has the same bits;
    every other raise may change roundings and is counted in `fusion.rewrites`
    of the module. Running the pass twice is running it once.

    *Leaves alone*: a chain whose interior values something else reads, results
    of the function included; rows that are not the last dimensions (norms), or
    along several (softmax); a variance that is not the mean of squared
    distances (unbiased, or `E[x^2] - E[x]^2`, which loses all digits); epsilon
    outside of the root; exponentials without the largest element subtracted;
    the logarithm of a softmax; a scale or bias that has not the shape of the
    row (the norm is raised, the scale stays behind it); rows of unknown size;
    with `exact-rewrites-only`, every raise that may change a bit.

    *Reports*: remark `raise-idioms`, passed, for each op raised, with the number
    of ops that it replaces and what rounds differently; missed, with the
    reason, for each chain that comes near to one.

    Example:
    ```mlir
    %s = fusion.sigmoid %x : tensor<4xf64>
    %y = fusion.mul %s, %x : tensor<4xf64>
    ```
    becomes
    ```mlir
    %y = fusion.silu %x : tensor<4xf64>
    ```
  }];
  let options = [
    Option<"exactRewritesOnly", "exact-rewrites-only", "bool", "false",
           "Raise only what keeps every bit">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

#endif // FUSION_SIMPLIFY_PASSES_TD
