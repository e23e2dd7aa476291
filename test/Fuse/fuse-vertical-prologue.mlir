// RUN: fusion-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical,fusion-verify-fusion-certificate))" --remarks-filter=fusion -o %t1.mlir 2>%t.remarks
// RUN: FileCheck %s < %t1.mlir
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: fusion-opt %t1.mlir --split-input-file --fusion-fuse-vertical -o %t2.mlir
// RUN: diff %t1.mlir %t2.mlir

// What computes the left side of a product of our own (here f64) is computed row
// by row in its kernel, if the cost model predicts a gain.

// Apart, on this device at 40 GB/s, a quarter of it for one block: 2 us and 8192
// bytes, 2 us and 18432 bytes and 4096 from the cache. Together 2 us and 22528
// bytes.
// CHECK-LABEL: func.func @norm
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.layer_norm
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.relu
// CHECK-NEXT: fusion.yield
// CHECK-NOT: fusion.group
// REMARK: [Passed] fuse-prologue | {{.*}}consumer=fusion.matmul, kind=contraction, producer=fusion.layer_norm, us_fused=4.25, us_unfused=6.74
// REMARK: [Passed] fuse-epilogue | {{.*}}consumer=fusion.relu, kind=contraction, producer=fusion.matmul
func.func @norm(%x: tensor<8x64xf64>, %w: tensor<64x32xf64>) -> tensor<8x32xf64> {
  %0 = fusion.layer_norm %x epsilon = 1.0e-5 axis = 1 : tensor<8x64xf64>
  %1 = fusion.matmul %0, %w : tensor<8x64xf64>, tensor<64x32xf64>
  %2 = fusion.relu %1 : tensor<8x32xf64>
  return %2 : tensor<8x32xf64>
}

// -----

// A chain of elementwise ops, a broadcast that others read too, batches.
// CHECK-LABEL: func.func @chain
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.broadcast
// CHECK-NEXT: fusion.add
// CHECK-NEXT: fusion.cast
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK-NOT: fusion.group
func.func @chain(%x: tensor<2x8x64xi8>, %b: tensor<64xi8>, %w: tensor<2x64x32xi32>) -> tensor<2x8x32xi32> {
  %0 = fusion.broadcast %b dims = [2] : tensor<64xi8> to tensor<2x8x64xi8>
  %1 = fusion.add %x, %0 : tensor<2x8x64xi8>
  %2 = fusion.cast %1 : tensor<2x8x64xi8> to tensor<2x8x64xi32>
  %3 = fusion.matmul %2, %w : tensor<2x8x64xi32>, tensor<2x64x32xi32>
  return %3 : tensor<2x8x32xi32>
}

// -----

// One row would be one unit of work; apart, the product has 16 blocks, which use
// the whole bandwidth. 136,314,880 bytes take 3408 us, or four times that.
// CHECK-LABEL: func.func @one_row
// CHECK: fusion.group loop
// CHECK: fusion.group contraction
// REMARK: [Missed] no-gain | {{.*}}consumer=fusion.matmul, {{.*}}producer=fusion.exp, us_fused=13633.54, us_unfused=3411.98
func.func @one_row(%x: tensor<1x64xf64>, %w: tensor<64x262144xf64>) -> tensor<1x262144xf64> {
  %0 = fusion.exp %x : tensor<1x64xf64>
  %1 = fusion.matmul %0, %w : tensor<1x64xf64>, tensor<64x262144xf64>
  return %1 : tensor<1x262144xf64>
}

// -----

// A library reads its operands whole. Were the norm in its kernel, 512 columns
// were four tiles of 128, and each would normalize all rows.
// CHECK-LABEL: func.func @library
// CHECK: fusion.group row_reduce
// CHECK: fusion.group library
// REMARK: [Missed] anchor-operand | {{.*}}consumer=fusion.matmul, limit=1, producer=fusion.layer_norm, us_fused={{[0-9.]+}}, us_unfused={{[0-9.]+}}, value=4
func.func @library(%x: tensor<128x768xf32>, %w: tensor<768x512xf32>) -> tensor<128x512xf32> {
  %0 = fusion.layer_norm %x epsilon = 1.0e-5 axis = 1 : tensor<128x768xf32>
  %1 = fusion.matmul %0, %w : tensor<128x768xf32>, tensor<768x512xf32>
  return %1 : tensor<128x512xf32>
}

// -----

// The sum is the next block's too, so it is written; the normalized rows are not.
// CHECK-LABEL: func.func @residual
// CHECK: fusion.group loop
// CHECK-NEXT: fusion.add
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.rms_norm
// CHECK-NEXT: fusion.matmul
// REMARK: [Missed] anchor-operand | {{.*}}at=fusion.add, {{.*}}consumer=fusion.rms_norm, producer=fusion.add
// REMARK: [Passed] fuse-prologue | {{.*}}consumer=fusion.matmul, kind=contraction, producer=fusion.rms_norm
func.func @residual(%x: tensor<8x64xf64>, %r: tensor<8x64xf64>, %s: tensor<64xf64>, %w: tensor<64x32xf64>) -> (tensor<8x32xf64>, tensor<8x64xf64>) {
  %0 = fusion.add %x, %r : tensor<8x64xf64>
  %1 = fusion.rms_norm %0 scale %s epsilon = 1.0e-5 axis = 1 : tensor<8x64xf64>, tensor<64xf64>
  %2 = fusion.matmul %1, %w : tensor<8x64xf64>, tensor<64x32xf64>
  return %2, %0 : tensor<8x32xf64>, tensor<8x64xf64>
}

// -----

// A row must fit the kernel's frame: 32 KiB.
// CHECK-LABEL: func.func @long_row
// CHECK: fusion.group loop
// CHECK: fusion.group contraction
// REMARK: [Missed] anchor-operand | {{.*}}consumer=fusion.matmul, limit=32768, producer=fusion.neg, {{.*}}value=32776
func.func @long_row(%x: tensor<8x4097xf64>, %w: tensor<4097x8xf64>) -> tensor<8x8xf64> {
  %0 = fusion.neg %x : tensor<8x4097xf64>
  %1 = fusion.matmul %0, %w : tensor<8x4097xf64>, tensor<4097x8xf64>
  return %1 : tensor<8x8xf64>
}

// -----

// Not: what is read turned, the right side, a reduction along other rows, a value
// that the epilogue reads too. What reads that reduction is computed in the rows.
// CHECK-LABEL: func.func @others
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.matmul
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.matmul
// CHECK: fusion.group column_reduce
// CHECK-NEXT: fusion.reduce
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.broadcast
// CHECK-NEXT: fusion.sub
// CHECK-NEXT: fusion.matmul
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.matmul
func.func @others(%x: tensor<8x8xf64>, %w: tensor<8x8xf64>) -> (tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>) {
  %0 = fusion.exp %x : tensor<8x8xf64>
  %1 = fusion.matmul %0, %w {transpose_lhs} : tensor<8x8xf64>, tensor<8x8xf64>
  %2 = fusion.tanh %w : tensor<8x8xf64>
  %3 = fusion.matmul %x, %2 : tensor<8x8xf64>, tensor<8x8xf64>
  %m = fusion.reduce max, %x dims = [0] : tensor<8x8xf64>
  %n = fusion.broadcast %m dims = [1] : tensor<8xf64> to tensor<8x8xf64>
  %4 = fusion.sub %x, %n : tensor<8x8xf64>
  %5 = fusion.matmul %4, %w : tensor<8x8xf64>, tensor<8x8xf64>
  %6 = fusion.sqrt %x : tensor<8x8xf64>
  %7 = fusion.matmul %6, %w : tensor<8x8xf64>, tensor<8x8xf64>
  %8 = fusion.add %7, %6 : tensor<8x8xf64>
  return %1, %3, %5, %8 : tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>
}
