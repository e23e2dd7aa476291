// Weights that several convolutions share, and convolutions that several ops
// read.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm --fusion-fold-batch-norm | FileCheck %s --check-prefix=TWICE
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Different BatchNorms on one parameter: each gets its own weights, made of the
// old ones, which go away with their last use.
// CHECK-NOT: fusion.parameter @w const
// CHECK-DAG: fusion.parameter @w_folded const value dense<6.000000e+00>
// CHECK-DAG: fusion.parameter @w_folded_{{[0-9]+}} const value dense<1.200000e+01>
// CHECK-NOT: fusion.batch_norm
// TWICE-NOT: _folded_folded
fusion.parameter @w const value dense<3.0> : tensor<1x1x1xf32> : tensor<1x1x1xf32>
func.func @two_norms(%x: tensor<1x1x4xf32>, %z: tensor<1x1x4xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xf32>) {
  %w = fusion.get_parameter @w : tensor<1x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<1xf32>
  %four = fusion.constant dense<4.0> : tensor<1xf32>
  %zero = fusion.constant dense<0.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %a = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %b = fusion.conv %z, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %ya = fusion.batch_norm %a, %two, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  %yb = fusion.batch_norm %b, %four, %zero, %zero, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %ya, %yb : tensor<1x1x4xf32>, tensor<1x1x4xf32>
}

// -----

// One BatchNorm used twice in a row: the scale is applied once a convolution.
// CHECK-LABEL: func @same_norm_twice
// CHECK: %[[W0:.*]] = fusion.constant dense<6.000000e+00>
// CHECK: %[[C0:.*]] = fusion.conv %{{.*}}, %[[W0]] bias
// CHECK: %[[W1:.*]] = fusion.constant dense<6.000000e+00>
// CHECK: fusion.conv %[[C0]], %[[W1]] bias
// CHECK-NOT: batch_norm
func.func @same_norm_twice(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %a = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %ya = fusion.batch_norm %a, %two, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  %b = fusion.conv %ya, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %yb = fusion.batch_norm %b, %two, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %yb : tensor<1x1x4xf32>
}

// -----

// A cheap convolution with another user is repeated; that user keeps the old
// weights.
// REMARK: remark: [Passed] fold-batch-norm {{.*}}FlopsPerElement=2{{.*}}folded into a copy of fusion.conv
// CHECK-LABEL: func @cheap_clone
// CHECK-DAG: %[[W:.*]] = fusion.constant dense<3.000000e+00> : tensor<1x1x1xf32>
// CHECK-DAG: %[[C:.*]] = fusion.conv %{{[a-z0-9]+}}, %[[W]] strides
// CHECK-DAG: %[[W1:.*]] = fusion.constant dense<6.000000e+00> : tensor<1x1x1xf32>
// CHECK-DAG: %[[Y:.*]] = fusion.conv %{{[a-z0-9]+}}, %[[W1]] bias
// CHECK-DAG: %[[R:.*]] = fusion.relu %[[C]]
// CHECK: return %[[Y]], %[[R]]
func.func @cheap_clone(%x: tensor<1x1x4xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xf32>) {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %two, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  %r = fusion.relu %c : tensor<1x1x4xf32>
  return %y, %r : tensor<1x1x4xf32>, tensor<1x1x4xf32>
}

// -----

// Two BatchNorms read a cheap convolution: one repeats it, then the other is
// its only user.
// REMARK: folded into a copy of
// REMARK: folded into fusion.conv
// CHECK-LABEL: func @two_norms_of_one
// CHECK-COUNT-2: fusion.conv
// CHECK-NOT: fusion.conv
// CHECK-NOT: batch_norm
func.func @two_norms_of_one(%x: tensor<1x1x4xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xf32>) {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %two, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  %z = fusion.batch_norm %c, %one, %one, %two, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y, %z : tensor<1x1x4xf32>, tensor<1x1x4xf32>
}
