// Why a bucket ends, and which reductions are in none.
//
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives=bucket-bytes=4096 --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir

// The first result is read before the second gradient is computed.
// CHECK-LABEL: func @reader
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on
// CHECK-NEXT: fusion.neg
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on
// REMARK: [Missed] bucket-reader | {{.*}}"a reduced gradient is read before the other is computed"
fusion.mesh @m(dp = 2)
func.func @reader(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %n = fusion.neg %ra : tensor<4xf32>
  %b = fusion.abs %x : tensor<4xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<4xf32>
  return %n, %rb : tensor<4xf32>, tensor<4xf32>
}

// -----

// The second operand is computed from the first result: a sum that computation
// waits for, not a gradient. It keeps its place and gets no number.
// CHECK-LABEL: func @path
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[tp] : tensor<4xf32>
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[tp] {fusion.bucket = 0 : i64}
// REMARK: [Missed] bucket-path
fusion.mesh @m(tp = 2)
func.func @path(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[tp] : tensor<4xf32>
  %b = fusion.neg %ra : tensor<4xf32>
  %rb = fusion.all_reduce sum, %b on @m[tp] : tensor<4xf32>
  return %rb : tensor<4xf32>
}

// -----

// A norm of reduced gradients is one more number over the same ranks; it does
// not make gradients of others of them.
// CHECK-LABEL: func @norm
// CHECK: fusion.all_reduce sum, %{{[0-9]+}}, %{{[0-9]+}} on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<8xf32>
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] : tensor<f32>
fusion.mesh @m(dp = 2)
func.func @norm(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<f32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %b = fusion.exp %y : tensor<8xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<8xf32>
  %q = fusion.mul %ra, %ra : tensor<4xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<4xf32>
  %rs = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
  return %ra, %rb, %rs : tensor<4xf32>, tensor<8xf32>, tensor<f32>
}

// -----

// Results that another reduction reads directly: the first ones come no later
// than the second ones stood, which are ready with them.
// CHECK-LABEL: func @chain
// CHECK: %[[A:.*]] = fusion.exp
// CHECK-NEXT: %[[R:.*]] = fusion.all_reduce sum, %[[A]] on @m[dp] {fusion.bucket = 0 : i64}
// CHECK-NEXT: %[[B:.*]] = fusion.abs
// CHECK-NEXT: %[[S:.*]] = fusion.all_reduce sum, %[[B]] on @m[dp] {fusion.bucket = 1 : i64}
// CHECK-NEXT: fusion.all_reduce sum, %[[R]], %[[S]] on @m[tp] {fusion.bucket = 2 : i64}
fusion.mesh @m(dp = 2, tp = 2)
func.func @chain(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %ta = fusion.all_reduce sum, %ra on @m[tp] : tensor<4xf32>
  %b = fusion.abs %x : tensor<4xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<4xf32>
  %tb = fusion.all_reduce sum, %rb on @m[tp] : tensor<4xf32>
  return %ta, %tb : tensor<4xf32>, tensor<4xf32>
}

// -----

// The size depends on the batch.
// CHECK-LABEL: func @batch
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] : tensor<?x4xf32>
// REMARK: [Missed] bucket-shape
fusion.mesh @m(dp = 2)
func.func @batch(%x: tensor<?x4xf32>) -> tensor<?x4xf32> attributes {fusion.batch = array<i64: 1, 8>} {
  %a = fusion.exp %x : tensor<?x4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<?x4xf32>
  return %ra : tensor<?x4xf32>
}

// -----

// Ranks keep parts of a scattered tensor: it is not cut, whatever its size.
// CHECK-LABEL: func @scatter
// CHECK: fusion.reduce_scatter sum, %{{[0-9]+}} dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<2048xf32>) -> tensor<1024xf32>
// REMARK: [Missed] bucket-shape | {{.*}} limit=4096, value=8192
fusion.mesh @m(dp = 2)
func.func @scatter(%x: tensor<2048xf32>) -> tensor<1024xf32> {
  %a = fusion.exp %x : tensor<2048xf32>
  %ra = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<2048xf32>) -> tensor<1024xf32>
  return %ra : tensor<1024xf32>
}
