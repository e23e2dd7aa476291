// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// A softmax and its logarithm of one row, as in a loss and its gradient: their
// definitions take the same maximum and the same sum, which the kernel takes
// once. A barrier each, as all warps of the block share a row.
// CHECK: func.func @k0(
// CHECK-COUNT-2: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: return
func.func @main(%x: tensor<4x50304xf32>) -> (tensor<4x50304xf32>, tensor<4x50304xf32>) {
  %0 = fusion.log_softmax %x axis = 1 : tensor<4x50304xf32>
  %1 = fusion.softmax %x axis = 1 : tensor<4x50304xf32>
  return %0, %1 : tensor<4x50304xf32>, tensor<4x50304xf32>
}
