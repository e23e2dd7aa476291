//===- Passes.td - Passes of the schedule phase ---------------------------===//
#ifndef FUSION_SCHEDULE_PASSES_TD
#define FUSION_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"fusion-plan-memory", "::mlir::ModuleOp"> {
  let summary = "turns the graph of compiled groups into a program over planned bytes";
  let description = [{
    The bridge between the two levels: `@main` becomes `fusion.program @main`.
    Inputs and outputs get a segment each, parameters and constants share the
    const segment, and all other values get offsets in one arena, planned at the
    largest batch. Reshapes are views, and so are groups with `fusion.view`: slices
    that lie together in their input. A group's output takes the bytes of an input
    when code generation allows it and nothing reads them afterwards. A result
    that is an input, a constant, or returned twice is copied.

    A collective becomes a command on stream 0; one in a `fusion.async` on the
    region's stream, between events: it starts behind what stream 0 has before it,
    and the await holds its own stream (stream 0, or that of the region that it is
    in). What a region touches is free for others behind its await. An all_reduce
    or broadcast is in place where no one else reads the operand any more.
    `axis_index` is a command that writes 8 bytes.

    Requires: every compute op is in a group that code generation has compiled;
    each future is awaited once.
    Ensures: a verified program; values whose lifetimes overlap share no bytes.
    Idempotent.
    Leaves alone: parameters and kernels; a program that is there already.
    Reports: the arena's size against the sum of all intermediates.

    Before:
    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k0 { ... }
      return %0 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
      ...
      fusion.launch @kernels::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [...]
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function to plan">,
    Option<"memoryLimit", "memory-limit", "uint64_t", "0", "largest arena in bytes, 0 for none">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def VerifySchedule : Pass<"fusion-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "proves that a program has no race and no overlapping lifetimes";
  let description = [{
    Runs the runtime's own verifier (runtime/src/core/VerifySchedule.h) on each
    `fusion.program`: happens-before over streams and events by byte range, ranges
    inside segments, every read written before, the declared peak.

    Requires: programs. Ensures: an error names the command otherwise.
    Leaves alone: everything. Reports: nothing.
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

#endif // FUSION_SCHEDULE_PASSES_TD
