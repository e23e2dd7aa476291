// Each reason for which a BatchNorm stays. The op must still be there, and the
// remark says which value broke which limit.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The convolution's other user, here the second one, would see the
// new weights. C * window = 27 products an element are too dear to repeat.
// CHECK-NOT: fusion.rewrites
// CHECK-LABEL: func @other_user
// CHECK: fusion.batch_norm
// CHECK: fusion.relu
// REMARK: remark: [Missed] fold-batch-norm {{.*}}"the convolution's result has 2 uses, and repeating it costs 54 flops an element, limit 32"
// REMARK: remark: [Missed] fold-batch-norm {{.*}}"pattern matched nothing: 1 convolutions, 1 batch_norms, 0 folded"
func.func @other_user(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %w = fusion.constant dense<1.0> : tensor<4x3x3x3xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>
  %y = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x4x8x8xf32>, tensor<4xf32>
  %r = fusion.relu %c : tensor<1x4x8x8xf32>
  return %y, %r : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// The other user comes first, or is the function's result.
// CHECK-LABEL: func @returned
// CHECK: fusion.batch_norm
// REMARK: has 2 uses, and repeating it costs 54 flops
func.func @returned(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %w = fusion.constant dense<1.0> : tensor<4x3x3x3xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>
  %y = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x4x8x8xf32>, tensor<4xf32>
  return %c, %y : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// CHECK-LABEL: func @runtime_weights
// CHECK: fusion.batch_norm
// REMARK: "the convolution's weights: computed at run time"
func.func @runtime_weights(%x: tensor<1x1x4xf32>, %w: tensor<1x1x1xf32>) -> tensor<1x1x4xf32> {
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y : tensor<1x1x4xf32>
}

// -----

// CHECK-LABEL: func @state
// CHECK: fusion.batch_norm
// REMARK: "its mean: state parameter @mean, which the program updates"
fusion.parameter @mean state value dense<0.0> : tensor<1xf32> : tensor<1xf32>
func.func @state(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %mean = fusion.get_parameter @mean : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %one, %one, %mean, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y : tensor<1x1x4xf32>
}

// -----

// Through nothing but what commutes: not through a relu, not through a
// residual, not from an argument, not along another dimension.
// CHECK-LABEL: func @not_commuting
// CHECK-COUNT-4: fusion.batch_norm
// REMARK: "its input is made by fusion.relu, not by a convolution or matmul"
// REMARK: "the add before it does not add a constant bias: computed at run time"
// REMARK: "its input is an argument, not a convolution or matmul"
// REMARK: "its axis 2 is not the convolution's channel dimension 1"
func.func @not_commuting(%x: tensor<1x4x4xf32>) -> (tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) {
  %w = fusion.constant dense<1.0> : tensor<4x4x1xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x4x4xf32>, tensor<4x4x1xf32>
  %r = fusion.relu %c : tensor<1x4x4xf32>
  %a = fusion.batch_norm %r, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x4x4xf32>, tensor<4xf32>
  %s = fusion.add %c, %x : tensor<1x4x4xf32>
  %b = fusion.batch_norm %s, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x4x4xf32>, tensor<4xf32>
  %d = fusion.batch_norm %x, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x4x4xf32>, tensor<4xf32>
  %e = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 2 : tensor<1x4x4xf32>, tensor<4xf32>
  return %a, %b, %d, %e : tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>
}

// -----

// An added constant that is not one value a channel does not commute.
// CHECK-LABEL: func @uneven_bias
// CHECK: fusion.batch_norm
// REMARK: bias: varies within a channel"
func.func @uneven_bias(%x: tensor<1x1x2xf32>) -> tensor<1x1x2xf32> {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %uneven = fusion.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x2xf32>, tensor<1x1x1xf32>
  %a = fusion.add %uneven, %c : tensor<1x1x2xf32>
  %y = fusion.batch_norm %a, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x2xf32>, tensor<1xf32>
  return %y : tensor<1x1x2xf32>
}

// -----

// Statistics that no division can follow: zero, negative, NaN.
// CHECK-LABEL: func @statistics
// CHECK-COUNT-3: fusion.batch_norm
// REMARK: "variance[1] + epsilon is 0, not above zero"
// REMARK: "variance[0] + epsilon is -0.5, not above zero"
// REMARK: "variance[0] is nan"
func.func @statistics(%x: tensor<1x1x4xf32>, %z: tensor<1x1x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %zero = fusion.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %negative = fusion.constant dense<[-1.0, 1.0]> : tensor<2xf32>
  %nan = fusion.constant dense<[0x7FC00000, 1.0]> : tensor<2xf32>
  %a = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<2x1x1xf32>
  %b = fusion.conv %z, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<2x1x1xf32>
  %r = fusion.relu %x : tensor<1x1x4xf32>
  %c = fusion.conv %r, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<2x1x1xf32>
  %ya = fusion.batch_norm %a, %one, %one, %one, %zero epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  %yb = fusion.batch_norm %b, %one, %one, %one, %negative epsilon = 0.5 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  %yc = fusion.batch_norm %c, %one, %one, %one, %nan epsilon = 0.0 axis = 1 : tensor<1x2x4xf32>, tensor<2xf32>
  return %ya, %yb, %yc : tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>
}

// -----

// f16 ends at 65504 and has its least normal number at 2^-14. Unfolded, the
// statistics are f32 and the results are fine.
// CHECK-LABEL: func @range
// CHECK-COUNT-3: fusion.batch_norm
// REMARK: "folded weight 0 is 100000, which overflows f16"
// REMARK: "folded bias 0 is -100000, which overflows f16"
// REMARK: "folded weights of channel 0 underflow f16: relative rounding error
// REMARK: "pattern matched nothing: 3 convolutions, 3 batch_norms, 0 folded"
func.func @range(%x: tensor<1x1x4xf16>, %z: tensor<1x1x4xf16>) -> (tensor<1x1x4xf16>, tensor<1x1x4xf16>, tensor<1x1x4xf16>) {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xf16>
  %thin = fusion.constant dense<0.0123> : tensor<1x1x1xf16>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %zero = fusion.constant dense<0.0> : tensor<1xf32>
  %large = fusion.constant dense<1.0e5> : tensor<1xf32>
  %small = fusion.constant dense<1.0e-5> : tensor<1xf32>
  %a = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf16>, tensor<1x1x1xf16>
  %b = fusion.conv %z, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf16>, tensor<1x1x1xf16>
  %c = fusion.conv %z, %thin strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf16>, tensor<1x1x1xf16>
  %ya = fusion.batch_norm %a, %large, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf16>, tensor<1xf32>
  %yb = fusion.batch_norm %b, %one, %zero, %large, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf16>, tensor<1xf32>
  %yc = fusion.batch_norm %c, %small, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf16>, tensor<1xf32>
  return %ya, %yb, %yc : tensor<1x1x4xf16>, tensor<1x1x4xf16>, tensor<1x1x4xf16>
}

// -----

// The batch's own statistics are never folded, and are no pattern.
// CHECK-LABEL: func @training
// CHECK: fusion.conv
// CHECK: fusion.batch_norm_training
// REMARK-NOT: remark
func.func @training(%x: tensor<2x1x4xf32>) -> (tensor<2x1x4xf32>, tensor<1xf32>, tensor<1xf32>) {
  %w = fusion.constant dense<1.0> : tensor<1x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<2x1x4xf32>, tensor<1x1x1xf32>
  %y, %m, %v = fusion.batch_norm_training %c, %one, %one epsilon = 1.0e-5 axis = 1 : tensor<2x1x4xf32>, tensor<1xf32>
  return %y, %m, %v : tensor<2x1x4xf32>, tensor<1xf32>, tensor<1xf32>
}
