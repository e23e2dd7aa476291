// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule --verify-diagnostics | FileCheck %s --enable-var-scope

// Both pieces are computed inside the value that is read behind them, 32 bytes
// long, and alive from the first piece on: what is computed in between lies
// elsewhere. The concat itself is no command.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 128
// CHECK: fusion.launch {{.*}}read, <@in0, 0, 16>, f32>{{.*}}write, <@arena, [[P:[0-9]+]], 16 of 1>
// CHECK: fusion.launch {{.*}}write, <@arena, {{[0-9]+}}, 16 of 2>
// CHECK: fusion.launch {{.*}}read, <@arena, {{[0-9]+}}, 16 of 2>{{.*}}write, <@arena, {{[0-9]+}}, 16 of 1>
// CHECK: fusion.launch {{.*}}read, <@arena, [[P]], 32 of 1>{{.*}}write, <@out0, 0, 32>
// CHECK-NOT: fusion.launch
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %2 = fusion.group loop (%a = %1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %3 = fusion.group loop (%a = %0 : tensor<4xf32>, %b = %2 : tensor<4xf32>) -> tensor<8xf32> attributes {fusion.pieces = array<i64: 0, 16>} {
      %9 = fusion.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %4 = fusion.group loop (%a = %3 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    return %4 : tensor<8xf32>
  }
}

// -----

// Returned: the pieces are written into the result's segment.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 0
// CHECK: fusion.launch {{.*}}write, <@out0, 16, 16>
// CHECK: fusion.launch {{.*}}write, <@out0, 0, 16>
// CHECK-NOT: fusion.copy
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %3 = fusion.group loop (%a = %0 : tensor<4xf32>, %b = %1 : tensor<4xf32>) -> tensor<8xf32> attributes {fusion.pieces = array<i64: 16, 0>} {
      %9 = fusion.concat %b, %a axis = 0 : tensor<4xf32>, tensor<4xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    return %3 : tensor<8xf32>
  }
}

// -----

module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    // expected-error @below {{'fusion.pieces': operand 1 is not computed for this group alone}}
    %3 = fusion.group loop (%a = %0 : tensor<4xf32>, %b = %x : tensor<4xf32>) -> tensor<8xf32> attributes {fusion.pieces = array<i64: 0, 16>} {
      %9 = fusion.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    return %3 : tensor<8xf32>
  }
}

// -----

module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    // expected-error @below {{'fusion.pieces' leaves its output: 16 bytes at 16 of 16}}
    %3 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> attributes {fusion.pieces = array<i64: 16>} {
      %9 = fusion.concat %a axis = 0 : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    return %3 : tensor<4xf32>
  }
}
