// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Compare, select, clamp and the random numbers.

// CHECK-LABEL: @compare_f64(
// CHECK-COUNT-6: = fusion.
func.func @compare_f64(%a: tensor<4xf64>, %b: tensor<4xf64>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xf64>
  %1 = fusion.compare ne, %a, %b : tensor<4xf64>
  %2 = fusion.compare lt, %a, %b : tensor<4xf64>
  %3 = fusion.compare le, %a, %b : tensor<4xf64>
  %4 = fusion.compare gt, %a, %b : tensor<4xf64>
  %5 = fusion.compare ge, %a, %b : tensor<4xf64>
  return
}

// CHECK-LABEL: @compare_f32(
func.func @compare_f32(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // CHECK: fusion.compare eq, %{{.*}}, %{{.*}} : tensor<4xf32>
  %0 = fusion.compare eq, %a, %b : tensor<4xf32>
  // CHECK: fusion.compare ne, %{{.*}}, %{{.*}} : tensor<4xf32>
  %1 = fusion.compare ne, %a, %b : tensor<4xf32>
  // CHECK: fusion.compare lt, %{{.*}}, %{{.*}} : tensor<4xf32>
  %2 = fusion.compare lt, %a, %b : tensor<4xf32>
  // CHECK: fusion.compare le, %{{.*}}, %{{.*}} : tensor<4xf32>
  %3 = fusion.compare le, %a, %b : tensor<4xf32>
  // CHECK: fusion.compare gt, %{{.*}}, %{{.*}} : tensor<4xf32>
  %4 = fusion.compare gt, %a, %b : tensor<4xf32>
  // CHECK: fusion.compare ge, %{{.*}}, %{{.*}} : tensor<4xf32>
  %5 = fusion.compare ge, %a, %b : tensor<4xf32>
  return
}

// CHECK-LABEL: @compare_f16(
// CHECK-COUNT-6: = fusion.
func.func @compare_f16(%a: tensor<4xf16>, %b: tensor<4xf16>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xf16>
  %1 = fusion.compare ne, %a, %b : tensor<4xf16>
  %2 = fusion.compare lt, %a, %b : tensor<4xf16>
  %3 = fusion.compare le, %a, %b : tensor<4xf16>
  %4 = fusion.compare gt, %a, %b : tensor<4xf16>
  %5 = fusion.compare ge, %a, %b : tensor<4xf16>
  return
}

// CHECK-LABEL: @compare_bf16(
// CHECK-COUNT-6: = fusion.
func.func @compare_bf16(%a: tensor<4xbf16>, %b: tensor<4xbf16>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xbf16>
  %1 = fusion.compare ne, %a, %b : tensor<4xbf16>
  %2 = fusion.compare lt, %a, %b : tensor<4xbf16>
  %3 = fusion.compare le, %a, %b : tensor<4xbf16>
  %4 = fusion.compare gt, %a, %b : tensor<4xbf16>
  %5 = fusion.compare ge, %a, %b : tensor<4xbf16>
  return
}

// CHECK-LABEL: @compare_i1(
// CHECK-COUNT-6: = fusion.
func.func @compare_i1(%a: tensor<4xi1>, %b: tensor<4xi1>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xi1>
  %1 = fusion.compare ne, %a, %b : tensor<4xi1>
  %2 = fusion.compare lt, %a, %b : tensor<4xi1>
  %3 = fusion.compare le, %a, %b : tensor<4xi1>
  %4 = fusion.compare gt, %a, %b : tensor<4xi1>
  %5 = fusion.compare ge, %a, %b : tensor<4xi1>
  return
}

// CHECK-LABEL: @compare_i8(
// CHECK-COUNT-6: = fusion.
func.func @compare_i8(%a: tensor<4xi8>, %b: tensor<4xi8>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xi8>
  %1 = fusion.compare ne, %a, %b : tensor<4xi8>
  %2 = fusion.compare lt, %a, %b : tensor<4xi8>
  %3 = fusion.compare le, %a, %b : tensor<4xi8>
  %4 = fusion.compare gt, %a, %b : tensor<4xi8>
  %5 = fusion.compare ge, %a, %b : tensor<4xi8>
  return
}

// CHECK-LABEL: @compare_i32(
// CHECK-COUNT-6: = fusion.
func.func @compare_i32(%a: tensor<4xi32>, %b: tensor<4xi32>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xi32>
  %1 = fusion.compare ne, %a, %b : tensor<4xi32>
  %2 = fusion.compare lt, %a, %b : tensor<4xi32>
  %3 = fusion.compare le, %a, %b : tensor<4xi32>
  %4 = fusion.compare gt, %a, %b : tensor<4xi32>
  %5 = fusion.compare ge, %a, %b : tensor<4xi32>
  return
}

// CHECK-LABEL: @compare_i64(
// CHECK-COUNT-6: = fusion.
func.func @compare_i64(%a: tensor<4xi64>, %b: tensor<4xi64>) {
  %0 = fusion.compare eq, %a, %b : tensor<4xi64>
  %1 = fusion.compare ne, %a, %b : tensor<4xi64>
  %2 = fusion.compare lt, %a, %b : tensor<4xi64>
  %3 = fusion.compare le, %a, %b : tensor<4xi64>
  %4 = fusion.compare gt, %a, %b : tensor<4xi64>
  %5 = fusion.compare ge, %a, %b : tensor<4xi64>
  return
}

// CHECK-LABEL: @select(
func.func @select(%c: tensor<4xi1>, %xf64: tensor<4xf64>, %xf32: tensor<4xf32>, %xf16: tensor<4xf16>, %xbf16: tensor<4xbf16>, %xi1: tensor<4xi1>, %xi8: tensor<4xi8>, %xi32: tensor<4xi32>, %xi64: tensor<4xi64>) {
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf64>
  %0 = fusion.select %c, %xf64, %xf64 : tensor<4xi1>, tensor<4xf64>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf32>
  %1 = fusion.select %c, %xf32, %xf32 : tensor<4xi1>, tensor<4xf32>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf16>
  %2 = fusion.select %c, %xf16, %xf16 : tensor<4xi1>, tensor<4xf16>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xbf16>
  %3 = fusion.select %c, %xbf16, %xbf16 : tensor<4xi1>, tensor<4xbf16>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xi1>
  %4 = fusion.select %c, %xi1, %xi1 : tensor<4xi1>, tensor<4xi1>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xi8>
  %5 = fusion.select %c, %xi8, %xi8 : tensor<4xi1>, tensor<4xi8>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xi32>
  %6 = fusion.select %c, %xi32, %xi32 : tensor<4xi1>, tensor<4xi32>
  // CHECK: fusion.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xi64>
  %7 = fusion.select %c, %xi64, %xi64 : tensor<4xi1>, tensor<4xi64>
  return
}

// CHECK-LABEL: @clamp(
func.func @clamp(%xf64: tensor<4xf64>, %xf32: tensor<4xf32>, %xf16: tensor<4xf16>, %xbf16: tensor<4xbf16>, %xi8: tensor<4xi8>, %xi32: tensor<4xi32>, %xi64: tensor<4xi64>) {
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf64>
  %0 = fusion.clamp %xf64, %xf64, %xf64 : tensor<4xf64>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf32>
  %1 = fusion.clamp %xf32, %xf32, %xf32 : tensor<4xf32>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf16>
  %2 = fusion.clamp %xf16, %xf16, %xf16 : tensor<4xf16>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xbf16>
  %3 = fusion.clamp %xbf16, %xbf16, %xbf16 : tensor<4xbf16>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi8>
  %4 = fusion.clamp %xi8, %xi8, %xi8 : tensor<4xi8>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi32>
  %5 = fusion.clamp %xi32, %xi32, %xi32 : tensor<4xi32>
  // CHECK: fusion.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi64>
  %6 = fusion.clamp %xi64, %xi64, %xi64 : tensor<4xi64>
  return
}

// CHECK-LABEL: @rng_uniform(
func.func @rng_uniform(%seed: tensor<i64>, %offset: tensor<i64>) {
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<f64>
  %0 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<f64>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<4xf64>
  %1 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<4xf64>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<0xf64>
  %2 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<0xf64>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<f32>
  %3 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<f32>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<4xf32>
  %4 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<4xf32>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<0xf32>
  %5 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<0xf32>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<f16>
  %6 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<f16>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<4xf16>
  %7 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<4xf16>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<0xf16>
  %8 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<0xf16>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<bf16>
  %9 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<bf16>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<4xbf16>
  %10 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<4xbf16>
  // CHECK: fusion.rng_uniform %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<0xbf16>
  %11 = fusion.rng_uniform %seed, %offset : tensor<i64>, tensor<i64>, tensor<0xbf16>
  return
}
