// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// The ops of one operand in every other element type they take.

// CHECK-LABEL: @unary_f64(
// CHECK-COUNT-30: = fusion.
func.func @unary_f64(%x: tensor<4xf64>) {
  %0 = fusion.neg %x : tensor<4xf64>
  %1 = fusion.abs %x : tensor<4xf64>
  %2 = fusion.sign %x : tensor<4xf64>
  %3 = fusion.ceil %x : tensor<4xf64>
  %4 = fusion.floor %x : tensor<4xf64>
  %5 = fusion.round %x : tensor<4xf64>
  %6 = fusion.sqrt %x : tensor<4xf64>
  %7 = fusion.rsqrt %x : tensor<4xf64>
  %8 = fusion.reciprocal %x : tensor<4xf64>
  %9 = fusion.exp %x : tensor<4xf64>
  %10 = fusion.exp2 %x : tensor<4xf64>
  %11 = fusion.expm1 %x : tensor<4xf64>
  %12 = fusion.log %x : tensor<4xf64>
  %13 = fusion.log2 %x : tensor<4xf64>
  %14 = fusion.log1p %x : tensor<4xf64>
  %15 = fusion.sin %x : tensor<4xf64>
  %16 = fusion.cos %x : tensor<4xf64>
  %17 = fusion.tan %x : tensor<4xf64>
  %18 = fusion.asin %x : tensor<4xf64>
  %19 = fusion.acos %x : tensor<4xf64>
  %20 = fusion.atan %x : tensor<4xf64>
  %21 = fusion.sinh %x : tensor<4xf64>
  %22 = fusion.cosh %x : tensor<4xf64>
  %23 = fusion.asinh %x : tensor<4xf64>
  %24 = fusion.acosh %x : tensor<4xf64>
  %25 = fusion.atanh %x : tensor<4xf64>
  %26 = fusion.tanh %x : tensor<4xf64>
  %27 = fusion.erf %x : tensor<4xf64>
  %28 = fusion.is_nan %x : tensor<4xf64>
  %29 = fusion.is_inf %x : tensor<4xf64>
  return
}

// CHECK-LABEL: @unary_f16(
// CHECK-COUNT-30: = fusion.
func.func @unary_f16(%x: tensor<4xf16>) {
  %0 = fusion.neg %x : tensor<4xf16>
  %1 = fusion.abs %x : tensor<4xf16>
  %2 = fusion.sign %x : tensor<4xf16>
  %3 = fusion.ceil %x : tensor<4xf16>
  %4 = fusion.floor %x : tensor<4xf16>
  %5 = fusion.round %x : tensor<4xf16>
  %6 = fusion.sqrt %x : tensor<4xf16>
  %7 = fusion.rsqrt %x : tensor<4xf16>
  %8 = fusion.reciprocal %x : tensor<4xf16>
  %9 = fusion.exp %x : tensor<4xf16>
  %10 = fusion.exp2 %x : tensor<4xf16>
  %11 = fusion.expm1 %x : tensor<4xf16>
  %12 = fusion.log %x : tensor<4xf16>
  %13 = fusion.log2 %x : tensor<4xf16>
  %14 = fusion.log1p %x : tensor<4xf16>
  %15 = fusion.sin %x : tensor<4xf16>
  %16 = fusion.cos %x : tensor<4xf16>
  %17 = fusion.tan %x : tensor<4xf16>
  %18 = fusion.asin %x : tensor<4xf16>
  %19 = fusion.acos %x : tensor<4xf16>
  %20 = fusion.atan %x : tensor<4xf16>
  %21 = fusion.sinh %x : tensor<4xf16>
  %22 = fusion.cosh %x : tensor<4xf16>
  %23 = fusion.asinh %x : tensor<4xf16>
  %24 = fusion.acosh %x : tensor<4xf16>
  %25 = fusion.atanh %x : tensor<4xf16>
  %26 = fusion.tanh %x : tensor<4xf16>
  %27 = fusion.erf %x : tensor<4xf16>
  %28 = fusion.is_nan %x : tensor<4xf16>
  %29 = fusion.is_inf %x : tensor<4xf16>
  return
}

// CHECK-LABEL: @unary_bf16(
// CHECK-COUNT-30: = fusion.
func.func @unary_bf16(%x: tensor<4xbf16>) {
  %0 = fusion.neg %x : tensor<4xbf16>
  %1 = fusion.abs %x : tensor<4xbf16>
  %2 = fusion.sign %x : tensor<4xbf16>
  %3 = fusion.ceil %x : tensor<4xbf16>
  %4 = fusion.floor %x : tensor<4xbf16>
  %5 = fusion.round %x : tensor<4xbf16>
  %6 = fusion.sqrt %x : tensor<4xbf16>
  %7 = fusion.rsqrt %x : tensor<4xbf16>
  %8 = fusion.reciprocal %x : tensor<4xbf16>
  %9 = fusion.exp %x : tensor<4xbf16>
  %10 = fusion.exp2 %x : tensor<4xbf16>
  %11 = fusion.expm1 %x : tensor<4xbf16>
  %12 = fusion.log %x : tensor<4xbf16>
  %13 = fusion.log2 %x : tensor<4xbf16>
  %14 = fusion.log1p %x : tensor<4xbf16>
  %15 = fusion.sin %x : tensor<4xbf16>
  %16 = fusion.cos %x : tensor<4xbf16>
  %17 = fusion.tan %x : tensor<4xbf16>
  %18 = fusion.asin %x : tensor<4xbf16>
  %19 = fusion.acos %x : tensor<4xbf16>
  %20 = fusion.atan %x : tensor<4xbf16>
  %21 = fusion.sinh %x : tensor<4xbf16>
  %22 = fusion.cosh %x : tensor<4xbf16>
  %23 = fusion.asinh %x : tensor<4xbf16>
  %24 = fusion.acosh %x : tensor<4xbf16>
  %25 = fusion.atanh %x : tensor<4xbf16>
  %26 = fusion.tanh %x : tensor<4xbf16>
  %27 = fusion.erf %x : tensor<4xbf16>
  %28 = fusion.is_nan %x : tensor<4xbf16>
  %29 = fusion.is_inf %x : tensor<4xbf16>
  return
}

// CHECK-LABEL: @unary_i8(
// CHECK-COUNT-4: = fusion.
func.func @unary_i8(%x: tensor<4xi8>) {
  %0 = fusion.neg %x : tensor<4xi8>
  %1 = fusion.abs %x : tensor<4xi8>
  %2 = fusion.sign %x : tensor<4xi8>
  %3 = fusion.not %x : tensor<4xi8>
  return
}

// CHECK-LABEL: @unary_i32(
// CHECK-COUNT-4: = fusion.
func.func @unary_i32(%x: tensor<4xi32>) {
  %0 = fusion.neg %x : tensor<4xi32>
  %1 = fusion.abs %x : tensor<4xi32>
  %2 = fusion.sign %x : tensor<4xi32>
  %3 = fusion.not %x : tensor<4xi32>
  return
}

// CHECK-LABEL: @unary_i64(
// CHECK-COUNT-4: = fusion.
func.func @unary_i64(%x: tensor<4xi64>) {
  %0 = fusion.neg %x : tensor<4xi64>
  %1 = fusion.abs %x : tensor<4xi64>
  %2 = fusion.sign %x : tensor<4xi64>
  %3 = fusion.not %x : tensor<4xi64>
  return
}
