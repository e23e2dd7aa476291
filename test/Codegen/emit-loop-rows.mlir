// RUN: fusion-opt %s --fusion-emit-kernels | FileCheck %s

// A broadcast over the last dimension keeps that one apart: a unit is a row,
// whose number depends on the batch.

func.func @rows(%x: tensor<?x3x32xf16>, %b: tensor<32xf16>) -> tensor<?x3x32xf16> attributes {fusion.batch = array<i64: 1, 8>} {
  // Both inputs: one can't be overwritten, as it has another shape.
  // CHECK: fusion.in_place = array<i64: 0, 0>
  %r = fusion.group loop (%a = %x : tensor<?x3x32xf16>, %c = %b : tensor<32xf16>) -> tensor<?x3x32xf16> {
    %w = fusion.broadcast %c dims = [2] : tensor<32xf16> to tensor<?x3x32xf16>
    %0 = fusion.add %a, %w : tensor<?x3x32xf16>
    fusion.yield %0 : tensor<?x3x32xf16>
  }
  return %r : tensor<?x3x32xf16>
}

// CHECK-LABEL: module @kernels
// CHECK: fusion.units = #fusion.extent<3 * B + 0>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// Computed in f32 and rounded.
// CHECK: arith.addf %{{.*}} : vector<16xf32>
// CHECK: arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// The row is whole vectors: no rest.
// CHECK-NOT: arith.addf
