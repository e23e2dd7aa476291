// RUN: fusion-opt %s --split-input-file --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels=target=cuda | FileCheck %s

// Fast: the product, its bias and the gelu are one call, and nothing is left.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @linear_gelu
// CHECK: fusion.group library
// CHECK-NOT: kernel @
// CHECK: fusion.call
// CHECK-SAME: activation = "gelu_tanh"
// CHECK-SAME: dtype = "bf16"
// CHECK-SAME: hasAddend = false, hasBias = true
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3>
func.func @linear_gelu(%x: tensor<?x8xbf16>, %w: tensor<5x8xbf16>, %b: tensor<5xbf16>) -> tensor<?x5xbf16> attributes {fusion.batch = array<i64: 1, 4>} {
  %0 = fusion.matmul %x, %w {transpose_rhs} : tensor<?x8xbf16>, tensor<5x8xbf16>
  %1 = fusion.broadcast %b dims = [1] {batch_scale = 1 : i64} : tensor<5xbf16> to tensor<?x5xbf16>
  %2 = fusion.add %0, %1 : tensor<?x5xbf16>
  %3 = fusion.gelu tanh, %2 : tensor<?x5xbf16>
  return %3 : tensor<?x5xbf16>
}
}

// -----

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @conv_residual_relu
// CHECK: fusion.group library
// CHECK-NOT: kernel @
// CHECK: fusion.call
// CHECK-SAME: activation = "relu"
// CHECK-SAME: hasAddend = true, hasBias = true
func.func @conv_residual_relu(%x: tensor<2x6x6x8xf16>, %w: tensor<16x8x3x3xf16>, %b: tensor<16xf16>, %y: tensor<2x6x6x16xf16>) -> tensor<2x6x6x16xf16> {
  %0 = fusion.conv %x, %w bias %b strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<2x6x6x8xf16>, tensor<16x8x3x3xf16>, tensor<16xf16>
  %3 = fusion.add %0, %y : tensor<2x6x6x16xf16>
  %4 = fusion.relu %3 : tensor<2x6x6x16xf16>
  return %4 : tensor<2x6x6x16xf16>
}
}

// -----

// Strict: a result of f32 takes the bias along, and the relu is our kernel; one
// of f16 is rounded before the bias, by a kernel of ours too.

module attributes {fusion.target = "cuda", fusion.fp = "strict"} {
// CHECK-LABEL: func.func @strict
// CHECK: fusion.group library {{.*}}kernel @kernels::@k1
// CHECK: dtype = "f32"
// CHECK-SAME: fallback = "k0"
// CHECK-SAME: hasBias = true
// CHECK: fusion.group library {{.*}}kernel @kernels::@k3
// CHECK: dtype = "f16"
// CHECK-SAME: fallback = "k2"
// CHECK-SAME: hasBias = false
// CHECK-SAME: keepsOrder = true
func.func @strict(%x: tensor<4x8xf32>, %w: tensor<8x5xf32>, %b: tensor<5xf32>, %x1: tensor<4x8xf16>, %w1: tensor<8x5xf16>, %b1: tensor<5xf16>) -> (tensor<4x5xf32>, tensor<4x5xf16>) {
  %0 = fusion.matmul %x, %w : tensor<4x8xf32>, tensor<8x5xf32>
  %1 = fusion.broadcast %b dims = [1] : tensor<5xf32> to tensor<4x5xf32>
  %2 = fusion.add %0, %1 : tensor<4x5xf32>
  %3 = fusion.relu %2 : tensor<4x5xf32>
  %4 = fusion.matmul %x1, %w1 : tensor<4x8xf16>, tensor<8x5xf16>
  %5 = fusion.broadcast %b1 dims = [1] : tensor<5xf16> to tensor<4x5xf16>
  %6 = fusion.add %4, %5 : tensor<4x5xf16>
  return %3, %6 : tensor<4x5xf32>, tensor<4x5xf16>
}
}

// -----

// Asked for: f32 may be tf32; other types stay what they are.

module attributes {fusion.target = "cuda", fusion.fp = "fast", fusion.allow_tf32} {
// CHECK-LABEL: func.func @tf32
// CHECK: computeTf32 = true, dtype = "f32"
// CHECK: fusion.matmul
// CHECK: computeTf32 = true
// CHECK-SAME: dtype = "f32"
// CHECK-NOT: computeTf32
func.func @tf32(%x: tensor<4x8xf32>, %w: tensor<8x5xf32>, %i: tensor<2x6x6x8xf32>, %f: tensor<16x8x3x3xf32>, %x1: tensor<4x8xf16>, %w1: tensor<8x5xf16>) -> (tensor<4x5xf32>, tensor<2x6x6x16xf32>, tensor<4x5xf16>) {
  %0 = fusion.matmul %x, %w : tensor<4x8xf32>, tensor<8x5xf32>
  %1 = fusion.conv %i, %f strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<2x6x6x8xf32>, tensor<16x8x3x3xf32>
  %2 = fusion.matmul %x1, %w1 : tensor<4x8xf16>, tensor<8x5xf16>
  return %0, %1, %2 : tensor<4x5xf32>, tensor<2x6x6x16xf32>, tensor<4x5xf16>
}
}

// -----

// Strict: with an epilogue the library would sum products of f64 in another order.

module attributes {fusion.target = "cuda", fusion.fp = "strict"} {
// CHECK-LABEL: func.func @strict_f64
// CHECK: dtype = "f64"
// CHECK-SAME: hasAddend = false, hasBias = false
func.func @strict_f64(%x: tensor<4x8xf64>, %w: tensor<8x5xf64>, %b: tensor<5xf64>) -> tensor<4x5xf64> {
  %0 = fusion.matmul %x, %w : tensor<4x8xf64>, tensor<8x5xf64>
  %1 = fusion.broadcast %b dims = [1] : tensor<5xf64> to tensor<4x5xf64>
  %2 = fusion.add %0, %1 : tensor<4x5xf64>
  return %2 : tensor<4x5xf64>
}
}

// -----

// Fast, it does.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @fast_f64
// CHECK: dtype = "f64"
// CHECK-SAME: hasBias = true
func.func @fast_f64(%x: tensor<4x8xf64>, %w: tensor<8x5xf64>, %b: tensor<5xf64>) -> tensor<4x5xf64> {
  %0 = fusion.matmul %x, %w : tensor<4x8xf64>, tensor<8x5xf64>
  %1 = fusion.broadcast %b dims = [1] : tensor<5xf64> to tensor<4x5xf64>
  %2 = fusion.add %0, %1 : tensor<4x5xf64>
  return %2 : tensor<4x5xf64>
}
}
