// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Every activation, in every element type it takes.

// CHECK-LABEL: @activation_f64(
// CHECK-COUNT-11: = fusion.
func.func @activation_f64(%x: tensor<4xf64>) {
  %0 = fusion.relu %x : tensor<4xf64>
  %1 = fusion.sigmoid %x : tensor<4xf64>
  %2 = fusion.silu %x : tensor<4xf64>
  %3 = fusion.softplus %x : tensor<4xf64>
  %4 = fusion.mish %x : tensor<4xf64>
  %5 = fusion.hard_swish %x : tensor<4xf64>
  %6 = fusion.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<4xf64>
  %7 = fusion.leaky_relu %x alpha = 1.000000e-02 : tensor<4xf64>
  %8 = fusion.elu %x alpha = 1.000000e+00 : tensor<4xf64>
  %9 = fusion.gelu erf, %x : tensor<4xf64>
  %10 = fusion.gelu tanh, %x : tensor<4xf64>
  return
}

// CHECK-LABEL: @activation_f32(
func.func @activation_f32(%x: tensor<4xf32>) {
  // CHECK: fusion.relu %{{.*}} : tensor<4xf32>
  %0 = fusion.relu %x : tensor<4xf32>
  // CHECK: fusion.sigmoid %{{.*}} : tensor<4xf32>
  %1 = fusion.sigmoid %x : tensor<4xf32>
  // CHECK: fusion.silu %{{.*}} : tensor<4xf32>
  %2 = fusion.silu %x : tensor<4xf32>
  // CHECK: fusion.softplus %{{.*}} : tensor<4xf32>
  %3 = fusion.softplus %x : tensor<4xf32>
  // CHECK: fusion.mish %{{.*}} : tensor<4xf32>
  %4 = fusion.mish %x : tensor<4xf32>
  // CHECK: fusion.hard_swish %{{.*}} : tensor<4xf32>
  %5 = fusion.hard_swish %x : tensor<4xf32>
  // CHECK: fusion.hard_sigmoid %{{.*}} alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<4xf32>
  %6 = fusion.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<4xf32>
  // CHECK: fusion.leaky_relu %{{.*}} alpha = 1.000000e-02 : tensor<4xf32>
  %7 = fusion.leaky_relu %x alpha = 1.000000e-02 : tensor<4xf32>
  // CHECK: fusion.elu %{{.*}} alpha = 1.000000e+00 : tensor<4xf32>
  %8 = fusion.elu %x alpha = 1.000000e+00 : tensor<4xf32>
  // CHECK: fusion.gelu erf, %{{.*}} : tensor<4xf32>
  %9 = fusion.gelu erf, %x : tensor<4xf32>
  // CHECK: fusion.gelu tanh, %{{.*}} : tensor<4xf32>
  %10 = fusion.gelu tanh, %x : tensor<4xf32>
  return
}

// CHECK-LABEL: @activation_f16(
// CHECK-COUNT-11: = fusion.
func.func @activation_f16(%x: tensor<4xf16>) {
  %0 = fusion.relu %x : tensor<4xf16>
  %1 = fusion.sigmoid %x : tensor<4xf16>
  %2 = fusion.silu %x : tensor<4xf16>
  %3 = fusion.softplus %x : tensor<4xf16>
  %4 = fusion.mish %x : tensor<4xf16>
  %5 = fusion.hard_swish %x : tensor<4xf16>
  %6 = fusion.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<4xf16>
  %7 = fusion.leaky_relu %x alpha = 1.000000e-02 : tensor<4xf16>
  %8 = fusion.elu %x alpha = 1.000000e+00 : tensor<4xf16>
  %9 = fusion.gelu erf, %x : tensor<4xf16>
  %10 = fusion.gelu tanh, %x : tensor<4xf16>
  return
}

// CHECK-LABEL: @activation_bf16(
// CHECK-COUNT-11: = fusion.
func.func @activation_bf16(%x: tensor<4xbf16>) {
  %0 = fusion.relu %x : tensor<4xbf16>
  %1 = fusion.sigmoid %x : tensor<4xbf16>
  %2 = fusion.silu %x : tensor<4xbf16>
  %3 = fusion.softplus %x : tensor<4xbf16>
  %4 = fusion.mish %x : tensor<4xbf16>
  %5 = fusion.hard_swish %x : tensor<4xbf16>
  %6 = fusion.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<4xbf16>
  %7 = fusion.leaky_relu %x alpha = 1.000000e-02 : tensor<4xbf16>
  %8 = fusion.elu %x alpha = 1.000000e+00 : tensor<4xbf16>
  %9 = fusion.gelu erf, %x : tensor<4xbf16>
  %10 = fusion.gelu tanh, %x : tensor<4xbf16>
  return
}

// CHECK-LABEL: @activation_i8(
// CHECK-COUNT-1: = fusion.
func.func @activation_i8(%x: tensor<4xi8>) {
  %0 = fusion.relu %x : tensor<4xi8>
  return
}

// CHECK-LABEL: @activation_i32(
// CHECK-COUNT-1: = fusion.
func.func @activation_i32(%x: tensor<4xi32>) {
  %0 = fusion.relu %x : tensor<4xi32>
  return
}

// CHECK-LABEL: @activation_i64(
// CHECK-COUNT-1: = fusion.
func.func @activation_i64(%x: tensor<4xi64>) {
  %0 = fusion.relu %x : tensor<4xi64>
  return
}

// CHECK-LABEL: @scalar(
func.func @scalar(%x: tensor<f32>) {
  // CHECK: fusion.relu %{{.*}} : tensor<f32>
  %0 = fusion.relu %x : tensor<f32>
  // CHECK: fusion.gelu tanh, %{{.*}} : tensor<f32>
  %1 = fusion.gelu tanh, %x : tensor<f32>
  // CHECK: fusion.elu %{{.*}} alpha = -1.000000e+00 : tensor<f32>
  %2 = fusion.elu %x alpha = -1.000000e+00 : tensor<f32>
  return
}

// CHECK-LABEL: @empty(
func.func @empty(%x: tensor<0x4xf32>) {
  // CHECK: fusion.relu %{{.*}} : tensor<0x4xf32>
  %0 = fusion.relu %x : tensor<0x4xf32>
  // CHECK: fusion.gelu tanh, %{{.*}} : tensor<0x4xf32>
  %1 = fusion.gelu tanh, %x : tensor<0x4xf32>
  // CHECK: fusion.elu %{{.*}} alpha = -1.000000e+00 : tensor<0x4xf32>
  %2 = fusion.elu %x alpha = -1.000000e+00 : tensor<0x4xf32>
  return
}

// CHECK-LABEL: @batch(
func.func @batch(%x: tensor<?x4xf32>) {
  // CHECK: fusion.relu %{{.*}} : tensor<?x4xf32>
  %0 = fusion.relu %x : tensor<?x4xf32>
  // CHECK: fusion.gelu tanh, %{{.*}} : tensor<?x4xf32>
  %1 = fusion.gelu tanh, %x : tensor<?x4xf32>
  // CHECK: fusion.elu %{{.*}} alpha = -1.000000e+00 : tensor<?x4xf32>
  %2 = fusion.elu %x alpha = -1.000000e+00 : tensor<?x4xf32>
  return
}
