// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Casts between every pair of element types, a type to itself included.

// CHECK-LABEL: @cast_f64(
// CHECK-COUNT-8: = fusion.
func.func @cast_f64(%x: tensor<4xf64>) {
  %0 = fusion.cast %x : tensor<4xf64> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xf64> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xf64> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xf64> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xf64> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xf64> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xf64> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xf64> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_f32(
func.func @cast_f32(%x: tensor<4xf32>) {
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xf64>
  %0 = fusion.cast %x : tensor<4xf32> to tensor<4xf64>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xf32>
  %1 = fusion.cast %x : tensor<4xf32> to tensor<4xf32>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xf16>
  %2 = fusion.cast %x : tensor<4xf32> to tensor<4xf16>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xbf16>
  %3 = fusion.cast %x : tensor<4xf32> to tensor<4xbf16>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xi1>
  %4 = fusion.cast %x : tensor<4xf32> to tensor<4xi1>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xi8>
  %5 = fusion.cast %x : tensor<4xf32> to tensor<4xi8>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xi32>
  %6 = fusion.cast %x : tensor<4xf32> to tensor<4xi32>
  // CHECK: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xi64>
  %7 = fusion.cast %x : tensor<4xf32> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_f16(
// CHECK-COUNT-8: = fusion.
func.func @cast_f16(%x: tensor<4xf16>) {
  %0 = fusion.cast %x : tensor<4xf16> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xf16> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xf16> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xf16> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xf16> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xf16> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xf16> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xf16> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_bf16(
// CHECK-COUNT-8: = fusion.
func.func @cast_bf16(%x: tensor<4xbf16>) {
  %0 = fusion.cast %x : tensor<4xbf16> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xbf16> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xbf16> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xbf16> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xbf16> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xbf16> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xbf16> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xbf16> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_i1(
// CHECK-COUNT-8: = fusion.
func.func @cast_i1(%x: tensor<4xi1>) {
  %0 = fusion.cast %x : tensor<4xi1> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xi1> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xi1> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xi1> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xi1> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xi1> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xi1> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xi1> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_i8(
// CHECK-COUNT-8: = fusion.
func.func @cast_i8(%x: tensor<4xi8>) {
  %0 = fusion.cast %x : tensor<4xi8> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xi8> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xi8> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xi8> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xi8> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xi8> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xi8> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xi8> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_i32(
// CHECK-COUNT-8: = fusion.
func.func @cast_i32(%x: tensor<4xi32>) {
  %0 = fusion.cast %x : tensor<4xi32> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xi32> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xi32> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xi32> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xi32> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xi32> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xi32> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xi32> to tensor<4xi64>
  return
}

// CHECK-LABEL: @cast_i64(
// CHECK-COUNT-8: = fusion.
func.func @cast_i64(%x: tensor<4xi64>) {
  %0 = fusion.cast %x : tensor<4xi64> to tensor<4xf64>
  %1 = fusion.cast %x : tensor<4xi64> to tensor<4xf32>
  %2 = fusion.cast %x : tensor<4xi64> to tensor<4xf16>
  %3 = fusion.cast %x : tensor<4xi64> to tensor<4xbf16>
  %4 = fusion.cast %x : tensor<4xi64> to tensor<4xi1>
  %5 = fusion.cast %x : tensor<4xi64> to tensor<4xi8>
  %6 = fusion.cast %x : tensor<4xi64> to tensor<4xi32>
  %7 = fusion.cast %x : tensor<4xi64> to tensor<4xi64>
  return
}

// CHECK-LABEL: @scalar(
func.func @scalar(%x: tensor<f32>, %c: tensor<i1>) {
  // CHECK: fusion.compare lt, %{{.*}}, %{{.*}} : tensor<f32>
  %0 = fusion.compare lt, %x, %x : tensor<f32>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>
  %1 = fusion.select %c, %x, %x : tensor<i1>, tensor<f32>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<f32>
  %2 = fusion.clamp %x, %x, %x : tensor<f32>
  // CHECK: fusion.cast %{{.*}} : tensor<f32> to tensor<bf16>
  %3 = fusion.cast %x : tensor<f32> to tensor<bf16>
  return
}

// CHECK-LABEL: @empty(
func.func @empty(%x: tensor<0x4xf32>, %c: tensor<0x4xi1>) {
  // CHECK: fusion.compare lt, %{{.*}}, %{{.*}} : tensor<0x4xf32>
  %0 = fusion.compare lt, %x, %x : tensor<0x4xf32>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<0x4xi1>, tensor<0x4xf32>
  %1 = fusion.select %c, %x, %x : tensor<0x4xi1>, tensor<0x4xf32>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<0x4xf32>
  %2 = fusion.clamp %x, %x, %x : tensor<0x4xf32>
  // CHECK: fusion.cast %{{.*}} : tensor<0x4xf32> to tensor<0x4xbf16>
  %3 = fusion.cast %x : tensor<0x4xf32> to tensor<0x4xbf16>
  return
}

// CHECK-LABEL: @batch(
func.func @batch(%x: tensor<?x4xf32>, %c: tensor<?x4xi1>) {
  // CHECK: fusion.compare lt, %{{.*}}, %{{.*}} : tensor<?x4xf32>
  %0 = fusion.compare lt, %x, %x : tensor<?x4xf32>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4xi1>, tensor<?x4xf32>
  %1 = fusion.select %c, %x, %x : tensor<?x4xi1>, tensor<?x4xf32>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4xf32>
  %2 = fusion.clamp %x, %x, %x : tensor<?x4xf32>
  // CHECK: fusion.cast %{{.*}} : tensor<?x4xf32> to tensor<?x4xbf16>
  %3 = fusion.cast %x : tensor<?x4xf32> to tensor<?x4xbf16>
  return
}
