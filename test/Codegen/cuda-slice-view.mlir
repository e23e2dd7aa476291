// RUN: fusion-opt %s -split-input-file --fusion-emit-kernels=target=cuda | FileCheck %s

// cuDNN takes operands at multiples of 16 bytes: image 1 of 3 x 5 x 4 f16 begins
// at byte 120 and is copied, image 2 at byte 240 is where it is.
module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @images
// CHECK: fusion.group loop {{.*}} kernel @kernels::@k0
// CHECK: fusion.slice {{.*}} starts = [1, 0, 0, 0]
// CHECK: fusion.view = array<i64: 240>
// CHECK: fusion.slice {{.*}} starts = [2, 0, 0, 0]
func.func @images(%x: tensor<4x3x5x4xf16>, %w: tensor<8x4x3x3xf16>) -> (tensor<1x3x5x8xf16>, tensor<1x3x5x8xf16>) {
  %0 = fusion.group loop (%a = %x : tensor<4x3x5x4xf16>) -> tensor<1x3x5x4xf16> {
    %4 = fusion.slice %a starts = [1, 0, 0, 0] limits = [2, 3, 5, 4] strides = [1, 1, 1, 1] : tensor<4x3x5x4xf16>
    fusion.yield %4 : tensor<1x3x5x4xf16>
  }
  %1 = fusion.group loop (%a = %x : tensor<4x3x5x4xf16>) -> tensor<1x3x5x4xf16> {
    %4 = fusion.slice %a starts = [2, 0, 0, 0] limits = [3, 3, 5, 4] strides = [1, 1, 1, 1] : tensor<4x3x5x4xf16>
    fusion.yield %4 : tensor<1x3x5x4xf16>
  }
  %2 = fusion.group library (%a = %0 : tensor<1x3x5x4xf16>, %b = %w : tensor<8x4x3x3xf16>) -> tensor<1x3x5x8xf16> {
    %4 = fusion.conv %a, %b strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x3x5x4xf16>, tensor<8x4x3x3xf16>
    fusion.yield %4 : tensor<1x3x5x8xf16>
  }
  %3 = fusion.group library (%a = %1 : tensor<1x3x5x4xf16>, %b = %w : tensor<8x4x3x3xf16>) -> tensor<1x3x5x8xf16> {
    %4 = fusion.conv %a, %b strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x3x5x4xf16>, tensor<8x4x3x3xf16>
    fusion.yield %4 : tensor<1x3x5x8xf16>
  }
  return %2, %3 : tensor<1x3x5x8xf16>, tensor<1x3x5x8xf16>
}
}

// -----

// A part at byte 8 of a part at byte 16, through a reshape and a launch: the
// first is a view, the second is read by the library. cuBLASLt takes any part.
module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @nested
// CHECK: fusion.view = array<i64: 16>
// CHECK: fusion.group loop {{.*}} kernel @kernels::
// CHECK: fusion.view = array<i64: 40>
// CHECK: fusion.group library
// CHECK-SAME: op = "matmul"
func.func @nested(%x: tensor<40xf16>, %w: tensor<4x4x1xf16>, %m: tensor<5x5xf16>) -> (tensor<1x2x4xf16>, tensor<1x2x4xf16>, tensor<1x5xf16>) {
  %0 = fusion.group loop (%a = %x : tensor<40xf16>) -> tensor<32xf16> {
    %7 = fusion.slice %a starts = [8] limits = [40] strides = [1] : tensor<40xf16>
    fusion.yield %7 : tensor<32xf16>
  }
  %1 = fusion.group loop (%a = %0 : tensor<32xf16>) -> tensor<8xf16> {
    %7 = fusion.slice %a starts = [4] limits = [12] strides = [1] : tensor<32xf16>
    fusion.yield %7 : tensor<8xf16>
  }
  %2 = fusion.reshape %1 : tensor<8xf16> to tensor<1x2x4xf16>
  %3:2 = fusion.group horizontal (%a = %2 : tensor<1x2x4xf16>, %b = %w : tensor<4x4x1xf16>, %c = %2 : tensor<1x2x4xf16>, %d = %w : tensor<4x4x1xf16>) -> (tensor<1x2x4xf16>, tensor<1x2x4xf16>) {
    %7 = fusion.group library (%e = %a : tensor<1x2x4xf16>, %f = %b : tensor<4x4x1xf16>) -> tensor<1x2x4xf16> {
      %9 = fusion.conv %e, %f strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x2x4xf16>, tensor<4x4x1xf16>
      fusion.yield %9 : tensor<1x2x4xf16>
    }
    %8 = fusion.group library (%e = %c : tensor<1x2x4xf16>, %f = %d : tensor<4x4x1xf16>) -> tensor<1x2x4xf16> {
      %9 = fusion.conv %e, %f strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x2x4xf16>, tensor<4x4x1xf16>
      fusion.yield %9 : tensor<1x2x4xf16>
    }
    fusion.yield %7, %8 : tensor<1x2x4xf16>, tensor<1x2x4xf16>
  }
  %4 = fusion.group loop (%a = %m : tensor<5x5xf16>) -> tensor<1x5xf16> {
    %7 = fusion.slice %a starts = [4, 0] limits = [5, 5] strides = [1, 1] : tensor<5x5xf16>
    fusion.yield %7 : tensor<1x5xf16>
  }
  %5 = fusion.group library (%a = %4 : tensor<1x5xf16>, %b = %m : tensor<5x5xf16>) -> tensor<1x5xf16> {
    %7 = fusion.matmul %a, %b : tensor<1x5xf16>, tensor<5x5xf16>
    fusion.yield %7 : tensor<1x5xf16>
  }
  return %3#0, %3#1, %5 : tensor<1x2x4xf16>, tensor<1x2x4xf16>, tensor<1x5xf16>
}
}
