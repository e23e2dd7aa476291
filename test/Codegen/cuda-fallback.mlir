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

// -----

// 2^40 elements are more than the blocks of a launch can compute one by one: the
// library can.
module attributes {fusion.fp = "fast", fusion.target = "cuda"} {
// CHECK-LABEL: func.func @huge
// CHECK-NOT: fallback
// CHECK: op = "matmul"
// CHECK-NOT: fallback
func.func @huge(%x: tensor<?x64xf32>, %w: tensor<64x1024xf32>) -> tensor<?x1024xf32> attributes {fusion.batch = array<i64: 1, 1073741824>} {
  %0 = fusion.matmul %x, %w : tensor<?x64xf32>, tensor<64x1024xf32>
  return %0 : tensor<?x1024xf32>
}
}

// -----

// 2^30 blocks fit into a launch, twice as many do not: the launch of two has none.
module attributes {fusion.fp = "fast", fusion.target = "cuda"} {
// CHECK-LABEL: func.func @two
// CHECK: fusion.group horizontal
// CHECK-NOT: fallback{{.*}}members = 2
// CHECK: members = 2 : i64
// CHECK: fallback = "k0"
// CHECK-NOT: instead of 2
func.func @two(%x: tensor<?x64xf32>, %w: tensor<64x1000xf32>, %v: tensor<64x1000xf32>) -> (tensor<?x1000xf32>, tensor<?x1000xf32>) attributes {fusion.batch = array<i64: 1, 134217728>} {
  %0:2 = fusion.group horizontal (%a = %x : tensor<?x64xf32>, %b = %w : tensor<64x1000xf32>, %c = %x : tensor<?x64xf32>, %d = %v : tensor<64x1000xf32>) -> (tensor<?x1000xf32>, tensor<?x1000xf32>) {
    %1 = fusion.group library (%e = %a : tensor<?x64xf32>, %f = %b : tensor<64x1000xf32>) -> tensor<?x1000xf32> {
      %3 = fusion.matmul %e, %f : tensor<?x64xf32>, tensor<64x1000xf32>
      fusion.yield %3 : tensor<?x1000xf32>
    }
    %2 = fusion.group library (%e = %c : tensor<?x64xf32>, %f = %d : tensor<64x1000xf32>) -> tensor<?x1000xf32> {
      %3 = fusion.matmul %e, %f : tensor<?x64xf32>, tensor<64x1000xf32>
      fusion.yield %3 : tensor<?x1000xf32>
    }
    fusion.yield %1, %2 : tensor<?x1000xf32>, tensor<?x1000xf32>
  }
  return %0#0, %0#1 : tensor<?x1000xf32>, tensor<?x1000xf32>
}
}
