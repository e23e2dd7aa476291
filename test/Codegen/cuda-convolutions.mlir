// RUN: fusion-opt %s --split-input-file --fusion-simplify --fusion-fuse --fusion-lay-out-weights --fusion-emit-kernels=target=cuda | FileCheck %s

// A residual block of a model with channels first: one transpose at each end, and
// everything between is cuDNN's but the pools.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @block
// CHECK: fusion.group loop {{.*}} kernel
// CHECK-NEXT: fusion.transpose %{{.*}} permutation = [0, 2, 3, 1]
// CHECK-NOT: fusion.transpose %{{.*}} permutation = [0, 2, 3, 1]
// CHECK-COUNT-3: op = "conv"
// CHECK: fusion.transpose %{{.*}} permutation = [0, 3, 1, 2] : tensor<2x4x4x16xf16>
// CHECK-NOT: fusion.transpose
// CHECK: return
func.func @block(%x: tensor<2x8x16x16xf16>) -> tensor<2x16x4x4xf16> {
  %w0 = fusion.constant dense<1.0> : tensor<16x8x3x3xf16>
  %w1 = fusion.constant dense<1.0> : tensor<16x16x3x3xf16>
  %w2 = fusion.constant dense<1.0> : tensor<16x16x1x1xf16>
  %b = fusion.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]> : tensor<16xf16>
  %0 = fusion.conv %x, %w0 bias %b strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : tensor<2x8x16x16xf16>, tensor<16x8x3x3xf16>, tensor<16xf16>
  %1 = fusion.relu %0 : tensor<2x16x16x16xf16>
  %2 = fusion.max_pool %1 window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<2x16x16x16xf16>
  %3 = fusion.conv %2, %w1 bias %b strides = [1, 1] pad_low = [2, 2] pad_high = [2, 2] dilations = [2, 2] groups = 1 layout = nchw : tensor<2x16x8x8xf16>, tensor<16x16x3x3xf16>, tensor<16xf16>
  %4 = fusion.relu %3 : tensor<2x16x8x8xf16>
  %5 = fusion.conv %4, %w2 bias %b strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<2x16x8x8xf16>, tensor<16x16x1x1xf16>, tensor<16xf16>
  %6 = fusion.add %5, %2 : tensor<2x16x8x8xf16>
  %7 = fusion.relu %6 : tensor<2x16x8x8xf16>
  %8 = fusion.avg_pool %7 window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<2x16x8x8xf16>
  return %8 : tensor<2x16x4x4xf16>
}
}

// -----

// Depthwise: a kernel of ours, channels-last too. Groups of four channels, and
// padding at the end only, as some frameworks pad images of even size, are cuDNN's.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @groups
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.conv {{.*}} groups = 8 layout = nhwc
// CHECK: groups = 2 : i64
// CHECK-SAME: padHigh = array<i64: 1, 1>, padLow = array<i64: 0, 0>
// CHECK: return
func.func @groups(%x: tensor<2x8x8x8xf16>, %w: tensor<8x1x3x3xf16>, %v: tensor<8x4x3x3xf16>) -> tensor<2x8x4x4xf16> {
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 8 layout = nchw : tensor<2x8x8x8xf16>, tensor<8x1x3x3xf16>
  %1 = fusion.conv %0, %v strides = [2, 2] pad_low = [0, 0] pad_high = [1, 1] dilations = [1, 1] groups = 2 layout = nchw : tensor<2x8x8x8xf16>, tensor<8x4x3x3xf16>
  return %1 : tensor<2x8x4x4xf16>
}
}

// -----

// Neither is in f32.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @own
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.conv {{.*}} groups = 2 layout = nhwc
// CHECK: fusion.group contraction
// CHECK-NEXT: fusion.conv {{.*}} pad_low = [0, 0] pad_high = [1, 1] {{.*}} layout = nhwc
// CHECK-NOT: fusion.call
// CHECK: return
func.func @own(%x: tensor<2x8x8x8xf32>, %w: tensor<8x4x3x3xf32>, %v: tensor<4x8x3x3xf32>) -> tensor<2x4x4x4xf32> {
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 2 layout = nchw : tensor<2x8x8x8xf32>, tensor<8x4x3x3xf32>
  %1 = fusion.conv %0, %v strides = [2, 2] pad_low = [0, 0] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : tensor<2x8x8x8xf32>, tensor<4x8x3x3xf32>
  return %1 : tensor<2x4x4x4xf32>
}
}

// -----

// A transposed convolution of known weights, with bias and relu.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @transposed
// CHECK: activation = "relu"
// CHECK-SAME: hasBias = true
// CHECK-SAME: op = "conv_transpose"
// CHECK-SAME: padHigh = array<i64: 0, 0>, padLow = array<i64: 1, 1>
// CHECK-SAME: weightShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 3>, #fusion.extent<0 * B + 3>], weightsLast = true
func.func @transposed(%x: tensor<1x5x5x4xbf16>, %b: tensor<2xbf16>) -> tensor<1x10x10x2xbf16> {
  %w = fusion.constant dense<1.0> : tensor<4x2x3x3xbf16>
  %0 = fusion.conv_transpose %x, %w bias %b strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] output_padding = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x5x5x4xbf16>, tensor<4x2x3x3xbf16>, tensor<2xbf16>
  %1 = fusion.relu %0 : tensor<1x10x10x2xbf16>
  return %1 : tensor<1x10x10x2xbf16>
}
}
