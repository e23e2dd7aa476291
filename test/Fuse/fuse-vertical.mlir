// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s

// What each kind of group takes in.

// An elementwise chain is one loop.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[G:.*]] = fusion.group loop (%[[A:.*]] = %{{.*}} : tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %[[E:.*]] = fusion.exp %[[A]]
// CHECK-NEXT:   %[[N:.*]] = fusion.neg %[[E]]
// CHECK-NEXT:   fusion.yield %[[N]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[G]]
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Both ends of a diamond, and the splat constant comes along.
// CHECK-LABEL: func.func @diamond
// CHECK-NEXT: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: return
func.func @diamond(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = fusion.constant dense<2.0> : tensor<4xf32>
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  %2 = fusion.mul %0, %two : tensor<4xf32>
  %3 = fusion.add %1, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// Hard swish written out, and a residual, behind a convolution: the conv comes
// first, its operands from outside.
// CHECK-LABEL: func.func @conv_epilogue
// CHECK-NEXT: %[[G:.*]] = fusion.group library
// CHECK-NEXT:   fusion.conv
// CHECK:        fusion.clamp
// CHECK:        %[[R:.*]] = fusion.add %{{.*}}, %{{.*}}
// CHECK-NEXT:   fusion.yield %[[R]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[G]]
func.func @conv_epilogue(%x: tensor<1x8x8x16xf32>, %w: tensor<16x16x1x1xf32>, %b: tensor<16xf32>) -> tensor<1x8x8x16xf32> {
  %c3 = fusion.constant dense<3.0> : tensor<f32>
  %c0 = fusion.constant dense<0.0> : tensor<f32>
  %c6 = fusion.constant dense<6.0> : tensor<f32>
  %b3 = fusion.broadcast %c3 dims = [] : tensor<f32> to tensor<1x8x8x16xf32>
  %b0 = fusion.broadcast %c0 dims = [] : tensor<f32> to tensor<1x8x8x16xf32>
  %b6 = fusion.broadcast %c6 dims = [] : tensor<f32> to tensor<1x8x8x16xf32>
  %0 = fusion.conv %x, %w bias %b strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x8x8x16xf32>, tensor<16x16x1x1xf32>, tensor<16xf32>
  %1 = fusion.add %0, %b3 : tensor<1x8x8x16xf32>
  %2 = fusion.clamp %1, %b0, %b6 : tensor<1x8x8x16xf32>
  %3 = fusion.mul %0, %2 : tensor<1x8x8x16xf32>
  %4 = fusion.div %3, %b6 : tensor<1x8x8x16xf32>
  %5 = fusion.add %4, %x : tensor<1x8x8x16xf32>
  return %5 : tensor<1x8x8x16xf32>
}

// A gate for each channel and a bias are broadcast under the output.
// CHECK-LABEL: func.func @matmul_gate
// CHECK-NEXT: fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.broadcast
// CHECK-NEXT:   fusion.add
// CHECK-NEXT:   fusion.broadcast
// CHECK-NEXT:   fusion.mul
// CHECK-NEXT:   fusion.yield
func.func @matmul_gate(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %b: tensor<16xf32>, %g: tensor<8x1xf32>) -> tensor<8x16xf32> {
  %0 = fusion.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32>
  %bias = fusion.broadcast %b dims = [1] : tensor<16xf32> to tensor<8x16xf32>
  %1 = fusion.add %0, %bias : tensor<8x16xf32>
  %gate = fusion.broadcast %g dims = [0, 1] : tensor<8x1xf32> to tensor<8x16xf32>
  %2 = fusion.mul %1, %gate : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// Of two convolutions under an add, the later one takes it.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[A:.*]] = fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.relu
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group library ({{.*}} = %[[A]] : tensor<4x4xf32>)
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   fusion.add
// CHECK-NEXT:   fusion.yield
func.func @residual(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = fusion.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.relu %0 : tensor<4x4xf32>
  %2 = fusion.matmul %y, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %3 = fusion.add %1, %2 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// What no library computes is a contraction or a window of our own.
// CHECK-LABEL: func.func @own_kernels
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.neg
// CHECK: fusion.group window
// CHECK-NEXT: fusion.max_pool
// CHECK-NEXT: fusion.relu
func.func @own_kernels(%x: tensor<4x4xi32>, %p: tensor<1x4x4x2xf32>) -> (tensor<4x4xi32>, tensor<1x2x2x2xf32>) {
  %0 = fusion.matmul %x, %x : tensor<4x4xi32>, tensor<4x4xi32>
  %1 = fusion.neg %0 : tensor<4x4xi32>
  %2 = fusion.max_pool %p window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc : tensor<1x4x4x2xf32>
  %3 = fusion.relu %2 : tensor<1x2x2x2xf32>
  return %1, %3 : tensor<4x4xi32>, tensor<1x2x2x2xf32>
}

// A scatter takes the computation of its updates.
// CHECK-LABEL: func.func @scatter
// CHECK-NEXT: fusion.group scatter
// CHECK-NEXT:   fusion.exp
// CHECK-NEXT:   fusion.scatter
// CHECK-NEXT:   fusion.yield
func.func @scatter(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>, %u: tensor<3x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.exp %u : tensor<3x8xf32>
  %1 = fusion.scatter add, %x, %i, %0 : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  return %1 : tensor<4x8xf32>
}

// Moving ops join loops: a gather reads rows of x + 1, not of x.
// CHECK-LABEL: func.func @gather
// CHECK-NEXT: fusion.group loop
// CHECK-NEXT:   %[[C:.*]] = fusion.constant dense<1.000000e+00>
// CHECK-NEXT:   %[[A:.*]] = fusion.add %{{.*}}, %[[C]]
// CHECK-NEXT:   fusion.gather %[[A]]
func.func @gather(%x: tensor<4x4xf16>, %i: tensor<1xi64>) -> tensor<1x4xf16> {
  %one = fusion.constant dense<1.0> : tensor<4x4xf16>
  %0 = fusion.add %x, %one : tensor<4x4xf16>
  %1 = fusion.gather %0, %i axis = 0 : tensor<4x4xf16>, tensor<1xi64>
  return %1 : tensor<1x4xf16>
}

// A reshape stands inside only between two members.
// CHECK-LABEL: func.func @reshape
// CHECK-NEXT: %[[V:.*]] = fusion.reshape %arg0
// CHECK-NEXT: %[[G:.*]] = fusion.group loop (%[[A:.*]] = %[[V]] : tensor<6xf32>)
// CHECK-NEXT:   fusion.exp
// CHECK-NEXT:   fusion.reshape
// CHECK-NEXT:   fusion.neg
// CHECK-NEXT:   fusion.yield
// CHECK-NEXT: }
// CHECK-NEXT: fusion.reshape %[[G]]
func.func @reshape(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = fusion.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  %1 = fusion.exp %0 : tensor<6xf32>
  %2 = fusion.reshape %1 : tensor<6xf32> to tensor<3x2xf32>
  %3 = fusion.neg %2 : tensor<3x2xf32>
  %4 = fusion.reshape %3 : tensor<3x2xf32> to tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}
