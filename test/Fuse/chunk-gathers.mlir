// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-link.json --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-link.json --fusion-chunk-gathers=device=%S/Inputs/slow-link.json | FileCheck %s --enable-var-scope

// Rows of 16 f32: a rank's 64 KiB take 655 us at 0.1 GB/s, the product of all
// rows 1048 us (2 * 2048 * 16 * 16 operations at 1e9 a second). Half of it hides
// most of the move; a second one would wait for the product in front of it. The
// bias, the same in each row, goes along; which rows of the residual a product
// would need depends on the rank.
// CHECK-LABEL: func.func @epilogue
// CHECK: %[[OTHER:.*]] = fusion.collective_permute %arg0 sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.chunk = 0 : i64} : tensor<1024x16xf32>
// CHECK-NOT: fusion.collective_permute
// CHECK: fusion.matmul %arg0, %arg1 : tensor<1024x16xf32>, tensor<16x16xf32>
// CHECK: fusion.broadcast %arg2 dims = [1] : tensor<16xf32> to tensor<1024x16xf32>
// CHECK: %[[A:.*]] = fusion.add
// CHECK: fusion.matmul %[[OTHER]], %arg1 : tensor<1024x16xf32>, tensor<16x16xf32>
// CHECK: %[[B:.*]] = fusion.add
// CHECK: %[[Y:.*]] = fusion.rank_concat %[[A]], %[[B]] on @m[tp] {fusion.chunk = 0 : i64} : (tensor<1024x16xf32>, tensor<1024x16xf32>) -> tensor<2048x16xf32>
// CHECK: %[[Z:.*]] = fusion.add %[[Y]], %arg3 : tensor<2048x16xf32>
// CHECK-NEXT: return %[[Z]]
// REMARK: [Passed] chunk-own | {{.*}}chunks=1, nanoseconds=1179{{[0-9]+}}, nanoseconds_whole=1703{{[0-9]+}}, rows_first=1024
fusion.mesh @m(tp = 2)
func.func @epilogue(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>, %r: tensor<2048x16xf32>) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  %2 = fusion.broadcast %b dims = [1] : tensor<16xf32> to tensor<2048x16xf32>
  %3 = fusion.add %1, %2 : tensor<2048x16xf32>
  %4 = fusion.add %3, %r : tensor<2048x16xf32>
  return %4 : tensor<2048x16xf32>
}

// -----

// Two products of one gather, the second read by the first one's epilogue: its
// rows are taken as they were multiplied, nothing is put together twice.
// CHECK-LABEL: func.func @gated
// CHECK-COUNT-1: fusion.rank_concat
// CHECK-NEXT: return
// REMARK: [Passed] chunk-own
fusion.mesh @m(tp = 2)
func.func @gated(%x: tensor<1024x16xf32>, %g: tensor<16x16xf32>, %u: tensor<16x16xf32>) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %g : tensor<2048x16xf32>, tensor<16x16xf32>
  %2 = fusion.silu %1 : tensor<2048x16xf32>
  %3 = fusion.matmul %0, %u : tensor<2048x16xf32>, tensor<16x16xf32>
  %4 = fusion.mul %2, %3 : tensor<2048x16xf32>
  return %4 : tensor<2048x16xf32>
}

// -----

// The second product's ops end at the residual, so the first one's read rows
// that are put together: they stay behind as well.
// CHECK-LABEL: func.func @gated_residual
// CHECK: %[[U:.*]] = fusion.rank_concat
// CHECK: %[[R:.*]] = fusion.add %[[U]], %arg3 : tensor<2048x16xf32>
// CHECK: %[[G:.*]] = fusion.rank_concat
// CHECK: fusion.mul %[[G]], %[[R]] : tensor<2048x16xf32>
// REMARK: [Passed] chunk-own
fusion.mesh @m(tp = 2)
func.func @gated_residual(%x: tensor<1024x16xf32>, %g: tensor<16x16xf32>, %u: tensor<16x16xf32>, %r: tensor<2048x16xf32>) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %u : tensor<2048x16xf32>, tensor<16x16xf32>
  %2 = fusion.add %1, %r : tensor<2048x16xf32>
  %3 = fusion.matmul %0, %g : tensor<2048x16xf32>, tensor<16x16xf32>
  %4 = fusion.silu %3 : tensor<2048x16xf32>
  %5 = fusion.mul %4, %2 : tensor<2048x16xf32>
  return %5 : tensor<2048x16xf32>
}

// -----

// A result that takes an argument's bytes can't be written in the rank's place
// at once, and chunks over NCCL hide nothing.
// CHECK-LABEL: func.func @donated
// CHECK-NOT: fusion.chunk
// REMARK: [Missed] chunk-place
// REMARK: [Missed] chunk-profit
fusion.mesh @m(tp = 2)
func.func @donated(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %d: tensor<2048x16xf32> {fusion.donated = 0 : i64}) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  return %1 : tensor<2048x16xf32>
}

// -----

// Products take a hundred times what is sent: chunks would hide 1 %.
// CHECK-LABEL: func.func @profit
// CHECK-NOT: fusion.chunk
// REMARK: [Missed] chunk-profit
fusion.mesh @m(tp = 2)
func.func @profit(%x: tensor<1024x16xf32>, %w: tensor<16x1024xf32>) -> tensor<2048x1024xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x1024xf32>
  return %1 : tensor<2048x1024xf32>
}

// -----

// A product that does not need it comes first and takes longer.
// CHECK-LABEL: func.func @hidden
// CHECK-NOT: fusion.chunk
// REMARK: [Missed] chunk-hidden
fusion.mesh @m(tp = 2)
func.func @hidden(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %y: tensor<2048x16xf32>) -> (tensor<2048x16xf32>, tensor<2048x16xf32>) {
  %2 = fusion.matmul %y, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  return %1, %2 : tensor<2048x16xf32>, tensor<2048x16xf32>
}

// -----

// Gathered weights are on the right; something else reads the rows; columns.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: fusion.chunk
// REMARK: [Missed] chunk-reader
// REMARK: [Missed] chunk-reader
// REMARK: [Missed] chunk-shape
fusion.mesh @m(tp = 2)
func.func @refused(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %v: tensor<8x16xf32>, %c: tensor<64x8xf32>) -> (tensor<1024x16xf32>, tensor<2048x16xf32>, tensor<2048x16xf32>, tensor<64x16xf32>) {
  %0 = fusion.all_gather %v dim = 0 on @m[tp] : (tensor<8x16xf32>) -> tensor<16x16xf32>
  %1 = fusion.matmul %x, %0 : tensor<1024x16xf32>, tensor<16x16xf32>
  %2 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %3 = fusion.matmul %2, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  %4 = fusion.exp %2 : tensor<2048x16xf32>
  %5 = fusion.all_gather %c dim = 1 on @m[tp] : (tensor<64x8xf32>) -> tensor<64x16xf32>
  %6 = fusion.matmul %5, %w : tensor<64x16xf32>, tensor<16x16xf32>
  return %1, %3, %4, %6 : tensor<1024x16xf32>, tensor<2048x16xf32>, tensor<2048x16xf32>, tensor<64x16xf32>
}

// -----

// A product that runs on a condition stands in another block than its gather.
// CHECK-LABEL: func.func @condition
// CHECK-NOT: fusion.chunk
// REMARK: [Missed] chunk-reader
fusion.mesh @m(tp = 2)
func.func @condition(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %y: tensor<2048x16xf32>, %c: i1) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = scf.if %c -> tensor<2048x16xf32> {
    %2 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
    scf.yield %2 : tensor<2048x16xf32>
  } else {
    scf.yield %y : tensor<2048x16xf32>
  }
  return %1 : tensor<2048x16xf32>
}
