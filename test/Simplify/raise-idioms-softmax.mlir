// softmax and log_softmax in primitives, along any one dimension.
//
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --fusion-raise-idioms | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The decomposition itself, so a row of -inf stays NaN.
// CHECK-NOT: fusion.rewrites
// CHECK-LABEL: func @softmax
// CHECK-NEXT: fusion.softmax %{{.*}} axis = 1 : tensor<2x4x3xf32>
// CHECK-NEXT: return
// REMARK: Exact=true, Ops=7, Remark="raised to fusion.softmax"
func.func @softmax(%x: tensor<2x4x3xf32>) -> tensor<2x4x3xf32> {
  %max = fusion.reduce max, %x dims = [1] : tensor<2x4x3xf32>
  %m = fusion.broadcast %max dims = [0, 2] : tensor<2x3xf32> to tensor<2x4x3xf32>
  %d = fusion.sub %x, %m : tensor<2x4x3xf32>
  %e = fusion.exp %d : tensor<2x4x3xf32>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4x3xf32>
  %s = fusion.broadcast %sum dims = [0, 2] : tensor<2x3xf32> to tensor<2x4x3xf32>
  %y = fusion.div %e, %s : tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

// Kept unit dimensions and a reciprocal.
// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @reciprocal
// CHECK-NEXT: fusion.softmax %{{.*}} axis = 1 : tensor<2x4xf32>
// CHECK-NEXT: return
// REMARK: Exact=false, Ops=10, Remark="raised to fusion.softmax", Rounding="a product with 1 / sum becomes a division"
func.func @reciprocal(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %max = fusion.reduce max, %x dims = [1] : tensor<2x4xf32>
  %max1 = fusion.reshape %max : tensor<2xf32> to tensor<2x1xf32>
  %m = fusion.broadcast %max1 dims = [0, 1] : tensor<2x1xf32> to tensor<2x4xf32>
  %d = fusion.sub %x, %m : tensor<2x4xf32>
  %e = fusion.exp %d : tensor<2x4xf32>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4xf32>
  %sum1 = fusion.reshape %sum : tensor<2xf32> to tensor<2x1xf32>
  %r = fusion.reciprocal %sum1 : tensor<2x1xf32>
  %s = fusion.broadcast %r dims = [0, 1] : tensor<2x1xf32> to tensor<2x4xf32>
  %y = fusion.mul %s, %e : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-NOT: fusion.rewrites
// CHECK-LABEL: func @log_softmax
// CHECK-NEXT: fusion.log_softmax %{{.*}} axis = 0 : tensor<4xf32>
// CHECK-NEXT: return
// REMARK: Exact=true, Ops=8, Remark="raised to fusion.log_softmax"
func.func @log_softmax(%x: tensor<4xf32>) -> tensor<4xf32> {
  %max = fusion.reduce max, %x dims = [0] : tensor<4xf32>
  %m = fusion.broadcast %max dims = [] : tensor<f32> to tensor<4xf32>
  %d = fusion.sub %x, %m : tensor<4xf32>
  %e = fusion.exp %d : tensor<4xf32>
  %sum = fusion.reduce sum, %e dims = [0] : tensor<4xf32>
  %l = fusion.log %sum : tensor<f32>
  %s = fusion.broadcast %l dims = [] : tensor<f32> to tensor<4xf32>
  %y = fusion.sub %d, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @bfloat
// CHECK-NEXT: fusion.softmax
// REMARK: Rounding="16-bit steps become one in f32
func.func @bfloat(%x: tensor<2x4xbf16>) -> tensor<2x4xbf16> {
  %max = fusion.reduce max, %x dims = [1] : tensor<2x4xbf16>
  %m = fusion.broadcast %max dims = [0] : tensor<2xbf16> to tensor<2x4xbf16>
  %d = fusion.sub %x, %m : tensor<2x4xbf16>
  %e = fusion.exp %d : tensor<2x4xbf16>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4xbf16>
  %s = fusion.broadcast %sum dims = [0] : tensor<2xbf16> to tensor<2x4xbf16>
  %y = fusion.div %e, %s : tensor<2x4xbf16>
  return %y : tensor<2x4xbf16>
}
