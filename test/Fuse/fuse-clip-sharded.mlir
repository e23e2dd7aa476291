// With state that ranks hold parts of, a rank squares the part of a gradient that it
// updates, and the ranks' sums meet in one reduction of one number.
//
// RUN: fusion-compile %s --mesh=dp=2 --shard-state --device=h200 --target=cuda:sm_90 --transport=nccl --stop-after=fuse | FileCheck %s --enable-var-scope
// Over copy engines the number is exchanged, and what is squared are sums of two parts.
// RUN: fusion-compile %s --mesh=dp=2 --shard-state --device=h200 --target=cuda:sm_90 --transport=peer --stop-after=fuse | FileCheck %s --check-prefix=PEER

// CHECK:     %[[G:.*]] = fusion.reduce_scatter sum, {{.*}} : (tensor<512x256xf32>) -> tensor<256x256xf32>
// CHECK-NOT: reduce_scatter
// CHECK-NOT: fusion.mul {{.*}} : tensor<512x256xf32>
// CHECK:     fusion.mul %[[A:.*]], %[[A]] : tensor<256x256xf32>
// CHECK-NOT: fusion.mul
// CHECK:     fusion.all_reduce sum, %{{.*}} on @mesh[dp]{{.*}} : tensor<f32>
// CHECK-NOT: fusion.all_reduce
// CHECK:     fusion.sub {{.*}} : tensor<256x256xf32>
// CHECK:     return

// PEER:      fusion.all_to_all
// PEER-NOT:  fusion.all_reduce
// PEER:      fusion.collective_permute %{{.*}} : tensor<f32>
// PEER-NOT:  fusion.collective_permute
func.func @main(%x: tensor<64x512xf32> {fusion.role = "data"}, %w: tensor<512x256xf32> {fusion.name = "w", fusion.role = "parameter", fusion.donated = 0 : i64}) -> (tensor<512x256xf32> {fusion.name = "w"}) {
  %y = fusion.matmul %x, %w : tensor<64x512xf32>, tensor<512x256xf32>
  %t = fusion.transpose %x permutation = [1, 0] : tensor<64x512xf32>
  %g = fusion.matmul %t, %y : tensor<512x64xf32>, tensor<64x256xf32>
  %q = fusion.mul %g, %g : tensor<512x256xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<512x256xf32>
  %n = fusion.sqrt %s : tensor<f32>
  %b = fusion.broadcast %n dims = [] : tensor<f32> to tensor<512x256xf32>
  %d = fusion.div %g, %b : tensor<512x256xf32>
  %u = fusion.sub %w, %d : tensor<512x256xf32>
  return %u : tensor<512x256xf32>
}
