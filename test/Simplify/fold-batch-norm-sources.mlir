// The fold does not depend on where weights come from: a
// constant, a parameter with a value, a resource; the second pair of a chain
// folds like the first.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-COUNT-2: remark: [Passed] fold-batch-norm
// CHECK: fusion.rewrites = ["fold-batch-norm x2"]
// CHECK-LABEL: func @constants
// CHECK-NOT: batch_norm
// CHECK: return
func.func @constants(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %w1 = fusion.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]]]> : tensor<2x2x1xf32>
  %w2 = fusion.constant dense<[[[5.0], [6.0]], [[7.0], [8.0]]]> : tensor<2x2x1xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c1 = fusion.conv %x, %w1 strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x2x4xf32>, tensor<2x2x1xf32>
  %y1 = fusion.batch_norm %c1, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  %c2 = fusion.conv %y1, %w2 strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x2x4xf32>, tensor<2x2x1xf32>
  %y2 = fusion.batch_norm %c2, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  return %y2 : tensor<1x2x4xf32>
}

// -----

// REMARK-COUNT-2: remark: [Passed] fold-batch-norm
// CHECK: fusion.rewrites = ["fold-batch-norm x2"]
// CHECK-NOT: fusion.parameter @w1 const
// CHECK-LABEL: func @parameters
// CHECK: fusion.get_parameter @w1_folded
// CHECK: fusion.get_parameter @w1_folded_bias
// CHECK: fusion.get_parameter @w2_folded
// CHECK-NOT: batch_norm
// CHECK: return
fusion.parameter @w1 const value dense<2.0> : tensor<2x2x1xf32> : tensor<2x2x1xf32>
fusion.parameter @w2 const value dense<3.0> : tensor<2x2x1xf32> : tensor<2x2x1xf32>
fusion.parameter @one const value dense<1.0> : tensor<2xf32> : tensor<2xf32>
func.func @parameters(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %w1 = fusion.get_parameter @w1 : tensor<2x2x1xf32>
  %w2 = fusion.get_parameter @w2 : tensor<2x2x1xf32>
  %one = fusion.get_parameter @one : tensor<2xf32>
  %c1 = fusion.conv %x, %w1 strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x2x4xf32>, tensor<2x2x1xf32>
  %y1 = fusion.batch_norm %c1, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  %c2 = fusion.conv %y1, %w2 strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x2x4xf32>, tensor<2x2x1xf32>
  %y2 = fusion.batch_norm %c2, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  return %y2 : tensor<1x2x4xf32>
}

// -----

// The resource holds 1.0 and 3.0; the scales are 2 and 4.
// REMARK: remark: [Passed] fold-batch-norm
// CHECK-LABEL: func @resource
// CHECK: fusion.constant dense<{{\[\[}}[2.000000e+00]], {{\[}}[1.200000e+01]]]> : tensor<2x1x1xf32>
// CHECK-NOT: batch_norm
// CHECK: return
func.func @resource(%x: tensor<1x1x4xf32>) -> tensor<1x2x4xf32> {
  %w = fusion.constant dense_resource<weights> : tensor<2x1x1xf32>
  %scale = fusion.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<2x1x1xf32>
  %y = fusion.batch_norm %c, %scale, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  return %y : tensor<1x2x4xf32>
}
{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F00004040"
    }
  }
#-}
