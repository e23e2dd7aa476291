// Ranks' parts of a sum are sums of parts: a rank adds what it needs of each tensor.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=peer -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: fusion-opt %t.once -split-input-file --fusion-reduce-in-consumers=transport=peer | FileCheck %s

// Two ranks swap: the part of the own and of the other's, and what is in no part. The
// update adds all of both. The slices of the sum are gone.
// CHECK-LABEL: func @swap
// CHECK-SAME:  (%[[G:.*]]: tensor<72xbf16>, %[[W:.*]]: tensor<72xbf16>)
// CHECK:       %[[O:.*]] = fusion.collective_permute %[[G]]
// CHECK-DAG:   %[[GP:.*]] = fusion.rank_slice %[[G]] start = 0 on @m[dp] : (tensor<72xbf16>) -> tensor<32xbf16>
// CHECK-DAG:   %[[OP:.*]] = fusion.rank_slice %[[O]] start = 0 on @m[dp] : (tensor<72xbf16>) -> tensor<32xbf16>
// CHECK-DAG:   %[[GR:.*]] = fusion.slice %[[G]] starts = [64] limits = [72]
// CHECK-DAG:   %[[OR:.*]] = fusion.slice %[[O]] starts = [64] limits = [72]
// CHECK-DAG:   %[[GW:.*]] = fusion.cast %[[GP]] : tensor<32xbf16> to tensor<32xf32>
// CHECK-DAG:   %[[OW:.*]] = fusion.cast %[[OP]] : tensor<32xbf16> to tensor<32xf32>
// CHECK-DAG:   fusion.add %[[GW]], %[[OW]] : tensor<32xf32>
// CHECK-DAG:   fusion.add %{{.*}}, %{{.*}} : tensor<8xf32>
// CHECK-DAG:   fusion.add %{{.*}}, %{{.*}} : tensor<72xf32>
// CHECK-NOT:   tensor<72xf32>) -> tensor<32xf32>
// CHECK:       return
fusion.mesh @m(dp = 2)
func.func @swap(%g: tensor<72xbf16>, %w: tensor<72xbf16>) -> (tensor<72xbf16>, tensor<f32>) {
  %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<72xbf16>
  %1 = fusion.rank_slice %0 start = 0 on @m[dp] : (tensor<72xbf16>) -> tensor<32xbf16>
  %2 = fusion.cast %1 : tensor<32xbf16> to tensor<32xf32>
  %3 = fusion.mul %2, %2 : tensor<32xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<32xf32>
  %5 = fusion.slice %0 starts = [64] limits = [72] strides = [1] : tensor<72xbf16>
  %6 = fusion.cast %5 : tensor<8xbf16> to tensor<8xf32>
  %7 = fusion.mul %6, %6 : tensor<8xf32>
  %8 = fusion.reduce sum, %7 dims = [0] : tensor<8xf32>
  %9 = fusion.sub %w, %0 : tensor<72xbf16>
  %10 = fusion.add %4, %8 : tensor<f32>
  return %9, %10 : tensor<72xbf16>, tensor<f32>
}

// -----

// Three ranks gather: in what is gathered, a part of each rank's tensor.
// CHECK-LABEL: func @gathered
// CHECK:       %[[A:.*]] = fusion.all_gather
// CHECK-DAG:   fusion.rank_slice %{{.*}} start = 0 on @m[dp] : (tensor<72xf32>) -> tensor<8xf32>
// CHECK-DAG:   fusion.rank_slice %{{.*}} start = 24 on @m[dp] : (tensor<72xf32>) -> tensor<8xf32>
// CHECK-DAG:   fusion.rank_slice %{{.*}} start = 48 on @m[dp] : (tensor<72xf32>) -> tensor<8xf32>
// CHECK:       return
fusion.mesh @m(dp = 3)
func.func @gathered(%g: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<f32>) {
  %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<4x6xf32>
  %1 = fusion.reshape %0 : tensor<4x6xf32> to tensor<24xf32>
  %2 = fusion.rank_slice %1 start = 0 on @m[dp] : (tensor<24xf32>) -> tensor<8xf32>
  %3 = fusion.mul %2, %2 : tensor<8xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<8xf32>
  %5 = fusion.neg %0 : tensor<4x6xf32>
  return %5, %4 : tensor<4x6xf32>, tensor<f32>
}

// -----

// Boundary: the second rank's tensor begins at byte 100 of what is gathered. A part of
// a slice, which is a view.
// CHECK-LABEL: func @odd
// CHECK:       %[[A:.*]] = fusion.all_gather
// CHECK-NOT:   start = 25
// CHECK:       %[[S:.*]] = fusion.slice %[[A]] starts = [1, 0] limits = [2, 25]
// CHECK:       %[[R:.*]] = fusion.reshape %[[S]]
// CHECK:       fusion.rank_slice %[[R]] start = 0 on @m[dp] : (tensor<25xf32>) -> tensor<8xf32>
// CHECK:       return
fusion.mesh @m(dp = 3)
func.func @odd(%g: tensor<25xf32>) -> (tensor<25xf32>, tensor<f32>) {
  %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<25xf32>
  %2 = fusion.rank_slice %0 start = 0 on @m[dp] : (tensor<25xf32>) -> tensor<8xf32>
  %3 = fusion.mul %2, %2 : tensor<8xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<8xf32>
  %5 = fusion.neg %0 : tensor<25xf32>
  return %5, %4 : tensor<25xf32>, tensor<f32>
}

// -----

// The part of the rank behind this one stays that; what computes a rank's tensor is
// read whole by the move, and is not computed once more in parts.
// CHECK-LABEL: func @behind
// CHECK:       %[[T:.*]] = fusion.tanh
// CHECK:       %[[M:.*]] = fusion.mul %{{.*}}, %[[T]]
// CHECK:       %[[O:.*]] = fusion.collective_permute %[[M]]
// CHECK-DAG:   fusion.rank_slice %[[M]] start = 8 shift = 1 on @m[dp] : (tensor<72xf32>) -> tensor<32xf32>
// CHECK-DAG:   fusion.rank_slice %[[O]] start = 8 shift = 1 on @m[dp] : (tensor<72xf32>) -> tensor<32xf32>
// CHECK-NOT:   fusion.rank_slice
// CHECK-NOT:   fusion.tanh
// CHECK:       return
fusion.mesh @m(dp = 2)
func.func @behind(%g: tensor<72xf32>) -> (tensor<72xf32>, tensor<f32>) {
  %t = fusion.tanh %g : tensor<72xf32>
  %x = fusion.mul %g, %t : tensor<72xf32>
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<72xf32>
  %1 = fusion.rank_slice %0 start = 8 shift = 1 on @m[dp] : (tensor<72xf32>) -> tensor<32xf32>
  %3 = fusion.mul %1, %1 : tensor<32xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<32xf32>
  %5 = fusion.neg %0 : tensor<72xf32>
  return %5, %4 : tensor<72xf32>, tensor<f32>
}

// -----

// Parts of what is no sum over ranks are as they were, of a part too.
// CHECK-LABEL: func @plain
// CHECK:       %[[A:.*]] = fusion.abs
// CHECK-NEXT:  fusion.rank_slice %[[A]] start = 0
// CHECK-NEXT:  fusion.slice %[[A]]
// CHECK-NEXT:  fusion.reshape
// CHECK-NEXT:  fusion.rank_slice
// CHECK:       fusion.collective_permute
fusion.mesh @m(dp = 2)
func.func @plain(%x: tensor<4x8xf32>, %g: tensor<4xf32>) -> (tensor<2x8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.abs %x : tensor<4x8xf32>
  %r = fusion.rank_slice %a start = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %s = fusion.slice %a starts = [1, 0] limits = [2, 8] strides = [1, 1] : tensor<4x8xf32>
  %v = fusion.reshape %s : tensor<1x8xf32> to tensor<8xf32>
  %q = fusion.rank_slice %v start = 0 on @m[dp] : (tensor<8xf32>) -> tensor<4xf32>
  %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %n = fusion.neg %r : tensor<2x8xf32>
  %m = fusion.neg %q : tensor<4xf32>
  %k = fusion.neg %0 : tensor<4xf32>
  return %n, %m, %k : tensor<2x8xf32>, tensor<4xf32>, tensor<4xf32>
}
