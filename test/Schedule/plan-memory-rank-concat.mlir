// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule --verify-diagnostics | FileCheck %s --enable-var-scope

// Each product of rows is computed where its rank's are in the result, 16 bytes
// for each of three ranks: the own ones lie at the rank's place, those of the
// rank behind it one place further, and those of the last in two pieces.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 0
// CHECK: fusion.launch {{.*}}write, <@out0, 0, 32 turned <32, 0, ["tp"]>>
// CHECK: fusion.launch {{.*}}write, <@out0, 0, 32 turned <32, 1, ["tp"]>>
// CHECK: fusion.launch {{.*}}write, <@out0, 0, 16 turned <32, 2, ["tp"]>>
// CHECK: fusion.launch {{.*}}write, <@out0, 16, 16 turned <32, 2, ["tp"]>>
// CHECK-NOT: fusion.copy
module {
  fusion.mesh @m(dp = 2, tp = 3)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<2x4xf32>, %y: tensor<1x4xf32>) -> tensor<6x4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<2x4xf32>) -> tensor<2x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<2x4xf32>
      fusion.yield %9 : tensor<2x4xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<2x4xf32>) -> tensor<2x4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<2x4xf32>
      fusion.yield %9 : tensor<2x4xf32>
    }
    %2 = fusion.group loop (%a = %y : tensor<1x4xf32>) -> tensor<1x4xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<1x4xf32>
      fusion.yield %9 : tensor<1x4xf32>
    }
    %3 = fusion.group loop (%a = %y : tensor<1x4xf32>) -> tensor<1x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<1x4xf32>
      fusion.yield %9 : tensor<1x4xf32>
    }
    %4 = fusion.rank_concat %0, %1, %2, %3 on @m[tp] : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
    return %4 : tensor<6x4xf32>
  }
}

// -----

// In the arena, alive from the first piece on, and read whole. What is no
// kernel's result, or read by others too, is copied to its place.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch {{.*}}write, <@arena, [[P:[0-9]+]], 16 of [[N:[0-9]+]] turned <16, 1, ["tp"]>>
// CHECK: fusion.copy stream = 0 from <@in0, 0, 16> to <@arena, [[P]], 16 of [[N]] turned <16, 0, ["tp"]>> size = <0 * B + 16>
// CHECK: fusion.launch {{.*}}read, <@arena, [[P]], 32 of [[N]]>
module {
  fusion.mesh @m(tp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<1x4xf32>) -> tensor<1x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<1x4xf32>
      fusion.yield %9 : tensor<1x4xf32>
    }
    %1 = fusion.rank_concat %x, %0 on @m[tp] : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %2 = fusion.group loop (%a = %1 : tensor<2x4xf32>) -> tensor<2x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<2x4xf32>
      fusion.yield %9 : tensor<2x4xf32>
    }
    return %2 : tensor<2x4xf32>
  }
}

// -----

// Boundary: rows of 12 bytes begin where no kernel may write; no rows.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch
// CHECK: fusion.launch
// CHECK: fusion.copy {{.*}} to <@out0, 0, 12 turned <12, 0, ["tp"]>>
// CHECK: fusion.copy {{.*}} to <@out0, 0, 12 turned <12, 1, ["tp"]>>
// CHECK-NOT: fusion.copy
module {
  fusion.mesh @m(tp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1x3xf32>, %e: tensor<0x3xf32>) -> (tensor<2x3xf32>, tensor<0x3xf32>) {
    %0 = fusion.group loop (%a = %x : tensor<1x3xf32>) -> tensor<1x3xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<1x3xf32>
      fusion.yield %9 : tensor<1x3xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<1x3xf32>) -> tensor<1x3xf32> kernel @kernels::@k {
      %9 = fusion.neg %a : tensor<1x3xf32>
      fusion.yield %9 : tensor<1x3xf32>
    }
    %2 = fusion.rank_concat %0, %1 on @m[tp] : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
    %3 = fusion.rank_concat %e, %e on @m[tp] : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<0x3xf32>
    return %2, %3 : tensor<2x3xf32>, tensor<0x3xf32>
  }
}

// -----

// A result that takes an argument's bytes: nothing is written there before the
// argument was read.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch {{.*}}write, <@arena, {{[0-9]+}}, 16 of {{[0-9]+}}>
// CHECK: fusion.launch
// CHECK: fusion.copy {{.*}} to <@out0, 0, 16 turned <16, 0, ["tp"]>>
// CHECK: fusion.copy {{.*}} to <@out0, 0, 16 turned <16, 1, ["tp"]>>
module {
  fusion.mesh @m(tp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1x4xf32>, %d: tensor<2x4xf32> {fusion.donated = 0 : i64}) -> tensor<2x4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<1x4xf32>) -> tensor<1x4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<1x4xf32>
      fusion.yield %9 : tensor<1x4xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<1x4xf32>, %b = %d : tensor<2x4xf32>) -> tensor<1x4xf32> kernel @kernels::@k {
      %8 = fusion.slice %b starts = [1, 0] limits = [2, 4] strides = [1, 1] : tensor<2x4xf32>
      %9 = fusion.add %a, %8 : tensor<1x4xf32>
      fusion.yield %9 : tensor<1x4xf32>
    }
    %2 = fusion.rank_concat %0, %1 on @m[tp] : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}
