// RUN: fusion-opt %s --fusion-fuse=no-fuse=vertical -o %t1.mlir
// RUN: FileCheck %s < %t1.mlir
// RUN: fusion-opt %t1.mlir --fusion-fuse=no-fuse=vertical -o %t2.mlir
// RUN: diff %t1.mlir %t2.mlir
// RUN: fusion-opt %s --fusion-fuse=no-fuse=vertical --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Groups that depend on each other never share a launch, however long the way
// between them. Each op is a group of its own here.

// Three heads: the second products need the first ones, through an add. Two
// launches of three, never one of six.
// CHECK-LABEL: func.func @heads
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: fusion.matmul
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: fusion.add
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: fusion.matmul
// CHECK-NOT: fusion.matmul
// CHECK: return
// REMARK: [Missed] horizontal-dependency | {{.*}}kind=library, ops=matmul
func.func @heads(%x0: tensor<4x4xf32>, %x1: tensor<4x4xf32>, %x2: tensor<4x4xf32>, %w: tensor<4x4xf32>, %u: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %d0 = fusion.matmul %x0, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %a0 = fusion.add %d0, %b : tensor<4x4xf32>
  %e0 = fusion.matmul %a0, %u : tensor<4x4xf32>, tensor<4x4xf32>
  %d1 = fusion.matmul %x1, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %a1 = fusion.add %d1, %b : tensor<4x4xf32>
  %e1 = fusion.matmul %a1, %u : tensor<4x4xf32>, tensor<4x4xf32>
  %d2 = fusion.matmul %x2, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %a2 = fusion.add %d2, %b : tensor<4x4xf32>
  %e2 = fusion.matmul %a2, %u : tensor<4x4xf32>, tensor<4x4xf32>
  return %e0, %e1, %e2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// {a1, a2} and {b1, b2} are each legal alone and cyclic together: one of them is
// formed.
// CHECK-LABEL: func.func @crossed
// CHECK: fusion.neg
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.exp
// CHECK-NOT: fusion.group horizontal
// CHECK: fusion.neg
// CHECK: return
// REMARK: [Missed] horizontal-cycle | {{.*}}ops=neg
func.func @crossed(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a1 = fusion.exp %x : tensor<4xf32>
  %b1 = fusion.neg %y : tensor<4xf32>
  %a2 = fusion.exp %b1 : tensor<4xf32>
  %b2 = fusion.neg %a1 : tensor<4xf32>
  return %a2, %b2 : tensor<4xf32>, tensor<4xf32>
}

// Updates of weights are ready at different times. Nothing waits for them, so
// they run together at the end; the chain stays as it is.
// CHECK-LABEL: func.func @updates
// CHECK-NOT: horizontal
// CHECK: fusion.exp
// CHECK-NOT: horizontal
// CHECK: fusion.tanh
// CHECK-NOT: horizontal
// CHECK: fusion.neg
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: fusion.sub
// CHECK-NOT: fusion.group
// CHECK: return
func.func @updates(%g: tensor<8xf32>, %u: tensor<8xf32>, %v: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %g : tensor<8xf32>
  %1 = fusion.sub %u, %0 : tensor<8xf32>
  %2 = fusion.tanh %0 : tensor<8xf32>
  %3 = fusion.sub %v, %2 : tensor<8xf32>
  %4 = fusion.neg %2 : tensor<8xf32>
  %5 = fusion.sub %w, %4 : tensor<8xf32>
  return %1, %3, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Levels from the inputs hold the first two, levels from the results the last
// two: one launch of three, since none needs another.
// CHECK-LABEL: func.func @both_ways
// CHECK: fusion.group horizontal
// CHECK-COUNT-3: fusion.exp
// CHECK-NOT: fusion.exp
// CHECK: return
func.func @both_ways(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %x : tensor<8xf32>
  %1 = fusion.neg %0 : tensor<8xf32>
  %2 = fusion.tanh %1 : tensor<8xf32>
  %3 = fusion.exp %y : tensor<8xf32>
  %4 = fusion.neg %z : tensor<8xf32>
  %5 = fusion.exp %4 : tensor<8xf32>
  return %2, %3, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// A member is never moved before what it reads, nor a reader before it.
// CHECK-LABEL: func.func @order
// CHECK: fusion.neg
// CHECK: %[[L:.*]]:2 = fusion.group horizontal
// CHECK-COUNT-2: fusion.exp
// CHECK: fusion.tanh
// CHECK: return
func.func @order(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %x : tensor<8xf32>
  %1 = fusion.tanh %0 : tensor<8xf32>
  %2 = fusion.neg %y : tensor<8xf32>
  %3 = fusion.exp %2 : tensor<8xf32>
  return %1, %3 : tensor<8xf32>, tensor<8xf32>
}
