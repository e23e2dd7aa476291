// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule | FileCheck %s

// A horizontal launch: its members' operands one after the other. Only the first
// member may write over what it reads: the second one's input is read again, and
// both members of the last launch read the same bytes.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.launch @kernels::@k
// CHECK: fusion.launch @kernels::@h
// CHECK-SAME: [#fusion.access<read_write, <@arena, [[A:[0-9]+]], 16 of 1>, f32>, #fusion.access<read_write, <@arena, [[A]], 16 of 1>, f32>, #fusion.access<{{ *}}read, <@arena, [[B:[0-9]+]], 16 of 2>, f32>, #fusion.access<{{ *}}write, <@arena, {{[0-9]+}}, 16 of 3>, f32>]
// CHECK: fusion.launch @kernels::@h
// CHECK-SAME: [#fusion.access<{{ *}}read, <@arena, [[B]], 16 of 2>, f32>, #fusion.access<{{ *}}write, <@out0, 0, 16>, f32>, #fusion.access<{{ *}}read, <@arena, [[B]], 16 of 2>, f32>, #fusion.access<{{ *}}write, <@out1, 0, 16>, f32>]
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
    func.func @h(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0:2 = fusion.group loop (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<4xf32>
      %5 = fusion.neg %a : tensor<4xf32>
      fusion.yield %4, %5 : tensor<4xf32>, tensor<4xf32>
    }
    %1:2 = fusion.group horizontal (%a = %0#0 : tensor<4xf32>, %b = %0#1 : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) kernel @kernels::@h attributes {fusion.in_place = array<i64: 0, 0, 1, 1>, fusion.kernel_operands = array<i64: 0, 2, 1, 3>} {
      %4 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
        %6 = fusion.exp %c : tensor<4xf32>
        fusion.yield %6 : tensor<4xf32>
      }
      %5 = fusion.group loop (%c = %b : tensor<4xf32>) -> tensor<4xf32> {
        %6 = fusion.exp %c : tensor<4xf32>
        fusion.yield %6 : tensor<4xf32>
      }
      fusion.yield %4, %5 : tensor<4xf32>, tensor<4xf32>
    }
    %2:2 = fusion.group horizontal (%a = %0#1 : tensor<4xf32>, %b = %0#1 : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) kernel @kernels::@h attributes {fusion.in_place = array<i64: 0, 0, 1, 1>, fusion.kernel_operands = array<i64: 0, 2, 1, 3>} {
      %4 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
        %6 = fusion.exp %c : tensor<4xf32>
        fusion.yield %6 : tensor<4xf32>
      }
      %5 = fusion.group loop (%c = %b : tensor<4xf32>) -> tensor<4xf32> {
        %6 = fusion.exp %c : tensor<4xf32>
        fusion.yield %6 : tensor<4xf32>
      }
      fusion.yield %4, %5 : tensor<4xf32>, tensor<4xf32>
    }
    %3:2 = fusion.group loop (%a = %1#0 : tensor<4xf32>, %b = %1#1 : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<4xf32>
      %5 = fusion.neg %b : tensor<4xf32>
      fusion.yield %4, %5 : tensor<4xf32>, tensor<4xf32>
    }
    return %2#0, %2#1, %3#0, %3#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A grouped call reads and writes each member's operands; the tail reads and
// writes what the call wrote, each in place.
// CHECK-LABEL: fusion.program @main
// CHECK: fusion.call "avg_pool" stream = 0
// CHECK-SAME: [#fusion.access<{{ *}}read, <@in0, 0, 16>>, #fusion.access<{{ *}}write, <@out0, 0, 16>>, #fusion.access<{{ *}}read, <@in1, 0, 16>>, #fusion.access<{{ *}}write, <@out1, 0, 16>>]
// CHECK-SAME: tail @kernels::@h units = <0 * B + 8> grain = 1 [#fusion.access<read_write, <@out0, 0, 16>, f32>, #fusion.access<read_write, <@out1, 0, 16>, f32>]
// CHECK-SAME: members = 2
module {
  module @kernels {
    func.func @h(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1x1x2x2xf32>, %y: tensor<1x1x2x2xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
    %0:2 = fusion.group horizontal (%a = %x : tensor<1x1x2x2xf32>, %b = %y : tensor<1x1x2x2xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) kernel @kernels::@h attributes {fusion.call = {op = "avg_pool", dtype = "f32", channelsLast = false, inputShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>], outputShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>], window = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, padLow = array<i64: 0, 0>, padHigh = array<i64: 0, 0>, members = 2, operands = array<i64: 0, 2, 1, 3>}, fusion.tail_operands = array<i64: 2, 3>} {
      %1 = fusion.group library (%c = %a : tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
        %3 = fusion.neg %c : tensor<1x1x2x2xf32>
        fusion.yield %3 : tensor<1x1x2x2xf32>
      }
      %2 = fusion.group library (%c = %b : tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
        %3 = fusion.neg %c : tensor<1x1x2x2xf32>
        fusion.yield %3 : tensor<1x1x2x2xf32>
      }
      fusion.yield %1, %2 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
    }
    return %0#0, %0#1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
  }
}
