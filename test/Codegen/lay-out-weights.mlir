// RUN: fusion-opt %s --split-input-file --fusion-lay-out-weights --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARKS < %t.remarks
// RUN: fusion-opt %s --split-input-file --fusion-lay-out-weights --fusion-lay-out-weights | FileCheck %s
// RUN: fusion-opt %s --split-input-file --fusion-lay-out-weights --fusion-emit-kernels=target=cuda | FileCheck %s --check-prefix=CALL

// Weights [2, 2, 1, 3]: the channels of each tap come to lie together.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// REMARKS: [Passed] lay-out-weights {{.*}}Bytes=48
// CHECK-LABEL: func.func @constant
// CHECK: %[[W:.*]] = fusion.constant dense<{{\[}}{{\[}}{{\[}}[1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]], {{\[}}{{\[}}[7.000000e+00, 1.000000e+01], [8.000000e+00, 1.100000e+01], [9.000000e+00, 1.200000e+01]]]]> : tensor<2x1x3x2xf32>
// CHECK-NOT: fusion.constant
// CHECK: fusion.group library {{.*}}%[[A:.*]] = %[[W]] : tensor<2x1x3x2xf32>
// CHECK: %[[T:.*]] = fusion.transpose %[[A]] permutation = [0, 3, 1, 2]
// CHECK: fusion.conv %{{.*}}, %[[T]]
// CALL: operands = array<i64: 0, 1, 2>
// CALL-SAME: weightShape = [#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 3>], weightsLast = true
func.func @constant(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x2x2xf32> {
  %w = fusion.constant dense<[[[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]], [[[7.0, 8.0, 9.0]], [[10.0, 11.0, 12.0]]]]> : tensor<2x2x1x3xf32>
  %r = fusion.group library (%i = %x : tensor<1x4x4x2xf32>, %k = %w : tensor<2x2x1x3xf32>) -> tensor<1x4x2x2xf32> {
    %0 = fusion.conv %i, %k strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x2xf32>, tensor<2x2x1x3xf32>
    fusion.yield %0 : tensor<1x4x2x2xf32>
  }
  return %r : tensor<1x4x2x2xf32>
}
}

// -----

// A parameter that two convolutions read is stored once, the old one goes.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-NOT: fusion.parameter @w const
// CHECK: fusion.parameter @w_channels_last const value dense<{{\[}}{{\[}}[1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]]> : tensor<1x3x2xf16>
// CHECK-NOT: fusion.parameter
// CHECK-LABEL: func.func @shared
// CHECK: fusion.get_parameter @w_channels_last
// CHECK-NOT: fusion.get_parameter
fusion.parameter @w const value dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf16> : tensor<1x2x3xf16>
func.func @shared(%x: tensor<1x4x2xf16>, %y: tensor<1x5x2xf16>) -> (tensor<1x2x1xf16>, tensor<1x3x1xf16>) {
  %w = fusion.get_parameter @w : tensor<1x2x3xf16>
  %r = fusion.group library (%i = %x : tensor<1x4x2xf16>, %k = %w : tensor<1x2x3xf16>) -> tensor<1x2x1xf16> {
    %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf16>, tensor<1x2x3xf16>
    fusion.yield %0 : tensor<1x2x1xf16>
  }
  %s = fusion.group library (%i = %y : tensor<1x5x2xf16>, %k = %w : tensor<1x2x3xf16>) -> tensor<1x3x1xf16> {
    %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x5x2xf16>, tensor<1x2x3xf16>
    fusion.yield %0 : tensor<1x3x1xf16>
  }
  return %r, %s : tensor<1x2x1xf16>, tensor<1x3x1xf16>
}
}

// -----

// All members of a launch; one call with the weights of both.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @launch
// CHECK: fusion.group horizontal
// CHECK-COUNT-2: fusion.transpose %{{.*}} permutation = [0, 2, 1]
// CALL-LABEL: func.func @launch
// CALL: members = 2
// CALL-SAME: weightsLast = true
func.func @launch(%x: tensor<1x4x2xf32>, %y: tensor<1x4x2xf32>) -> (tensor<1x2x1xf32>, tensor<1x2x1xf32>) {
  %v = fusion.constant dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>
  %w = fusion.constant dense<[[[6.0, 5.0, 4.0], [3.0, 2.0, 1.0]]]> : tensor<1x2x3xf32>
  %r:2 = fusion.group horizontal (%a = %x : tensor<1x4x2xf32>, %b = %v : tensor<1x2x3xf32>, %c = %y : tensor<1x4x2xf32>, %d = %w : tensor<1x2x3xf32>) -> (tensor<1x2x1xf32>, tensor<1x2x1xf32>) {
    %m = fusion.group library (%i = %a : tensor<1x4x2xf32>, %k = %b : tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
      %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x3xf32>
      fusion.yield %0 : tensor<1x2x1xf32>
    }
    %n = fusion.group library (%i = %c : tensor<1x4x2xf32>, %k = %d : tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
      %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x3xf32>
      fusion.yield %0 : tensor<1x2x1xf32>
    }
    fusion.yield %m, %n : tensor<1x2x1xf32>, tensor<1x2x1xf32>
  }
  return %r#0, %r#1 : tensor<1x2x1xf32>, tensor<1x2x1xf32>
}
}

// -----

// Weights that a run computes: the runtime lays them out. What was moved for the
// other member goes again.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// REMARKS: [Missed] lay-out-weights {{.*}}each run lays the weights out
// CHECK-LABEL: func.func @half
// CHECK-COUNT-1: fusion.constant
// CHECK-NOT: fusion.constant
// CHECK-NOT: fusion.transpose
// CALL-LABEL: func.func @half
// CALL-NOT: weightsLast
func.func @half(%x: tensor<1x4x2xf32>, %y: tensor<1x4x2xf32>, %w: tensor<1x2x3xf32>) -> (tensor<1x2x1xf32>, tensor<1x2x1xf32>) {
  %v = fusion.constant dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>
  %r:2 = fusion.group horizontal (%a = %x : tensor<1x4x2xf32>, %b = %v : tensor<1x2x3xf32>, %c = %y : tensor<1x4x2xf32>, %d = %w : tensor<1x2x3xf32>) -> (tensor<1x2x1xf32>, tensor<1x2x1xf32>) {
    %m = fusion.group library (%i = %a : tensor<1x4x2xf32>, %k = %b : tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
      %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x3xf32>
      fusion.yield %0 : tensor<1x2x1xf32>
    }
    %n = fusion.group library (%i = %c : tensor<1x4x2xf32>, %k = %d : tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
      %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x3xf32>
      fusion.yield %0 : tensor<1x2x1xf32>
    }
    fusion.yield %m, %n : tensor<1x2x1xf32>, tensor<1x2x1xf32>
  }
  return %r#0, %r#1 : tensor<1x2x1xf32>, tensor<1x2x1xf32>
}
}

// -----

// One tap: the bytes are the same in both orders.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @one_tap
// CHECK-NOT: fusion.transpose
func.func @one_tap(%x: tensor<1x4x2xf32>) -> tensor<1x4x1xf32> {
  %w = fusion.constant dense<[[[1.0], [4.0]]]> : tensor<1x2x1xf32>
  %r = fusion.group library (%i = %x : tensor<1x4x2xf32>, %k = %w : tensor<1x2x1xf32>) -> tensor<1x4x1xf32> {
    %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x1xf32>
    fusion.yield %0 : tensor<1x4x1xf32>
  }
  return %r : tensor<1x4x1xf32>
}
}

// -----

// Weights [2048, 2049] of a large product of bf16 become [2049, 2048]; the bias
// stays.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// REMARKS: [Passed] lay-out-weights {{.*}}Bytes=8392704{{.*}}stored transposed
// CHECK-LABEL: func.func @product
// CHECK: %[[W:.*]] = fusion.constant dense<5.000000e-01> : tensor<2049x2048xbf16>
// CHECK: fusion.group library {{.*}}%[[A:.*]] = %[[W]] : tensor<2049x2048xbf16>
// CHECK-NOT: fusion.transpose
// CHECK: fusion.matmul %{{.*}}, %[[A]] : tensor<2x1024x2049xbf16>, tensor<2049x2048xbf16>
// CALL-LABEL: func.func @product
// CALL: transposeRhs = false
func.func @product(%x: tensor<2x1024x2049xbf16>) -> tensor<2x1024x2048xbf16> {
  %w = fusion.constant dense<0.5> : tensor<2048x2049xbf16>
  %r = fusion.group library (%i = %x : tensor<2x1024x2049xbf16>, %k = %w : tensor<2048x2049xbf16>) -> tensor<2x1024x2048xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2x1024x2049xbf16>, tensor<2048x2049xbf16>
    fusion.yield %0 : tensor<2x1024x2048xbf16>
  }
  return %r : tensor<2x1024x2048xbf16>
}

// Too few rows, f32, weights of a run, weights that a second product reads, and
// a width whose rows of [K, N] would not all be aligned.

// CHECK-LABEL: func.func @others
// CHECK-COUNT-6: fusion.matmul {{.*}}transpose_rhs
func.func @others(%few: tensor<2047x2048xbf16>, %f: tensor<2048x2048xf32>, %x: tensor<2048x2048xbf16>, %v: tensor<2048x2048xbf16>)
    -> (tensor<2048x2049xbf16>, tensor<2047x2048xbf16>, tensor<2048x2048xf32>, tensor<2048x2048xbf16>, tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) {
  %w = fusion.constant dense<0.5> : tensor<2048x2048xbf16>
  %wf = fusion.constant dense<0.5> : tensor<2048x2048xf32>
  %u = fusion.constant dense<0.25> : tensor<2048x2048xbf16>
  %odd = fusion.constant dense<0.5> : tensor<2049x2048xbf16>
  %s = fusion.group library (%i = %x : tensor<2048x2048xbf16>, %k = %odd : tensor<2049x2048xbf16>) -> tensor<2048x2049xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2048x2048xbf16>, tensor<2049x2048xbf16>
    fusion.yield %0 : tensor<2048x2049xbf16>
  }
  %r0 = fusion.group library (%i = %few : tensor<2047x2048xbf16>, %k = %w : tensor<2048x2048xbf16>) -> tensor<2047x2048xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2047x2048xbf16>, tensor<2048x2048xbf16>
    fusion.yield %0 : tensor<2047x2048xbf16>
  }
  %r1 = fusion.group library (%i = %f : tensor<2048x2048xf32>, %k = %wf : tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2048x2048xf32>, tensor<2048x2048xf32>
    fusion.yield %0 : tensor<2048x2048xf32>
  }
  %r2 = fusion.group library (%i = %x : tensor<2048x2048xbf16>, %k = %v : tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>
    fusion.yield %0 : tensor<2048x2048xbf16>
  }
  %r3 = fusion.group library (%i = %x : tensor<2048x2048xbf16>, %k = %u : tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>
    fusion.yield %0 : tensor<2048x2048xbf16>
  }
  %r4 = fusion.group library (%i = %v : tensor<2048x2048xbf16>, %k = %u : tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
    %0 = fusion.matmul %i, %k {transpose_rhs} : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>
    fusion.yield %0 : tensor<2048x2048xbf16>
  }
  return %s, %r0, %r1, %r2, %r3, %r4 : tensor<2048x2049xbf16>, tensor<2047x2048xbf16>, tensor<2048x2048xf32>, tensor<2048x2048xbf16>, tensor<2048x2048xbf16>, tensor<2048x2048xbf16>
}
}

// -----

// For a CPU nothing is done.

// CHECK-LABEL: func.func @cpu
// CHECK-NOT: fusion.transpose
func.func @cpu(%x: tensor<1x4x2xf32>) -> tensor<1x2x1xf32> {
  %w = fusion.constant dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]> : tensor<1x2x3xf32>
  %r = fusion.group library (%i = %x : tensor<1x4x2xf32>, %k = %w : tensor<1x2x3xf32>) -> tensor<1x2x1xf32> {
    %0 = fusion.conv %i, %k strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nhwc : tensor<1x4x2xf32>, tensor<1x2x3xf32>
    fusion.yield %0 : tensor<1x2x1xf32>
  }
  return %r : tensor<1x2x1xf32>
}
