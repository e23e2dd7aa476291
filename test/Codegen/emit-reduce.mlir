// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file | FileCheck %s

// A trailing reduction is dealt to 16 accumulators; a row is a unit.

// CHECK-LABEL: module @kernels
// CHECK: fusion.description = "row_reduce: reduce"
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 6>
// CHECK: scf.for {{.*}} -> (vector<16xf32>)
// CHECK: arith.addf %{{.*}} : vector<16xf32>
// The rest goes to the first accumulators, then the tree.
// CHECK: llvm.insertelement
// CHECK: llvm.shufflevector {{.*}} [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK: arith.addf %{{.*}} : vector<8xf32>
// CHECK: arith.addf %{{.*}} : vector<1xf32>
func.func @rows(%x: tensor<2x3x37xf32>) -> tensor<2x3xf32> {
  %r = fusion.group row_reduce (%a = %x : tensor<2x3x37xf32>) -> tensor<2x3xf32> {
    %0 = fusion.reduce sum, %a dims = [2] : tensor<2x3x37xf32>
    fusion.yield %0 : tensor<2x3xf32>
  }
  return %r : tensor<2x3xf32>
}

// -----

// Other dimensions: a vector of columns, in the order of the elements.

// CHECK-LABEL: module @kernels
// CHECK: fusion.units = #fusion.extent<0 * B + 2>
// CHECK: scf.for {{.*}} step
// CHECK: scf.for {{.*}} -> (vector<16xf32>)
// CHECK: arith.maximumf %{{.*}} : vector<16xf32>
// CHECK-NOT: llvm.shufflevector
func.func @columns(%x: tensor<2x5x32xf32>) -> tensor<2x32xf32> {
  %r = fusion.group column_reduce (%a = %x : tensor<2x5x32xf32>) -> tensor<2x32xf32> {
    %0 = fusion.reduce max, %a dims = [1] : tensor<2x5x32xf32>
    fusion.yield %0 : tensor<2x32xf32>
  }
  return %r : tensor<2x32xf32>
}

// -----

// Exponentials of a short row are computed once and kept.

// CHECK-LABEL: module @kernels
// CHECK: llvm.alloca {{.*}} x f32
// CHECK-COUNT-2: math.exp
// CHECK-NOT: math.exp
func.func @softmax(%x: tensor<4x40xf32>) -> tensor<4x40xf32> {
  %r = fusion.group row_reduce (%a = %x : tensor<4x40xf32>) -> tensor<4x40xf32> {
    %0 = fusion.softmax %a axis = 1 : tensor<4x40xf32>
    fusion.yield %0 : tensor<4x40xf32>
  }
  return %r : tensor<4x40xf32>
}
