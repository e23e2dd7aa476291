// Folds of BatchNorm into the weights before it. Scales are powers of two or
// small integers, so every expected value is exact and worked out by hand:
// s = scale / sqrt(variance + epsilon), W' = W * s, b' = (b - mean) * s + bias.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s
// The second run finds nothing: the pass is idempotent.
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm --fusion-fold-batch-norm | FileCheck %s

// The example of the pass's description; no bias.
// CHECK: module attributes {fusion.rewrites = ["fold-batch-norm x1"]}
// CHECK-LABEL: func @no_bias
// CHECK-DAG: %[[W:.*]] = fusion.constant dense<3.000000e+00> : tensor<1x1x1xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<-4.000000e+00> : tensor<1xf32>
// CHECK: %[[Y:.*]] = fusion.conv %{{.*}}, %[[W]] bias %[[B]]
// CHECK-NEXT: return %[[Y]]
func.func @no_bias(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %scale = fusion.constant dense<2.0> : tensor<1xf32>
  %bias = fusion.constant dense<1.0> : tensor<1xf32>
  %mean = fusion.constant dense<5.0> : tensor<1xf32>
  %variance = fusion.constant dense<4.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %scale, %bias, %mean, %variance epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y : tensor<1x1x4xf32>
}

// -----

// A bias is scaled too; a scale of zero leaves the bias alone, a negative one
// turns the sign. Weights of a splat become different channels.
// CHECK-LABEL: func @bias_and_signs
// CHECK-DAG: fusion.constant dense<{{\[\[}}[-3.000000e+00]], {{\[}}[0.000000e+00]], {{\[}}[4.000000e+00]]]> : tensor<3x1x1xf32>
// CHECK-DAG: fusion.constant dense<[-4.000000e+00, -2.500000e-01, 7.000000e+00]> : tensor<3xf32>
// CHECK: fusion.conv
// CHECK-NOT: batch_norm
func.func @bias_and_signs(%x: tensor<1x1x4xf32>) -> tensor<1x3x4xf32> {
  %w = fusion.constant dense<2.0> : tensor<3x1x1xf32>
  %b = fusion.constant dense<[4.0, 5.0, 6.0]> : tensor<3xf32>
  %scale = fusion.constant dense<[-1.5, 0.0, 2.0]> : tensor<3xf32>
  %bias = fusion.constant dense<[0.5, -0.25, 1.0]> : tensor<3xf32>
  %mean = fusion.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %variance = fusion.constant dense<1.0> : tensor<3xf32>
  %c = fusion.conv %x, %w bias %b strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<3x1x1xf32>, tensor<3xf32>
  %y = fusion.batch_norm %c, %scale, %bias, %mean, %variance epsilon = 0.0 axis = 1 : tensor<1x3x4xf32>, tensor<3xf32>
  return %y : tensor<1x3x4xf32>
}

// -----

// Channels-last and a batch: the channel dimension is the last one.
// CHECK-LABEL: func @nhwc_depthwise
// CHECK-DAG: fusion.constant dense<{{\[\[}}[2.000000e+00, 4.000000e+00]], {{\[}}[1.200000e+01, 1.600000e+01]]]> : tensor<2x1x2xf32>
// CHECK: fusion.conv {{.*}} groups = 2 layout = {{ ?}}nhwc
// CHECK-NOT: batch_norm
func.func @nhwc_depthwise(%x: tensor<?x4x2xf32>) -> tensor<?x3x2xf32> {
  %w = fusion.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %scale = fusion.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %zero = fusion.constant dense<0.0> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 2 layout = nhwc : tensor<?x4x2xf32>, tensor<2x1x2xf32>
  %y = fusion.batch_norm %c, %scale, %zero, %zero, %one epsilon = 0.0 axis = 2 : tensor<?x3x2xf32>, tensor<2xf32>
  return %y : tensor<?x3x2xf32>
}

// -----

// The scale of a bf16 convolution, whose statistics are f32, is rounded once.
// 1.00390625 (257/256) needs 9 digits: bf16 has 8 and rounds it to 1.0 (even).
// CHECK-LABEL: func @bf16
// CHECK-DAG: fusion.constant dense<1.000000e+00> : tensor<1x1x1xbf16>
// CHECK-DAG: fusion.constant dense<2.000000e+00> : tensor<1xbf16>
// CHECK: fusion.conv
// CHECK-NOT: batch_norm
func.func @bf16(%x: tensor<1x1x4xbf16>) -> tensor<1x1x4xbf16> {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xbf16>
  %scale = fusion.constant dense<1.00390625> : tensor<1xf32>
  %bias = fusion.constant dense<2.0> : tensor<1xf32>
  %zero = fusion.constant dense<0.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xbf16>, tensor<1x1x1xbf16>
  %y = fusion.batch_norm %c, %scale, %bias, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xbf16>, tensor<1xf32>
  return %y : tensor<1x1x4xbf16>
}

// -----

// f16 with f32 statistics, a variance beyond f16's range and one
// below it. The graph stays f16; channel 0 is finite and not zero:
// 1 / sqrt(1e5 + 1e-5) = 0.0031622775, in f16 0.00316238 (0x1A7A);
// 1 / sqrt(1e-7 + 1e-5) = 314.6583, in f16 314.75 (0x5CEB).
// CHECK-LABEL: func @f16_wide_statistics
// CHECK: fusion.constant dense<{{\[\[}}[3.162380e-03]], {{\[}}[3.147500e+02]]]> : tensor<2x1x1xf16>
// CHECK: fusion.conv {{.*}} : tensor<1x1x4xf16>, tensor<2x1x1xf16>, tensor<2xf16>
// CHECK-NOT: batch_norm
func.func @f16_wide_statistics(%x: tensor<1x1x4xf16>) -> tensor<1x2x4xf16> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1xf16>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %zero = fusion.constant dense<0.0> : tensor<2xf32>
  %variance = fusion.constant dense<[1.0e5, 1.0e-7]> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf16>, tensor<2x1x1xf16>
  %y = fusion.batch_norm %c, %one, %zero, %zero, %variance epsilon = 1.0e-5 axis = 1 : tensor<1x2x4xf16>, tensor<2xf32>
  return %y : tensor<1x2x4xf16>
}

// -----

// A BatchNorm of a BatchNorm: W = 1 * 2 * 4; b = ((0 - 1) * 2 + 0 - 1) * 4.
// CHECK: fusion.rewrites = ["fold-batch-norm x2"]
// CHECK-LABEL: func @twice
// CHECK-DAG: fusion.constant dense<8.000000e+00> : tensor<1x1x1xf32>
// CHECK-DAG: fusion.constant dense<-1.200000e+01> : tensor<1xf32>
// CHECK: fusion.conv
// CHECK-NOT: batch_norm
func.func @twice(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<1xf32>
  %four = fusion.constant dense<4.0> : tensor<1xf32>
  %zero = fusion.constant dense<0.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %m = fusion.batch_norm %c, %two, %zero, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  %y = fusion.batch_norm %m, %four, %zero, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y : tensor<1x1x4xf32>
}

// -----

// No channels and no batch: nothing to compute, nothing to crash on.
// CHECK-LABEL: func @empty_batch
// CHECK: fusion.conv
// CHECK-NOT: batch_norm
func.func @empty_batch(%x: tensor<0x1x4xf32>) -> tensor<0x2x4xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<0x1x4xf32>, tensor<2x1x1xf32>
  %y = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<0x2x4xf32>, tensor<2xf32>
  return %y : tensor<0x2x4xf32>
}

// -----

// Statistics behind reshapes and broadcasts, as exporters write them.
// CHECK-LABEL: func @indirect_statistics
// CHECK-DAG: fusion.constant dense<{{\[\[}}[2.000000e+00]], {{\[}}[4.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK: fusion.conv
// CHECK-NOT: batch_norm
func.func @indirect_statistics(%x: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1xf32>
  %s = fusion.constant dense<[[2.0], [4.0]]> : tensor<2x1xf32>
  %scale = fusion.reshape %s : tensor<2x1xf32> to tensor<2xf32>
  %z = fusion.constant dense<0.0> : tensor<f32>
  %zero = fusion.broadcast %z dims = [] : tensor<f32> to tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<2x1x1xf32>
  %y = fusion.batch_norm %c, %scale, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  return %y : tensor<1x2x4xf32>
}
