// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels="target=cuda fp=fast" | FileCheck %s

// 32768 elements are 128 a thread: a softmax keeps one value of each, in
// registers if it is of 32 bits; a row of f64 is read again.
// CHECK: func.func @k0(
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-NOT: scf.for
// CHECK: return
// CHECK: func.func @k1(
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK: scf.for
// CHECK: scf.for
// CHECK: return
func.func @main(%a: tensor<3x32768xf32>, %b: tensor<3x32768xf64>)
    -> (tensor<3x32768xf32>, tensor<3x32768xf64>) {
  %0 = fusion.softmax %a axis = 1 : tensor<3x32768xf32>
  %1 = fusion.softmax %b axis = 1 : tensor<3x32768xf64>
  return %0, %1 : tensor<3x32768xf32>, tensor<3x32768xf64>
}
