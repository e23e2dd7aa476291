// RUN: fusion-opt %s --split-input-file --fusion-codegen --fusion-plan-memory --fusion-verify-schedule | FileCheck %s --enable-var-scope

// An update writes each new value over the argument that is donated to it, not over
// the gradient, which has the shape too: nothing is copied at the end.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.launch
// CHECK-SAME:  read_write, <@in0, 0, 16>, f32>, #fusion.access<read, <@in1, 0, 16>, f32>, #fusion.access<{{ *}}read_write, <@in2, 0, 16>, f32>, #fusion.access<{{ *}}read_write, <@out1, 0, 16>, f32>, #fusion.access<{{ *}}read_write, <@out0, 0, 16>
// CHECK-NOT:   fusion.copy
func.func @main(%m: tensor<4xf32> {fusion.donated = 1 : i64}, %g: tensor<4xf32>, %p: tensor<4xf32> {fusion.donated = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) {
  %n:2 = fusion.group loop (%a = %m : tensor<4xf32>, %b = %g : tensor<4xf32>, %c = %p : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = fusion.add %a, %b : tensor<4xf32>
    %1 = fusion.sub %c, %0 : tensor<4xf32>
    fusion.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  return %n#1, %n#0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Members of a launch do so too; equal groups of other donations get kernels of
// their own.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.launch @kernels::[[A:@k[0-9]+]]
// CHECK-SAME:  read_write, <@in1, 0, 16>
// CHECK-SAME:  read_write, <@in3, 0, 16>
// CHECK:       fusion.launch @kernels::
// CHECK-NOT:   [[A]] stream
// CHECK-SAME:  read_write, <@in4, 0, 16>
// CHECK-NOT:   fusion.copy
func.func @main(%g: tensor<4xf32>, %p: tensor<4xf32> {fusion.donated = 0 : i64}, %h: tensor<4xf32>, %q: tensor<4xf32> {fusion.donated = 1 : i64}, %r: tensor<4xf32> {fusion.donated = 2 : i64}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %n:2 = fusion.group horizontal (%a = %g : tensor<4xf32>, %b = %p : tensor<4xf32>, %c = %h : tensor<4xf32>, %d = %q : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = fusion.group loop (%e = %a : tensor<4xf32>, %f = %b : tensor<4xf32>) -> tensor<4xf32> {
      %1 = fusion.sub %f, %e : tensor<4xf32>
      fusion.yield %1 : tensor<4xf32>
    }
    %2 = fusion.group loop (%e = %c : tensor<4xf32>, %f = %d : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.sub %f, %e : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %0, %2 : tensor<4xf32>, tensor<4xf32>
  }
  %o = fusion.group loop (%e = %r : tensor<4xf32>, %f = %g : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.sub %f, %e : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %n#0, %n#1, %o : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
