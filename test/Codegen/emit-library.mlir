// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file | FileCheck %s

// The library absorbs the bias and the sum; the relu is our kernel over what the
// library wrote.

// CHECK-LABEL: func.func @conv
// CHECK: fusion.group library {{.*}}kernel @kernels::@k0
// CHECK-SAME: channelsLast = true
// CHECK-SAME: hasAddend = true
// CHECK-SAME: hasBias = true
// CHECK-SAME: inputShape = [#fusion.extent<1 * B + 0>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 6>, #fusion.extent<0 * B + 6>]
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3, 4>
// CHECK-SAME: fusion.in_place = array<i64: 0, 3>
// CHECK-SAME: fusion.tail_operands = array<i64: 4>
// CHECK: module @kernels
// CHECK: fusion.units = #fusion.extent<576 * B + 0>
// CHECK: arith.maximumf
func.func @conv(%x: tensor<?x6x6x8xf32>, %w: tensor<16x8x3x3xf32>, %b: tensor<16xf32>, %y: tensor<?x6x6x16xf32>) -> tensor<?x6x6x16xf32> attributes {fusion.batch = array<i64: 1, 4>} {
  %r = fusion.group library (%i = %x : tensor<?x6x6x8xf32>, %k = %w : tensor<16x8x3x3xf32>, %c = %b : tensor<16xf32>, %s = %y : tensor<?x6x6x16xf32>) -> tensor<?x6x6x16xf32> {
    %0 = fusion.conv %i, %k strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<?x6x6x8xf32>, tensor<16x8x3x3xf32>
    %1 = fusion.broadcast %c dims = [3] : tensor<16xf32> to tensor<?x6x6x16xf32>
    %2 = fusion.add %0, %1 : tensor<?x6x6x16xf32>
    %3 = fusion.add %2, %s : tensor<?x6x6x16xf32>
    %4 = fusion.relu %3 : tensor<?x6x6x16xf32>
    fusion.yield %4 : tensor<?x6x6x16xf32>
  }
  return %r : tensor<?x6x6x16xf32>
}

// -----

// Nothing is left of the body: no kernel.

// CHECK-LABEL: func.func @matmul
// CHECK-NOT: kernel @
// CHECK: op = "matmul"
// CHECK-SAME: transposeRhs = true
func.func @matmul(%x: tensor<4x8xf32>, %w: tensor<5x8xf32>) -> tensor<4x5xf32> {
  %r = fusion.group library (%a = %x : tensor<4x8xf32>, %b = %w : tensor<5x8xf32>) -> tensor<4x5xf32> {
    %0 = fusion.matmul %a, %b {transpose_rhs} : tensor<4x8xf32>, tensor<5x8xf32>
    fusion.yield %0 : tensor<4x5xf32>
  }
  return %r : tensor<4x5xf32>
}
