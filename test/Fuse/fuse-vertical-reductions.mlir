// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s

// Groups around reductions, norms and softmax.

// Softmax written out is one group: five ops on its longest path.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: fusion.group row_reduce
// CHECK-NOT:  fusion.group
// CHECK:      return
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.reduce max, %x dims = [1] : tensor<4x8xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<4xf32> to tensor<4x8xf32>
  %2 = fusion.sub %x, %1 : tensor<4x8xf32>
  %3 = fusion.exp %2 : tensor<4x8xf32>
  %4 = fusion.reduce sum, %3 dims = [1] : tensor<4x8xf32>
  %5 = fusion.broadcast %4 dims = [0] : tensor<4xf32> to tensor<4x8xf32>
  %6 = fusion.div %3, %5 : tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}

// Residual, norm and gain: the sum stays an output for the next residual.
// CHECK-LABEL: func.func @add_norm
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group row_reduce
// CHECK-NEXT:   %[[S:.*]] = fusion.add
// CHECK-NEXT:   fusion.layer_norm %[[S]]
// CHECK-NEXT:   %[[T:.*]] = fusion.tanh
// CHECK-NEXT:   fusion.yield %[[S]], %[[T]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[G]]#0, %[[G]]#1
func.func @add_norm(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = fusion.add %x, %y : tensor<4x8xf32>
  %1 = fusion.layer_norm %0 scale %s epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>
  %2 = fusion.tanh %1 : tensor<4x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A mean that keeps its dimension: the view inside only adds a unit dimension.
// CHECK-LABEL: func.func @keep_dims
// CHECK-NEXT: fusion.group row_reduce
// CHECK-NOT:  fusion.group
// CHECK:      return
func.func @keep_dims(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.reduce mean, %x dims = [1] : tensor<4x8xf32>
  %1 = fusion.reshape %0 : tensor<4xf32> to tensor<4x1xf32>
  %2 = fusion.neg %1 : tensor<4x1xf32>
  %3 = fusion.broadcast %2 dims = [0, 1] : tensor<4x1xf32> to tensor<4x8xf32>
  %4 = fusion.add %x, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// Two reductions of the same rows share a group with their common prologue.
// CHECK-LABEL: func.func @two_sums
// CHECK-NEXT: fusion.group row_reduce {{.*}} -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-NOT:  fusion.group
// CHECK:      return
func.func @two_sums(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.exp %x : tensor<4x8xf32>
  %1 = fusion.reduce sum, %0 dims = [1] : tensor<4x8xf32>
  %2 = fusion.mul %0, %0 : tensor<4x8xf32>
  %3 = fusion.reduce sum, %2 dims = [1] : tensor<4x8xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// Columns, with prologue, epilogue and the way back.
// CHECK-LABEL: func.func @columns
// CHECK-NEXT: fusion.group column_reduce
// CHECK-NEXT:   fusion.exp
// CHECK-NEXT:   fusion.reduce
// CHECK-NEXT:   fusion.broadcast
// CHECK-NEXT:   fusion.div
// CHECK-NEXT:   fusion.yield
func.func @columns(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = fusion.exp %x : tensor<2x3x4xf32>
  %1 = fusion.reduce sum, %0 dims = [1] : tensor<2x3x4xf32>
  %2 = fusion.broadcast %1 dims = [0, 2] : tensor<2x4xf32> to tensor<2x3x4xf32>
  %3 = fusion.div %0, %2 : tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}

// Rows of one tensor, columns of the other: two groups.
// CHECK-LABEL: func.func @row_then_column
// CHECK:      fusion.group row_reduce
// CHECK-NEXT:   fusion.softmax
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group column_reduce
// CHECK-NEXT:   fusion.reduce
// CHECK-NEXT:   fusion.yield
func.func @row_then_column(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %0 = fusion.softmax %x axis = 1 : tensor<4x8xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<4x8xf32>
  return %1 : tensor<8xf32>
}

// Everything to one value: one row.
// CHECK-LABEL: func.func @full
// CHECK-NEXT: fusion.group row_reduce
// CHECK-NEXT:   fusion.mul
// CHECK-NEXT:   fusion.reduce
// CHECK-NEXT:   fusion.sqrt
func.func @full(%x: tensor<4x8xf32>) -> tensor<f32> {
  %0 = fusion.mul %x, %x : tensor<4x8xf32>
  %1 = fusion.reduce sum, %0 dims = [0, 1] : tensor<4x8xf32>
  %2 = fusion.sqrt %1 : tensor<f32>
  return %2 : tensor<f32>
}

// Positions and dimensions that an emitter has alone.
// CHECK-LABEL: func.func @alone
// CHECK:      fusion.group fallback
// CHECK-NEXT:   fusion.arg_max
// CHECK:      fusion.group fallback
// CHECK-NEXT:   fusion.reduce sum, %{{.*}} dims = [0, 2]
func.func @alone(%x: tensor<2x3x4xf32>) -> (tensor<2x4xi64>, tensor<3xf32>) {
  %0 = fusion.arg_max %x axis = 1 : tensor<2x3x4xf32>
  %1 = fusion.reduce sum, %x dims = [0, 2] : tensor<2x3x4xf32>
  return %0, %1 : tensor<2x4xi64>, tensor<3xf32>
}
