// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// A softmax and its logarithm of one row, as in a loss and its gradient: their
// definitions take the same maximum and the same sum, which the kernel takes
// once. A barrier each, as all warps of the block share a row.
// CHECK: func.func @k0(
// CHECK-COUNT-2: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: return
func.func @main(%x: tensor<4x50304xf32>) -> tensor<4x50304xf32> {
  %0 = fusion.log_softmax %x axis = 1 : tensor<4x50304xf32>
  %1 = fusion.softmax %x axis = 1 : tensor<4x50304xf32>
  %2 = fusion.sub %0, %1 : tensor<4x50304xf32>
  return %2 : tensor<4x50304xf32>
}

// The sum of what a row has at its label's number is that element: a load, and
// no walk over the row. The maximum and the sum of the softmax are two barriers,
// and one more keeps other threads from storing over the element before it is
// read.
// CHECK: func.func @k1(
// CHECK-COUNT-2: nvvm.barrier
// CHECK-NOT: scf.for
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : i64
// CHECK-NOT: scf.for
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: scf.for
// CHECK: return
func.func @label(%x: tensor<4x50304xf32>, %labels: tensor<4xi64>) -> (tensor<4xf32>, tensor<4x50304xf32>) {
  %zero = fusion.constant dense<0.0> : tensor<4x50304xf32>
  %0 = fusion.log_softmax %x axis = 1 : tensor<4x50304xf32>
  %1 = fusion.iota axis = 1 : tensor<4x50304xi64>
  %2 = fusion.broadcast %labels dims = [0] : tensor<4xi64> to tensor<4x50304xi64>
  %3 = fusion.compare eq, %1, %2 : tensor<4x50304xi64>
  %4 = fusion.select %3, %0, %zero : tensor<4x50304xi1>, tensor<4x50304xf32>
  %5 = fusion.reduce sum, %4 dims = [1] : tensor<4x50304xf32>
  return %5, %0 : tensor<4xf32>, tensor<4x50304xf32>
}
