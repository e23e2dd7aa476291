// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule | FileCheck %s

// On a GPU the weights of a call's members lie side by side in the order of the
// members, however the model orders them, and so do their results: the first of
// them would fit where %first was.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.call "matmul"
// CHECK-SAME: [#fusion.access<read, <@arena, 192, 64 of 2>>, #fusion.access<read, <@weights, 0, 64>>, #fusion.access<write, <@arena, 0, 64 of 4>>, #fusion.access<read, <@arena, 192, 64 of 2>>, #fusion.access<read, <@weights, 64, 64>>, #fusion.access<write, <@arena, 64, 64 of 5>>, #fusion.access<read, <@arena, 192, 64 of 2>>, #fusion.access<read, <@weights, 128, 64>>, #fusion.access<write, <@arena, 128, 64 of 6>>]
module attributes {fusion.target = "cuda"} {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 16>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %w2 = fusion.constant dense<2.0> : tensor<4x4xf32>
    %other = fusion.constant dense<9.0> : tensor<4x4xf32>
    %w0 = fusion.constant dense<0.0> : tensor<4x4xf32>
    %w1 = fusion.constant dense<1.0> : tensor<4x4xf32>
    %first = fusion.group loop (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    %early:2 = fusion.group loop (%a = %first : tensor<4x4xf32>, %b = %other : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      %5 = fusion.sub %a, %b : tensor<4x4xf32>
      fusion.yield %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>
    }
    %0:3 = fusion.group horizontal (%a = %early#0 : tensor<4x4xf32>, %b = %w0 : tensor<4x4xf32>, %c = %w1 : tensor<4x4xf32>, %d = %w2 : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) attributes {fusion.call = {op = "matmul", dtype = "f32", inputShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], weightShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], outputShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], members = 3, operands = array<i64: 0, 1, 4, 0, 2, 5, 0, 3, 6>}} {
      %1 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %b : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      %2 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %c : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      %3 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %d : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      fusion.yield %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    // The second member's result is read longer than the others'.
    %late = fusion.group loop (%a = %0#0 : tensor<4x4xf32>, %b = %0#2 : tensor<4x4xf32>, %c = %early#1 : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      %5 = fusion.add %4, %c : tensor<4x4xf32>
      fusion.yield %5 : tensor<4x4xf32>
    }
    %last = fusion.group loop (%a = %late : tensor<4x4xf32>, %b = %0#1 : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    return %last, %late : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// On a CPU constants lie in the order of the model.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.call "matmul"
// CHECK-SAME: [#fusion.access<read, <@arena, 64, 64 of 2>>, #fusion.access<read, <@weights, 128, 64>>, #fusion.access<write, <@arena, 0, 64 of 4>>, #fusion.access<read, <@arena, 64, 64 of 2>>, #fusion.access<read, <@weights, 192, 64>>, #fusion.access<write, <@arena, 192, 64 of 5>>, #fusion.access<read, <@arena, 64, 64 of 2>>, #fusion.access<read, <@weights, 0, 64>>, #fusion.access<write, <@arena, 256, 64 of 6>>]
module attributes {fusion.target = "cpu"} {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 16>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %w2 = fusion.constant dense<2.0> : tensor<4x4xf32>
    %other = fusion.constant dense<9.0> : tensor<4x4xf32>
    %w0 = fusion.constant dense<0.0> : tensor<4x4xf32>
    %w1 = fusion.constant dense<1.0> : tensor<4x4xf32>
    %first = fusion.group loop (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    %early:2 = fusion.group loop (%a = %first : tensor<4x4xf32>, %b = %other : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      %5 = fusion.sub %a, %b : tensor<4x4xf32>
      fusion.yield %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>
    }
    %0:3 = fusion.group horizontal (%a = %early#0 : tensor<4x4xf32>, %b = %w0 : tensor<4x4xf32>, %c = %w1 : tensor<4x4xf32>, %d = %w2 : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) attributes {fusion.call = {op = "matmul", dtype = "f32", inputShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], weightShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], outputShape = [#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>], members = 3, operands = array<i64: 0, 1, 4, 0, 2, 5, 0, 3, 6>}} {
      %1 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %b : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      %2 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %c : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      %3 = fusion.group library (%e = %a : tensor<4x4xf32>, %f = %d : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %4 = fusion.matmul %e, %f : tensor<4x4xf32>, tensor<4x4xf32>
        fusion.yield %4 : tensor<4x4xf32>
      }
      fusion.yield %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    // The second member's result is read longer than the others'.
    %late = fusion.group loop (%a = %0#0 : tensor<4x4xf32>, %b = %0#2 : tensor<4x4xf32>, %c = %early#1 : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      %5 = fusion.add %4, %c : tensor<4x4xf32>
      fusion.yield %5 : tensor<4x4xf32>
    }
    %last = fusion.group loop (%a = %late : tensor<4x4xf32>, %b = %0#1 : tensor<4x4xf32>) -> tensor<4x4xf32> kernel @kernels::@k {
      %4 = fusion.add %a, %b : tensor<4x4xf32>
      fusion.yield %4 : tensor<4x4xf32>
    }
    return %last, %late : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
