// RUN: fusion-opt %s --split-input-file --fusion-fuse=device=%S/../Fuse/Inputs/sheet.json --fusion-emit-kernels=target=cuda --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks

// The gradients of weights and of a bias are one call with two results. Its
// stand-in has two parts: the product's elements, and the sum's.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @weights
// CHECK: fusion.group library
// CHECK-NOT: kernel @
// CHECK: fusion.call = {biasGradient = "rhs", dtype = "f32", fallback = "k0"
// CHECK-SAME: hasAddend = false, hasBias = false
// CHECK-SAME: op = "matmul", operands = array<i64: 0, 1, 2, 3>
// CHECK-NOT: fusion.group
// CHECK: func.func @k0.result
// CHECK: func.func @k0.sum
// CHECK: func.func @k0(
// CHECK-DAG: call @k0.result
// CHECK-DAG: call @k0.sum
// REMARK: emit-fallback{{.*}}kernel k0 runs where the library lacks the call
func.func @weights(%x: tensor<64x16xf32>, %dy: tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
  return %1, %0 : tensor<16x32xf32>, tensor<32xf32>
}
}

// -----

// The slope's operand comes in front of the results, here with the sum of the
// result; three products with a sum each of their left side are one launch.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @slope
// CHECK: fusion.call = {activation = "gelu_tanh_grad", biasGradient = "result"
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3, 4>
func.func @slope(%dy: tensor<64x16xbf16>, %w: tensor<32x16xbf16>, %pre: tensor<64x32xbf16>) -> (tensor<64x32xbf16>, tensor<32xbf16>) {
  %half = fusion.constant dense<5.000000e-01> : tensor<64x32xf32>
  %one = fusion.constant dense<1.000000e+00> : tensor<64x32xf32>
  %root = fusion.constant dense<0.797884583> : tensor<64x32xf32>
  %cubic = fusion.constant dense<0.0356774069> : tensor<64x32xf32>
  %cubic3 = fusion.constant dense<0.107032225> : tensor<64x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x16xbf16>, tensor<32x16xbf16>
  %g = fusion.cast %0 : tensor<64x32xbf16> to tensor<64x32xf32>
  %x = fusion.cast %pre : tensor<64x32xbf16> to tensor<64x32xf32>
  %1 = fusion.mul %x, %x : tensor<64x32xf32>
  %2 = fusion.mul %1, %cubic : tensor<64x32xf32>
  %3 = fusion.add %2, %root : tensor<64x32xf32>
  %4 = fusion.mul %1, %cubic3 : tensor<64x32xf32>
  %5 = fusion.add %4, %root : tensor<64x32xf32>
  %6 = fusion.mul %x, %3 : tensor<64x32xf32>
  %7 = fusion.tanh %6 : tensor<64x32xf32>
  %8 = fusion.add %7, %one : tensor<64x32xf32>
  %9 = fusion.mul %7, %7 : tensor<64x32xf32>
  %10 = fusion.sub %one, %9 : tensor<64x32xf32>
  %11 = fusion.mul %x, %10 : tensor<64x32xf32>
  %12 = fusion.mul %11, %5 : tensor<64x32xf32>
  %13 = fusion.add %8, %12 : tensor<64x32xf32>
  %14 = fusion.mul %13, %half : tensor<64x32xf32>
  %15 = fusion.mul %g, %14 : tensor<64x32xf32>
  %16 = fusion.cast %15 : tensor<64x32xf32> to tensor<64x32xbf16>
  %17 = fusion.cast %16 : tensor<64x32xbf16> to tensor<64x32xf32>
  %18 = fusion.reduce sum, %17 dims = [0] : tensor<64x32xf32>
  %19 = fusion.cast %18 : tensor<32xf32> to tensor<32xbf16>
  return %16, %19 : tensor<64x32xbf16>, tensor<32xbf16>
}

// CHECK-LABEL: func.func @launch
// CHECK: fusion.group horizontal
// CHECK: biasGradient = "lhs"
// CHECK-SAME: members = 2
// CHECK-SAME: operands = array<i64: 0, 1, 4, 5, 2, 3, 6, 7>
func.func @launch(%x: tensor<64x16xf16>, %dy: tensor<64x32xf16>, %dz: tensor<64x32xf16>) -> (tensor<32x16xf16>, tensor<32xf16>, tensor<32x16xf16>, tensor<32xf16>) {
  %0 = fusion.matmul %dy, %x {transpose_lhs} : tensor<64x32xf16>, tensor<64x16xf16>
  %1 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf16>
  %2 = fusion.matmul %dz, %x {transpose_lhs} : tensor<64x32xf16>, tensor<64x16xf16>
  %3 = fusion.reduce sum, %dz dims = [0] : tensor<64x32xf16>
  return %0, %1, %2, %3 : tensor<32x16xf16>, tensor<32xf16>, tensor<32x16xf16>, tensor<32xf16>
}
}
