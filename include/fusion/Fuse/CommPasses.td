//===- CommPasses.td - Passes that fuse communication ---------------------===//
//
// Buckets, clipping, gathers in chunks, and who adds what ranks send. They stand
// ahead of the passes that form groups.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_FUSE_COMMPASSES_TD
#define FUSION_FUSE_COMMPASSES_TD

include "mlir/Pass/PassBase.td"

def BucketCollectives : Pass<"fusion-bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "joins reductions of gradients into buckets";
  let description = [{
    All-reduces and reduce-scatters of one tensor each that agree in ranks, kind,
    element type and memory become variadic ones, in the order in which their
    operands are computed. Each bucket stands right behind the producer of its
    last member. The first bucket is small, so that communication starts early;
    sizes double up to `bucket-bytes` and are half of what is left at the end,
    down to `tail`. A gradient above the size is reduced in parts: slices of one
    buffer. A member is added only where the last collective does not end later
    for it by more than is saved (docs/buckets-and-clipping.md has the model).
    Sums that all readers divide by the number of ranks, a power of two, become
    means; reductions of zeros go; the same value is reduced once. Sums that
    computation waits for go together where the first would still be on its way
    when the next one is ready; a number that no reduction is computed from, such as
    the loss, may go with a gradient.

    Requires: one block. Ensures: the order of collectives is a function of the
    graph, the options and the device file, so it is the same on all ranks; each
    collective made here has `fusion.bucket`, its number in that order. No bit
    changes, but that a mean of f16 or bf16 does not leave its range. Idempotent.
    Leaves alone: collectives of several tensors or with `fusion.bucket`; sizes that
    depend on the batch; what stands on both sides of an op with side effects.
    Reports: `fuse-bucket` for each bucket, with bytes, members, and when it is
    ready, starts and ends, and what of it is exposed; and why a bucket ends.

    Before:
    ```mlir
    fusion.mesh @m(dp = 2)
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %0 = fusion.exp %x : tensor<4xf32>
      %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<4xf32>
      %2 = fusion.exp %y : tensor<6xf32>
      %3 = fusion.all_reduce sum, %2 on @m[dp] : tensor<6xf32>
      return %1, %3 : tensor<4xf32>, tensor<6xf32>
    }
    ```
    After:
    ```mlir
    fusion.mesh @m(dp = 2)
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %0 = fusion.exp %x : tensor<4xf32>
      %2 = fusion.exp %y : tensor<6xf32>
      %1:2 = fusion.all_reduce sum, %0, %2 on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<6xf32>
      return %1#0, %1#1 : tensor<4xf32>, tensor<6xf32>
    }
    ```
  }];
  let options = [
    Option<"firstBytes", "first-bytes", "int64_t", "1048576", "bytes of the first bucket">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "0",
           "bytes that buckets grow to, 0: what the cost model finds best, or 25 MiB where the device file has no `comm`">,
    Option<"tail", "tail", "int64_t", "1048576", "bytes that the last buckets shrink to, 0: they don't">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def ChunkGathers : Pass<"fusion-chunk-gathers", "::mlir::func::FuncOp"> {
  let summary = "multiplies rows while others are gathered";
  let description = [{
    An all_gather along the outermost dimension whose readers are products with it
    on the left is taken apart in one of two ways, with the elementwise ops that
    alone read a product's result.

    Own rows first: the product of this rank's rows reads them where they are. The
    other ranks' come by collective_permute, one from each, the last in up to four
    chunks, and are multiplied as they arrive; `fusion.rank_concat` puts the results
    into the order of the ranks. Ops that read more than these rows, what is the
    same in each row, and results made so, stay behind it.

    Chunks: the gather becomes several, of some rows of each rank's part; each is
    multiplied as soon as it is there, a product for each rank's rows.

    What puts rows together is no work: products write them where they belong. The
    way and the sizes are those of the least predicted time. What NCCL sends on a
    GPU is not counted as beside a product unless it starts before it, for a
    library's product holds all multiprocessors to its end.

    Requires: one block.
    Ensures: the order of collectives is a function of the graph, the options and
    the device file; what is made here has `fusion.chunk`. A row of a product is
    computed from the same rows. Idempotent.
    Leaves alone: gathers that are hidden by what is computed before their first
    reader; those for which no way is predicted to save 3 %. Own rows are not first
    where a result takes an argument's bytes.
    Reports: `chunk-own` or `chunk-gather` with the nanoseconds of both ways, and
    each refusal.

    Before:
    ```mlir
    fusion.mesh @m(tp = 2)
    func.func @main(%x: tensor<2048x4096xbf16>, %w: tensor<4096x7168xbf16>) -> tensor<4096x7168xbf16> {
      %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<2048x4096xbf16>) -> tensor<4096x4096xbf16>
      %1 = fusion.matmul %0, %w : tensor<4096x4096xbf16>, tensor<4096x7168xbf16>
      return %1 : tensor<4096x7168xbf16>
    }
    ```
    After, own rows first:
    ```mlir
    %0 = fusion.collective_permute %x sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.chunk = 0 : i64} : tensor<2048x4096xbf16>
    %1 = fusion.matmul %x, %w : tensor<2048x4096xbf16>, tensor<4096x7168xbf16>
    %2 = fusion.matmul %0, %w : tensor<2048x4096xbf16>, tensor<4096x7168xbf16>
    %3 = fusion.rank_concat %1, %2 on @m[tp] {fusion.chunk = 0 : i64} : (tensor<2048x7168xbf16>, tensor<2048x7168xbf16>) -> tensor<4096x7168xbf16>
    ```
    After, in two chunks:
    ```mlir
    %0 = fusion.slice %x starts = [0, 0] limits = [256, 4096] strides = [1, 1] : tensor<2048x4096xbf16>
    %1 = fusion.all_gather %0 dim = 0 on @m[tp] {fusion.chunk = 0 : i64} : (tensor<256x4096xbf16>) -> tensor<512x4096xbf16>
    %2 = fusion.slice %x starts = [256, 0] limits = [2048, 4096] strides = [1, 1] : tensor<2048x4096xbf16>
    %3 = fusion.all_gather %2 dim = 0 on @m[tp] {fusion.chunk = 1 : i64} : (tensor<1792x4096xbf16>) -> tensor<3584x4096xbf16>
    ...
    %12 = fusion.concat %5, %9, %7, %11 axis = 0 : ...
    ```
  }];
  let options = [
    Option<"transport", "transport", "std::string", "\"auto\"", "auto, nccl, peer or direct">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def ExchangeLookups : Pass<"fusion-exchange-lookups", "::mlir::func::FuncOp"> {
  let summary = "exchanges rows that are looked up in place of gathering the table";
  let description = [{
    A table that ranks hold rows of, gathered for lookups alone, has more rows than
    they name. The indices are gathered instead; every rank looks up those of all
    ranks in its own rows, sends to each what that one asked for (all_to_all), and
    takes the row that its owner sent. What is narrowed ahead of the gather is
    looked up before.

    Requires: one block; before fusion-gather-updates, which gathers the same
    indices, and fusion-bucket-gathers.
    Ensures: the same bits, for indices outside the table too. Idempotent.
    Leaves alone: tables that something else reads, or that are gathered over
    several axes; sizes that depend on the batch; 32-bit indices of more rows than
    they reach; what is predicted to be no faster.
    Reports: `exchange-lookups` with the nanoseconds of both ways, and why not.

    Before:
    ```mlir
    fusion.mesh @m(dp = 2)
    func.func @main(%t: tensor<32768x512xf32>, %i: tensor<64xi64>) -> tensor<64x512xf32> {
      %0 = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
      %1 = fusion.gather %0, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
      return %1 : tensor<64x512xf32>
    }
    ```
    After:
    ```mlir
    %0 = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<64xi64>) -> tensor<128xi64>
    %1 = fusion.clamp %0, %zero, %last : tensor<128xi64>
    %2 = fusion.sub %1, %first : tensor<128xi64>    // this rank's first row
    %3 = fusion.gather %t, %2 axis = 0 : tensor<32768x512xf32>, tensor<128xi64>
    %4 = fusion.all_to_all %3 split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<128x512xf32>) -> tensor<128x512xf32>
    %5 = fusion.gather %4, %at axis = 0 : tensor<128x512xf32>, tensor<64xi64>  // owner * 64 + number
    ```
  }];
  let options = [
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def GatherUpdates : Pass<"fusion-gather-updates", "::mlir::func::FuncOp"> {
  let summary = "gathers the updates of rows in place of reducing the tensor";
  let description = [{
    The gradient of an embedding is a tensor of zeros to whose rows updates are
    added, far fewer than it has rows. Where every rank adds its own and the
    results are summed over ranks (all_reduce; reduce_scatter of rows), the updates
    and their indices are gathered instead and every rank adds all of them, to the
    rows that it keeps. What was widened for the sum is gathered narrow; indices
    that are gathered ahead of the scatter already are not gathered again.

    Requires: one block; before fusion-bucket-collectives.
    Ensures: the order in which updates are added is that of one program over all
    ranks' updates, and the same on all ranks: sums of floats may round otherwise
    than sums of each rank's; all else keeps its bits. Idempotent.
    Leaves alone: scatters of another kind or to other values, those that something
    else reads, and reductions that are predicted to be no slower.
    Reports: `gather-updates` with the nanoseconds of both ways, and why not.

    Before:
    ```mlir
    %s = fusion.scatter add, %zeros, %i, %u : tensor<4096x8xf32>, tensor<4x1xi64>, tensor<4x8xf32>
    %g = fusion.all_reduce sum, %s on @m[dp] : tensor<4096x8xf32>
    ```
    After:
    ```mlir
    %0 = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<4x1xi64>) -> tensor<8x1xi64>
    %1 = fusion.all_gather %u dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %g = fusion.scatter add, %zeros, %0, %1 : tensor<4096x8xf32>, tensor<8x1xi64>, tensor<8x8xf32>
    ```
  }];
  let options = [
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def BucketGathers : Pass<"fusion-bucket-gathers", "::mlir::func::FuncOp"> {
  let summary = "gathers parameters that are read one behind the other together";
  let description = [{
    An all_gather of an argument or a parameter, each of which is gathered once, goes
    into one collective with those whose first readers come next, as long as its
    bytes take no more than twice the time that starting one takes. Where the device
    file says how long one waits behind another (`queued_us`), each may have twice the
    bytes of the one before it, until they take as long as that; with `bucket-bytes`,
    until they have these. What is widened before it is gathered is widened behind.

    Requires: one block.
    Ensures: the order of collectives is a function of the graph and the device
    file. Bits stay. Idempotent: buckets don't grow.
    Leaves alone: gathers of what is computed, of several tensors, or with
    attributes; sizes that depend on the batch.
    Reports: `bucket-gathers` with the tensors and bytes, `gather-key`.

    Before:
    ```mlir
    %0 = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = fusion.matmul %x, %0 : tensor<2x8xf32>, tensor<8x8xf32>
    %2 = fusion.all_gather %b dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
    ```
    After:
    ```mlir
    %0:2 = fusion.all_gather %w, %b dim = 0 on @m[dp] : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
    %1 = fusion.matmul %x, %0#0 : tensor<2x8xf32>, tensor<8x8xf32>
    ```
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "int64_t", "0", "bytes that buckets grow to at least, 0: by the device's file">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def FuseClip : Pass<"fusion-fuse-clip", "::mlir::func::FuncOp"> {
  let summary = "takes the norm of gradients where they are reduced";
  let description = [{
    The root of a sum of sums of squares, of which a scalar factor of the same
    tensors follows, is a clip by the global norm. Each sum of squares moves right
    behind the reduction of its tensor (of each part, if it was reduced in parts),
    as a row, so that those of a bucket have one form; but those of buckets before
    the last one stand behind that one, as many as fill the time it takes. One reduction adds them in
    the order in which they were added. Terms that are sums over ranks become one
    sum a rank and one scalar collective for each group of ranks. The factor stays
    a scalar that vertical fusion hands to the updates: no pass scales gradients.

    Of large gradients that all ranks have, each rank squares its own part
    (`fusion.rank_slice`), and a scalar collective adds the ranks' sums, where that
    is predicted to take less than reading all of them: those up to some moment, so
    that the rest hides the collective. What a size leaves beyond equal parts of
    aligned bytes all ranks square.

    Requires: one block; fusion-bucket-collectives before, if it runs.
    Ensures: what a norm of infinity, NaN or zero does is as it was written, and
    the same on all ranks. Terms of a rank are added before they are added over
    ranks, and parts before tensors: sums of floats may round otherwise; all else
    keeps its bits. Idempotent.
    Leaves alone: norms that no factor follows from; terms added as a tree;
    a gradient that is the same on the ranks that its term is summed over.
    Reports: `clip-partial` for each sum, `fuse-clip` for each norm, and why not;
    `clip-share` with what sharing saves and costs, or `clip-share-profit`.

    Before:
    ```mlir
    %r:2 = fusion.all_reduce sum, %a, %b on @m[dp] {fusion.bucket = 0 : i64} : tensor<2x2xf32>, tensor<3xf32>
    %q = fusion.mul %r#0, %r#0 : tensor<2x2xf32>
    %s = fusion.reduce sum, %q dims = [0, 1] : tensor<2x2xf32>
    %t = fusion.mul %r#1, %r#1 : tensor<3xf32>
    %u = fusion.reduce sum, %t dims = [0] : tensor<3xf32>
    %v = fusion.add %s, %u : tensor<f32>
    %n = fusion.sqrt %v : tensor<f32>
    ```
    After:
    ```mlir
    %r:2 = fusion.all_reduce sum, %a, %b on @m[dp] {fusion.bucket = 0 : i64} : tensor<2x2xf32>, tensor<3xf32>
    %f = fusion.reshape %r#0 : tensor<2x2xf32> to tensor<4xf32>
    %q = fusion.mul %f, %f : tensor<4xf32>
    %s = fusion.reduce sum, %q dims = [0] : tensor<4xf32>
    %t = fusion.mul %r#1, %r#1 : tensor<3xf32>
    %u = fusion.reduce sum, %t dims = [0] : tensor<3xf32>
    %v = fusion.add %s, %u : tensor<f32>
    %n = fusion.sqrt %v : tensor<f32>
    ```
  }];
  let options = [
    Option<"share", "share", "bool", "true", "let ranks square parts of gradients that all have">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def ReduceInConsumers : Pass<"fusion-reduce-in-consumers", "::mlir::func::FuncOp"> {
  let summary = "chooses what carries a collective; sums by the kernels that read";
  let description = [{
    Copy engines can move tensors between GPUs of one host without taking
    multiprocessors from kernels, but they can't add. So where they carry a
    reduction it becomes a move and elementwise ops: two ranks swap their tensors
    (collective_permute), more gather them along a new leading dimension
    (all_gather), and of a reduce_scatter each gets its part of every rank's
    (all_to_all). The sums have the bits of the reduction: in the order of the
    ranks, accumulated in f64 (f32 where that is the same), rounded once. Vertical
    fusion then computes them in the kernels that read them.

    `transport` is `peer`: wherever that is legal; `direct`: the same, and the
    kernels that read a sum read the other ranks' tensors where they are, if the
    schedule finds that they can; `nccl`: nowhere; `auto`: as the
    device file predicts the shorter step, for each collective; without its
    `comm.transports`, nothing is done.

    Requires: one block; fusion-bucket-collectives and fusion-fuse-clip before, if
    they run. Ensures: each collective has `fusion.transport`, unless nothing is
    done; `fusion.bucket` is kept on the move. Idempotent.
    Leaves alone: collectives with `fusion.transport`; reductions with a reader
    that is neither elementwise nor a reduction, or that are only returned; sizes
    that depend on the batch; groups of one rank; functions of which a region
    communicates; what would not fit `memory-limit`: the ranks' tensors are N - 1
    times the bytes of an all_reduce more, and (N - 1) / N of a reduce_scatter.
    Reports: `transport-sum` or `transport-peer` for each collective that copy
    engines carry, with the bytes, and why not.

    Before, with `transport=peer`:
    ```mlir
    fusion.mesh @m(dp = 2)
    func.func @main(%g: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
      %1 = fusion.sub %w, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    After:
    ```mlir
    fusion.mesh @m(dp = 2)
    func.func @main(%g: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
      %2 = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "peer"} : tensor<4xf32>
      %0 = fusion.add %g, %2 : tensor<4xf32>
      %1 = fusion.sub %w, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"transport", "transport", "std::string", "\"auto\"", "auto, nccl, peer or direct">,
    Option<"memoryLimit", "memory-limit", "int64_t", "0", "bytes of intermediates, 0: the device's memory">,
    Option<"device", "device", "std::string", "\"cpu\"", "name of a shipped device, or path of a device file">,
    Option<"costModel", "cost-model", "std::string", "\"roofline\"", "what predicts times">
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

#endif // FUSION_FUSE_COMMPASSES_TD
