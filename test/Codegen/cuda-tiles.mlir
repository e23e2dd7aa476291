// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels=target=cuda | FileCheck %s

// 100 rows are dealt to 16 threads each, about 8 to one, whose sums a tree
// combines in 4 steps.
// CHECK: llvm.mlir.global internal @k0.shared0() {{.*}} : !llvm.array<512 x f32>
// CHECK: func.func @k0(
// CHECK-SAME: fusion.grain = 32 : i64
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 70>
// CHECK: scf.for %{{.*}} = %{{.*}} to %c100_i64 step %c16_i64
// CHECK-COUNT-5: nvvm.barrier
// CHECK: return

// A transpose goes through a tile of shared memory: 3 * 2 * 4 blocks.
// CHECK: llvm.mlir.global internal @k1.shared0() {{.*}} : !llvm.array<1056 x f32>
// CHECK: func.func @k1(
// CHECK-SAME: fusion.grain = 1 : i64
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 24>
// CHECK-COUNT-4: llvm.store {{.*}} !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK-COUNT-4: llvm.store {{.*}} !llvm.ptr<1>
// CHECK: return

// Not worth a tile: a side of 8.
// CHECK-NOT: @k2.shared
// CHECK: func.func @k2(
// CHECK-SAME: fusion.threads = 256 : i64
func.func @main(%a: tensor<100x70xf32>, %b: tensor<3x64x100xf32>,
                %c: tensor<3x100x64xf32>, %d: tensor<100x8xf32>)
    -> (tensor<70xf32>, tensor<3x100x64xf32>, tensor<8x100xf32>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<100x70xf32>
  %1 = fusion.transpose %b permutation = [0, 2, 1] : tensor<3x64x100xf32>
  %2 = fusion.add %1, %c : tensor<3x100x64xf32>
  %3 = fusion.transpose %d permutation = [1, 0] : tensor<100x8xf32>
  return %0, %2, %3 : tensor<70xf32>, tensor<3x100x64xf32>, tensor<8x100xf32>
}
