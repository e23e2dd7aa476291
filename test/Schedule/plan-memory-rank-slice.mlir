// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule --verify-diagnostics | FileCheck %s --enable-var-scope

// A rank's part is no command: its reader's range lies at the rank's place, 32 bytes
// for each of three ranks, behind 16 bytes that are no rank's. What it is a part of
// lives until it is read, and is not computed over.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 256
// CHECK: fusion.launch {{.*}}write, <@arena, 0, 128 of [[N:[0-9]+]]>
// CHECK: fusion.launch {{.*}}read, <@arena, 0, 128 of [[N]]>{{.*}}write, <@arena, 128, 128 of
// CHECK: fusion.launch {{.*}}read, <@arena, 16, 32 of [[N]] turned <32, 0, ["tp"]>>{{.*}}write, <@out0, 0, 32>
// CHECK-NOT: fusion.copy
module {
  fusion.mesh @m(dp = 2, tp = 3)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<8x4xf32>) -> tensor<8x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8x4xf32>
      fusion.yield %9 : tensor<8x4xf32>
    }
    %1 = fusion.rank_slice %0 start = 1 on @m[tp] : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %2 = fusion.group loop (%a = %0 : tensor<8x4xf32>) -> tensor<8x4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.neg %a : tensor<8x4xf32>
      fusion.yield %9 : tensor<8x4xf32>
    }
    %3 = fusion.group loop (%a = %2 : tensor<8x4xf32>, %b = %1 : tensor<2x4xf32>) -> tensor<2x4xf32> kernel @kernels::@k {
      %8 = fusion.slice %a starts = [0, 0] limits = [2, 4] strides = [1, 1] : tensor<8x4xf32>
      %9 = fusion.add %b, %8 : tensor<2x4xf32>
      fusion.yield %9 : tensor<2x4xf32>
    }
    return %3 : tensor<2x4xf32>
  }
}

// -----

// Boundary: of an argument, and of a part that is a view; a part of no rows.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch {{.*}}read, <@in0, 64, 32 turned <32, 0, ["tp", "dp"]>>
// CHECK: fusion.launch {{.*}}read, <@in0, 0, 0>
module {
  fusion.mesh @m(dp = 2, tp = 1)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<0x4xf32>) {
    %0 = fusion.group loop (%a = %x : tensor<8x4xf32>) -> tensor<4x4xf32> attributes {fusion.view = array<i64: 64>} {
      %9 = fusion.slice %a starts = [4, 0] limits = [8, 4] strides = [1, 1] : tensor<8x4xf32>
      fusion.yield %9 : tensor<4x4xf32>
    }
    %1 = fusion.rank_slice %0 start = 0 on @m[tp, dp] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = fusion.reshape %1 : tensor<2x4xf32> to tensor<8xf32>
    %3 = fusion.group loop (%a = %2 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %4 = fusion.rank_slice %x start = 0 on @m[dp] : (tensor<8x4xf32>) -> tensor<0x4xf32>
    %5 = fusion.group loop (%a = %4 : tensor<0x4xf32>) -> tensor<0x4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<0x4xf32>
      fusion.yield %9 : tensor<0x4xf32>
    }
    return %3, %5 : tensor<8xf32>, tensor<0x4xf32>
  }
}

// -----

// A rank looks for another's operand where its own is.
module {
  fusion.mesh @m(dp = 2)
  func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
    %0 = fusion.rank_slice %x start = 0 on @m[dp] : (tensor<8xf32>) -> tensor<4xf32>
    // expected-error @+1 {{an operand lies elsewhere on each rank: compute it, without 'fusion.rank_slice'}}
    %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// A result has bytes of its own.
module {
  fusion.mesh @m(dp = 2)
  func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{a result can't be a view of another value: compute it, without 'fusion.view' or 'fusion.rank_slice'}}
    %0 = fusion.rank_slice %x start = 0 on @m[dp] : (tensor<8xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// One turn a range.
module {
  fusion.mesh @m(dp = 2, tp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<16xf32>) -> tensor<4xf32> {
    %0 = fusion.rank_slice %x start = 0 on @m[dp] : (tensor<16xf32>) -> tensor<8xf32>
    // expected-error @+1 {{takes a part of what lies elsewhere on each rank}}
    %1 = fusion.rank_slice %0 start = 0 on @m[tp] : (tensor<8xf32>) -> tensor<4xf32>
    %2 = fusion.group loop (%a = %1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    return %2 : tensor<4xf32>
  }
}
