// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file | FileCheck %s

// One kernel walks a table of members: number of the member's kernel, its first
// operand, units as scale and base, weight of a unit. Equal members share a
// kernel; the launch's operands are the members', in order.

// CHECK-LABEL: func.func @adds
// CHECK: fusion.group horizontal {{.*}} kernel @kernels::@k2 attributes {fusion.in_place = array<i64: 0, 0, 1, 2, 2, 4>, fusion.kernel_operands = array<i64: 0, 1, 6, 2, 3, 7, 4, 5, 8>}
// CHECK: fusion.group loop {{.*}} kernel @kernels::@k0
// CHECK: fusion.group loop {{.*}} kernel @kernels::@k0
// CHECK: fusion.group loop {{.*}} kernel @kernels::@k1
// CHECK: module @kernels
// CHECK: func.func @k0
// CHECK: func.func @k1
// CHECK: llvm.mlir.global internal constant @k2_members(dense<[0, 0, 0, 8, 1, 0, 3, 0, 8, 1, 1, 6, 5, 0, 1]> : tensor<15xi64>)
// CHECK: func.func @k2
// CHECK-SAME: fusion.description = "horizontal: 3 x loop: add"
// CHECK-SAME: fusion.grain = 16384
// CHECK-SAME: fusion.units = #fusion.extent<5 * B + 16>
// CHECK: scf.for
// CHECK: scf.index_switch
// CHECK: call @k0
// CHECK: default
// CHECK: call @k1
func.func @adds(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>, %e: tensor<?x5xf32>, %f: tensor<?x5xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<?x5xf32>) attributes {fusion.batch = array<i64: 1, 4>} {
  %0:3 = fusion.group horizontal (%i = %a : tensor<8xf32>, %j = %b : tensor<8xf32>, %k = %c : tensor<8xf32>, %l = %d : tensor<8xf32>, %m = %e : tensor<?x5xf32>, %n = %f : tensor<?x5xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<?x5xf32>) {
    %1 = fusion.group loop (%p = %i : tensor<8xf32>, %q = %j : tensor<8xf32>) -> tensor<8xf32> {
      %4 = fusion.add %p, %q : tensor<8xf32>
      fusion.yield %4 : tensor<8xf32>
    }
    %2 = fusion.group loop (%p = %k : tensor<8xf32>, %q = %l : tensor<8xf32>) -> tensor<8xf32> {
      %4 = fusion.add %p, %q : tensor<8xf32>
      fusion.yield %4 : tensor<8xf32>
    }
    %3 = fusion.group loop (%p = %m : tensor<?x5xf32>, %q = %n : tensor<?x5xf32>) -> tensor<?x5xf32> {
      %4 = fusion.add %p, %q : tensor<?x5xf32>
      fusion.yield %4 : tensor<?x5xf32>
    }
    fusion.yield %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<?x5xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<8xf32>, tensor<8xf32>, tensor<?x5xf32>
}

// -----

// A row of 2048 is more work than a row of 64: its unit weighs more, and a range
// of the launch's grain is a thread's worth of either.
// CHECK-LABEL: func.func @weights
// CHECK: func.func @k0{{.*}}fusion.grain = [[SHORT:[0-9]+]] : i64
// CHECK: func.func @k1{{.*}}fusion.grain = {{[0-9]+}} : i64
// CHECK: @k2_members(dense<[0, 0, 0, 4, 1, 1, 2, 0, 4, {{[2-9]|[1-9][0-9]+}}]>
// CHECK: func.func @k2{{.*}}fusion.grain = [[SHORT]] : i64
// CHECK: arith.divui
func.func @weights(%a: tensor<4x64xf32>, %b: tensor<4x2048xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = fusion.group horizontal (%i = %a : tensor<4x64xf32>, %j = %b : tensor<4x2048xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.group row_reduce (%p = %i : tensor<4x64xf32>) -> tensor<4xf32> {
      %3 = fusion.reduce sum, %p dims = [1] : tensor<4x64xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    %2 = fusion.group row_reduce (%p = %j : tensor<4x2048xf32>) -> tensor<4xf32> {
      %3 = fusion.reduce sum, %p dims = [1] : tensor<4x2048xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Members that the library computes are one grouped call; what follows in each
// is one launch for all.
// CHECK-LABEL: func.func @matmuls
// CHECK: fusion.group horizontal
// CHECK-SAME: kernel @kernels::@k1
// CHECK-SAME: members = 2
// CHECK-SAME: operands = array<i64: 0, 1, 4, 2, 3, 5>
// CHECK-SAME: fusion.tail_operands = array<i64: 4, 5>
// CHECK: fusion.group library {{.*}} kernel @kernels::@k0
// CHECK: fusion.group library {{.*}} kernel @kernels::@k0
func.func @matmuls(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>, %d: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0:2 = fusion.group horizontal (%i = %a : tensor<4x4xf32>, %j = %b : tensor<4x4xf32>, %k = %c : tensor<4x4xf32>, %l = %d : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %1 = fusion.group library (%p = %i : tensor<4x4xf32>, %q = %j : tensor<4x4xf32>) -> tensor<4x4xf32> {
      %3 = fusion.matmul %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
      %4 = fusion.relu %3 : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    %2 = fusion.group library (%p = %k : tensor<4x4xf32>, %q = %l : tensor<4x4xf32>) -> tensor<4x4xf32> {
      %3 = fusion.matmul %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
      %4 = fusion.relu %3 : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    fusion.yield %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %0#0, %0#1 : tensor<4x4xf32>, tensor<4x4xf32>
}
