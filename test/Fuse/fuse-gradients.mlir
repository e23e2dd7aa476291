// RUN: fusion-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fusion-fuse-gradients{device=%S/Inputs/sheet.json}))' --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: fusion-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fusion-fuse-gradients{device=%S/Inputs/sheet.json},fusion-fuse-gradients{device=%S/Inputs/sheet.json}))' | FileCheck %s
// RUN: sed 's/target = "cuda"/target = "cpu"/' %s | fusion-opt --split-input-file --pass-pipeline='builtin.module(func.func(fusion-fuse-gradients{device=cpu}))' | FileCheck %s --check-prefix=CPU
// CPU-NOT: fusion.group

// The gradients of weights and of a bias: one reader of dy is computed with the
// other, which stood behind it. A launch takes 2 us; of 76 units that bandwidth
// takes each uses one: 14336 bytes of the product are 0.227 us, 8320 of the sum
// 0.132, 14464 of both 0.229.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @weights
// CHECK-SAME: (%[[X:.*]]: tensor<64x16xf32>, %[[DY:.*]]: tensor<64x32xf32>)
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group library (%[[A:.*]] = %[[X]] : tensor<64x16xf32>, %[[B:.*]] = %[[DY]] : tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) attributes {fusion.gradients} {
// CHECK-NEXT:   %[[P:.*]] = fusion.matmul %[[A]], %[[B]] {transpose_lhs}
// CHECK-NEXT:   %[[S:.*]] = fusion.reduce sum, %[[B]] dims = [0]
// CHECK-NEXT:   fusion.yield %[[P]], %[[S]]
// CHECK: return %[[G]]#0, %[[G]]#1
// REMARK: fuse-gradient{{.*}}the sum of an operand{{.*}}us_fused=4.23, us_unfused=4.36
func.func @weights(%x: tensor<64x16xf32>, %dy: tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
  return %1, %0 : tensor<16x32xf32>, tensor<32xf32>
}
}

// -----

// Narrow: widened, summed, rounded once. The widened matrix has another reader,
// for which it stays. What reads the sum ahead of the product moves behind it.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: %[[WIDE:.*]] = fusion.cast
// CHECK-NEXT: fusion.neg %[[WIDE]]
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group library
// CHECK-NEXT:   fusion.matmul
// CHECK-NEXT:   %[[W:.*]] = fusion.cast %{{.*}} : tensor<64x32xbf16> to tensor<64x32xf32>
// CHECK-NEXT:   %[[R:.*]] = fusion.reduce sum, %[[W]] dims = [0]
// CHECK-NEXT:   fusion.cast %[[R]] : tensor<32xf32> to tensor<32xbf16>
// CHECK: }
// CHECK-NEXT: %[[C:.*]] = fusion.cast %[[G]]#1
// CHECK-NEXT: fusion.mul %[[C]], %[[C]]
// CHECK-NEXT: return
func.func @narrow(%x: tensor<64x16xbf16>, %dy: tensor<64x32xbf16>) -> (tensor<16x32xbf16>, tensor<32xf32>, tensor<64x32xf32>) {
  %1 = fusion.cast %dy : tensor<64x32xbf16> to tensor<64x32xf32>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<64x32xf32>
  %3 = fusion.cast %2 : tensor<32xf32> to tensor<32xbf16>
  %4 = fusion.cast %3 : tensor<32xbf16> to tensor<32xf32>
  %5 = fusion.mul %4, %4 : tensor<32xf32>
  %6 = fusion.neg %1 : tensor<64x32xf32>
  %0 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xbf16>, tensor<64x32xbf16>
  return %0, %5, %6 : tensor<16x32xbf16>, tensor<32xf32>, tensor<64x32xf32>
}
}

// -----

// The transposed gradient of weights that are stored [out, in] sums its left
// side. A sum that is rounded by itself needs no casts.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @left
// CHECK: fusion.group library (%[[A:.*]] = %{{.*}} : tensor<64x32xf16>,
// CHECK: fusion.reduce sum, %[[A]] dims = [0]
func.func @left(%x: tensor<64x16xf16>, %dy: tensor<64x32xf16>) -> (tensor<32x16xf16>, tensor<32xf16>) {
  %0 = fusion.matmul %dy, %x {transpose_lhs} : tensor<64x32xf16>, tensor<64x16xf16>
  %1 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf16>
  return %0, %1 : tensor<32x16xf16>, tensor<32xf16>
}
}

// -----

// The gradient of gelu behind the product, and the sum of what it gives: the product is done where the slope was. The value
// that the slope is taken at may come behind the product. No constant is left.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @slope
// CHECK-SAME: (%[[DY:.*]]: tensor<64x16xf32>, %[[W:.*]]: tensor<32x16xf32>, %[[PRE:.*]]: tensor<64x32xf32>)
// CHECK-NEXT: %[[AT:.*]] = fusion.after %[[PRE]], %[[DY]]
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group library (%{{.*}} = %[[DY]] : tensor<64x16xf32>, %{{.*}} = %[[W]] : tensor<32x16xf32>, %{{.*}} = %[[AT]] : tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>) attributes {fusion.gradients} {
// CHECK-NEXT: fusion.matmul
// CHECK: fusion.tanh
// CHECK: fusion.reduce sum
// CHECK-NEXT: fusion.yield
// CHECK-NEXT: }
// CHECK-NEXT: return %[[G]]#0, %[[G]]#1
// REMARK: the slope of gelu and the sum of the result
func.func @slope(%dy: tensor<64x16xf32>, %w: tensor<32x16xf32>, %pre: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>) {
  %half = fusion.constant dense<5.000000e-01> : tensor<64x32xf32>
  %one = fusion.constant dense<1.000000e+00> : tensor<64x32xf32>
  %root = fusion.constant dense<0.797884583> : tensor<64x32xf32>
  %cubic = fusion.constant dense<0.0356774069> : tensor<64x32xf32>
  %cubic3 = fusion.constant dense<0.107032225> : tensor<64x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x16xf32>, tensor<32x16xf32>
  %x = fusion.after %pre, %dy : tensor<64x32xf32>, tensor<64x16xf32>
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
  %15 = fusion.mul %0, %14 : tensor<64x32xf32>
  %16 = fusion.reduce sum, %15 dims = [0] : tensor<64x32xf32>
  return %15, %16 : tensor<64x32xf32>, tensor<32xf32>
}
}

// -----

// Written otherwise, in the types of a bf16 step, for any batch: x times the
// product first, factors taken out, sides exchanged, and no sum. Numbers have
// to be broadcast then.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @other_form
// CHECK: fusion.group library
// CHECK-SAME: -> tensor<?x32xbf16>
// CHECK: fusion.tanh
// CHECK: }
// CHECK-NEXT: fusion.gelu
// CHECK-NEXT: return
func.func @other_form(%dy: tensor<?x16xbf16>, %w: tensor<32x16xbf16>, %pre: tensor<?x32xbf16>) -> (tensor<?x32xbf16>, tensor<?x32xbf16>) attributes {fusion.batch = array<i64: 1, 64>} {
  %halfs = fusion.constant dense<5.000000e-01> : tensor<f32>
  %half = fusion.broadcast %halfs dims = [] {batch_scale = 1 : i64} : tensor<f32> to tensor<?x32xf32>
  %ones = fusion.constant dense<1.000000e+00> : tensor<f32>
  %one = fusion.broadcast %ones dims = [] {batch_scale = 1 : i64} : tensor<f32> to tensor<?x32xf32>
  %roots = fusion.constant dense<0.797884583> : tensor<f32>
  %root = fusion.broadcast %roots dims = [] {batch_scale = 1 : i64} : tensor<f32> to tensor<?x32xf32>
  %cs = fusion.constant dense<0.044715> : tensor<f32>
  %c = fusion.broadcast %cs dims = [] {batch_scale = 1 : i64} : tensor<f32> to tensor<?x32xf32>
  %c3s = fusion.constant dense<0.134145> : tensor<f32>
  %c3 = fusion.broadcast %c3s dims = [] {batch_scale = 1 : i64} : tensor<f32> to tensor<?x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<?x16xbf16>, tensor<32x16xbf16>
  %g = fusion.cast %0 : tensor<?x32xbf16> to tensor<?x32xf32>
  %x = fusion.cast %pre : tensor<?x32xbf16> to tensor<?x32xf32>
  %1 = fusion.mul %x, %x : tensor<?x32xf32>
  %2 = fusion.mul %c, %1 : tensor<?x32xf32>
  %3 = fusion.add %one, %2 : tensor<?x32xf32>
  %4 = fusion.mul %3, %x : tensor<?x32xf32>
  %5 = fusion.mul %root, %4 : tensor<?x32xf32>
  %6 = fusion.tanh %5 : tensor<?x32xf32>
  %7 = fusion.add %one, %6 : tensor<?x32xf32>
  %8 = fusion.sub %one, %6 : tensor<?x32xf32>
  %9 = fusion.mul %c3, %1 : tensor<?x32xf32>
  %10 = fusion.add %9, %one : tensor<?x32xf32>
  %11 = fusion.mul %root, %10 : tensor<?x32xf32>
  %12 = fusion.mul %x, %8 : tensor<?x32xf32>
  %13 = fusion.mul %12, %11 : tensor<?x32xf32>
  %14 = fusion.add %one, %13 : tensor<?x32xf32>
  %15 = fusion.mul %7, %14 : tensor<?x32xf32>
  %16 = fusion.mul %15, %half : tensor<?x32xf32>
  %17 = fusion.mul %16, %g : tensor<?x32xf32>
  %18 = fusion.cast %17 : tensor<?x32xf32> to tensor<?x32xbf16>
  %19 = fusion.gelu tanh, %pre : tensor<?x32xbf16>
  return %18, %19 : tensor<?x32xbf16>, tensor<?x32xbf16>
}
}

// -----

// As the training steps write it, with a sigmoid: the product is read once, and
// the product with the sigmoid twice.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @sigmoid_form
// CHECK-NEXT: fusion.group library
// CHECK: fusion.sigmoid
// CHECK: fusion.reduce sum
// CHECK: }
// CHECK-NEXT: return
func.func @sigmoid_form(%dy: tensor<64x16xf32>, %w: tensor<32x16xf32>, %x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>) {
  %one = fusion.constant dense<1.000000e+00> : tensor<64x32xf32>
  %root = fusion.constant dense<1.59576917> : tensor<64x32xf32>
  %cubic = fusion.constant dense<0.0713548138> : tensor<64x32xf32>
  %cubic3 = fusion.constant dense<0.21406445> : tensor<64x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x16xf32>, tensor<32x16xf32>
  %1 = fusion.mul %x, %x : tensor<64x32xf32>
  %2 = fusion.mul %x, %root : tensor<64x32xf32>
  %3 = fusion.mul %x, %cubic : tensor<64x32xf32>
  %4 = fusion.mul %1, %3 : tensor<64x32xf32>
  %5 = fusion.add %2, %4 : tensor<64x32xf32>
  %6 = fusion.sigmoid %5 : tensor<64x32xf32>
  %7 = fusion.sub %one, %6 : tensor<64x32xf32>
  %8 = fusion.mul %x, %cubic3 : tensor<64x32xf32>
  %9 = fusion.mul %1, %8 : tensor<64x32xf32>
  %10 = fusion.add %2, %9 : tensor<64x32xf32>
  %11 = fusion.mul %0, %6 : tensor<64x32xf32>
  %12 = fusion.mul %11, %10 : tensor<64x32xf32>
  %13 = fusion.mul %12, %7 : tensor<64x32xf32>
  %14 = fusion.add %11, %13 : tensor<64x32xf32>
  %15 = fusion.reduce sum, %14 dims = [0] : tensor<64x32xf32>
  return %14, %15 : tensor<64x32xf32>, tensor<32xf32>
}
}
