// RUN: fusion-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical{device=%S/Inputs/sheet.json},fusion-verify-fusion-certificate))" --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK

// Where recomputing is legal, the cost model decides.

// Rows and columns are no one group. Negating again costs one flop to the 35
// there are (exp and tanh count 16): 3 percent. The 256 MiB of x are read twice
// either way; writing and reading what is negated goes away: a third of the bytes.
// Before: 2 launches of 2 us, 3 * 256 MiB at 4.8 TB/s; after: 2 * 256 MiB.
// CHECK-LABEL: func.func @recompute_cheap
// CHECK: fusion.group column_reduce ({{.*}}) -> tensor<8192xf32>
// CHECK-NEXT: fusion.neg
// CHECK: fusion.group row_reduce ({{.*}}) -> tensor<8192xf32>
// CHECK-NEXT: fusion.neg
// CHECK: return
// REMARK: [Passed] recompute-cheap | {{.*}}limit=132, producer=fusion.neg, us_fused=115.86, us_unfused=171.79, value=3
func.func @recompute_cheap(%x: tensor<8192x8192xf32>) -> (tensor<8192xf32>, tensor<8192xf32>) {
  %0 = fusion.neg %x : tensor<8192x8192xf32>
  %1 = fusion.exp %0 : tensor<8192x8192xf32>
  %2 = fusion.reduce sum, %1 dims = [1] : tensor<8192x8192xf32>
  %3 = fusion.tanh %0 : tensor<8192x8192xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<8192x8192xf32>
  return %2, %4 : tensor<8192xf32>, tensor<8192xf32>
}

// -----

// The last epilogue op is no better off beside its only reader, in spite of the
// product's kernel being the one with the arithmetic.
// CHECK-LABEL: func.func @stays_in_epilogue
// CHECK: fusion.group library
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.neg
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group loop
// CHECK: return
func.func @stays_in_epilogue(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = fusion.matmul %x, %w : tensor<512x512xf32>, tensor<512x512xf32>
  %1 = fusion.neg %0 : tensor<512x512xf32>
  %2 = fusion.transpose %1 permutation = [1, 0] : tensor<512x512xf32>
  %3 = fusion.add %2, %y : tensor<512x512xf32>
  return %3 : tensor<512x512xf32>
}

// -----

// A product's tail would write what it widened: the row's group does that itself
// and reads the product. The cast comes along, since nothing else reads it.
// CHECK-LABEL: func.func @recompute_with_cast
// CHECK: fusion.group contraction {{.*}} -> tensor<8192x8192xbf16> {
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group row_reduce
// CHECK: fusion.cast
// CHECK: fusion.mul
// CHECK: return
// REMARK: [Passed] recompute-cheap | {{.*}}producer=fusion.mul
func.func @recompute_with_cast(%a: tensor<8192x64xbf16>, %b: tensor<64x8192xbf16>, %w: tensor<8192xf32>) -> (tensor<8192x8192xbf16>, tensor<8192xf32>, tensor<8192x8192xf32>) {
  %0 = fusion.matmul %a, %b : tensor<8192x64xbf16>, tensor<64x8192xbf16>
  %1 = fusion.cast %0 : tensor<8192x8192xbf16> to tensor<8192x8192xf32>
  %2 = fusion.broadcast %w dims = [1] : tensor<8192xf32> to tensor<8192x8192xf32>
  %3 = fusion.mul %1, %2 : tensor<8192x8192xf32>
  %4 = fusion.reduce mean, %3 dims = [1] : tensor<8192x8192xf32>
  %5 = fusion.broadcast %4 dims = [0] : tensor<8192xf32> to tensor<8192x8192xf32>
  %6 = fusion.sub %3, %5 : tensor<8192x8192xf32>
  return %0, %4, %6 : tensor<8192x8192xbf16>, tensor<8192xf32>, tensor<8192x8192xf32>
}

// -----

// What is dear is never recomputed: exp is written once.
// CHECK-LABEL: func.func @dear
// CHECK-COUNT-1: fusion.exp
// CHECK-NOT: fusion.exp
// CHECK: return
func.func @dear(%x: tensor<8192x8192xf32>) -> (tensor<8192xf32>, tensor<8192xf32>) {
  %0 = fusion.exp %x : tensor<8192x8192xf32>
  %1 = fusion.neg %0 : tensor<8192x8192xf32>
  %2 = fusion.reduce sum, %1 dims = [1] : tensor<8192x8192xf32>
  %3 = fusion.abs %0 : tensor<8192x8192xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<8192x8192xf32>
  return %2, %4 : tensor<8192xf32>, tensor<8192xf32>
}

// -----

// Behind the broadcast each square root would be taken seven times: 600 percent
// more arithmetic, to save 2 of 10 parts of the bytes.
// CHECK-LABEL: func.func @too_dense
// CHECK: fusion.group
// CHECK: fusion.group
// REMARK: [Missed] compute-density | {{.*}}consumer=fusion.broadcast, limit=80, producer=fusion.sqrt, {{.*}}value=600
func.func @too_dense(%x: tensor<4194304xf32>) -> tensor<4194304x7xf32> {
  %0 = fusion.sqrt %x : tensor<4194304xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<4194304xf32> to tensor<4194304x7xf32>
  return %1 : tensor<4194304x7xf32>
}

// -----

// Of so few elements the launch that is saved costs more than any recomputing.
// CHECK-LABEL: func.func @negligible
// CHECK-COUNT-1: fusion.group
// CHECK-NOT: fusion.group
// CHECK: return
// REMARK: [Passed] fuse-loop | {{.*}}consumer=fusion.broadcast, {{.*}}producer=fusion.sqrt
func.func @negligible(%x: tensor<64xf32>) -> tensor<64x7xf32> {
  %0 = fusion.sqrt %x : tensor<64xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<64xf32> to tensor<64x7xf32>
  return %1 : tensor<64x7xf32>
}

// -----

// One consumer reads the square element by element and by index: computed at
// both, in one kernel.
// CHECK-LABEL: func.func @two_index_maps
// CHECK-COUNT-1: fusion.group
// CHECK-NOT: fusion.group
// CHECK: return
func.func @two_index_maps(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32> {
  %s = fusion.mul %a, %a : tensor<2x4xf32>
  %0 = fusion.add %b, %s : tensor<2x4xf32>
  %1 = fusion.gather %s, %i axis = 0 : tensor<2x4xf32>, tensor<2xi64>
  %2 = fusion.add %0, %1 : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Under five maps even what is cheap makes too much code.
// REMARK: [Missed] two-index-maps | {{.*}}at=fusion.neg, {{.*}}limit=4, {{.*}}value=5
func.func @five_maps(%x: tensor<8xf32>) -> tensor<4xf32> {
  %s = fusion.neg %x : tensor<8xf32>
  %0 = fusion.slice %s starts = [0] limits = [4] strides = [1] : tensor<8xf32>
  %1 = fusion.slice %s starts = [1] limits = [5] strides = [1] : tensor<8xf32>
  %2 = fusion.slice %s starts = [2] limits = [6] strides = [1] : tensor<8xf32>
  %3 = fusion.slice %s starts = [3] limits = [7] strides = [1] : tensor<8xf32>
  %4 = fusion.slice %s starts = [4] limits = [8] strides = [1] : tensor<8xf32>
  %5 = fusion.max %0, %1 : tensor<4xf32>
  %6 = fusion.max %2, %3 : tensor<4xf32>
  %7 = fusion.max %5, %6 : tensor<4xf32>
  %8 = fusion.max %7, %4 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// Residual and norm: one launch, and the sum is stored for the next block too.
// CHECK-LABEL: func.func @residual_norm
// CHECK: %[[G:.*]]:2 = fusion.group row_reduce
// CHECK-NEXT: fusion.add
// CHECK-NEXT: fusion.layer_norm
// CHECK-NEXT: fusion.yield
// CHECK: return %[[G]]#0, %[[G]]#1
// REMARK: [Passed] fuse-row-reduce | {{.*}}consumer=fusion.layer_norm, kind=row_reduce, producer=fusion.add, us_fused={{.*}}, us_unfused=
func.func @residual_norm(%x: tensor<128x768xf32>, %r: tensor<128x768xf32>) -> (tensor<128x768xf32>, tensor<128x768xf32>) {
  %0 = fusion.add %x, %r : tensor<128x768xf32>
  %1 = fusion.layer_norm %0 epsilon = 1.0e-5 axis = 1 : tensor<128x768xf32>
  return %0, %1 : tensor<128x768xf32>, tensor<128x768xf32>
}

// -----

// A norm is no prologue of a product that a library computes: the library reads
// its operands whole (fuse-vertical-prologue.mlir has the products of our own).
// The remark says what it would take: 64 columns are one tile, so each row would
// be normalized once, and the norm's launch and traffic would go.
// CHECK-LABEL: func.func @norm_projection
// CHECK: fusion.group row_reduce
// CHECK: fusion.group library
// REMARK: [Missed] anchor-operand | {{.*}}consumer=fusion.matmul, limit=1, producer=fusion.layer_norm, us_fused={{.*}}, us_unfused={{.*}}, value=1
func.func @norm_projection(%x: tensor<128x768xf32>, %w: tensor<768x64xf32>) -> tensor<128x64xf32> {
  %0 = fusion.layer_norm %x epsilon = 1.0e-5 axis = 1 : tensor<128x768xf32>
  %1 = fusion.matmul %0, %w : tensor<128x768xf32>, tensor<768x64xf32>
  return %1 : tensor<128x64xf32>
}

// -----

// Written by hand: max, shift, exp, sum, divide are one kernel.
// CHECK-LABEL: func.func @softmax
// CHECK: fusion.group row_reduce
// CHECK-NOT: fusion.group
// CHECK: return
func.func @softmax(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %0 = fusion.reduce max, %x dims = [1] : tensor<128x768xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<128xf32> to tensor<128x768xf32>
  %2 = fusion.sub %x, %1 : tensor<128x768xf32>
  %3 = fusion.exp %2 : tensor<128x768xf32>
  %4 = fusion.reduce sum, %3 dims = [1] : tensor<128x768xf32>
  %5 = fusion.broadcast %4 dims = [0] : tensor<128xf32> to tensor<128x768xf32>
  %6 = fusion.div %3, %5 : tensor<128x768xf32>
  return %6 : tensor<128x768xf32>
}

// -----

// Slices, concats, pads and gathers are read where they land, in one kernel.
// CHECK-LABEL: func.func @moves
// CHECK: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: return
func.func @moves(%x: tensor<5x4xf32>, %y: tensor<2x4xf32>, %i: tensor<6xi64>) -> tensor<6x6xf32> {
  %c = fusion.constant dense<0.0> : tensor<f32>
  %s = fusion.slice %x starts = [1, 0] limits = [5, 4] strides = [1, 1] : tensor<5x4xf32>
  %0 = fusion.exp %s : tensor<4x4xf32>
  %1 = fusion.concat %0, %y axis = 0 : tensor<4x4xf32>, tensor<2x4xf32>
  %2 = fusion.gather %1, %i axis = 0 : tensor<6x4xf32>, tensor<6xi64>
  %3 = fusion.pad %2, %c low = [0, 1] high = [0, 1] : tensor<6x4xf32>, tensor<f32>
  %4 = fusion.neg %3 : tensor<6x6xf32>
  return %4 : tensor<6x6xf32>
}
