// RUN: fusion-opt %s --canonicalize | FileCheck %s

// Folds hold for every bit pattern: no arithmetic is done, so NaN, signed zeros
// and rounding stay as they are.

// CHECK-LABEL: @cast_to_same_type
// CHECK-SAME: (%[[X:.*]]: tensor<4xbf16>)
// CHECK-NEXT: return %[[X]]
func.func @cast_to_same_type(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = fusion.cast %x : tensor<4xbf16> to tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// A narrowing cast rounds: it stays, also when it is widened again.
// CHECK-LABEL: @narrowing_cast_stays
// CHECK: fusion.cast {{.*}} to tensor<4xf16>
// CHECK: fusion.cast {{.*}} to tensor<4xf32>
func.func @narrowing_cast_stays(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.cast %x : tensor<4xf32> to tensor<4xf16>
  %1 = fusion.cast %0 : tensor<4xf16> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: @broadcast_to_itself
// CHECK-SAME: (%[[X:.*]]: tensor<?x1xf32>)
// CHECK-NEXT: return %[[X]]
func.func @broadcast_to_itself(%x: tensor<?x1xf32>) -> tensor<?x1xf32> {
  %0 = fusion.broadcast %x dims = [0, 1] : tensor<?x1xf32> to tensor<?x1xf32>
  return %0 : tensor<?x1xf32>
}

// CHECK-LABEL: @reshape_to_itself
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @reshape_to_itself(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = fusion.reshape %x : tensor<?x4xf32> to tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: @reshape_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @reshape_and_back(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = fusion.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  %1 = fusion.reshape %0 : tensor<6xf32> to tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: @reshape_of_reshape
// CHECK-SAME: (%[[X:.*]]: tensor<?x2x3xf32>)
// CHECK-NEXT: %[[R:.*]] = fusion.reshape %[[X]] : tensor<?x2x3xf32> to tensor<?x3xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_of_reshape(%x: tensor<?x2x3xf32>) -> tensor<?x3xf32> {
  %0 = fusion.reshape %x : tensor<?x2x3xf32> to tensor<?x6xf32>
  %1 = fusion.reshape %0 : tensor<?x6xf32> to tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}

// Equal types do not tell equal sizes when there are no elements.
// CHECK-LABEL: @reshape_of_empty_batch_stays
// CHECK: fusion.reshape
func.func @reshape_of_empty_batch_stays(%x: tensor<?x0xf32>) -> tensor<?x0xf32> {
  %0 = fusion.reshape %x : tensor<?x0xf32> to tensor<?x0xf32>
  return %0 : tensor<?x0xf32>
}

// CHECK-LABEL: @transpose_of_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @transpose_of_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = fusion.transpose %x permutation = [0, 1] : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: @transpose_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @transpose_and_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = fusion.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>
  %1 = fusion.transpose %0 permutation = [1, 2, 0] : tensor<4x2x3xf32>
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: @transpose_of_transpose
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: %[[T:.*]] = fusion.transpose %[[X]] permutation = [1, 2, 0]
// CHECK-NEXT: return %[[T]] : tensor<3x4x2xf32>
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = fusion.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>
  %1 = fusion.transpose %0 permutation = [2, 0, 1] : tensor<4x2x3xf32>
  return %1 : tensor<3x4x2xf32>
}

// CHECK-LABEL: @slice_of_all
// CHECK-SAME: (%[[X:.*]]: tensor<?x4x1xf32>)
// CHECK-NEXT: return %[[X]]
func.func @slice_of_all(%x: tensor<?x4x1xf32>) -> tensor<?x4x1xf32> {
  %0 = fusion.slice %x starts = [0, 0, 0] limits = [-1, 4, 1] strides = [1, 1, 7] : tensor<?x4x1xf32>
  return %0 : tensor<?x4x1xf32>
}

// CHECK-LABEL: @reverse_of_units
// CHECK-SAME: (%[[X:.*]]: tensor<1x4xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @reverse_of_units(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = fusion.reverse %x dims = [] : tensor<1x4xf32>
  %1 = fusion.reverse %x dims = [0] : tensor<1x4xf32>
  return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
}

// CHECK-LABEL: @reverse_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<2x?xf32>)
// CHECK-NEXT: return %[[X]]
func.func @reverse_and_back(%x: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %0 = fusion.reverse %x dims = [0, 1] : tensor<2x?xf32>
  %1 = fusion.reverse %0 dims = [1, 0] : tensor<2x?xf32>
  return %1 : tensor<2x?xf32>
}

// CHECK-LABEL: @concat_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[E:.*]]: tensor<0x4xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[E]]
func.func @concat_of_one(%x: tensor<2x4xf32>, %e: tensor<0x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<0x4xf32>) {
  %0 = fusion.concat %x axis = 1 : tensor<2x4xf32>
  %1 = fusion.concat %e, %x, %e axis = 0 : tensor<0x4xf32>, tensor<2x4xf32>, tensor<0x4xf32>
  %2 = fusion.concat %e, %e axis = 0 : tensor<0x4xf32>, tensor<0x4xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<0x4xf32>
}

// CHECK-LABEL: @concat_without_empty
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32>, %[[E:.*]]: tensor<0x4xf32>)
// CHECK-NEXT: fusion.concat %[[X]], %[[X]] axis = 0
func.func @concat_without_empty(%x: tensor<?x4xf32>, %e: tensor<0x4xf32>) -> tensor<?x4xf32> {
  %0 = fusion.concat %x, %e, %x axis = 0 : tensor<?x4xf32>, tensor<0x4xf32>, tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: @pad_of_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @pad_of_nothing(%x: tensor<2xf32>, %v: tensor<f32>) -> tensor<2xf32> {
  %0 = fusion.pad %x, %v low = [0] high = [0] : tensor<2xf32>, tensor<f32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: @reduce_over_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2xf16>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @reduce_over_nothing(%x: tensor<2xf16>) -> (tensor<2xf16>, tensor<2xf16>) {
  %0 = fusion.reduce mean, %x dims = [] : tensor<2xf16>
  %1 = fusion.reduce max, %x dims = [] : tensor<2xf16>
  return %0, %1 : tensor<2xf16>, tensor<2xf16>
}

// Splats cost nothing at any size; a NaN keeps its payload.
// CHECK-LABEL: @splat_moves
// CHECK-DAG: fusion.constant dense<0x7FC00001> : tensor<3x4xf32>
// CHECK-DAG: fusion.constant dense<0x7FC00001> : tensor<4x3xf32>
// CHECK-DAG: fusion.constant dense<0x7FC00001> : tensor<12xf32>
// CHECK-DAG: fusion.constant dense<0x7FC00001> : tensor<2x4xf32>
// CHECK-DAG: fusion.constant dense<0x7FC00001> : tensor<6x4xf32>
// CHECK-NOT: fusion.broadcast
// CHECK: return
func.func @splat_moves() -> (tensor<3x4xf32>, tensor<4x3xf32>, tensor<12xf32>, tensor<2x4xf32>, tensor<6x4xf32>) {
  %c = fusion.constant dense<0x7FC00001> : tensor<f32>
  %0 = fusion.broadcast %c dims = [] : tensor<f32> to tensor<3x4xf32>
  %1 = fusion.transpose %0 permutation = [1, 0] : tensor<3x4xf32>
  %2 = fusion.reshape %0 : tensor<3x4xf32> to tensor<12xf32>
  %3 = fusion.slice %0 starts = [1, 0] limits = [3, 4] strides = [1, 1] : tensor<3x4xf32>
  %4 = fusion.concat %0, %0 axis = 0 : tensor<3x4xf32>, tensor<3x4xf32>
  return %0, %1, %2, %3, %4 : tensor<3x4xf32>, tensor<4x3xf32>, tensor<12xf32>, tensor<2x4xf32>, tensor<6x4xf32>
}

// -0.0 and 0.0 are two values.
// CHECK-LABEL: @splats_differ_in_sign
// CHECK: fusion.pad
// CHECK: fusion.concat
func.func @splats_differ_in_sign() -> (tensor<4xf32>, tensor<4xf32>) {
  %x = fusion.constant dense<0.0> : tensor<2xf32>
  %n = fusion.constant dense<-0.0> : tensor<2xf32>
  %v = fusion.constant dense<-0.0> : tensor<f32>
  %0 = fusion.pad %x, %v low = [1] high = [1] : tensor<2xf32>, tensor<f32>
  %1 = fusion.concat %x, %n axis = 0 : tensor<2xf32>, tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A batch is not a constant; a constant that is no splat has a budget elsewhere;
// nothing comes from an empty constant.
// CHECK-LABEL: @constants_that_stay
// CHECK: fusion.broadcast {{.*}} to tensor<?x2xf32>
// CHECK: fusion.transpose
// CHECK: fusion.pad
func.func @constants_that_stay() -> (tensor<?x2xf32>, tensor<2x2xi32>, tensor<2xf32>) {
  %s = fusion.constant dense<1.0> : tensor<2xf32>
  %d = fusion.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %e = fusion.constant dense<> : tensor<0xf32>
  %v = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.broadcast %s dims = [1] : tensor<2xf32> to tensor<?x2xf32>
  %1 = fusion.transpose %d permutation = [1, 0] : tensor<2x2xi32>
  %2 = fusion.pad %e, %v low = [1] high = [1] : tensor<0xf32>, tensor<f32>
  return %0, %1, %2 : tensor<?x2xf32>, tensor<2x2xi32>, tensor<2xf32>
}
