// RUN: fusion-opt %s --fusion-decompose-named -split-input-file | FileCheck %s

// Ops without an emitter become primitives; the others stay.

// CHECK-LABEL: func.func @inner_softmax
// CHECK-NOT: fusion.softmax
// CHECK: fusion.reduce max, %{{.*}} dims = [1]
// CHECK: fusion.reduce sum, %{{.*}} dims = [1]
// CHECK: fusion.div
func.func @inner_softmax(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = fusion.softmax %x axis = 1 : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @rows_stay
// CHECK-NEXT: fusion.softmax
// CHECK-NEXT: fusion.log_softmax
// CHECK-NEXT: fusion.layer_norm
// CHECK-NEXT: fusion.rms_norm
func.func @rows_stay(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = fusion.softmax %x axis = 1 : tensor<2x8xf32>
  %1 = fusion.log_softmax %0 axis = 1 : tensor<2x8xf32>
  %2 = fusion.layer_norm %1 epsilon = 1.0e-5 axis = 1 : tensor<2x8xf32>
  %3 = fusion.rms_norm %2 epsilon = 1.0e-5 axis = 1 : tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}

// A batch norm that could not be folded is a loop.
// CHECK-LABEL: func.func @batch_norm
// CHECK-NOT: fusion.batch_norm
// CHECK: fusion.sub
// CHECK: return
func.func @batch_norm(%x: tensor<2x4x8x8xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<2x4x8x8xf32> {
  %0 = fusion.batch_norm %x, %s, %b, %m, %v epsilon = 1.0e-5 axis = 1 : tensor<2x4x8x8xf32>, tensor<4xf32>
  return %0 : tensor<2x4x8x8xf32>
}

// CHECK-LABEL: func.func @batch_norm_training
// CHECK-NOT: fusion.batch_norm_training
// CHECK: fusion.reduce
// CHECK: return
func.func @batch_norm_training(%x: tensor<2x4x8x8xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0, %1, %2 = fusion.batch_norm_training %x, %s, %b epsilon = 1.0e-5 axis = 1 : tensor<2x4x8x8xf32>, tensor<4xf32>
  return %0, %1, %2 : tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>
}

// Attention is two products and a softmax, which stays.
// CHECK-LABEL: func.func @attention
// CHECK-NOT: fusion.attention
// CHECK: fusion.matmul
// CHECK: fusion.softmax
// CHECK: fusion.matmul
// CHECK: return
func.func @attention(%q: tensor<1x4x8x16xf32>, %k: tensor<1x4x8x16xf32>, %v: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = fusion.attention %q, %k, %v scale = 0.25 : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>
  return %0 : tensor<1x4x8x16xf32>
}

// CHECK-LABEL: func.func @rope
// CHECK-NOT: fusion.rope
// CHECK: return
func.func @rope(%x: tensor<1x4x8x16xf32>, %c: tensor<8x8xf32>, %s: tensor<8x8xf32>) -> tensor<1x4x8x16xf32> {
  %0 = fusion.rope %x, %c, %s : tensor<1x4x8x16xf32>, tensor<8x8xf32>
  return %0 : tensor<1x4x8x16xf32>
}
