// RUN: fusion-opt %s --fusion-partition --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s

// Rows against columns: one operand moves, and the remark says which.
// CHECK: [Passed] partition-split {{.*}}fusion.sub is split over dp
// CHECK: [Missed] partition-conflict {{.*}}operand 1 of fusion.sub, cut over dp, is gathered
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<8x8xf32> {fusion.sharding = [["dp"], []]}, %y: tensor<8x8xf32> {fusion.sharding = [[], ["dp"]]}) -> tensor<8x8xf32> {
  %0 = fusion.sub %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A window reads its neighbours' rows.
// CHECK: [Missed] partition-whole {{.*}}operand 0 of fusion.max_pool, cut over dp, is gathered
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<1x4x8x8xf32> {fusion.sharding = [[], [], ["dp"], []]}) -> tensor<1x4x4x4xf32> {
  %0 = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return %0 : tensor<1x4x4x4xf32>
}

// -----

// Reversing the cut dimension needs all of it.
// CHECK: [Missed] partition-whole {{.*}}operand 0 of fusion.reverse, cut over dp, is gathered
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<8xf32> {fusion.sharding = [["dp"]]}) -> tensor<8xf32> {
  %0 = fusion.reverse %x dims = [0] : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A split sum, of which the last part holds padding.
// CHECK: [Passed] partition-partial {{.*}}Dim=0, Part=2, Remark="fusion.reduce is split over dp", Size=5
// CHECK: [Passed] partition-padded {{.*}}the last parts of fusion.reduce hold padding
fusion.mesh @mesh(dp = 4)
func.func @main(%x: tensor<5xf32> {fusion.sharding = [["dp"]]}) -> tensor<f32> {
  %0 = fusion.reduce sum, %x dims = [0] : tensor<5xf32>
  return %0 : tensor<f32>
}
