// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate --remarks-filter=fusion 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// Two ops with another path between them never share a group.

// Squeeze and excitation: the product needs the gate, which needs the whole of
// what it multiplies.
// CHECK-LABEL: func.func @squeeze
// CHECK-NEXT: %[[A:.*]] = fusion.group library
// CHECK-NEXT:   fusion.conv
// CHECK-NEXT:   fusion.relu
// CHECK-NEXT:   fusion.yield
// CHECK:      %[[G:.*]] = fusion.group library ({{.*}} = %[[A]] : tensor<1x8x8x4xf32>)
// CHECK-NEXT:   fusion.avg_pool
// CHECK-NEXT:   fusion.hard_sigmoid
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group loop ({{.*}} = %[[G]] : tensor<1x1x1x4xf32>, {{.*}} = %[[A]] : tensor<1x8x8x4xf32>)
// CHECK-NEXT:   fusion.broadcast
// CHECK-NEXT:   fusion.mul
// CHECK-NEXT:   fusion.yield
// REMARK-DAG: [Missed] cycle | {{.*}}consumer=fusion.mul, producer=fusion.relu
func.func @squeeze(%x: tensor<1x8x8x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x8x8x4xf32> {
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x8x8x4xf32>, tensor<4x4x1x1xf32>
  %1 = fusion.relu %0 : tensor<1x8x8x4xf32>
  %2 = fusion.avg_pool %1 window = [8, 8] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc : tensor<1x8x8x4xf32>
  %3 = fusion.hard_sigmoid %2 alpha = 0.2 beta = 0.5 : tensor<1x1x1x4xf32>
  %4 = fusion.broadcast %3 dims = [0, 1, 2, 3] : tensor<1x1x1x4xf32> to tensor<1x8x8x4xf32>
  %5 = fusion.mul %1, %4 : tensor<1x8x8x4xf32>
  return %5 : tensor<1x8x8x4xf32>
}

// From neg to add there is a way through arg_max, which is no member.
// CHECK-LABEL: func.func @around_opaque
// CHECK-NEXT: %[[A:.*]] = fusion.group loop
// CHECK:      %[[K:.*]] = fusion.group fallback ({{.*}} = %[[A]]
// CHECK:      fusion.group loop ({{.*}} = %[[A]] : {{.*}}, {{.*}} = %[[K]]
func.func @around_opaque(%x: tensor<4x4xi64>) -> tensor<4xi64> {
  %0 = fusion.neg %x : tensor<4x4xi64>
  %1 = fusion.arg_max %0 axis = 1 : tensor<4x4xi64>
  %2 = fusion.slice %0 starts = [0, 0] limits = [4, 1] strides = [1, 1] : tensor<4x4xi64>
  %3 = fusion.reshape %2 : tensor<4x1xi64> to tensor<4xi64>
  %4 = fusion.add %1, %3 : tensor<4xi64>
  return %4 : tensor<4xi64>
}

// Two groups legal alone and cyclic together: p1 -> m1 -> q2 and p2 -> m2 -> q1
// with q1 reading p1 and q2 reading p2: p1 joins q1, and then p2 stays alone.
// CHECK-LABEL: func.func @crossed
// CHECK-COUNT-5: fusion.group
// CHECK-NOT: fusion.group
// CHECK: return
func.func @crossed(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p1 = fusion.exp %x : tensor<4x4xf32>
  %p2 = fusion.tanh %y : tensor<4x4xf32>
  %m1 = fusion.matmul %p1, %x : tensor<4x4xf32>, tensor<4x4xf32>
  %m2 = fusion.matmul %p2, %y : tensor<4x4xf32>, tensor<4x4xf32>
  %t1 = fusion.transpose %m1 permutation = [1, 0] : tensor<4x4xf32>
  %t2 = fusion.transpose %m2 permutation = [1, 0] : tensor<4x4xf32>
  %q1 = fusion.add %p1, %t2 : tensor<4x4xf32>
  %q2 = fusion.add %p2, %t1 : tensor<4x4xf32>
  return %q1, %q2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Three heads of two products each: six groups, in whatever order.
// CHECK-LABEL: func.func @heads
// CHECK-COUNT-6: fusion.matmul
// CHECK: return
func.func @heads(%x0: tensor<2x4xf32>, %x1: tensor<2x4xf32>, %x2: tensor<2x4xf32>, %w: tensor<4x4xf32>, %b: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %d00 = fusion.matmul %x0, %w : tensor<2x4xf32>, tensor<4x4xf32>
  %a0 = fusion.add %d00, %b : tensor<2x4xf32>
  %d10 = fusion.matmul %a0, %w : tensor<2x4xf32>, tensor<4x4xf32>
  %d01 = fusion.matmul %x1, %w : tensor<2x4xf32>, tensor<4x4xf32>
  %a1 = fusion.add %d01, %b : tensor<2x4xf32>
  %d11 = fusion.matmul %a1, %w : tensor<2x4xf32>, tensor<4x4xf32>
  %d02 = fusion.matmul %x2, %w : tensor<2x4xf32>, tensor<4x4xf32>
  %a2 = fusion.add %d02, %b : tensor<2x4xf32>
  %d12 = fusion.matmul %a2, %w : tensor<2x4xf32>, tensor<4x4xf32>
  return %d10, %d11, %d12 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
