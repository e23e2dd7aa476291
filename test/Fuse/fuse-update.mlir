// An optimizer's update is one group, whatever the limit of ops: its results take
// the bytes of arguments. Nine ops on the longest path, at most eight otherwise.
//
// RUN: fusion-opt %s -split-input-file --fusion-fuse-vertical --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir -split-input-file --fusion-fuse-vertical | FileCheck %s

// CHECK-LABEL: func @adamw
// CHECK-COUNT-1: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: return
func.func @adamw(%p: tensor<8xf32> {fusion.donated = 0 : i64}, %v: tensor<8xf32> {fusion.donated = 1 : i64}, %g: tensor<8xf32>, %f: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %b = fusion.broadcast %f dims = [] : tensor<f32> to tensor<8xf32>
  %0 = fusion.mul %g, %b : tensor<8xf32>
  %1 = fusion.mul %0, %0 : tensor<8xf32>
  %2 = fusion.mul %1, %b : tensor<8xf32>
  %3 = fusion.add %v, %2 : tensor<8xf32>
  %4 = fusion.mul %3, %b : tensor<8xf32>
  %5 = fusion.sqrt %4 : tensor<8xf32>
  %6 = fusion.add %5, %b : tensor<8xf32>
  %7 = fusion.div %0, %6 : tensor<8xf32>
  %8 = fusion.sub %p, %7 : tensor<8xf32>
  return %8, %3 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The same, and nothing is donated.
// CHECK-LABEL: func @no_update
// CHECK-COUNT-2: fusion.group loop
// REMARK: [Missed] max-ops | {{.*}} limit=8, {{.*}} value=9
func.func @no_update(%p: tensor<8xf32>, %v: tensor<8xf32>, %g: tensor<8xf32>, %f: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %b = fusion.broadcast %f dims = [] : tensor<f32> to tensor<8xf32>
  %0 = fusion.mul %g, %b : tensor<8xf32>
  %1 = fusion.mul %0, %0 : tensor<8xf32>
  %2 = fusion.mul %1, %b : tensor<8xf32>
  %3 = fusion.add %v, %2 : tensor<8xf32>
  %4 = fusion.mul %3, %b : tensor<8xf32>
  %5 = fusion.sqrt %4 : tensor<8xf32>
  %6 = fusion.add %5, %b : tensor<8xf32>
  %7 = fusion.div %0, %6 : tensor<8xf32>
  %8 = fusion.sub %p, %7 : tensor<8xf32>
  return %8, %3 : tensor<8xf32>, tensor<8xf32>
}

// -----

// A gradient that was reduced in parts is put together where it is used.
// CHECK-LABEL: func @parts
// CHECK-COUNT-1: fusion.group loop
// CHECK-NEXT: fusion.concat
// CHECK-NOT: fusion.group
// CHECK: return
func.func @parts(%p: tensor<2x16xf32> {fusion.donated = 0 : i64}, %g: tensor<16xf32>, %h: tensor<16xf32>, %x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %w = fusion.concat %g, %h axis = 0 : tensor<16xf32>, tensor<16xf32>
  %0 = fusion.reshape %w : tensor<32xf32> to tensor<2x16xf32>
  %1 = fusion.mul %0, %x : tensor<2x16xf32>
  %2 = fusion.mul %1, %x : tensor<2x16xf32>
  %3 = fusion.add %2, %x : tensor<2x16xf32>
  %4 = fusion.mul %3, %x : tensor<2x16xf32>
  %5 = fusion.sqrt %4 : tensor<2x16xf32>
  %6 = fusion.add %5, %x : tensor<2x16xf32>
  %7 = fusion.div %1, %6 : tensor<2x16xf32>
  %8 = fusion.sub %p, %7 : tensor<2x16xf32>
  return %8 : tensor<2x16xf32>
}

// -----

// One that a rank takes its part of, and one that lies turned, are read so.
// CHECK-LABEL: func @moved
// CHECK-COUNT-1: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: return
func.func @moved(%p: tensor<2x4xf32> {fusion.donated = 0 : i64}, %g: tensor<3x4x2xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = fusion.slice %g starts = [1, 0, 0] limits = [2, 4, 2] strides = [1, 1, 1] : tensor<3x4x2xf32>
  %r = fusion.reshape %s : tensor<1x4x2xf32> to tensor<4x2xf32>
  %0 = fusion.transpose %r permutation = [1, 0] : tensor<4x2xf32>
  %1 = fusion.mul %0, %x : tensor<2x4xf32>
  %2 = fusion.mul %1, %x : tensor<2x4xf32>
  %3 = fusion.add %2, %x : tensor<2x4xf32>
  %4 = fusion.mul %3, %x : tensor<2x4xf32>
  %5 = fusion.sqrt %4 : tensor<2x4xf32>
  %6 = fusion.add %5, %x : tensor<2x4xf32>
  %7 = fusion.div %1, %6 : tensor<2x4xf32>
  %8 = fusion.neg %7 : tensor<2x4xf32>
  %9 = fusion.sub %p, %8 : tensor<2x4xf32>
  return %9 : tensor<2x4xf32>
}
