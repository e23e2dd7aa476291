// RUN: fusion-opt %s --canonicalize | FileCheck %s

// Canonical forms of ops that move elements.

// CHECK-LABEL: @transpose_of_units
// CHECK-SAME: (%[[X:.*]]: tensor<?x1x4x1xf32>)
// CHECK-NEXT: %[[R:.*]] = fusion.reshape %[[X]] : tensor<?x1x4x1xf32> to tensor<1x?x1x4xf32>
// CHECK-NEXT: return %[[R]]
func.func @transpose_of_units(%x: tensor<?x1x4x1xf32>) -> tensor<1x?x1x4xf32> {
  %0 = fusion.transpose %x permutation = [3, 0, 1, 2] : tensor<?x1x4x1xf32>
  return %0 : tensor<1x?x1x4xf32>
}

// CHECK-LABEL: @transpose_that_moves
// CHECK: fusion.transpose
// CHECK: fusion.transpose
func.func @transpose_that_moves(%x: tensor<2x3x1xf32>, %b: tensor<?x?x1xf32>) -> (tensor<1x3x2xf32>, tensor<1x?x?xf32>) {
  %0 = fusion.transpose %x permutation = [2, 1, 0] : tensor<2x3x1xf32>
  // A reshape knows one batch dimension only.
  %1 = fusion.transpose %b permutation = [2, 0, 1] : tensor<?x?x1xf32>
  return %0, %1 : tensor<1x3x2xf32>, tensor<1x?x?xf32>
}

// CHECK-LABEL: @broadcast_of_units
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xf32>)
// CHECK-NEXT: fusion.reshape %[[X]] : tensor<?x8xf32> to tensor<1x?x1x8xf32>
func.func @broadcast_of_units(%x: tensor<?x8xf32>) -> tensor<1x?x1x8xf32> {
  %0 = fusion.broadcast %x dims = [1, 3] : tensor<?x8xf32> to tensor<1x?x1x8xf32>
  return %0 : tensor<1x?x1x8xf32>
}

// CHECK-LABEL: @broadcast_of_broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: fusion.broadcast %[[X]] dims = [2] : tensor<8xf32> to tensor<3x2x8x4xf32>
func.func @broadcast_of_broadcast(%x: tensor<8xf32>) -> tensor<3x2x8x4xf32> {
  %0 = fusion.broadcast %x dims = [1] : tensor<8xf32> to tensor<2x8xf32>
  %1 = fusion.broadcast %0 dims = [1, 2] : tensor<2x8xf32> to tensor<3x2x8x4xf32>
  return %1 : tensor<3x2x8x4xf32>
}

// The inner one makes the batch: its scale counts.
// CHECK-LABEL: @broadcast_of_batch
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: fusion.broadcast %[[X]] dims = [2] {batch_scale = 3 : i64} : tensor<8xf32> to tensor<4x?x8xf32>
func.func @broadcast_of_batch(%x: tensor<8xf32>) -> tensor<4x?x8xf32> {
  %0 = fusion.broadcast %x dims = [1] {batch_scale = 3 : i64} : tensor<8xf32> to tensor<?x8xf32>
  %1 = fusion.broadcast %0 dims = [1, 2] : tensor<?x8xf32> to tensor<4x?x8xf32>
  return %1 : tensor<4x?x8xf32>
}

// Two batches of different sizes need two broadcasts.
// CHECK-LABEL: @broadcasts_of_two_batches
// CHECK: fusion.broadcast {{.*}} {batch_scale = 3 : i64}
// CHECK: fusion.broadcast
func.func @broadcasts_of_two_batches(%x: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %0 = fusion.broadcast %x dims = [1] {batch_scale = 3 : i64} : tensor<8xf32> to tensor<?x8xf32>
  %1 = fusion.broadcast %0 dims = [1, 2] : tensor<?x8xf32> to tensor<?x?x8xf32>
  return %1 : tensor<?x?x8xf32>
}

// CHECK-LABEL: @slice_of_slice
// CHECK-SAME: (%[[X:.*]]: tensor<?x20x9xf32>)
// CHECK-NEXT: fusion.slice %[[X]] starts = [0, 4, 8] limits = [-1, 17, 9] strides = [1, 6, 1]
func.func @slice_of_slice(%x: tensor<?x20x9xf32>) -> tensor<?x3x1xf32> {
  %0 = fusion.slice %x starts = [0, 2, 0] limits = [-1, 20, 9] strides = [1, 2, 4] : tensor<?x20x9xf32>
  %1 = fusion.slice %0 starts = [0, 1, 2] limits = [-1, 9, 3] strides = [1, 3, 9223372036854775807] : tensor<?x9x3xf32>
  return %1 : tensor<?x3x1xf32>
}

// CHECK-LABEL: @empty_slice_of_slice
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: fusion.slice %[[X]] starts = [2] limits = [2] strides = [1]
func.func @empty_slice_of_slice(%x: tensor<8xf32>) -> tensor<0xf32> {
  %0 = fusion.slice %x starts = [2] limits = [8] strides = [3] : tensor<8xf32>
  %1 = fusion.slice %0 starts = [2] limits = [2] strides = [1] : tensor<2xf32>
  return %1 : tensor<0xf32>
}

// CHECK-LABEL: @concat_of_concat
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<?xf32>)
// CHECK-NEXT: fusion.concat %[[Y]], %[[X]], %[[Y]], %[[X]] axis = 0
func.func @concat_of_concat(%x: tensor<2xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = fusion.concat %x, %y axis = 0 : tensor<2xf32>, tensor<?xf32>
  %1 = fusion.concat %y, %0, %x axis = 0 : tensor<?xf32>, tensor<?xf32>, tensor<2xf32>
  return %1 : tensor<?xf32>
}

// A second user needs the inner one anyway; another axis is another layout.
// CHECK-LABEL: @concats_that_stay
// CHECK-COUNT-4: fusion.concat
func.func @concats_that_stay(%x: tensor<2x4xf32>, %z: tensor<1x8xf32>) -> (tensor<4x4xf32>, tensor<6x4xf32>, tensor<3x8xf32>) {
  %0 = fusion.concat %x, %x axis = 0 : tensor<2x4xf32>, tensor<2x4xf32>
  %1 = fusion.concat %0, %x axis = 0 : tensor<4x4xf32>, tensor<2x4xf32>
  %2 = fusion.concat %x, %x axis = 1 : tensor<2x4xf32>, tensor<2x4xf32>
  %3 = fusion.concat %2, %z axis = 0 : tensor<2x8xf32>, tensor<1x8xf32>
  return %0, %1, %3 : tensor<4x4xf32>, tensor<6x4xf32>, tensor<3x8xf32>
}
