// RUN: fusion-opt %s --fusion-fuse --verify-roundtrip -o %t1.mlir
// RUN: FileCheck %s < %t1.mlir
// RUN: fusion-opt %t1.mlir --fusion-fuse -o %t2.mlir
// RUN: diff %t1.mlir %t2.mlir
// RUN: fusion-opt %s --fusion-fuse --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fusion-opt %s --fusion-fuse=no-fuse=horizontal | FileCheck %s --check-prefix=APART

// Independent groups of one kind become one launch; doing so twice changes
// nothing more. The certificate, which sees through both levels, is part of the
// phase.

// APART-NOT: horizontal

// CHECK-LABEL: func.func @three_adds
// CHECK-COUNT-1: fusion.group horizontal
// CHECK-COUNT-3: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: return
// 96 bytes at a quarter of 40 GB/s, or 288 at three quarters, take 0.0096 us.
// REMARK: [Passed] fuse-horizontal | {{.*}}extra_bytes=0, kind=loop, members=3, ops=add, saved_ns=4019, us_fused=2.01, us_serial=6.03, us_streams=6.03
func.func @three_adds(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.add %a, %b : tensor<8xf32>
  %1 = fusion.add %b, %c : tensor<8xf32>
  %2 = fusion.add %c, %d : tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Each norm keeps its own shape; a rank may differ as well.
// CHECK-LABEL: func.func @unequal_norms
// CHECK: %[[L:.*]]:3 = fusion.group horizontal (
// CHECK-SAME: -> (tensor<2x5xf32>, tensor<3x64xf32>, tensor<1x0xf32>)
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.layer_norm {{.*}} tensor<2x5xf32>
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.layer_norm {{.*}} tensor<3x64xf32>
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.layer_norm {{.*}} tensor<1x0xf32>
// CHECK: return %[[L]]#0, %[[L]]#1, %[[L]]#2
func.func @unequal_norms(%a: tensor<2x5xf32>, %s: tensor<5xf32>, %b: tensor<3x64xf32>, %t: tensor<64xf32>, %c: tensor<1x0xf32>, %u: tensor<0xf32>) -> (tensor<2x5xf32>, tensor<3x64xf32>, tensor<1x0xf32>) {
  %0 = fusion.layer_norm %a scale %s epsilon = 1.0e-5 axis = 1 : tensor<2x5xf32>, tensor<5xf32>
  %1 = fusion.layer_norm %b scale %t epsilon = 1.0e-5 axis = 1 : tensor<3x64xf32>, tensor<64xf32>
  %2 = fusion.layer_norm %c scale %u epsilon = 1.0e-5 axis = 1 : tensor<1x0xf32>, tensor<0xf32>
  return %0, %1, %2 : tensor<2x5xf32>, tensor<3x64xf32>, tensor<1x0xf32>
}

// One launch a key: activations with activations, products with products. Splat
// constants of one number are equal whatever their shape.
// CHECK-LABEL: func.func @two_keys
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.relu
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.mul
// CHECK-NOT: fusion.group
// CHECK: return
func.func @two_keys(%a: tensor<8xf32>, %b: tensor<2x3xf32>, %c: tensor<f32>) -> (tensor<8xf32>, tensor<2x3xf32>, tensor<8xf32>, tensor<2x3xf32>) {
  %h8 = fusion.constant dense<0.5> : tensor<8xf32>
  %h6 = fusion.constant dense<0.5> : tensor<2x3xf32>
  %0 = fusion.relu %a : tensor<8xf32>
  %1 = fusion.mul %a, %h8 : tensor<8xf32>
  %2 = fusion.relu %b : tensor<2x3xf32>
  %3 = fusion.mul %b, %h6 : tensor<2x3xf32>
  return %0, %2, %1, %3 : tensor<8xf32>, tensor<2x3xf32>, tensor<8xf32>, tensor<2x3xf32>
}

// Softmax and reductions of rows; the sizes may depend on the batch.
// CHECK-LABEL: func.func @dynamic
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.softmax
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.reduce
// CHECK-NOT: fusion.group
// CHECK: return
func.func @dynamic(%a: tensor<?x5xf32>, %b: tensor<7x3xf32>) -> (tensor<?x5xf32>, tensor<7x3xf32>, tensor<?xf32>, tensor<7xf32>) attributes {fusion.batch = array<i64: 1, 4>} {
  %0 = fusion.softmax %a axis = 1 : tensor<?x5xf32>
  %1 = fusion.reduce max, %a dims = [1] : tensor<?x5xf32>
  %2 = fusion.softmax %b axis = 1 : tensor<7x3xf32>
  %3 = fusion.reduce max, %b dims = [1] : tensor<7x3xf32>
  return %0, %2, %1, %3 : tensor<?x5xf32>, tensor<7x3xf32>, tensor<?xf32>, tensor<7xf32>
}

// Equal products with different left-hand values: one library call.
// CHECK-LABEL: func.func @matmuls
// CHECK: fusion.group horizontal
// CHECK: fusion.group library
// CHECK: fusion.group library
// CHECK-NOT: fusion.group
// CHECK: return
// REMARK: [Passed] fuse-horizontal | {{.*}}kind=library, members=2, ops=matmul
func.func @matmuls(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.matmul %a, %v : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.matmul %b, %w : tensor<4x4xf32>, tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A view between a member and its reader follows the launch.
// CHECK-LABEL: func.func @views
// CHECK: %[[L:.*]]:2 = fusion.group horizontal
// CHECK: %[[V:.*]] = fusion.reshape %[[L]]#0
// CHECK: return %[[V]], %[[L]]#1
func.func @views(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %0 = fusion.exp %a : tensor<2x4xf32>
  %v = fusion.reshape %0 : tensor<2x4xf32> to tensor<8xf32>
  %1 = fusion.exp %b : tensor<2x4xf32>
  return %v, %1 : tensor<8xf32>, tensor<2x4xf32>
}
