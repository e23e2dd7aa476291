// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s

// What is written at some positions while others are still read: such pairs
// stay in groups of their own.

// y = x + reverse(x) behind a scatter into x: the scatter ends first, and its
// updates, which read x, are computed before it starts.
// CHECK-LABEL: func.func @scatter_then_reverse
// CHECK:      fusion.group loop
// CHECK-NEXT:   fusion.add
// CHECK-NEXT:   fusion.yield
// CHECK:      %[[S:.*]] = fusion.group scatter
// CHECK-NEXT:   fusion.scatter
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group loop ({{.*}} = %[[S]]
// CHECK-NEXT:   fusion.reverse
// CHECK-NEXT:   fusion.add
// CHECK-NEXT:   fusion.yield
func.func @scatter_then_reverse(%x: tensor<4x8xf32>, %i: tensor<4x1xi64>) -> tensor<4x8xf32> {
  %0 = fusion.add %x, %x : tensor<4x8xf32>
  %1 = fusion.scatter set, %x, %i, %0 : tensor<4x8xf32>, tensor<4x1xi64>, tensor<4x8xf32>
  %2 = fusion.reverse %1 dims = [0] : tensor<4x8xf32>
  %3 = fusion.add %1, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// A shifted copy of the base into itself: b = exp(x) is whole before it is read
// at two positions.
// CHECK-LABEL: func.func @shifted_update
// CHECK:      %[[B:.*]] = fusion.group loop
// CHECK:        fusion.exp
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group loop ({{.*}} = %[[B]] : tensor<4x1x1xf32>) -> tensor<4x1x1xf32>
// CHECK:        fusion.slice
// CHECK:        fusion.update_slice
// CHECK-NEXT:   fusion.yield
func.func @shifted_update(%x: tensor<4x1x1xf32>) -> tensor<1x4x1xf32> {
  %i = fusion.constant dense<1> : tensor<i64>
  %z = fusion.constant dense<0> : tensor<i64>
  %b = fusion.exp %x : tensor<4x1x1xf32>
  %s = fusion.slice %b starts = [0, 0, 0] limits = [3, 1, 1] strides = [1, 1, 1] : tensor<4x1x1xf32>
  %y = fusion.update_slice %b, %s at (%i, %z, %z) : tensor<4x1x1xf32>, tensor<3x1x1xf32>, tensor<i64>, tensor<i64>, tensor<i64>
  %r = fusion.reshape %y : tensor<4x1x1xf32> to tensor<1x4x1xf32>
  return %r : tensor<1x4x1xf32>
}

// A cheap base is computed again at each position instead, in one group. The
// memory plan may not give it the bytes of its input: x is read shifted.
// CHECK-LABEL: func.func @cheap_shifted_update
// CHECK:      fusion.group loop
// CHECK:        fusion.add
// CHECK:        fusion.slice
// CHECK:        fusion.update_slice
// CHECK-NEXT:   fusion.yield
// CHECK-NOT:  fusion.group
// CHECK:      return
func.func @cheap_shifted_update(%x: tensor<4x1x1xi32>) -> tensor<1x4x1xi32> {
  %one = fusion.constant dense<1> : tensor<4x1x1xi32>
  %i = fusion.constant dense<1> : tensor<i64>
  %z = fusion.constant dense<0> : tensor<i64>
  %b = fusion.add %x, %one : tensor<4x1x1xi32>
  %s = fusion.slice %b starts = [0, 0, 0] limits = [3, 1, 1] strides = [1, 1, 1] : tensor<4x1x1xi32>
  %y = fusion.update_slice %b, %s at (%i, %z, %z) : tensor<4x1x1xi32>, tensor<3x1x1xi32>, tensor<i64>, tensor<i64>, tensor<i64>
  %r = fusion.reshape %y : tensor<4x1x1xi32> to tensor<1x4x1xi32>
  return %r : tensor<1x4x1xi32>
}

// The zero fill is over before the first of several updates of one element.
// CHECK-LABEL: func.func @zero_fill
// CHECK:      %[[Z:.*]] = fusion.group loop
// CHECK:        fusion.broadcast
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group scatter ({{.*}} = %[[Z]]
// CHECK-NEXT:   fusion.scatter add
func.func @zero_fill(%i: tensor<3x1xi64>, %v: tensor<3xf32>) -> tensor<8xf32> {
  %c = fusion.constant dense<0.0> : tensor<f32>
  %b = fusion.broadcast %c dims = [] : tensor<f32> to tensor<8xf32>
  %0 = fusion.scatter add, %b, %i, %v : tensor<8xf32>, tensor<3x1xi64>, tensor<3xf32>
  return %0 : tensor<8xf32>
}
