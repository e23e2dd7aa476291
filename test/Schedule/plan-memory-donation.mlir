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

// -----

// The argument is another result too: its old value is copied there before its
// own result, computed aside, takes its bytes.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch
// CHECK-SAME: <@arena, 0, 16 of 1>
// CHECK-NOT: read_write
// CHECK: fusion.copy {{.*}}<@in0, 0, 16> to <@out1, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@arena, 0, 16 of 1> {{.*}}to <@out0, 0, 16>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.exp %a : tensor<4xf32>
  return %0, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// Behind a reshape, and where the result's own copy would come first.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.copy {{.*}}<@in0, 0, 16> to <@out1, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@in1, 0, 16> to <@out0, 0, 16>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %0 = fusion.reshape %a : tensor<4xf32> to tensor<2x2xf32>
  return %b, %0 : tensor<4xf32>, tensor<2x2xf32>
}

// -----

// The result is the argument, and so is another one: one copy.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.copy {{.*}}<@in0, 0, 16> to <@out0, 0, 16>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.donated = 1}) -> (tensor<2x2xf32>, tensor<4xf32>) {
  %0 = fusion.reshape %a : tensor<4xf32> to tensor<2x2xf32>
  return %0, %a : tensor<2x2xf32>, tensor<4xf32>
}

// -----

// A row: each argument moves into the bytes of the one in front of it.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.copy {{.*}}<@in0, 0, 16> to <@out2, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@in1, 0, 16> to <@out0, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@in2, 0, 16> to <@out1, 0, 16>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}, %b: tensor<4xf32> {fusion.donated = 1}, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  return %b, %c, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Two rings, of two and of three: what the first copy overwrites waits in the
// arena, in the same bytes for both.

// CHECK-LABEL: fusion.program @main
// CHECK: fusion.segment @arena private size = 64
// CHECK: fusion.copy {{.*}}<@in0, 0, 16> to <@arena, 0, 16 of 1>
// CHECK-NEXT: fusion.copy {{.*}}<@in1, 0, 16> to <@out0, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@arena, 0, 16 of 1> to <@out1, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@in2, 0, 16> to <@arena, 0, 16 of 2>
// CHECK-NEXT: fusion.copy {{.*}}<@in3, 0, 16> to <@out2, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@in4, 0, 16> to <@out3, 0, 16>
// CHECK-NEXT: fusion.copy {{.*}}<@arena, 0, 16 of 2> to <@out4, 0, 16>
// CHECK-NOT: fusion.copy
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}, %b: tensor<4xf32> {fusion.donated = 1}, %c: tensor<4xf32> {fusion.donated = 2}, %d: tensor<4xf32> {fusion.donated = 3}, %e: tensor<4xf32> {fusion.donated = 4}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  return %b, %a, %d, %e, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
