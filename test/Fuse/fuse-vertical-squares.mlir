// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s
// RUN: fusion-opt %s --fusion-fuse-vertical --fusion-fuse-vertical | FileCheck %s

// What is prepared for a reduction only goes with the reduction when the
// product's value is written anyway: the squares of a gradient are not.

// CHECK-LABEL: @squares(
// CHECK:      fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group row_reduce
// CHECK-NEXT:   fusion.cast
// CHECK-NEXT:   fusion.mul
// CHECK-NEXT:   fusion.reduce sum
// CHECK-NEXT:   fusion.yield
func.func @squares(%x: tensor<64x32xf32>, %g: tensor<64x16xf32>) -> (tensor<32x16xf32>, tensor<f64>) {
  %0 = fusion.matmul %x, %g {transpose_lhs} : tensor<64x32xf32>, tensor<64x16xf32>
  %1 = fusion.cast %0 : tensor<32x16xf32> to tensor<32x16xf64>
  %2 = fusion.mul %1, %1 : tensor<32x16xf64>
  %3 = fusion.reduce sum, %2 dims = [0, 1] : tensor<32x16xf64>
  return %0, %3 : tensor<32x16xf32>, tensor<f64>
}

// Nothing else reads the product: behind it, it is not written at all.
// CHECK-LABEL: @lone(
// CHECK:      fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.exp
// CHECK:      fusion.group row_reduce
// CHECK-NEXT:   fusion.reduce sum
func.func @lone(%x: tensor<64x32xf32>, %g: tensor<64x16xf32>) -> tensor<f32> {
  %0 = fusion.matmul %x, %g {transpose_lhs} : tensor<64x32xf32>, tensor<64x16xf32>
  %2 = fusion.exp %0 : tensor<32x16xf32>
  %3 = fusion.reduce sum, %2 dims = [0, 1] : tensor<32x16xf32>
  return %3 : tensor<f32>
}

// The squares are a result: they are written anyway, best where the product is.
// CHECK-LABEL: @needed(
// CHECK:      fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.mul
// CHECK:      fusion.group row_reduce
// CHECK-NEXT:   fusion.reduce sum
func.func @needed(%x: tensor<64x32xf32>, %g: tensor<64x16xf32>) -> (tensor<32x16xf32>, tensor<32x16xf32>, tensor<f32>) {
  %0 = fusion.matmul %x, %g {transpose_lhs} : tensor<64x32xf32>, tensor<64x16xf32>
  %2 = fusion.mul %0, %0 : tensor<32x16xf32>
  %3 = fusion.reduce sum, %2 dims = [0, 1] : tensor<32x16xf32>
  return %0, %2, %3 : tensor<32x16xf32>, tensor<32x16xf32>, tensor<f32>
}
