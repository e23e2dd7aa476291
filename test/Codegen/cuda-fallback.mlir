// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s
// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda --fusion-lower-kernels=target=cuda | FileCheck %s --check-prefix=ENTRY

// Beside the library's call there is a kernel for the whole of it: product, bias
// and gelu, 6 * 5 elements. It is an entry, though no command launches it.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @linear_gelu
// CHECK: fusion.call = {
// CHECK-SAME: fallback = "k0", fallbackGrain = 128 : i64, fallbackUnits = #fusion.extent<0 * B + 30>
// CHECK: func.func @k0({{.*}} attributes {fusion.description = "instead of library: matmul add gelu"
// CHECK-SAME: fusion.operands = 4
// CHECK: scf.for
// CHECK: arith.mulf
// CHECK: math.exp
// ENTRY: llvm.func @k0({{.*}}nvvm.kernel
func.func @linear_gelu(%x: tensor<6x8xbf16>, %w: tensor<5x8xbf16>, %b: tensor<5xbf16>) -> tensor<6x5xbf16> {
  %0 = fusion.matmul %x, %w {transpose_rhs} : tensor<6x8xbf16>, tensor<5x8xbf16>
  %1 = fusion.broadcast %b dims = [1] : tensor<5xbf16> to tensor<6x5xbf16>
  %2 = fusion.add %0, %1 : tensor<6x5xbf16>
  %3 = fusion.gelu tanh, %2 : tensor<6x5xbf16>
  return %3 : tensor<6x5xbf16>
}
}

// -----

// Two equal products are one grouped call, and one launch stands in for it.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @pair
// CHECK: fusion.group horizontal
// CHECK: fallback = "k1"
// CHECK: func.func @k0(
// CHECK: func.func @k1({{.*}} attributes {fusion.description = "instead of 2 x library: matmul"
// CHECK-SAME: fusion.operands = 6
// CHECK: call @k0
func.func @pair(%x: tensor<16x8xbf16>, %w: tensor<8x8xbf16>, %v: tensor<8x8xbf16>) -> (tensor<16x8xbf16>, tensor<16x8xbf16>) {
  %0 = fusion.matmul %x, %w : tensor<16x8xbf16>, tensor<8x8xbf16>
  %1 = fusion.matmul %x, %v : tensor<16x8xbf16>, tensor<8x8xbf16>
  return %0, %1 : tensor<16x8xbf16>, tensor<16x8xbf16>
}
}
