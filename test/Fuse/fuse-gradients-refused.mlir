// RUN: fusion-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fusion-fuse-gradients{device=%S/Inputs/sheet.json}))' --remarks-filter=fusion 2>&1 | FileCheck %s
// CHECK-NOT: fusion.group

module attributes {fusion.target = "cuda", fusion.fp = "strict"} {
// CHECK: gradient-form{{.*}}sums in another order, and rounds once; --fp=fast lets it
func.func @strict(%x: tensor<64x16xf32>, %dy: tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
  return %1, %0 : tensor<16x32xf32>, tensor<32xf32>
}
}

// -----

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK: gradient-form{{.*}}cuBLASLt sums no side of a product of f64
func.func @double(%x: tensor<64x16xf64>, %dy: tensor<64x32xf64>) -> (tensor<16x32xf64>, tensor<32xf64>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf64>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf64>, tensor<64x32xf64>
  return %1, %0 : tensor<16x32xf64>, tensor<32xf64>
}
// CHECK: gradient-form{{.*}}rows of 20 elements are no multiple of 8
func.func @odd(%x: tensor<64x16xf32>, %dy: tensor<64x20xf32>) -> (tensor<16x20xf32>, tensor<20xf32>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x20xf32>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x20xf32>
  return %1, %0 : tensor<16x20xf32>, tensor<20xf32>
}
// CHECK: gradient-form{{.*}}the size of a row depends on the batch
func.func @open(%x: tensor<64x?xf32>, %dy: tensor<64x32xf32>) -> (tensor<?x32xf32>, tensor<32xf32>) attributes {fusion.batch = array<i64: 1, 64>} {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x?xf32>, tensor<64x32xf32>
  return %1, %0 : tensor<?x32xf32>, tensor<32xf32>
}
// A sum that is read in f32: the library would give bf16.
// CHECK: gradient-form{{.*}}would round the sum
func.func @wide(%x: tensor<64x16xbf16>, %dy: tensor<64x32xbf16>) -> (tensor<16x32xbf16>, tensor<32xf32>) {
  %0 = fusion.cast %dy : tensor<64x32xbf16> to tensor<64x32xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<64x32xf32>
  %2 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xbf16>, tensor<64x32xbf16>
  return %2, %1 : tensor<16x32xbf16>, tensor<32xf32>
}
// CHECK: gradient-form{{.*}}reads the signs as bits
func.func @relu(%dy: tensor<64x16xf32>, %w: tensor<32x16xf32>, %y: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %zero = fusion.constant dense<0.000000e+00> : tensor<64x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x16xf32>, tensor<32x16xf32>
  %1 = fusion.compare gt, %y, %zero : tensor<64x32xf32>
  %2 = fusion.select %1, %0, %zero : tensor<64x32xi1>, tensor<64x32xf32>
  %3 = fusion.neg %y : tensor<64x32xf32>
  return %2, %3 : tensor<64x32xf32>, tensor<64x32xf32>
}
// CHECK: gradient-form{{.*}}cuBLASLt has no slope of gelu_erf
func.func @erf(%dy: tensor<64x16xf32>, %w: tensor<32x16xf32>, %x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %half = fusion.constant dense<5.000000e-01> : tensor<64x32xf32>
  %minus = fusion.constant dense<-5.000000e-01> : tensor<64x32xf32>
  %one = fusion.constant dense<1.000000e+00> : tensor<64x32xf32>
  %density = fusion.constant dense<0.398942292> : tensor<64x32xf32>
  %root = fusion.constant dense<0.707106769> : tensor<64x32xf32>
  %0 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x16xf32>, tensor<32x16xf32>
  %1 = fusion.mul %x, %x : tensor<64x32xf32>
  %2 = fusion.mul %1, %minus : tensor<64x32xf32>
  %3 = fusion.exp %2 : tensor<64x32xf32>
  %4 = fusion.mul %3, %density : tensor<64x32xf32>
  %5 = fusion.mul %x, %root : tensor<64x32xf32>
  %6 = fusion.erf %5 : tensor<64x32xf32>
  %7 = fusion.add %6, %one : tensor<64x32xf32>
  %8 = fusion.mul %7, %half : tensor<64x32xf32>
  %9 = fusion.mul %x, %4 : tensor<64x32xf32>
  %10 = fusion.add %8, %9 : tensor<64x32xf32>
  %11 = fusion.mul %0, %10 : tensor<64x32xf32>
  return %11 : tensor<64x32xf32>
}
// A collective sends the sum on while the product is computed.
// CHECK: ready-time{{.*}}the sum is needed before the product is computed
func.func @early(%x: tensor<64x16xf32>, %dy: tensor<64x32xf32>) -> (tensor<16x32xf32>, tensor<32xf32>) {
  %0 = fusion.reduce sum, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.neg %0 : tensor<32xf32>
  %2 = "fusion.all_reduce"(%1) <{kind = #fusion<reduce_kind sum>, mesh = @m, axes = ["dp"]}> : (tensor<32xf32>) -> tensor<32xf32>
  %3 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
  return %3, %2 : tensor<16x32xf32>, tensor<32xf32>
}
fusion.mesh @m(dp = 2)
}

// -----

// Not the forms: nothing is said. A mean; a sum of columns; of a product that
// reads rows; of batches; gelu's slope with a constant a hundredth off.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-NOT: gradient
// CHECK: func.func @others
func.func @others(%x: tensor<64x16xf32>, %dy: tensor<64x32xf32>, %w: tensor<16x32xf32>, %b: tensor<2x64x32xf32>, %bx: tensor<2x64x16xf32>) -> (tensor<16x32xf32>, tensor<32xf32>, tensor<64xf32>, tensor<64x16xf32>, tensor<2x16x32xf32>, tensor<2x32xf32>) {
  %0 = fusion.reduce mean, %dy dims = [0] : tensor<64x32xf32>
  %1 = fusion.reduce sum, %dy dims = [1] : tensor<64x32xf32>
  %2 = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x16xf32>, tensor<64x32xf32>
  %3 = fusion.matmul %dy, %w {transpose_rhs} : tensor<64x32xf32>, tensor<16x32xf32>
  %4 = fusion.matmul %bx, %b {transpose_lhs} : tensor<2x64x16xf32>, tensor<2x64x32xf32>
  %5 = fusion.reduce sum, %b dims = [1] : tensor<2x64x32xf32>
  return %2, %0, %1, %3, %4, %5 : tensor<16x32xf32>, tensor<32xf32>, tensor<64xf32>, tensor<64x16xf32>, tensor<2x16x32xf32>, tensor<2x32xf32>
}
func.func @near(%dy: tensor<64x16xf32>, %w: tensor<32x16xf32>, %x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %one = fusion.constant dense<1.000000e+00> : tensor<64x32xf32>
  %root = fusion.constant dense<1.59576917> : tensor<64x32xf32>
  // 0.0713548138 in the slope of gelu.
  %cubic = fusion.constant dense<0.0720683619> : tensor<64x32xf32>
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
  return %14 : tensor<64x32xf32>
}
}
