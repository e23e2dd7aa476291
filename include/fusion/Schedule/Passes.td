//===- Passes.td - Passes of the schedule phase ---------------------------===//
#ifndef FUSION_SCHEDULE_PASSES_TD
#define FUSION_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderForMemory : Pass<"fusion-order-for-memory", "::mlir::ModuleOp"> {
  let summary = "moves groups so that fewer bytes are alive at once";
  let description = [{
    A launch of several groups stands where the last of them stood, so what it reads
    may be alive long after it could be free. Around the point where most bytes are
    alive, groups that free something move to before it, and groups whose results
    are read later to behind it, as long as the peak gets lower. Nothing is moved for
    less than 1 % of it.

    Requires: every compute op is in a group that code generation has compiled.
    Ensures: the same groups; each behind what it reads. Idempotent.
    Leaves alone: the order of collectives; functions with asynchronous regions or
    other effects, whose order somebody chose; one whose step would take longer, or
    wait longer for collectives, as predicted.
    Reports: the bytes alive at the peak before and after, by sizes of values.

    Before:
    ```mlir
    %a = fusion.group ... // small, reads %x for the last time
    %b = fusion.group ... // the peak
    %c = fusion.group loop (%0 = %y : tensor<4096xf32>) -> tensor<4xf32> ... // frees %y
    ```
    After:
    ```mlir
    %a = fusion.group ...
    %c = fusion.group loop (%0 = %y : tensor<4096xf32>) -> tensor<4xf32> ...
    %b = fusion.group ...
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function to order">,
    Option<"device", "device", "std::string", "\"cpu\"", "device name, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

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
    or broadcast is in place where no one else reads the operand any more. What a
    bucket's collective reads lies together, in the order in which it is computed.
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
    Option<"memoryLimit", "memory-limit", "uint64_t", "0", "largest arena in bytes, 0 for none">,
    Option<"enoughBytes", "enough-bytes", "uint64_t", "0", "a memory-limit that is known to be enough, to be named where the given one is not; 0 for none">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def PrefetchAllGather : Pass<"fusion-prefetch-all-gather", "::mlir::ModuleOp"> {
  let summary = "starts gathers as early as a byte budget allows";
  let description = [{
    Each gather of a value that is there early (a shard of a parameter, an
    activation) gets an asynchronous region in front of its readers: as far as the
    bytes of gathered values, from their region to their last reader, stay within
    `budget` at every position. So the depth follows from the budget. Gathers start
    in the order in which they are needed. Their bytes are a region of the arena.
    Where the budget does not hold what is kept from a reader to the next (a
    parameter that forward and backward read), the value that is needed latest is
    given up and gathered again.

    Budget 0, on a device with a `comm` block: twice what one op reads, its doublings,
    and all that is gathered are tried, each on a copy of the function. Taken is the
    least whose predicted step is no more than 0.5 % longer than the shortest, of those
    that `memory-limit` holds. With each budget gathers are also tried behind
    collectives of computed values that are read before them and for which nothing as
    large is gathered, and these ahead of them on their stream.

    Requires: a graph of one block.
    Ensures: `fusion.prefetched` on the gathers, `fusion.prefetch_budget` on the
    function, which `fusion-verify-graph` checks. Idempotent.
    Leaves alone: gathers of another collective's result or for one, and returned ones.
    Reports: `prefetch-budget` with the steps predicted, if more than one budget was
    tried; `prefetch` with the bytes planned, `prefetch-gather` with the ops that
    each goes ahead; an error with the bytes needed where the budget can't hold what
    one op reads.

    Before:
    ```mlir
    %0 = fusion.all_gather %w0 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
    %a = fusion.group loop (%x = %0 : tensor<8xf32>) ...
    %1 = fusion.all_gather %w1 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
    %b = fusion.group loop (%x = %a : tensor<8xf32>, %y = %1 : tensor<8xf32>) ...
    ```
    After, within 64 bytes:
    ```mlir
    %f = fusion.async stream = 2 -> tensor<8xf32> { ... }
    %g = fusion.async stream = 2 -> tensor<8xf32> { ... }
    %0 = fusion.await %f : !fusion.future<tensor<8xf32>>
    %a = fusion.group loop (%x = %0 : tensor<8xf32>) ...
    %1 = fusion.await %g : !fusion.future<tensor<8xf32>>
    %b = fusion.group loop (%x = %a : tensor<8xf32>, %y = %1 : tensor<8xf32>) ...
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function to schedule">,
    Option<"budget", "budget", "uint64_t", "0", "bytes of gathered values, 0: by predicted steps">,
    Option<"memoryLimit", "memory-limit", "uint64_t", "0", "bytes of intermediates, 0: the device's memory">,
    Option<"device", "device", "std::string", "\"cpu\"", "device name, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def SimulateStep : Pass<"fusion-simulate-step", "::mlir::ModuleOp"> {
  let summary = "prints the predicted timeline of a function";
  let description = [{
    Kernels by the cost model, collectives by the device's `comm` block, streams by
    regions and awaits (see docs/overlap.md).

    Requires: a graph of one block; a mesh of `ranks` ranks if that is not 0.
    Ensures: one diagnostic remark. Leaves alone: everything.
    Reports: the step, its computation, its communication and what of it is exposed;
    the longest exposed intervals, each with its cause.
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function to simulate">,
    Option<"ranks", "ranks", "uint64_t", "0", "ranks that the mesh must have, 0: any number">,
    Option<"device", "device", "std::string", "\"cpu\"", "device name, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def VerifyGraph : Pass<"fusion-verify-graph", "::mlir::ModuleOp"> {
  let summary = "proves the order of communication and the budget of gathers";
  let description = [{
    Errors are named: G1 a future that is not awaited exactly once, G2 a collective
    whose place in the order is not the same on all ranks (inside a group, or under a
    condition or bound that a rank's own data or position decides), G3 gathered
    values beyond `fusion.prefetch_budget` at some position.

    Requires: functions. Ensures: an error names the op otherwise.
    Leaves alone: everything. Reports: nothing.
  }];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
}

def ShareUnits : Pass<"fusion-share-units", "::mlir::ModuleOp"> {
  let summary = "leaves multiprocessors to NCCL beside products";
  let description = [{
    A library's product takes all multiprocessors of a GPU until it ends, so what
    NCCL would send beside it waits. Where the device file says how many NCCL needs
    on a link (`units`), each of its collectives on that link gets `fusion.units`,
    and a product between the start of such a collective and its await takes the
    others only (`units` of `fusion.call`).

    Requires: scheduled regions.
    Ensures: the same values. Idempotent.
    Leaves alone: other devices than GPUs, links without `units`, collectives that
    copy engines carry.
    Reports: `share-units` with the number of products, and of multiprocessors that
    the widest link needs.
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def OverlapCollectives : Pass<"fusion-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "starts collectives early and awaits them late";
  let description = [{
    List scheduling by predicted times. A collective starts, in an asynchronous
    region, as soon as its operands are ready, and is awaited by its first reader;
    kernels keep their order, but one that would wait for a collective lets others
    go on. Kernels that only a shorter collective waits for go behind what a longer
    one needs, and kernels that an exposed collective does not need behind it, if
    that makes the step shorter and no more bytes are alive at once. Collectives
    start in the order in which they are ready, ties in program order: the same on
    every rank. One whose result only another collective reads is awaited in that
    one's region. Streams: 1 reductions, 2 gathers, 3 others. An op
    with effects that are not known may communicate: nothing crosses it.

    Requires: a graph of one block.
    Ensures: each future awaited once. Idempotent.
    Leaves alone: regions that are there already keep their order, and what was
    before one stays before it; the whole function where one after the other is
    predicted faster, as on a link that kernels use too.
    Reports: `overlap` and `overlap-serial` with the microseconds of both ways, the
    first with the bytes alive at once in both too; `overlap-collective` for each
    one with those that no kernel hides.

    Before:
    ```mlir
    %g = fusion.group ...
    %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
    %h = fusion.group ...
    %y = fusion.group loop (%a = %s : tensor<4xf32>) ...
    ```
    After:
    ```mlir
    %g = fusion.group ...
    %f = fusion.async stream = 1 -> tensor<4xf32> { ... }
    %h = fusion.group ...
    %s = fusion.await %f : !fusion.future<tensor<4xf32>>
    %y = fusion.group loop (%a = %s : tensor<4xf32>) ...
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "the function to schedule">,
    Option<"device", "device", "std::string", "\"cpu\"", "device name, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect", "::mlir::func::FuncDialect"];
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
