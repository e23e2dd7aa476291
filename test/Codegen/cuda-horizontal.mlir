// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// Members of one size: the block's member is a quotient; no table.
// CHECK-LABEL: func.func @equal
// CHECK: func.func @[[MEMBER:k[0-9]+]](
// CHECK: func.func @k1(
// CHECK-SAME: fusion.grain = 1 : i64
// CHECK-SAME: fusion.operands = 9 : i64
// CHECK-SAME: fusion.threads = 256 : i64
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 192>
// CHECK: arith.divui
// CHECK-NOT: llvm.mlir.addressof
// CHECK: call @[[MEMBER]](
// CHECK: return
func.func @equal(%a: tensor<65536xf32>, %b: tensor<65536xf32>,
                 %c: tensor<65536xf32>)
    -> (tensor<65536xf32>, tensor<65536xf32>, tensor<65536xf32>) {
  %0 = fusion.add %a, %b : tensor<65536xf32>
  %1 = fusion.add %b, %c : tensor<65536xf32>
  %2 = fusion.add %c, %a : tensor<65536xf32>
  return %0, %1, %2 : tensor<65536xf32>, tensor<65536xf32>, tensor<65536xf32>
}

// -----

// Members of several sizes: where their blocks begin, 2 and 3 blocks, decides.
// CHECK-LABEL: func.func @unequal
// CHECK: func.func @k2(
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 5>
// CHECK: arith.cmpi uge
// CHECK: scf.index_switch
// CHECK: call @k0(
// CHECK: call @k1(
func.func @unequal(%a: tensor<2048xf32>, %b: tensor<2049xf32>)
    -> (tensor<2048xf32>, tensor<2049xf32>) {
  %0 = fusion.neg %a : tensor<2048xf32>
  %1 = fusion.neg %b : tensor<2049xf32>
  return %0, %1 : tensor<2048xf32>, tensor<2049xf32>
}
