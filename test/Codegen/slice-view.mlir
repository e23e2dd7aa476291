// RUN: fusion-opt %s -split-input-file --fusion-emit-kernels | FileCheck %s

// A slice whose elements lie together in its input has no kernel: the attribute
// says at which byte it begins. Rows 2 and 3 of 6 f32, 24 bytes each.
// CHECK-LABEL: func.func @rows
// CHECK: fusion.group loop ({{.*}}) -> tensor<2x6xf32> attributes {fusion.view = array<i64: 48>}
// CHECK: fusion.group loop ({{.*}}) -> tensor<2x6xf32> kernel @kernels::@k0
func.func @rows(%x: tensor<4x6xf32>) -> tensor<2x6xf32> {
  %0 = fusion.group loop (%a = %x : tensor<4x6xf32>) -> tensor<2x6xf32> {
    %2 = fusion.slice %a starts = [2, 0] limits = [4, 6] strides = [1, 1] : tensor<4x6xf32>
    fusion.yield %2 : tensor<2x6xf32>
  }
  %1 = fusion.group loop (%a = %0 : tensor<2x6xf32>) -> tensor<2x6xf32> {
    %2 = fusion.exp %a : tensor<2x6xf32>
    fusion.yield %2 : tensor<2x6xf32>
  }
  return %1 : tensor<2x6xf32>
}

// -----

// One position of the outer dimension, a part of the middle one, the inner one
// whole: element 1 * 12 + 2 * 3 of f16. Then the view of a reshape of a slice.
// A whole batch in front has no offset.
// CHECK-LABEL: func.func @inner
// CHECK: fusion.view = array<i64: 36>
// CHECK: fusion.view = array<i64: 8>
func.func @inner(%x: tensor<5x4x3xf16>, %y: tensor<8xi8>) -> (tensor<1x2x3xf16>, tensor<1x2xi8>) {
  %0 = fusion.group loop (%a = %x : tensor<5x4x3xf16>) -> tensor<1x2x3xf16> {
    %2 = fusion.slice %a starts = [1, 2, 0] limits = [2, 4, 3] strides = [1, 1, 1] : tensor<5x4x3xf16>
    fusion.yield %2 : tensor<1x2x3xf16>
  }
  %1 = fusion.group loop (%a = %0 : tensor<1x2x3xf16>) -> tensor<1x2x3xf16> {
    %2 = fusion.neg %a : tensor<1x2x3xf16>
    fusion.yield %2 : tensor<1x2x3xf16>
  }
  %3 = fusion.group loop (%a = %1 : tensor<1x2x3xf16>) -> tensor<1x2xf16> {
    %2 = fusion.reshape %a : tensor<1x2x3xf16> to tensor<3x2xf16>
    %4 = fusion.slice %2 starts = [2, 0] limits = [3, 2] strides = [1, 1] : tensor<3x2xf16>
    fusion.yield %4 : tensor<1x2xf16>
  }
  %5 = fusion.group loop (%a = %3 : tensor<1x2xf16>) -> tensor<1x2xi8> {
    %2 = fusion.cast %a : tensor<1x2xf16> to tensor<1x2xi8>
    fusion.yield %2 : tensor<1x2xi8>
  }
  return %1, %5 : tensor<1x2x3xf16>, tensor<1x2xi8>
}

// -----

// All members of a launch are views, one offset each.
// CHECK-LABEL: func.func @launch
// CHECK: fusion.group horizontal {{.*}} attributes {fusion.view = array<i64: 8, 8>}
// CHECK-NOT: kernel @kernels::@k1
func.func @launch(%x: tensor<4xf32>, %y: tensor<6xf32>) -> tensor<2xf32> {
  %0:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<6xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %2 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<2xf32> {
      %4 = fusion.slice %c starts = [2] limits = [4] strides = [1] : tensor<4xf32>
      fusion.yield %4 : tensor<2xf32>
    }
    %3 = fusion.group loop (%c = %b : tensor<6xf32>) -> tensor<2xf32> {
      %4 = fusion.slice %c starts = [2] limits = [4] strides = [1] : tensor<6xf32>
      fusion.yield %4 : tensor<2xf32>
    }
    fusion.yield %2, %3 : tensor<2xf32>, tensor<2xf32>
  }
  %1 = fusion.group loop (%a = %0#0 : tensor<2xf32>, %b = %0#1 : tensor<2xf32>) -> tensor<2xf32> {
    %2 = fusion.add %a, %b : tensor<2xf32>
    fusion.yield %2 : tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}

// -----

// Copied: columns, every other row, rows behind a batch, nothing at all, and what
// the function returns.
// CHECK-LABEL: func.func @copied
// CHECK-NOT: fusion.view
func.func @copied(%x: tensor<4x6xf32>, %y: tensor<?x4xf32>) -> (tensor<4x2xf32>, tensor<2x6xf32>, tensor<?x2xf32>, tensor<2x6xf32>, tensor<0x6xf32>) attributes {fusion.batch = array<i64: 1, 4>} {
  %0 = fusion.group loop (%a = %x : tensor<4x6xf32>) -> tensor<4x2xf32> {
    %9 = fusion.slice %a starts = [0, 2] limits = [4, 4] strides = [1, 1] : tensor<4x6xf32>
    fusion.yield %9 : tensor<4x2xf32>
  }
  %1 = fusion.group loop (%a = %0 : tensor<4x2xf32>) -> tensor<4x2xf32> {
    %9 = fusion.exp %a : tensor<4x2xf32>
    fusion.yield %9 : tensor<4x2xf32>
  }
  %2 = fusion.group loop (%a = %x : tensor<4x6xf32>) -> tensor<2x6xf32> {
    %9 = fusion.slice %a starts = [0, 0] limits = [4, 6] strides = [2, 1] : tensor<4x6xf32>
    fusion.yield %9 : tensor<2x6xf32>
  }
  %3 = fusion.group loop (%a = %2 : tensor<2x6xf32>) -> tensor<2x6xf32> {
    %9 = fusion.exp %a : tensor<2x6xf32>
    fusion.yield %9 : tensor<2x6xf32>
  }
  %4 = fusion.group loop (%a = %y : tensor<?x4xf32>) -> tensor<?x2xf32> {
    %9 = fusion.slice %a starts = [0, 2] limits = [-1, 4] strides = [1, 1] : tensor<?x4xf32>
    fusion.yield %9 : tensor<?x2xf32>
  }
  %5 = fusion.group loop (%a = %4 : tensor<?x2xf32>) -> tensor<?x2xf32> {
    %9 = fusion.exp %a : tensor<?x2xf32>
    fusion.yield %9 : tensor<?x2xf32>
  }
  %6 = fusion.group loop (%a = %x : tensor<4x6xf32>) -> tensor<2x6xf32> {
    %9 = fusion.slice %a starts = [0, 0] limits = [2, 6] strides = [1, 1] : tensor<4x6xf32>
    fusion.yield %9 : tensor<2x6xf32>
  }
  %7 = fusion.group loop (%a = %x : tensor<4x6xf32>) -> tensor<0x6xf32> {
    %9 = fusion.slice %a starts = [2, 0] limits = [2, 6] strides = [1, 1] : tensor<4x6xf32>
    fusion.yield %9 : tensor<0x6xf32>
  }
  %8 = fusion.group loop (%a = %7 : tensor<0x6xf32>) -> tensor<0x6xf32> {
    %9 = fusion.exp %a : tensor<0x6xf32>
    fusion.yield %9 : tensor<0x6xf32>
  }
  return %1, %3, %5, %6, %8 : tensor<4x2xf32>, tensor<2x6xf32>, tensor<?x2xf32>, tensor<2x6xf32>, tensor<0x6xf32>
}
