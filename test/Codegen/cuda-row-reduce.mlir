// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels=target=cuda | FileCheck %s
// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels="target=cuda fp=fast" | FileCheck %s --check-prefix=FAST

// 64 elements are 8 vectors: 8 threads a row, 16 rows a block, no shared memory.
// CHECK: func.func @k0(
// CHECK-SAME: fusion.grain = 16 : i64
// CHECK-SAME: fusion.threads = 128 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 1000>
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK-NOT: nvvm.barrier
// CHECK: return

// A warp a row of 768: each thread holds three vectors, which are read once.
// CHECK: func.func @k1(
// CHECK-SAME: fusion.grain = 4 : i64
// CHECK-COUNT-3: llvm.load {{.*}} -> vector<8xbf16>
// CHECK: arith.addf {{.*}} vector<8xf64>
// CHECK-NOT: nvvm.barrier
// CHECK: return

// FAST: func.func @k1(
// FAST-NOT: f64
// FAST: return

// The warps of a block share a row of 4096.
// CHECK: llvm.mlir.global internal @k2.shared0() {addr_space = 3 : i32{{.*}}} : !llvm.array<4 x f32>
// CHECK: func.func @k2(
// CHECK-SAME: fusion.grain = 1 : i64
// CHECK-SAME: fusion.threads = 128 : i64
// CHECK: nvvm.barrier
// CHECK: return

// 40000 elements don't fit the registers of a block: a loop.
// CHECK: func.func @k3(
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK: scf.for
// CHECK: return

// A row of nothing has the sum 0.
// CHECK: func.func @k4(
// CHECK: scf.for
// CHECK: return
func.func @main(%a: tensor<1000x64xf32>, %b: tensor<512x768xbf16>,
                %s: tensor<768xbf16>, %c: tensor<7x4096xf32>,
                %d: tensor<3x40000xf32>, %e: tensor<3x0xf32>)
    -> (tensor<1000xf32>, tensor<512x768xbf16>, tensor<7xf32>, tensor<3xf32>,
        tensor<3xf32>) {
  %0 = fusion.reduce sum, %a dims = [1] : tensor<1000x64xf32>
  %1 = fusion.layer_norm %b scale %s bias %s epsilon = 1.0e-5 axis = 1
    : tensor<512x768xbf16>, tensor<768xbf16>, tensor<768xbf16>
  %2 = fusion.reduce max, %c dims = [1] : tensor<7x4096xf32>
  %3 = fusion.reduce sum, %d dims = [1] : tensor<3x40000xf32>
  %4 = fusion.reduce sum, %e dims = [1] : tensor<3x0xf32>
  return %0, %1, %2, %3, %4 : tensor<1000xf32>, tensor<512x768xbf16>,
    tensor<7xf32>, tensor<3xf32>, tensor<3xf32>
}
