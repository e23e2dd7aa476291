// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal --fusion-emit-kernels=target=cuda | FileCheck %s

// A thread has 16 bytes of the narrowest type, a block 256 threads.
// CHECK: func.func @k0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: fusion.grain = 1024 : i64
// CHECK-SAME: fusion.operands = 3 : i64
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 65536>
// CHECK: llvm.load %{{.*}} invariant {{.*}}alignment = 16 : i64{{.*}} -> vector<4xf32>
// CHECK: llvm.store %{{.*}}alignment = 16 : i64{{.*}} : vector<4xf32>
// CHECK-NOT: scf.for
// CHECK: return

// The rest of a run that no vector ends with is done one by one.
// CHECK: func.func @k1(
// CHECK-SAME: fusion.grain = 2048 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 1001>
// CHECK: vector<8xbf16>
// CHECK: scf.for
// CHECK: llvm.load %{{.*}}alignment = 2 : i64{{.*}} -> bf16

// Rows of an odd length can't be vectors: the next one starts anywhere.
// CHECK: func.func @k2(
// CHECK-SAME: fusion.grain = 256 : i64
// CHECK-NOT: vector<
// CHECK: return

// Where there are blocks enough a thread reads two vectors before it stores.
// CHECK: func.func @k3(
// CHECK-SAME: fusion.grain = 1024 : i64
// CHECK-SAME: fusion.threads = 128 : i64
// CHECK: scf.if
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: llvm.store
// CHECK: llvm.store
// CHECK: } else {

// Elements of much work are dealt more evenly.
// CHECK: func.func @k4(
// CHECK-SAME: fusion.grain = 128 : i64
// CHECK-SAME: fusion.threads = 128 : i64
func.func @main(%a: tensor<65536xf32>, %b: tensor<65536xf32>,
                %c: tensor<1001xbf16>, %d: tensor<6x35xf32>, %e: tensor<35xf32>,
                %f: tensor<4194304xf32>, %g: tensor<2x8x16x16xf32>)
    -> (tensor<65536xf32>, tensor<1001xbf16>, tensor<6x35xf32>,
        tensor<4194304xf32>, tensor<2x8x8x8xf32>) {
  %0 = fusion.add %a, %b : tensor<65536xf32>
  %1 = fusion.neg %c : tensor<1001xbf16>
  %2 = fusion.broadcast %e dims = [1] : tensor<35xf32> to tensor<6x35xf32>
  %3 = fusion.add %d, %2 : tensor<6x35xf32>
  %4 = fusion.exp %f : tensor<4194304xf32>
  %5 = fusion.max_pool %g window = [2, 2] strides = [2, 2] pad_low = [0, 0]
    pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<2x8x16x16xf32>
  return %0, %1, %3, %4, %5 : tensor<65536xf32>, tensor<1001xbf16>,
    tensor<6x35xf32>, tensor<4194304xf32>, tensor<2x8x8x8xf32>
}
