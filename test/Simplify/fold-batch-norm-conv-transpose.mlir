// The weights of a transposed convolution are [C, O / groups, window...]: the
// scale of output channel g * (O / groups) + j goes to W[i, j] of the input
// channels i of group g. Variance 1, epsilon 0: s is the scale.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s

// groups = 2, C = 4, O = 4.
// CHECK-LABEL: func @groups
// CHECK: fusion.constant dense<{{\[\[}}[1.000000e+00], [4.000000e+00]], {{\[}}[3.000000e+00], [8.000000e+00]], {{\[}}[2.000000e+01], [4.800000e+01]], {{\[}}[2.800000e+01], [6.400000e+01]]]> : tensor<4x2x1xf32>
// CHECK: fusion.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// CHECK: fusion.conv_transpose
// CHECK-NOT: batch_norm
func.func @groups(%x: tensor<1x4x5xf32>) -> tensor<1x4x9xf32> {
  %w = fusion.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]], [[7.0], [8.0]]]> : tensor<4x2x1xf32>
  %scale = fusion.constant dense<[1.0, 2.0, 4.0, 8.0]> : tensor<4xf32>
  %bias = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %c = fusion.conv_transpose %x, %w strides = [2] pad_low = [0] pad_high = [0] output_padding = [0] dilations = [1] groups = 2 layout = nchw : tensor<1x4x5xf32>, tensor<4x2x1xf32>
  %y = fusion.batch_norm %c, %scale, %bias, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x4x9xf32>, tensor<4xf32>
  return %y : tensor<1x4x9xf32>
}

// -----

// C = 6, O = 4, groups = 2: three input channels a group.
// CHECK-LABEL: func @uneven
// CHECK: fusion.constant dense<{{\[\[}}[1.000000e+00], [2.000000e+00]], {{\[}}[1.000000e+00], [2.000000e+00]], {{\[}}[1.000000e+00], [2.000000e+00]], {{\[}}[4.000000e+00], [8.000000e+00]], {{\[}}[4.000000e+00], [8.000000e+00]], {{\[}}[4.000000e+00], [8.000000e+00]]]> : tensor<6x2x1xf32>
// CHECK-NOT: batch_norm
func.func @uneven(%x: tensor<1x6x5xf32>) -> tensor<1x4x5xf32> {
  %w = fusion.constant dense<1.0> : tensor<6x2x1xf32>
  %scale = fusion.constant dense<[1.0, 2.0, 4.0, 8.0]> : tensor<4xf32>
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %c = fusion.conv_transpose %x, %w strides = [1] pad_low = [0] pad_high = [0] output_padding = [0] dilations = [1] groups = 2 layout = nchw : tensor<1x6x5xf32>, tensor<6x2x1xf32>
  %y = fusion.batch_norm %c, %scale, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x4x5xf32>, tensor<4xf32>
  return %y : tensor<1x4x5xf32>
}

// -----

// groups = 1 and C = O: the wrong axis would fit too.
// CHECK-LABEL: func @square
// CHECK: fusion.constant dense<{{\[\[}}[1.000000e+00], [4.000000e+00]], {{\[}}[3.000000e+00], [8.000000e+00]]]> : tensor<2x2x1xf32>
// CHECK-NOT: batch_norm
func.func @square(%x: tensor<1x2x5xf32>) -> tensor<1x2x5xf32> {
  %w = fusion.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]]]> : tensor<2x2x1xf32>
  %scale = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %zero = fusion.constant dense<0.0> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv_transpose %x, %w strides = [1] pad_low = [0] pad_high = [0] output_padding = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x2x5xf32>, tensor<2x2x1xf32>
  %y = fusion.batch_norm %c, %scale, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x2x5xf32>, tensor<2xf32>
  return %y : tensor<1x2x5xf32>
}

// -----

// Depthwise, channels-last, behind a constant bias add:
// b = (0 + 3 - 1) * s + 0.
// CHECK-LABEL: func @depthwise_behind_add
// CHECK-DAG: fusion.constant dense<{{\[\[}}[2.000000e+00]], {{\[}}[8.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<[4.000000e+00, 8.000000e+00]> : tensor<2xf32>
// CHECK: %[[Y:.*]] = fusion.conv_transpose {{.*}} bias %[[B]]
// CHECK-NEXT: return %[[Y]]
func.func @depthwise_behind_add(%x: tensor<1x5x2xf32>) -> tensor<1x5x2xf32> {
  %w = fusion.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %scale = fusion.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %zero = fusion.constant dense<0.0> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %three = fusion.constant dense<3.0> : tensor<1x1x2xf32>
  %added = fusion.broadcast %three dims = [0, 1, 2] : tensor<1x1x2xf32> to tensor<1x5x2xf32>
  %c = fusion.conv_transpose %x, %w strides = [1] pad_low = [0] pad_high = [0] output_padding = [0] dilations = [1] groups = 2 layout = nhwc : tensor<1x5x2xf32>, tensor<2x1x1xf32>
  %a = fusion.add %added, %c : tensor<1x5x2xf32>
  %y = fusion.batch_norm %a, %scale, %zero, %one, %one epsilon = 0.0 axis = 2 : tensor<1x5x2xf32>, tensor<2xf32>
  return %y : tensor<1x5x2xf32>
}
