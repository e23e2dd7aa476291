// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda --fusion-lower-kernels=target=cuda | FileCheck %s

// A kernel knows how large the batch can be: what it divides fits 32 bits.
// CHECK: module @kernels attributes {fusion.max_batch = 7 : i64}
// CHECK: llvm.func @k0({{.*}}%arg1: i64 {llvm.range = #llvm.constant_range<i64, 1, 8>})
func.func @main(%x: tensor<?x9xf32>) -> tensor<?x9xf32> attributes {fusion.batch = array<i64: 1, 7>} {
  %0 = fusion.reverse %x dims = [0] : tensor<?x9xf32>
  return %0 : tensor<?x9xf32>
}
