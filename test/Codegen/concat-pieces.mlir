// RUN: fusion-opt %s -split-input-file --fusion-emit-kernels --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %s -split-input-file --fusion-emit-kernels --fusion-emit-kernels | FileCheck %s

// Two values that only the concat reads, the second behind a reshape: no kernel;
// the second input begins behind 2 x 4 f32.
// CHECK-LABEL: func.func @rows
// CHECK: fusion.group loop ({{.*}}) -> tensor<5x4xf32> attributes {fusion.pieces = array<i64: 48, 0>}
// REMARK: [Passed] concat-in-place
// REMARK-NOT: concat-in-place
func.func @rows(%x: tensor<2x4xf32>, %y: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %0 = fusion.group loop (%a = %x : tensor<2x4xf32>) -> tensor<8xf32> {
    %4 = fusion.exp %a : tensor<2x4xf32>
    %5 = fusion.reshape %4 : tensor<2x4xf32> to tensor<8xf32>
    fusion.yield %5 : tensor<8xf32>
  }
  %1 = fusion.group loop (%a = %y : tensor<3x4xf32>) -> tensor<3x4xf32> {
    %4 = fusion.neg %a : tensor<3x4xf32>
    fusion.yield %4 : tensor<3x4xf32>
  }
  %2 = fusion.reshape %0 : tensor<8xf32> to tensor<2x4xf32>
  %3 = fusion.group loop (%a = %2 : tensor<2x4xf32>, %b = %1 : tensor<3x4xf32>) -> tensor<5x4xf32> {
    %4 = fusion.concat %b, %a axis = 0 : tensor<3x4xf32>, tensor<2x4xf32>
    fusion.yield %4 : tensor<5x4xf32>
  }
  return %3 : tensor<5x4xf32>
}

// -----

// The second input would begin at byte 12, where no kernel may write a vector.
// CHECK-LABEL: func.func @unaligned
// CHECK-NOT: fusion.pieces
// CHECK: return
func.func @unaligned(%x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<7xf32> {
  %0 = fusion.group loop (%a = %x : tensor<3xf32>) -> tensor<3xf32> {
    %4 = fusion.exp %a : tensor<3xf32>
    fusion.yield %4 : tensor<3xf32>
  }
  %1 = fusion.group loop (%a = %y : tensor<4xf32>) -> tensor<4xf32> {
    %4 = fusion.neg %a : tensor<4xf32>
    fusion.yield %4 : tensor<4xf32>
  }
  %3 = fusion.group loop (%a = %0 : tensor<3xf32>, %b = %1 : tensor<4xf32>) -> tensor<7xf32> {
    %4 = fusion.concat %a, %b axis = 0 : tensor<3xf32>, tensor<4xf32>
    fusion.yield %4 : tensor<7xf32>
  }
  return %3 : tensor<7xf32>
}

// -----

// An input is an argument; one is read by others too; columns are no runs of
// bytes; one value stands twice.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: fusion.pieces
// CHECK: return
func.func @refused(%x: tensor<4xf32>, %y: tensor<2x4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<2x8xf32>, tensor<8xf32>) {
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %9 = fusion.exp %a : tensor<4xf32>
    fusion.yield %9 : tensor<4xf32>
  }
  %1 = fusion.group loop (%a = %0 : tensor<4xf32>, %b = %x : tensor<4xf32>) -> tensor<8xf32> {
    %9 = fusion.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32>
    fusion.yield %9 : tensor<8xf32>
  }
  %2 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %9 = fusion.neg %a : tensor<4xf32>
    fusion.yield %9 : tensor<4xf32>
  }
  %3 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %9 = fusion.abs %a : tensor<4xf32>
    fusion.yield %9 : tensor<4xf32>
  }
  %4 = fusion.group loop (%a = %2 : tensor<4xf32>, %b = %3 : tensor<4xf32>) -> tensor<8xf32> {
    %9 = fusion.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32>
    fusion.yield %9 : tensor<8xf32>
  }
  %5 = fusion.group loop (%a = %y : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %9 = fusion.exp %a : tensor<2x4xf32>
    fusion.yield %9 : tensor<2x4xf32>
  }
  %6 = fusion.group loop (%a = %y : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %9 = fusion.neg %a : tensor<2x4xf32>
    fusion.yield %9 : tensor<2x4xf32>
  }
  %7 = fusion.group loop (%a = %5 : tensor<2x4xf32>, %b = %6 : tensor<2x4xf32>) -> tensor<2x8xf32> {
    %9 = fusion.concat %a, %b axis = 1 : tensor<2x4xf32>, tensor<2x4xf32>
    fusion.yield %9 : tensor<2x8xf32>
  }
  %8 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %9 = fusion.abs %a : tensor<4xf32>
    fusion.yield %9 : tensor<4xf32>
  }
  %10 = fusion.group loop (%a = %8 : tensor<4xf32>) -> tensor<8xf32> {
    %9 = fusion.concat %a, %a axis = 0 : tensor<4xf32>, tensor<4xf32>
    fusion.yield %9 : tensor<8xf32>
  }
  return %1, %4, %2, %7, %10 : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<2x8xf32>, tensor<8xf32>
}

// -----

// The result has the bytes of an argument, which a piece may be computed from.
// CHECK-LABEL: func.func @donated
// CHECK-NOT: fusion.pieces
// CHECK: return
func.func @donated(%x: tensor<8xf32> {fusion.donated = 0 : i64}) -> tensor<8xf32> {
  %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> {
    %9 = fusion.slice %a starts = [1] limits = [5] strides = [1] : tensor<8xf32>
    %8 = fusion.exp %9 : tensor<4xf32>
    fusion.yield %8 : tensor<4xf32>
  }
  %1 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> {
    %9 = fusion.slice %a starts = [0] limits = [4] strides = [1] : tensor<8xf32>
    %8 = fusion.neg %9 : tensor<4xf32>
    fusion.yield %8 : tensor<4xf32>
  }
  %3 = fusion.group loop (%a = %0 : tensor<4xf32>, %b = %1 : tensor<4xf32>) -> tensor<8xf32> {
    %9 = fusion.concat %a, %b axis = 0 : tensor<4xf32>, tensor<4xf32>
    fusion.yield %9 : tensor<8xf32>
  }
  return %3 : tensor<8xf32>
}

// -----

// A whole batch in front has no known end.
// CHECK-LABEL: func.func @batch
// CHECK-NOT: fusion.pieces
// CHECK: return
func.func @batch(%x: tensor<?x4xf32>) -> tensor<?x4xf32> attributes {fusion.batch = array<i64: 1, 4>} {
  %0 = fusion.group loop (%a = %x : tensor<?x4xf32>) -> tensor<?x4xf32> {
    %9 = fusion.exp %a : tensor<?x4xf32>
    fusion.yield %9 : tensor<?x4xf32>
  }
  %1 = fusion.group loop (%a = %x : tensor<?x4xf32>) -> tensor<?x4xf32> {
    %9 = fusion.neg %a : tensor<?x4xf32>
    fusion.yield %9 : tensor<?x4xf32>
  }
  %3 = fusion.group loop (%a = %0 : tensor<?x4xf32>, %b = %1 : tensor<?x4xf32>) -> tensor<?x4xf32> {
    %9 = fusion.concat %a, %b axis = 0 : tensor<?x4xf32>, tensor<?x4xf32>
    fusion.yield %9 : tensor<?x4xf32>
  }
  return %3 : tensor<?x4xf32>
}
