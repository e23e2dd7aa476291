// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Views of the arena: two halves of 16 bytes, and a view of a view. The base
// lives until its last view is read, so what is computed in between lies
// elsewhere; and it is not computed in place, though the code allows it.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 192
// CHECK: fusion.launch {{.*}}<@in0, 0, 32>{{.*}}write, <@arena, [[BASE:[0-9]+]], 32 of 1>
// CHECK: fusion.launch {{.*}}read, <@arena, {{[0-9]+}}, 16 of 1>, f32>, #fusion.access<{{ *}}write, <@arena, [[LOW:[0-9]+]], 16 of 2>
// CHECK: fusion.launch {{.*}}read, <@arena, {{[0-9]+}}, 32 of 1>, f32>, #fusion.access<{{ *}}write, <@arena, {{[0-9]+}}, 32 of 3>
// CHECK: fusion.launch {{.*}}read, <@arena, {{[0-9]+}}, 8 of 1>, f32>, #fusion.access<{{ *}}write, <@out0, 0, 8>
// REMARK: ViewBytes=40
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<8xf32>) {
    %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %1 = fusion.group loop (%a = %0 : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 0>} {
      %9 = fusion.slice %a starts = [0] limits = [4] strides = [1] : tensor<8xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %2 = fusion.group loop (%a = %0 : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 16>} {
      %9 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %3 = fusion.group loop (%a = %2 : tensor<4xf32>) -> tensor<2xf32> attributes {fusion.view = array<i64: 8>} {
      %9 = fusion.slice %a starts = [2] limits = [4] strides = [1] : tensor<4xf32>
      fusion.yield %9 : tensor<2xf32>
    }
    %4 = fusion.group loop (%a = %1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %5 = fusion.group loop (%a = %0 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %6 = fusion.group loop (%a = %3 : tensor<2xf32>) -> tensor<2xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<2xf32>
      fusion.yield %9 : tensor<2xf32>
    }
    %7 = fusion.group loop (%a = %4 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %8 = fusion.group loop (%a = %5 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    return %6, %7, %8 : tensor<2xf32>, tensor<4xf32>, tensor<8xf32>
  }
}

// -----

// The group that reads the base last, and none of its views, may compute over it.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 64
// CHECK: fusion.launch {{.*}}write, <@arena, 0, 32 of 1>
// CHECK: fusion.launch {{.*}}read, <@arena, 16, 16 of 1>, f32>, #fusion.access<{{ *}}write, <@out0, 0, 16>
// CHECK: fusion.launch {{.*}}read_write, <@arena, 0, 32 of 1>, f32>, #fusion.access<{{ *}}read_write, <@arena, 0, 32 of 1>
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
    %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %1 = fusion.group loop (%a = %0 : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 16>} {
      %9 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %2 = fusion.group loop (%a = %1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %3 = fusion.group loop (%a = %0 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %4 = fusion.group loop (%a = %3 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    return %2, %4 : tensor<4xf32>, tensor<8xf32>
  }
}

// -----

// Views of an input and of a constant are ranges of their segments.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch {{.*}}read, <@in0, 8, 16>
// CHECK: fusion.launch {{.*}}read, <@weights, 4, 8>
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %c = fusion.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 8>} {
      %9 = fusion.slice %a starts = [2] limits = [6] strides = [1] : tensor<8xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %1 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %2 = fusion.group loop (%a = %c : tensor<3xf32>) -> tensor<2xf32> attributes {fusion.view = array<i64: 4>} {
      %9 = fusion.slice %a starts = [1] limits = [3] strides = [1] : tensor<3xf32>
      fusion.yield %9 : tensor<2xf32>
    }
    %3 = fusion.group loop (%a = %2 : tensor<2xf32>) -> tensor<2xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<2xf32>
      fusion.yield %9 : tensor<2xf32>
    }
    return %1, %3 : tensor<4xf32>, tensor<2xf32>
  }
}

// -----

// A donated argument is not written over while a view of it is still read: the
// result is computed aside and copied at the end.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch {{.*}}read, <@in0, 0, 32>, f32>, #fusion.access<{{ *}}write, <@arena,
// CHECK: fusion.launch {{.*}}read, <@in0, 16, 16>
// CHECK: fusion.copy {{.*}} to <@out0, 0, 32>
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8xf32> {fusion.donated = 0 : i64}) -> (tensor<8xf32>, tensor<4xf32>) {
    %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 16>} {
      %9 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    %1 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %9 = fusion.exp %a : tensor<8xf32>
      fusion.yield %9 : tensor<8xf32>
    }
    %2 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %9 = fusion.exp %a : tensor<4xf32>
      fusion.yield %9 : tensor<4xf32>
    }
    return %1, %2 : tensor<8xf32>, tensor<4xf32>
  }
}
