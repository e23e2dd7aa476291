// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// Each of 32 threads of a column reads 8 elements before it adds the first, and
// may have the registers for that. 1024 = 4 * 32 * 8: nothing is left.
// CHECK: func.func @k0(
// CHECK-SAME: fusion.resident = 2 : i64
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<8xbf16>
// CHECK-NOT: llvm.load
// CHECK: scf.yield
// CHECK-NOT: scf.for
// CHECK: return

// Two operands: 4 of each together. 1000 is no multiple of 4 * 32: the rest one by
// one.
// CHECK: func.func @k1(
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<4xf32>
// CHECK: arith.addf
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-COUNT-2: llvm.load {{.*}} -> vector<4xf32>
// CHECK: scf.yield

// The difference is stored by a second walk, which reads ahead too.
// CHECK: func.func @k2(
// CHECK: nvvm.barrier
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<4xf32>
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
func.func @main(%a: tensor<1024x64xbf16>, %b: tensor<1000x64xf32>,
                %c: tensor<1000x64xf32>, %d: tensor<1024x64xf32>)
    -> (tensor<64xbf16>, tensor<64xf32>, tensor<1024x64xf32>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<1024x64xbf16>
  %1 = fusion.mul %b, %c : tensor<1000x64xf32>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<1000x64xf32>
  %3 = fusion.reduce max, %d dims = [0] : tensor<1024x64xf32>
  %4 = fusion.broadcast %3 dims = [1] : tensor<64xf32> to tensor<1024x64xf32>
  %5 = fusion.sub %d, %4 : tensor<1024x64xf32>
  return %0, %2, %5 : tensor<64xbf16>, tensor<64xf32>, tensor<1024x64xf32>
}
