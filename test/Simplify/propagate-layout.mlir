// Convolutions and pools run channels-last; the transposes cancel between them.
//
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout --fusion-propagate-layout | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout=layout=keep | FileCheck %s --check-prefix=KEEP

// KEEP-NOT: nhwc

// The example of the pass's description: a lone pool.
// CHECK-LABEL: func @example
// CHECK-NEXT: %[[T:.*]] = fusion.transpose %{{.*}} permutation = [0, 2, 1] : tensor<1x2x4xf32>
// CHECK-NEXT: %[[P:.*]] = fusion.max_pool %[[T]] window = [2] strides = [2] pad_low = [0] pad_high = [0] dilations = [1] layout = {{ ?}}nhwc : tensor<1x4x2xf32>
// CHECK-NEXT: %[[R:.*]] = fusion.relu %[[P]] : tensor<1x2x2xf32>
// CHECK-NEXT: %[[Y:.*]] = fusion.transpose %[[R]] permutation = [0, 2, 1] : tensor<1x2x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @example(%x: tensor<1x2x4xf32>) -> tensor<1x2x2xf32> {
  %p = fusion.max_pool %x window = [2] strides = [2] pad_low = [0] pad_high = [0] dilations = [1] layout = nchw : tensor<1x2x4xf32>
  %y = fusion.relu %p : tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

// A residual block with a squeeze-and-excite gate and a classifier's tail, with
// a batch: one transpose at the input, none behind it.
// CHECK-LABEL: func @residual
// CHECK: fusion.transpose %{{.*}} permutation = [0, 2, 3, 1] : tensor<?x3x8x6xf32>
// CHECK-NOT: fusion.transpose
// CHECK: fusion.conv {{.*}} nhwc : tensor<?x8x6x3xf32>
// CHECK-NOT: fusion.transpose
// CHECK: fusion.avg_pool {{.*}} nhwc
// CHECK-NOT: fusion.transpose
// CHECK: fusion.broadcast {{.*}} : tensor<?x1x1x4xf32> to tensor<?x8x6x4xf32>
// CHECK-NOT: fusion.transpose
// CHECK: fusion.reshape %{{.*}} : tensor<?x1x1x4xf32> to tensor<?x4xf32>
// CHECK-NOT: fusion.transpose
func.func @residual(%x: tensor<?x3x8x6xf32>) -> tensor<?x4xf32> {
  %w = fusion.constant dense<1.0> : tensor<4x3x1x1xf32>
  %v = fusion.constant dense<1.0> : tensor<4x4x3x3xf32>
  %u = fusion.constant dense<1.0> : tensor<4x4x1x1xf32>
  %b = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %bias = fusion.broadcast %b dims = [1] : tensor<4xf32> to tensor<?x4x8x6xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<?x3x8x6xf32>, tensor<4x3x1x1xf32>
  %d = fusion.conv %c, %v strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : tensor<?x4x8x6xf32>, tensor<4x4x3x3xf32>
  %e = fusion.add %d, %bias : tensor<?x4x8x6xf32>
  %f = fusion.add %e, %c : tensor<?x4x8x6xf32>
  %r = fusion.relu %f : tensor<?x4x8x6xf32>
  %p = fusion.avg_pool %r window = [8, 6] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<?x4x8x6xf32>
  %g = fusion.conv %p, %u strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<?x4x1x1xf32>, tensor<4x4x1x1xf32>
  %h = fusion.sigmoid %g : tensor<?x4x1x1xf32>
  %i = fusion.broadcast %h dims = [0, 1, 2, 3] : tensor<?x4x1x1xf32> to tensor<?x4x8x6xf32>
  %j = fusion.mul %r, %i : tensor<?x4x8x6xf32>
  %k = fusion.conv %j, %u strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<?x4x8x6xf32>, tensor<4x4x1x1xf32>
  %l = fusion.max_pool %k window = [8, 6] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<?x4x8x6xf32>
  %y = fusion.reshape %l : tensor<?x4x1x1xf32> to tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// Attributes that name dimensions follow them: concat, pad, slice, reverse,
// BatchNorm, softmax, reductions.
// CHECK-LABEL: func @dimensions
// CHECK: %[[C:.*]] = fusion.conv
// CHECK: %[[K:.*]] = fusion.concat %[[C]], %[[C]] axis = 3 : tensor<1x4x6x2xf32>, tensor<1x4x6x2xf32>
// CHECK: %[[P:.*]] = fusion.pad %[[K]], %{{.*}} low = [0, 2, 0, 1] high = [0, 0, 3, 0]
// CHECK: %[[S:.*]] = fusion.slice %[[P]] starts = [0, 1, 2, 0] limits = [1, 6, 9, 4] strides = [1, 1, 1, 2]
// CHECK: %[[V:.*]] = fusion.reverse %[[S]] dims = [1, 3]
// CHECK: %[[N:.*]] = fusion.batch_norm %[[V]], {{.*}} axis = 3
// CHECK: %[[X:.*]] = fusion.softmax %[[N]] axis = 3
// CHECK: %[[M:.*]] = fusion.reduce max, %[[X]] dims = [1, 2] : tensor<1x5x7x2xf32>
// CHECK: %[[A:.*]] = fusion.arg_max %[[X]] axis = 3
// CHECK-NOT: fusion.transpose
// CHECK: return %[[M]], %[[A]]
func.func @dimensions(%x: tensor<1x1x4x6xf32>) -> (tensor<1x2xf32>, tensor<1x5x7xi64>) {
  %w = fusion.constant dense<1.0> : tensor<2x1x1x1xf32>
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x1x4x6xf32>, tensor<2x1x1x1xf32>
  %k = fusion.concat %c, %c axis = 1 : tensor<1x2x4x6xf32>, tensor<1x2x4x6xf32>
  %p = fusion.pad %k, %zero low = [0, 1, 2, 0] high = [0, 0, 0, 3] : tensor<1x4x4x6xf32>, tensor<f32>
  %s = fusion.slice %p starts = [0, 0, 1, 2] limits = [1, 4, 6, 9] strides = [1, 2, 1, 1] : tensor<1x5x6x9xf32>
  %v = fusion.reverse %s dims = [1, 2] : tensor<1x2x5x7xf32>
  %n = fusion.batch_norm %v, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x2x5x7xf32>, tensor<2xf32>
  %m = fusion.softmax %n axis = 1 : tensor<1x2x5x7xf32>
  %r = fusion.reduce max, %m dims = [2, 3] : tensor<1x2x5x7xf32>
  %a = fusion.arg_max %m axis = 1 : tensor<1x2x5x7xf32>
  return %r, %a : tensor<1x2xf32>, tensor<1x5x7xi64>
}

// -----

// A transpose of the model's own is merged: NHWC data in, NHWC data out, as
// models that come from other frameworks have it.
// CHECK-LABEL: func @own_transposes
// CHECK-NOT: fusion.transpose
// CHECK: fusion.conv %{{.*}} : tensor<1x4x6x2xf32>
// CHECK-NOT: fusion.transpose
// CHECK: return
func.func @own_transposes(%x: tensor<1x4x6x2xf32>) -> tensor<1x4x6x2xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x2x1x1xf32>
  %t = fusion.transpose %x permutation = [0, 3, 1, 2] : tensor<1x4x6x2xf32>
  %c = fusion.conv %t, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x2x4x6xf32>, tensor<2x2x1x1xf32>
  %y = fusion.transpose %c permutation = [0, 2, 3, 1] : tensor<1x2x4x6xf32>
  return %y : tensor<1x4x6x2xf32>
}

// -----

// Nearest upsampling and the step to a sequence: reshapes that leave batch and
// channels alone, and the transpose behind them.
// CHECK-LABEL: func @spatial_reshapes
// CHECK: %[[C:.*]] = fusion.conv {{.*}} nhwc
// CHECK: %[[B:.*]] = fusion.broadcast %{{.*}} dims = [0, 1, 2, 3, 4, 5] : tensor<1x4x1x6x1x2xf32> to tensor<1x4x2x6x2x2xf32>
// CHECK: %[[U:.*]] = fusion.reshape %[[B]] : tensor<1x4x2x6x2x2xf32> to tensor<1x8x12x2xf32>
// CHECK: %[[S:.*]] = fusion.reshape %[[U]] : tensor<1x8x12x2xf32> to tensor<1x96x2xf32>
// CHECK-NOT: fusion.transpose
// CHECK: return %[[S]]
func.func @spatial_reshapes(%x: tensor<1x1x4x6xf32>) -> tensor<1x96x2xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1x1xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x1x4x6xf32>, tensor<2x1x1x1xf32>
  %r = fusion.reshape %c : tensor<1x2x4x6xf32> to tensor<1x2x4x1x6x1xf32>
  %b = fusion.broadcast %r dims = [0, 1, 2, 3, 4, 5] : tensor<1x2x4x1x6x1xf32> to tensor<1x2x4x2x6x2xf32>
  %u = fusion.reshape %b : tensor<1x2x4x2x6x2xf32> to tensor<1x2x8x12xf32>
  %s = fusion.reshape %u : tensor<1x2x8x12xf32> to tensor<1x2x96xf32>
  %t = fusion.transpose %s permutation = [0, 2, 1] : tensor<1x2x96xf32>
  return %t : tensor<1x96x2xf32>
}

// -----

// A transpose that moves nothing, which other passes would have dropped.
// CHECK-LABEL: func @moves_nothing
// CHECK: %[[C:.*]] = fusion.conv {{.*}} nhwc
// CHECK-NEXT: fusion.max_pool %[[C]] {{.*}} nhwc
func.func @moves_nothing(%x: tensor<1x3x5xf16>, %w: tensor<2x3x2xf16>) -> tensor<1x2x3xf16> {
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x3x5xf16>, tensor<2x3x2xf16>
  %t = fusion.transpose %c permutation = [0, 1, 2] : tensor<1x2x4xf16>
  %y = fusion.max_pool %t window = [3] strides = [1] pad_low = [0] pad_high = [1] dilations = [1] layout = nchw : tensor<1x2x4xf16>
  return %y : tensor<1x2x3xf16>
}
