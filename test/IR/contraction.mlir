// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Contractions and pools.

// CHECK-LABEL: @matmul(
func.func @matmul(%mf64: tensor<4x4xf64>, %mf32: tensor<4x4xf32>, %mf16: tensor<4x4xf16>, %mbf16: tensor<4x4xbf16>, %mi8: tensor<4x4xi8>, %mi32: tensor<4x4xi32>, %mi64: tensor<4x4xi64>, %a: tensor<8x2x4xf32>, %b: tensor<4x3xf32>, %c: tensor<8x4x2xf32>, %d: tensor<?x2x4xf32>, %e: tensor<?x4x3xf32>, %z: tensor<2x0xf32>, %y: tensor<0x3xf32>) {
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xf64>, tensor<4x4xf64>
  %0 = fusion.matmul %mf64, %mf64 : tensor<4x4xf64>, tensor<4x4xf64>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.matmul %mf32, %mf32 : tensor<4x4xf32>, tensor<4x4xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xf16>, tensor<4x4xf16>
  %2 = fusion.matmul %mf16, %mf16 : tensor<4x4xf16>, tensor<4x4xf16>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xbf16>, tensor<4x4xbf16>
  %3 = fusion.matmul %mbf16, %mbf16 : tensor<4x4xbf16>, tensor<4x4xbf16>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xi8>, tensor<4x4xi8>
  %4 = fusion.matmul %mi8, %mi8 : tensor<4x4xi8>, tensor<4x4xi8>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xi32>, tensor<4x4xi32>
  %5 = fusion.matmul %mi32, %mi32 : tensor<4x4xi32>, tensor<4x4xi32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x4xi64>, tensor<4x4xi64>
  %6 = fusion.matmul %mi64, %mi64 : tensor<4x4xi64>, tensor<4x4xi64>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<8x2x4xf32>, tensor<4x3xf32>
  %7 = fusion.matmul %a, %b : tensor<8x2x4xf32>, tensor<4x3xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_lhs} : tensor<8x4x2xf32>, tensor<8x4x2xf32>
  %8 = fusion.matmul %c, %c {transpose_lhs} : tensor<8x4x2xf32>, tensor<8x4x2xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<8x2x4xf32>, tensor<8x2x4xf32>
  %9 = fusion.matmul %a, %a {transpose_rhs} : tensor<8x2x4xf32>, tensor<8x2x4xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_lhs, transpose_rhs} : tensor<8x4x2xf32>, tensor<8x2x4xf32>
  %10 = fusion.matmul %c, %a {transpose_lhs, transpose_rhs} : tensor<8x4x2xf32>, tensor<8x2x4xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<?x2x4xf32>, tensor<?x4x3xf32>
  %11 = fusion.matmul %d, %e : tensor<?x2x4xf32>, tensor<?x4x3xf32>
  // CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<2x0xf32>, tensor<0x3xf32>
  %12 = fusion.matmul %z, %y : tensor<2x0xf32>, tensor<0x3xf32>
  return
}

// CHECK-LABEL: @conv(
func.func @conv(%xf64: tensor<1x4x8x8xf64>, %wf64: tensor<4x4x3x3xf64>, %bf64: tensor<4xf64>, %xf32: tensor<1x4x8x8xf32>, %wf32: tensor<4x4x3x3xf32>, %bf32: tensor<4xf32>, %xf16: tensor<1x4x8x8xf16>, %wf16: tensor<4x4x3x3xf16>, %bf16: tensor<4xf16>, %xbf16: tensor<1x4x8x8xbf16>, %wbf16: tensor<4x4x3x3xbf16>, %bbf16: tensor<4xbf16>, %x: tensor<?x8x8x4xf32>, %u: tensor<8x2x1x1xf32>, %l: tensor<2x3x9xf32>, %v: tensor<5x3x3xf32>, %d: tensor<1x2x4x4x4xf32>, %k: tensor<2x1x2x2x2xf32>) {
  // CHECK: fusion.conv %{{.*}}, %{{.*}} bias %{{.*}} strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf64>, tensor<4x4x3x3xf64>, tensor<4xf64>
  %0 = fusion.conv %xf64, %wf64 bias %bf64 strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf64>, tensor<4x4x3x3xf64>, tensor<4xf64>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} bias %{{.*}} strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>
  %1 = fusion.conv %xf32, %wf32 bias %bf32 strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} bias %{{.*}} strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf16>, tensor<4x4x3x3xf16>, tensor<4xf16>
  %2 = fusion.conv %xf16, %wf16 bias %bf16 strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xf16>, tensor<4x4x3x3xf16>, tensor<4xf16>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} bias %{{.*}} strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xbf16>, tensor<4x4x3x3xbf16>, tensor<4xbf16>
  %3 = fusion.conv %xbf16, %wbf16 bias %bbf16 strides = [2, 2] pad_low = [1, 1] pad_high = [0, 1] dilations = [1, 2] groups = 1 layout = nchw : tensor<1x4x8x8xbf16>, tensor<4x4x3x3xbf16>, tensor<4xbf16>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 2 layout = nhwc : tensor<?x8x8x4xf32>, tensor<8x2x1x1xf32>
  %4 = fusion.conv %x, %u strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 2 layout = nhwc : tensor<?x8x8x4xf32>, tensor<8x2x1x1xf32>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} strides = [1] pad_low = [2] pad_high = [2] dilations = [2] groups = 1 layout = nchw : tensor<2x3x9xf32>, tensor<5x3x3xf32>
  %5 = fusion.conv %l, %v strides = [1] pad_low = [2] pad_high = [2] dilations = [2] groups = 1 layout = nchw : tensor<2x3x9xf32>, tensor<5x3x3xf32>
  // CHECK: fusion.conv %{{.*}}, %{{.*}} strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] groups = 2 layout = nchw : tensor<1x2x4x4x4xf32>, tensor<2x1x2x2x2xf32>
  %6 = fusion.conv %d, %k strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] groups = 2 layout = nchw : tensor<1x2x4x4x4xf32>, tensor<2x1x2x2x2xf32>
  return
}

// CHECK-LABEL: @conv_transpose(
func.func @conv_transpose(%x: tensor<1x4x5x5xf32>, %w: tensor<4x2x3x3xf32>, %b: tensor<4xf32>, %n: tensor<?x5x5x4xbf16>, %v: tensor<4x3x2x2xbf16>, %l: tensor<1x1x4xf64>, %u: tensor<1x1x3xf64>) {
  // CHECK: fusion.conv_transpose %{{.*}}, %{{.*}} bias %{{.*}} strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] output_padding = [1, 0] dilations = [1, 1] groups = 2 layout = nchw : tensor<1x4x5x5xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>
  %0 = fusion.conv_transpose %x, %w bias %b strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] output_padding = [1, 0] dilations = [1, 1] groups = 2 layout = nchw : tensor<1x4x5x5xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>
  // CHECK: fusion.conv_transpose %{{.*}}, %{{.*}} strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<?x5x5x4xbf16>, tensor<4x3x2x2xbf16>
  %1 = fusion.conv_transpose %n, %v strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<?x5x5x4xbf16>, tensor<4x3x2x2xbf16>
  // CHECK: fusion.conv_transpose %{{.*}}, %{{.*}} strides = [1] pad_low = [0] pad_high = [1] output_padding = [1] dilations = [2] groups = 1 layout = nchw : tensor<1x1x4xf64>, tensor<1x1x3xf64>
  %2 = fusion.conv_transpose %l, %u strides = [1] pad_low = [0] pad_high = [1] output_padding = [1] dilations = [2] groups = 1 layout = nchw : tensor<1x1x4xf64>, tensor<1x1x3xf64>
  return
}

// CHECK-LABEL: @pool(
func.func @pool(%xf64: tensor<1x4x8x8xf64>, %xf32: tensor<1x4x8x8xf32>, %xf16: tensor<1x4x8x8xf16>, %xbf16: tensor<1x4x8x8xbf16>, %xi8: tensor<1x4x8x8xi8>, %xi32: tensor<1x4x8x8xi32>, %xi64: tensor<1x4x8x8xi64>, %l: tensor<?x9x3xf32>, %d: tensor<1x1x4x4x4xf16>) {
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf64>
  %0 = fusion.max_pool %xf64 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf64>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  %1 = fusion.max_pool %xf32 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf16>
  %2 = fusion.max_pool %xf16 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf16>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xbf16>
  %3 = fusion.max_pool %xbf16 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xbf16>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi8>
  %4 = fusion.max_pool %xi8 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi8>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi32>
  %5 = fusion.max_pool %xi32 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi32>
  // CHECK: fusion.max_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi64>
  %6 = fusion.max_pool %xi64 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi64>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf64>
  %7 = fusion.avg_pool %xf64 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf64>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  %8 = fusion.avg_pool %xf32 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf16>
  %9 = fusion.avg_pool %xf16 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf16>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xbf16>
  %10 = fusion.avg_pool %xbf16 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xbf16>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw {count_include_pad} : tensor<1x4x8x8xf32>
  %11 = fusion.avg_pool %xf32 window = [2, 2] strides = [2, 2] pad_low = [0, 1] pad_high = [0, 0] dilations = [1, 1] layout = nchw {count_include_pad} : tensor<1x4x8x8xf32>
  // CHECK: fusion.max_pool %{{.*}} window = [3] strides = [1] pad_low = [1] pad_high = [1] dilations = [2] layout = nhwc : tensor<?x9x3xf32>
  %12 = fusion.max_pool %l window = [3] strides = [1] pad_low = [1] pad_high = [1] dilations = [2] layout = nhwc : tensor<?x9x3xf32>
  // CHECK: fusion.avg_pool %{{.*}} window = [2, 2, 2] strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] layout = nchw : tensor<1x1x4x4x4xf16>
  %13 = fusion.avg_pool %d window = [2, 2, 2] strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] layout = nchw : tensor<1x1x4x4x4xf16>
  return
}
