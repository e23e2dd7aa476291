// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// The ops of two operands in every other element type they take.

// CHECK-LABEL: @binary_f64(
// CHECK-COUNT-9: = fusion.
func.func @binary_f64(%x: tensor<4xf64>, %y: tensor<4xf64>) {
  %0 = fusion.add %x, %y : tensor<4xf64>
  %1 = fusion.sub %x, %y : tensor<4xf64>
  %2 = fusion.mul %x, %y : tensor<4xf64>
  %3 = fusion.div %x, %y : tensor<4xf64>
  %4 = fusion.rem %x, %y : tensor<4xf64>
  %5 = fusion.pow %x, %y : tensor<4xf64>
  %6 = fusion.max %x, %y : tensor<4xf64>
  %7 = fusion.min %x, %y : tensor<4xf64>
  %8 = fusion.atan2 %x, %y : tensor<4xf64>
  return
}

// CHECK-LABEL: @binary_f16(
// CHECK-COUNT-9: = fusion.
func.func @binary_f16(%x: tensor<4xf16>, %y: tensor<4xf16>) {
  %0 = fusion.add %x, %y : tensor<4xf16>
  %1 = fusion.sub %x, %y : tensor<4xf16>
  %2 = fusion.mul %x, %y : tensor<4xf16>
  %3 = fusion.div %x, %y : tensor<4xf16>
  %4 = fusion.rem %x, %y : tensor<4xf16>
  %5 = fusion.pow %x, %y : tensor<4xf16>
  %6 = fusion.max %x, %y : tensor<4xf16>
  %7 = fusion.min %x, %y : tensor<4xf16>
  %8 = fusion.atan2 %x, %y : tensor<4xf16>
  return
}

// CHECK-LABEL: @binary_bf16(
// CHECK-COUNT-9: = fusion.
func.func @binary_bf16(%x: tensor<4xbf16>, %y: tensor<4xbf16>) {
  %0 = fusion.add %x, %y : tensor<4xbf16>
  %1 = fusion.sub %x, %y : tensor<4xbf16>
  %2 = fusion.mul %x, %y : tensor<4xbf16>
  %3 = fusion.div %x, %y : tensor<4xbf16>
  %4 = fusion.rem %x, %y : tensor<4xbf16>
  %5 = fusion.pow %x, %y : tensor<4xbf16>
  %6 = fusion.max %x, %y : tensor<4xbf16>
  %7 = fusion.min %x, %y : tensor<4xbf16>
  %8 = fusion.atan2 %x, %y : tensor<4xbf16>
  return
}

// CHECK-LABEL: @binary_i8(
// CHECK-COUNT-12: = fusion.
func.func @binary_i8(%x: tensor<4xi8>, %y: tensor<4xi8>) {
  %0 = fusion.add %x, %y : tensor<4xi8>
  %1 = fusion.sub %x, %y : tensor<4xi8>
  %2 = fusion.mul %x, %y : tensor<4xi8>
  %3 = fusion.div %x, %y : tensor<4xi8>
  %4 = fusion.rem %x, %y : tensor<4xi8>
  %5 = fusion.max %x, %y : tensor<4xi8>
  %6 = fusion.min %x, %y : tensor<4xi8>
  %7 = fusion.and %x, %y : tensor<4xi8>
  %8 = fusion.or %x, %y : tensor<4xi8>
  %9 = fusion.xor %x, %y : tensor<4xi8>
  %10 = fusion.shift_left %x, %y : tensor<4xi8>
  %11 = fusion.shift_right %x, %y : tensor<4xi8>
  return
}

// CHECK-LABEL: @binary_i32(
// CHECK-COUNT-10: = fusion.
func.func @binary_i32(%x: tensor<4xi32>, %y: tensor<4xi32>) {
  %0 = fusion.add %x, %y : tensor<4xi32>
  %1 = fusion.sub %x, %y : tensor<4xi32>
  %2 = fusion.mul %x, %y : tensor<4xi32>
  %3 = fusion.div %x, %y : tensor<4xi32>
  %4 = fusion.rem %x, %y : tensor<4xi32>
  %5 = fusion.max %x, %y : tensor<4xi32>
  %6 = fusion.min %x, %y : tensor<4xi32>
  %7 = fusion.and %x, %y : tensor<4xi32>
  %8 = fusion.or %x, %y : tensor<4xi32>
  %9 = fusion.xor %x, %y : tensor<4xi32>
  return
}

// CHECK-LABEL: @binary_i64(
// CHECK-COUNT-12: = fusion.
func.func @binary_i64(%x: tensor<4xi64>, %y: tensor<4xi64>) {
  %0 = fusion.add %x, %y : tensor<4xi64>
  %1 = fusion.sub %x, %y : tensor<4xi64>
  %2 = fusion.mul %x, %y : tensor<4xi64>
  %3 = fusion.div %x, %y : tensor<4xi64>
  %4 = fusion.rem %x, %y : tensor<4xi64>
  %5 = fusion.max %x, %y : tensor<4xi64>
  %6 = fusion.min %x, %y : tensor<4xi64>
  %7 = fusion.and %x, %y : tensor<4xi64>
  %8 = fusion.or %x, %y : tensor<4xi64>
  %9 = fusion.xor %x, %y : tensor<4xi64>
  %10 = fusion.shift_left %x, %y : tensor<4xi64>
  %11 = fusion.shift_right %x, %y : tensor<4xi64>
  return
}
