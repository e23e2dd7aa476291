// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Meshes and collectives, with one operand and with buckets.

// CHECK: fusion.mesh @m(dp = 4, tp = 2)
fusion.mesh @m(dp = 4, tp = 2)
// CHECK: fusion.mesh @odd("a b" = 1)
fusion.mesh @odd("a b" = 1)

// CHECK-LABEL: @axis_index
func.func @axis_index() {
  // CHECK: fusion.axis_index @m[dp] : tensor<i64>
  %0 = fusion.axis_index @m[dp] : tensor<i64>
  // CHECK: fusion.axis_index @m[dp, tp] : tensor<i64>
  %1 = fusion.axis_index @m[dp, tp] : tensor<i64>
  // CHECK: fusion.axis_index @odd["a b"] : tensor<i64>
  %2 = fusion.axis_index @odd["a b"] : tensor<i64>
  return
}

// CHECK-LABEL: @all_reduce
func.func @all_reduce(%a: tensor<4xf32>, %b: tensor<2x0xbf16>, %c: tensor<i32>) {
  // CHECK: fusion.all_reduce sum, %{{.*}} on @m[dp] : tensor<4xf32>
  %0 = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  // CHECK: fusion.all_reduce mean, %{{.*}}, %{{.*}} on @m[dp, tp] : tensor<4xf32>, tensor<2x0xbf16>
  %1:2 = fusion.all_reduce mean, %a, %b on @m[dp, tp] : tensor<4xf32>, tensor<2x0xbf16>
  // CHECK: fusion.all_reduce max, %{{.*}} on @m[tp] : tensor<i32>
  %2 = fusion.all_reduce max, %c on @m[tp] : tensor<i32>
  return
}

// CHECK-LABEL: @all_gather
func.func @all_gather(%a: tensor<4x2xf32>, %b: tensor<3xi1>, %c: tensor<?x2xf16>) {
  // CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[tp] : (tensor<4x2xf32>) -> tensor<8x2xf32>
  %0 = fusion.all_gather %a dim = 0 on @m[tp] : (tensor<4x2xf32>) -> tensor<8x2xf32>
  // CHECK: fusion.all_gather %{{.*}}, %{{.*}} dim = 0 on @m[dp] : (tensor<4x2xf32>, tensor<3xi1>) -> (tensor<16x2xf32>, tensor<12xi1>)
  %1:2 = fusion.all_gather %a, %b dim = 0 on @m[dp] : (tensor<4x2xf32>, tensor<3xi1>) -> (tensor<16x2xf32>, tensor<12xi1>)
  // CHECK: fusion.all_gather %{{.*}} dim = 1 on @m[tp] : (tensor<?x2xf16>) -> tensor<?x4xf16>
  %2 = fusion.all_gather %c dim = 1 on @m[tp] : (tensor<?x2xf16>) -> tensor<?x4xf16>
  return
}

// CHECK-LABEL: @reduce_scatter
func.func @reduce_scatter(%a: tensor<8xf32>, %b: tensor<4x0xi64>) {
  // CHECK: fusion.reduce_scatter sum, %{{.*}} dim = 0 on @m[dp] : (tensor<8xf32>) -> tensor<2xf32>
  %0 = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<8xf32>) -> tensor<2xf32>
  // CHECK: fusion.reduce_scatter min, %{{.*}}, %{{.*}} dim = 0 on @m[dp] : (tensor<8xf32>, tensor<4x0xi64>) -> (tensor<2xf32>, tensor<1x0xi64>)
  %1:2 = fusion.reduce_scatter min, %a, %b dim = 0 on @m[dp] : (tensor<8xf32>, tensor<4x0xi64>) -> (tensor<2xf32>, tensor<1x0xi64>)
  return
}

// CHECK-LABEL: @all_to_all
func.func @all_to_all(%a: tensor<4x2xf32>) {
  // CHECK: fusion.all_to_all %{{.*}} split_dim = 0 concat_dim = 1 on @m[tp] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %0 = fusion.all_to_all %a split_dim = 0 concat_dim = 1 on @m[tp] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  // CHECK: fusion.all_to_all %{{.*}} split_dim = 1 concat_dim = 1 on @m[tp] : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = fusion.all_to_all %a split_dim = 1 concat_dim = 1 on @m[tp] : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return
}

// CHECK-LABEL: @point_to_point
func.func @point_to_point(%a: tensor<4xf32>, %b: tensor<i1>) {
  // CHECK: fusion.collective_broadcast %{{.*}}, %{{.*}} root = 3 on @m[dp] : tensor<4xf32>, tensor<i1>
  %0:2 = fusion.collective_broadcast %a, %b root = 3 on @m[dp] : tensor<4xf32>, tensor<i1>
  // CHECK: fusion.collective_permute %{{.*}} sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4xf32>
  %1 = fusion.collective_permute %a sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4xf32>
  // CHECK: fusion.collective_permute %{{.*}}, %{{.*}} sources = [] targets = [] on @m[tp] : tensor<4xf32>, tensor<i1>
  %2:2 = fusion.collective_permute %a, %b sources = [] targets = [] on @m[tp] : tensor<4xf32>, tensor<i1>
  return
}

// CHECK-LABEL: @rank_slice
func.func @rank_slice(%a: tensor<9x4xf32>, %b: tensor<32xbf16>) {
  // CHECK: fusion.rank_slice %{{.*}} start = 1 on @m[tp] : (tensor<9x4xf32>) -> tensor<4x4xf32>
  %0 = fusion.rank_slice %a start = 1 on @m[tp] : (tensor<9x4xf32>) -> tensor<4x4xf32>
  // CHECK: fusion.rank_slice %{{.*}} start = 0 shift = 1 on @m[tp] : (tensor<9x4xf32>) -> tensor<4x4xf32>
  %2 = fusion.rank_slice %a start = 0 shift = 1 on @m[tp] : (tensor<9x4xf32>) -> tensor<4x4xf32>
  // CHECK: fusion.rank_slice %{{.*}} start = 0 on @m[dp, tp] : (tensor<32xbf16>) -> tensor<0xbf16>
  %1 = fusion.rank_slice %b start = 0 on @m[dp, tp] : (tensor<32xbf16>) -> tensor<0xbf16>
  return
}

// CHECK-LABEL: @rank_concat
func.func @rank_concat(%a: tensor<2x4xf32>, %b: tensor<1x4xf32>, %c: tensor<i1>, %d: tensor<3xi1>) {
  // CHECK: fusion.rank_concat %{{.*}}, %{{.*}}, %{{.*}} on @m[tp] : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %0 = fusion.rank_concat %a, %b, %b on @m[tp] : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  // CHECK: fusion.rank_concat %{{.*}} on @odd["a b"] : (tensor<3xi1>) -> tensor<3xi1>
  %1 = fusion.rank_concat %d on @odd["a b"] : (tensor<3xi1>) -> tensor<3xi1>
  return
}
