// Sums that are no gradients: those that computation waits for, and numbers.
//
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir -split-input-file --fusion-bucket-collectives | diff %t.mlir -

// Two sums, as of a batch norm's gradient: both are read by what comes next.
// CHECK-LABEL: func @sums
// CHECK: %[[A:.*]] = fusion.exp
// CHECK: %[[B:.*]] = fusion.abs
// CHECK: fusion.all_reduce sum, %[[A]], %[[B]] on @m[dp] {fusion.bucket = 0 : i64}
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] {fusion.bucket = 1 : i64}
// REMARK: [Passed] fuse-bucket | {{.*}}"sums that computation waits for are one collective", bucket=0, bytes=32, members=2
fusion.mesh @m(dp = 2)
func.func @sums(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %b = fusion.abs %x : tensor<4xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<4xf32>
  %c = fusion.add %ra, %rb : tensor<4xf32>
  %rc = fusion.all_reduce sum, %c on @m[dp] : tensor<4xf32>
  return %rc : tensor<4xf32>
}

// -----

// The product takes longer than the first sum is on its way.
// CHECK-LABEL: func @late
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] : tensor<4xf32>
// CHECK: fusion.matmul
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] : tensor<4xf32>
// REMARK-COUNT-2: [Missed] bucket-path
fusion.mesh @m(dp = 2)
func.func @late(%x: tensor<4xf32>, %w: tensor<4096x4096xf32>) -> tensor<4xf32> {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %p = fusion.matmul %w, %w : tensor<4096x4096xf32>, tensor<4096x4096xf32>
  %b = fusion.slice %p starts = [0, 0] limits = [1, 4] strides = [1, 1] : tensor<4096x4096xf32>
  %v = fusion.reshape %b : tensor<1x4xf32> to tensor<4xf32>
  %rb = fusion.all_reduce sum, %v on @m[dp] : tensor<4xf32>
  %c = fusion.add %ra, %rb : tensor<4xf32>
  %rc = fusion.all_reduce sum, %c on @m[dp] : tensor<4xf32>
  return %rc : tensor<4xf32>
}

// -----

// Nothing but the result needs the loss: it goes with the first gradient.
// CHECK-LABEL: func @loss
// CHECK: %[[S:.*]] = fusion.reduce
// CHECK-NOT: all_reduce
// CHECK: %[[G:.*]] = fusion.exp
// CHECK: fusion.all_reduce sum, %[[S]], %[[G]] on @m[dp] {fusion.bucket = 0 : i64} : tensor<f32>, tensor<4xf32>
// CHECK: fusion.sqrt
// CHECK-NOT: all_reduce
// CHECK: return
fusion.mesh @m(dp = 2)
func.func @loss(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %s = fusion.reduce sum, %x dims = [0] : tensor<4xf32>
  %rs = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
  %l = fusion.sqrt %rs : tensor<f32>
  %g = fusion.exp %x : tensor<4xf32>
  %rg = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  return %l, %rg : tensor<f32>, tensor<4xf32>
}

// -----

// A gradient that is scaled by it does need it.
// CHECK-LABEL: func @scale
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] : tensor<f32>
// CHECK: fusion.sqrt
// CHECK: fusion.mul
// CHECK: fusion.all_reduce
fusion.mesh @m(dp = 2)
func.func @scale(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %s = fusion.reduce sum, %x dims = [0] : tensor<4xf32>
  %rs = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
  %l = fusion.sqrt %rs : tensor<f32>
  %w = fusion.broadcast %l dims = [] : tensor<f32> to tensor<4xf32>
  %g = fusion.mul %x, %w : tensor<4xf32>
  %rg = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  return %l, %rg : tensor<f32>, tensor<4xf32>
}
