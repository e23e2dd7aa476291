// RUN: fusion-opt %s --fusion-emit-kernels | FileCheck %s

// Elementwise ops of one shape are one flat run: a unit is an element, vectors
// of 16 and then single elements. Equal groups share the kernel.

// CHECK-LABEL: func.func @flat
// CHECK: fusion.group loop {{.*}}kernel @kernels::@k0 attributes {fusion.in_place = array<i64: 0, 0>}
// CHECK: fusion.group loop {{.*}}kernel @kernels::@k0
func.func @flat(%x: tensor<2x3x32xf32>) -> tensor<2x3x32xf32> {
  %r = fusion.group loop (%a = %x : tensor<2x3x32xf32>) -> tensor<2x3x32xf32> {
    %0 = fusion.relu %a : tensor<2x3x32xf32>
    fusion.yield %0 : tensor<2x3x32xf32>
  }
  %s = fusion.group loop (%a = %r : tensor<2x3x32xf32>) -> tensor<2x3x32xf32> {
    %0 = fusion.relu %a : tensor<2x3x32xf32>
    fusion.yield %0 : tensor<2x3x32xf32>
  }
  return %s : tensor<2x3x32xf32>
}

// CHECK: module @kernels
// CHECK: func.func @k0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: fusion.description = "loop: relu"
// CHECK-SAME: fusion.grain = 16384
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 192>
// CHECK: scf.for
// CHECK: llvm.load {{.*}} vector<16xf32>
// CHECK: arith.maximumf %{{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} vector<16xf32>
// CHECK: scf.for
// CHECK: arith.maximumf %{{.*}} : f32
// CHECK-NOT: func.func @k1
