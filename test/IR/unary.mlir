// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Every elementwise op of one operand, and the shapes elementwise ops take.

// CHECK-LABEL: @unary_f32(
func.func @unary_f32(%x: tensor<4xf32>) {
  // CHECK: fusion.neg %{{.*}} : tensor<4xf32>
  %0 = fusion.neg %x : tensor<4xf32>
  // CHECK: fusion.abs %{{.*}} : tensor<4xf32>
  %1 = fusion.abs %x : tensor<4xf32>
  // CHECK: fusion.sign %{{.*}} : tensor<4xf32>
  %2 = fusion.sign %x : tensor<4xf32>
  // CHECK: fusion.ceil %{{.*}} : tensor<4xf32>
  %3 = fusion.ceil %x : tensor<4xf32>
  // CHECK: fusion.floor %{{.*}} : tensor<4xf32>
  %4 = fusion.floor %x : tensor<4xf32>
  // CHECK: fusion.round %{{.*}} : tensor<4xf32>
  %5 = fusion.round %x : tensor<4xf32>
  // CHECK: fusion.sqrt %{{.*}} : tensor<4xf32>
  %6 = fusion.sqrt %x : tensor<4xf32>
  // CHECK: fusion.rsqrt %{{.*}} : tensor<4xf32>
  %7 = fusion.rsqrt %x : tensor<4xf32>
  // CHECK: fusion.reciprocal %{{.*}} : tensor<4xf32>
  %8 = fusion.reciprocal %x : tensor<4xf32>
  // CHECK: fusion.exp %{{.*}} : tensor<4xf32>
  %9 = fusion.exp %x : tensor<4xf32>
  // CHECK: fusion.exp2 %{{.*}} : tensor<4xf32>
  %10 = fusion.exp2 %x : tensor<4xf32>
  // CHECK: fusion.expm1 %{{.*}} : tensor<4xf32>
  %11 = fusion.expm1 %x : tensor<4xf32>
  // CHECK: fusion.log %{{.*}} : tensor<4xf32>
  %12 = fusion.log %x : tensor<4xf32>
  // CHECK: fusion.log2 %{{.*}} : tensor<4xf32>
  %13 = fusion.log2 %x : tensor<4xf32>
  // CHECK: fusion.log1p %{{.*}} : tensor<4xf32>
  %14 = fusion.log1p %x : tensor<4xf32>
  // CHECK: fusion.sin %{{.*}} : tensor<4xf32>
  %15 = fusion.sin %x : tensor<4xf32>
  // CHECK: fusion.cos %{{.*}} : tensor<4xf32>
  %16 = fusion.cos %x : tensor<4xf32>
  // CHECK: fusion.tan %{{.*}} : tensor<4xf32>
  %17 = fusion.tan %x : tensor<4xf32>
  // CHECK: fusion.asin %{{.*}} : tensor<4xf32>
  %18 = fusion.asin %x : tensor<4xf32>
  // CHECK: fusion.acos %{{.*}} : tensor<4xf32>
  %19 = fusion.acos %x : tensor<4xf32>
  // CHECK: fusion.atan %{{.*}} : tensor<4xf32>
  %20 = fusion.atan %x : tensor<4xf32>
  // CHECK: fusion.sinh %{{.*}} : tensor<4xf32>
  %21 = fusion.sinh %x : tensor<4xf32>
  // CHECK: fusion.cosh %{{.*}} : tensor<4xf32>
  %22 = fusion.cosh %x : tensor<4xf32>
  // CHECK: fusion.asinh %{{.*}} : tensor<4xf32>
  %23 = fusion.asinh %x : tensor<4xf32>
  // CHECK: fusion.acosh %{{.*}} : tensor<4xf32>
  %24 = fusion.acosh %x : tensor<4xf32>
  // CHECK: fusion.atanh %{{.*}} : tensor<4xf32>
  %25 = fusion.atanh %x : tensor<4xf32>
  // CHECK: fusion.tanh %{{.*}} : tensor<4xf32>
  %26 = fusion.tanh %x : tensor<4xf32>
  // CHECK: fusion.erf %{{.*}} : tensor<4xf32>
  %27 = fusion.erf %x : tensor<4xf32>
  // CHECK: fusion.is_nan %{{.*}} : tensor<4xf32>
  %28 = fusion.is_nan %x : tensor<4xf32>
  // CHECK: fusion.is_inf %{{.*}} : tensor<4xf32>
  %29 = fusion.is_inf %x : tensor<4xf32>
  return
}

// CHECK-LABEL: @unary_i1(
func.func @unary_i1(%x: tensor<4xi1>) {
  // CHECK: fusion.not %{{.*}} : tensor<4xi1>
  %0 = fusion.not %x : tensor<4xi1>
  return
}

// CHECK-LABEL: @scalar(
func.func @scalar(%x: tensor<f32>) {
  // CHECK: fusion.neg %{{.*}} : tensor<f32>
  %0 = fusion.neg %x : tensor<f32>
  // CHECK: fusion.exp %{{.*}} : tensor<f32>
  %1 = fusion.exp %x : tensor<f32>
  // CHECK: fusion.is_nan %{{.*}} : tensor<f32>
  %2 = fusion.is_nan %x : tensor<f32>
  return
}

// CHECK-LABEL: @empty(
func.func @empty(%x: tensor<0x4xf32>) {
  // CHECK: fusion.neg %{{.*}} : tensor<0x4xf32>
  %0 = fusion.neg %x : tensor<0x4xf32>
  // CHECK: fusion.exp %{{.*}} : tensor<0x4xf32>
  %1 = fusion.exp %x : tensor<0x4xf32>
  // CHECK: fusion.is_nan %{{.*}} : tensor<0x4xf32>
  %2 = fusion.is_nan %x : tensor<0x4xf32>
  return
}

// CHECK-LABEL: @batch(
func.func @batch(%x: tensor<?x4xf32>) {
  // CHECK: fusion.neg %{{.*}} : tensor<?x4xf32>
  %0 = fusion.neg %x : tensor<?x4xf32>
  // CHECK: fusion.exp %{{.*}} : tensor<?x4xf32>
  %1 = fusion.exp %x : tensor<?x4xf32>
  // CHECK: fusion.is_nan %{{.*}} : tensor<?x4xf32>
  %2 = fusion.is_nan %x : tensor<?x4xf32>
  return
}
