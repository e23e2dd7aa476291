// RUN: fusion-opt %s --split-input-file --fusion-emit-kernels | FileCheck %s

// The result of a scatter may take the bytes of its input, which the kernel
// copies before the first update; not of an input that is the updates or the
// indices too, because an update would change those that follow.

// CHECK-LABEL: func.func @base
// CHECK: fusion.group scatter {{.*}}fusion.in_place = array<i64: 0, 0>
func.func @base(%x: tensor<4x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %r = fusion.group scatter (%a = %x : tensor<4x3xf32>, %b = %i : tensor<2x1xi64>, %c = %u : tensor<2x3xf32>) -> tensor<4x3xf32> {
    %0 = fusion.scatter add, %a, %b, %c : tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>
    fusion.yield %0 : tensor<4x3xf32>
  }
  return %r : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @base_and_updates
// CHECK-NOT: fusion.in_place
func.func @base_and_updates(%x: tensor<4x3xf32>, %i: tensor<4x1xi64>) -> tensor<4x3xf32> {
  %r = fusion.group scatter (%a = %x : tensor<4x3xf32>, %b = %i : tensor<4x1xi64>) -> tensor<4x3xf32> {
    %0 = fusion.scatter add, %a, %b, %a : tensor<4x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>
    fusion.yield %0 : tensor<4x3xf32>
  }
  return %r : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @base_and_indices
// CHECK-NOT: fusion.in_place
func.func @base_and_indices(%x: tensor<3x1xi64>, %u: tensor<3x1xi64>) -> tensor<3x1xi64> {
  %r = fusion.group scatter (%a = %x : tensor<3x1xi64>, %b = %u : tensor<3x1xi64>) -> tensor<3x1xi64> {
    %0 = fusion.scatter set, %a, %a, %b : tensor<3x1xi64>, tensor<3x1xi64>, tensor<3x1xi64>
    fusion.yield %0 : tensor<3x1xi64>
  }
  return %r : tensor<3x1xi64>
}
