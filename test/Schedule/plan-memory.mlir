// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule | FileCheck %s --enable-var-scope
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory -o %t.once
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-plan-memory -o %t.twice
// RUN: diff %t.once %t.twice

// A chain: the input and the output are segments of their own, the value between
// them is in the arena, and each group is one launch.
// CHECK-LABEL: fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 64
// CHECK-DAG:   fusion.segment @in0 {{ *}}input size = 16
// CHECK-DAG:   fusion.segment @out0 {{ *}}output size = 16
// CHECK-DAG:   fusion.segment @arena {{ *}}private size = 64
// CHECK:       fusion.port {{ *}}input "x" @in0 : tensor<4xf32>
// CHECK:       fusion.port {{ *}}output "out0" @out0 : tensor<4xf32>
// CHECK:       fusion.launch @kernels::@k stream = 0 units = <0 * B + 1> grain = 1
// CHECK-SAME:  [#fusion.access<{{ *}}read, <@in0, 0, 16>, f32>, #fusion.access<{{ *}}write, <@arena, 0, 16 of {{[0-9]+}}>, f32>]
// CHECK-NEXT:  fusion.launch @kernels::@k
// CHECK-SAME:  [#fusion.access<{{ *}}read, <@arena, 0, 16 of {{[0-9]+}}>, f32>, #fusion.access<{{ *}}write, <@out0, 0, 16>, f32>]
// CHECK-NOT:   func.func @main
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32> {fusion.name = "x"}) -> tensor<4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %2 = fusion.exp %a : tensor<4xf32>
      fusion.yield %2 : tensor<4xf32>
    }
    %1 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %2 = fusion.exp %a : tensor<4xf32>
      fusion.yield %2 : tensor<4xf32>
    }
    return %1 : tensor<4xf32>
  }
}

// -----

// A second result that nobody reads lives while its own group runs: it must not
// share bytes with what the group reads or writes besides it.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.launch
// CHECK:       fusion.launch @kernels::@two
// CHECK-SAME:  #fusion.access<{{ *}}read, <@arena, [[READ:[0-9]+]], 16 of {{[0-9]+}}>, f32>
// CHECK-SAME:  #fusion.access<{{ *}}write, <@out0, 0, 16>, f32>
// CHECK-NOT:   <@arena, [[READ]], 16 of {{[0-9]+}}>, f32>]
// CHECK-SAME:  #fusion.access<{{ *}}write, <@arena,
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
    func.func @two(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %2 = fusion.exp %a : tensor<4xf32>
      fusion.yield %2 : tensor<4xf32>
    }
    %1:2 = fusion.group loop (%a = %0 : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) kernel @kernels::@two {
      %2 = fusion.exp %a : tensor<4xf32>
      %3 = fusion.neg %2 : tensor<4xf32>
      fusion.yield %2, %3 : tensor<4xf32>, tensor<4xf32>
    }
    return %1#0 : tensor<4xf32>
  }
}

// -----

// In place: the second group takes over the bytes of the value it is the last to
// read; a reshape between them is a view.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 64
// CHECK:       fusion.launch @kernels::@k
// CHECK-SAME:  write, <@arena, 0, 16 of {{[0-9]+}}>, f32>
// CHECK:       fusion.launch @kernels::@k
// CHECK-SAME:  read_write, <@arena, 0, 16 of {{[0-9]+}}>, f32>
// CHECK-SAME:  read_write, <@arena, 0, 16 of {{[0-9]+}}>, f32>
// CHECK:       fusion.launch @kernels::@k
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<4xf32>
      fusion.yield %4 : tensor<4xf32>
    }
    %1 = fusion.reshape %0 : tensor<4xf32> to tensor<2x2xf32>
    %2 = fusion.group loop (%a = %1 : tensor<2x2xf32>) -> tensor<2x2xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %4 = fusion.exp %a : tensor<2x2xf32>
      fusion.yield %4 : tensor<2x2xf32>
    }
    %3 = fusion.group loop (%a = %2 : tensor<2x2xf32>) -> tensor<2x2xf32> kernel @kernels::@k {
      %4 = fusion.exp %a : tensor<2x2xf32>
      fusion.yield %4 : tensor<2x2xf32>
    }
    return %3 : tensor<2x2xf32>
  }
}

// -----

// What is returned without being computed is copied: an input, a constant, and a
// value that is returned twice. A batch makes sizes affine.
// CHECK-LABEL: fusion.program @main batch = [1, 8]
// CHECK-DAG:   fusion.segment @weights {{ *}}const size = 64
// CHECK:       fusion.content <@weights, 0, 8> value dense<{{.*}}> : tensor<2xf32> : tensor<2xf32>
// CHECK:       fusion.launch @kernels::@k stream = 0 units = <1 * B + 0>
// CHECK-DAG:   fusion.copy stream = 0 from <@out0, 0, 128> to <@out1, 0, 128> size = <16 * B + 0>
// CHECK-DAG:   fusion.copy stream = 0 from <@in0, 0, 128> to <@out2, 0, 128> size = <16 * B + 0>
// CHECK-DAG:   fusion.copy stream = 0 from <@weights, 0, 8> to <@out3, 0, 8> size = <0 * B + 8>
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<1 * B + 0>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2xf32>) attributes {fusion.batch = array<i64: 1, 8>} {
    %c = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %0 = fusion.group loop (%a = %x : tensor<?x4xf32>) -> tensor<?x4xf32> kernel @kernels::@k {
      %1 = fusion.exp %a : tensor<?x4xf32>
      fusion.yield %1 : tensor<?x4xf32>
    }
    return %0, %0, %x, %c : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2xf32>
  }
}

// -----

// A library call with a tail: the tail reads and writes the call's output in place.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.call "avg_pool" stream = 0
// CHECK-SAME:  [#fusion.access<{{ *}}read, <@in0, 0, 64>>, #fusion.access<{{ *}}write, <@out0, 0, 16>>]
// CHECK-SAME:  tail @kernels::@t units = <0 * B + 1> grain = 1 [#fusion.access<{{ *}}read_write, <@out0, 0, 16>, f32>]
module {
  module @kernels {
    func.func @t(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> {
    %0 = fusion.group library (%a = %x : tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> kernel @kernels::@t
        attributes {fusion.call = {op = "avg_pool", dtype = "f32", operands = array<i64: 0, 1>,
                                   channelsLast = true, window = array<i64: 2, 2>, strides = array<i64: 2, 2>,
                                   padLow = array<i64: 0, 0>, padHigh = array<i64: 0, 0>, dilations = array<i64: 1, 1>,
                                   inputShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>],
                                   outputShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]},
                    fusion.tail_operands = array<i64: 1>} {
      %1 = fusion.avg_pool %a window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc : tensor<1x4x4x1xf32>
      %2 = fusion.relu %1 : tensor<1x2x2x1xf32>
      fusion.yield %2 : tensor<1x2x2x1xf32>
    }
    return %0 : tensor<1x2x2x1xf32>
  }
}
