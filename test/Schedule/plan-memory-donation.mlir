// RUN: fusion-opt %s -split-input-file --fusion-fuse --fusion-codegen --fusion-plan-memory | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-fuse --fusion-codegen --fusion-plan-memory --fusion-verify-schedule -o /dev/null

// An argument that its last reader computes over: one launch, in place, no copy.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.port input "a" {{.*}}donated_to
// CHECK: fusion.launch
// CHECK-SAME: read_write
// CHECK-SAME: read_write
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.name = "a", fusion.donated = 0}) -> (tensor<4xf32> {fusion.name = "y"}) {
  %0 = fusion.exp %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Read at other places by the same kernel: computed in the arena, copied at the end.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.port input "a" {{.*}}donated_to
// CHECK: fusion.launch
// CHECK-NOT: read_write
// CHECK: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.name = "a", fusion.donated = 0}) -> (tensor<4xf32> {fusion.name = "y"}) {
  %0 = fusion.reverse %a dims = [0] : tensor<4xf32>
  %1 = fusion.add %a, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The result is the argument: nothing to do.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.port input "a" {{.*}}donated_to
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.name = "a", fusion.donated = 0}) -> (tensor<4xf32> {fusion.name = "y"}) {
  return %a : tensor<4xf32>
}

// -----

// A product is added to the argument's bytes: the call's addend is its output.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.port input "a" {{.*}}donated_to
// CHECK: fusion.call "matmul" {{.*}}read, <@in0, 0, 64>>, #fusion.access<{{ *}}write, <@out0, 0, 64>>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4x4xf32> {fusion.name = "a", fusion.donated = 0}, %x: tensor<4x2xf32>, %w: tensor<2x4xf32>) -> (tensor<4x4xf32> {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : tensor<4x2xf32>, tensor<2x4xf32>
  %1 = fusion.add %0, %a : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// The argument is an operand of the product too: aside, and a copy.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.call "matmul" {{.*}}write, <@arena,
// CHECK: fusion.copy
func.func @main(%a: tensor<4x4xf32> {fusion.name = "a", fusion.donated = 0}, %w: tensor<4x4xf32>) -> (tensor<4x4xf32> {fusion.name = "y"}) {
  %0 = fusion.matmul %a, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.add %0, %a : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
