//===- Passes.td - Passes over more than one phase ------------------------===//
#ifndef FUSION_PIPELINES_PASSES_TD
#define FUSION_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyFusion : Pass<"fusion-verify-fusion", "::mlir::ModuleOp"> {
  let summary = "evaluates every group before and after fusion, and compares";
  let description = [{
    Runs each function as it was before the fuse decision and as it is now in the
    reference evaluator, on generated inputs: small integers where all ops are exact
    on them, normally distributed numbers else; batches 1, 2 and the largest. Each
    output of each group must have the same bits.

    Requires: fusion-track-decisions{keep-original=true} before the passes that
    decide. Ensures: an error at the first group that computes another value, with
    the op, the index of the element and the largest difference.
    Leaves alone: everything. Reports: `verify-fusion`, for each function that is right.
  }];
  let options = [
    Option<"parameterFolder", "parameter-folder", "std::string", "\"\"", "folder of the parameters' files; the model's own if empty">,
    Option<"seed", "seed", "uint64_t", "1", "seed of the inputs">,
    Option<"memoryLimit", "memory-limit", "uint64_t", "8589934592", "bytes that the evaluator may take">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def TrackRewrites : Pass<"fusion-track-rewrites", "::mlir::ModuleOp"> {
  let summary = "starts a log of what passes replace, for fusion-verify-rewrites";
  let description = [{
    Passes that declare what they replace (fusion-raise-idioms,
    fusion-merge-projections) write the old and the new expression down.

    Requires: nothing. Ensures: a log until the pass manager ends. It stops where
    another pass changes the module: start it again behind that.
    Leaves alone: everything. Reports: nothing.
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def VerifyRewrites : Pass<"fusion-verify-rewrites", "::mlir::ModuleOp"> {
  let summary = "evaluates what passes replaced and what by, and compares";
  let description = [{
    Evaluates each function as it was at the start of the log, on inputs as of
    fusion-verify-fusion, with each new expression beside the one that it
    replaced: both read the same values. A merged product must give the same bits.
    A named op may differ from the primitives that spelled it by their roundings:
    4 times what a compiled op may (docs/tolerances.md), of the largest element.

    Requires: fusion-track-rewrites before the passes that replace. Ensures: an
    error at the first wrong replacement, with the rule, the op, the index of the
    first wrong element and the largest difference.
    Leaves alone: everything. Reports: `verify-rewrites`, for each function.
  }];
  let options = [
    Option<"parameterFolder", "parameter-folder", "std::string", "\"\"", "folder of the parameters' files; the model's own if empty">,
    Option<"seed", "seed", "uint64_t", "1", "seed of the inputs">,
    Option<"memoryLimit", "memory-limit", "uint64_t", "8589934592", "bytes that the evaluator may take">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

#endif // FUSION_PIPELINES_PASSES_TD
