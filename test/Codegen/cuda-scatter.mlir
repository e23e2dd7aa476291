// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// The gradient of an embedding. 1000 rows are 16 a block, the fewest that 1024
// elements take: 1000 = 62 * 16 + 8, so the last block asks for each row. A
// block looks at all 300 indices, four loads of a thread before the first
// comparison.
// CHECK: func.func @k0(
// CHECK-SAME: fusion.grain = 16 : i64
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 1000>
// CHECK: nvvm.barrier
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load {{.*}} -> i64
// CHECK-COUNT-4: llvm.atomicrmw add {{.*}} syncscope("block") monotonic
// CHECK: nvvm.barrier
// A note's place is the number of smaller ones.
// CHECK: arith.cmpi ult, {{.*}} : i32
// CHECK: nvvm.barrier
// Four updates are read before the first is added.
// CHECK-COUNT-4: llvm.load {{.*}} -> vector<8xbf16>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: llvm.store {{.*}} : vector<8xf32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: return
func.func @embedding(%i: tensor<300x1xi64>, %u: tensor<300x64xbf16>)
    -> tensor<1000x64xf32> {
  %0 = fusion.constant dense<0.0> : tensor<1000x64xf32>
  %1 = fusion.cast %u : tensor<300x64xbf16> to tensor<300x64xf32>
  %2 = fusion.scatter add, %0, %i, %1 : tensor<1000x64xf32>, tensor<300x1xi64>, tensor<300x64xf32>
  return %2 : tensor<1000x64xf32>
}

// -----

// 5000 indices are two rounds: the input is copied first, and a round goes on
// from what is there. A slice of 20000 elements is two blocks.
// CHECK: func.func @k1(
// CHECK-SAME: fusion.grain = 1 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 6>
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK: scf.for
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
func.func @rounds(%a: tensor<3x20000xf32>, %i: tensor<5000x1xi32>,
                  %u: tensor<5000x20000xf32>) -> tensor<3x20000xf32> {
  %0 = fusion.scatter max, %a, %i, %u : tensor<3x20000xf32>, tensor<5000x1xi32>, tensor<5000x20000xf32>
  return %0 : tensor<3x20000xf32>
}

// -----

// The batch decides the size of a slice: a thread a slice element.
// CHECK: func.func @k2(
// CHECK-SAME: fusion.threads = 128 : i64
// CHECK-NOT: atomicrmw
// CHECK: return
func.func @batch(%a: tensor<4x?xf32>, %i: tensor<5x1xi64>, %u: tensor<5x?xf32>)
    -> tensor<4x?xf32> {
  %0 = fusion.scatter add, %a, %i, %u : tensor<4x?xf32>, tensor<5x1xi64>, tensor<5x?xf32>
  return %0 : tensor<4x?xf32>
}
