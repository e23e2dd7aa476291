// Where the model's order comes back, and where nothing is turned.
//
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fusion-opt %s -split-input-file --fusion-propagate-layout=exact-rewrites-only | FileCheck %s --check-prefix=EXACT

// A flattening reshape needs the channels first; the other user does not. One
// transpose serves both readers of the model's order.
// CHECK-LABEL: func @flatten
// CHECK: %[[C:.*]] = fusion.conv {{.*}} nhwc
// CHECK: %[[T:.*]] = fusion.transpose %[[C]] permutation = [0, 3, 1, 2] : tensor<1x4x6x2xf32>
// CHECK: fusion.reshape %[[T]] : tensor<1x2x4x6xf32> to tensor<48xf32>
// CHECK: fusion.max_pool %[[C]] {{.*}} nhwc
// CHECK: return %{{.*}}, %{{.*}}, %[[T]]
// REMARK: remark: [Missed] propagate-layout {{.*}}Bytes=192{{.*}}"a transpose stays before fusion.reshape"
// REMARK: remark: [Passed] propagate-layout {{.*}}Windows=2
func.func @flatten(%x: tensor<1x1x4x6xf32>) -> (tensor<48xf32>, tensor<1x2x1x1xf32>, tensor<1x2x4x6xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x1x1x1xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x1x4x6xf32>, tensor<2x1x1x1xf32>
  %f = fusion.reshape %c : tensor<1x2x4x6xf32> to tensor<48xf32>
  %p = fusion.max_pool %c window = [4, 6] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x2x4x6xf32>
  return %f, %p, %c : tensor<48xf32>, tensor<1x2x1x1xf32>, tensor<1x2x4x6xf32>
}

// -----

// No convolution, no pool: nothing changes.
// CHECK-LABEL: func @no_window
// CHECK-NEXT: fusion.relu %{{.*}} : tensor<1x2x4x6xf32>
// CHECK-NEXT: return
// REMARK-NOT: no_window
func.func @no_window(%x: tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32> {
  %y = fusion.relu %x : tensor<1x2x4x6xf32>
  return %y : tensor<1x2x4x6xf32>
}

// -----

// The order of a sum over several dimensions changes with the layout: recorded,
// and left alone when only exact rewrites are asked for.
// CHECK: fusion.rewrites = ["reorder-reduction x1"]
// CHECK-LABEL: func @sum
// CHECK: fusion.reduce mean, %{{.*}} dims = [1, 2] : tensor<1x4x6x2xf32>
// EXACT-LABEL: func @sum
// EXACT: fusion.conv {{.*}} nhwc
// EXACT: fusion.reduce mean, %{{.*}} dims = [2, 3] : tensor<1x2x4x6xf32>
func.func @sum(%x: tensor<1x1x4x6xf32>) -> tensor<1x2xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1x1xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x1x4x6xf32>, tensor<2x1x1x1xf32>
  %y = fusion.reduce mean, %c dims = [2, 3] : tensor<1x2x4x6xf32>
  return %y : tensor<1x2xf32>
}

// -----

// A large plain operand is not turned for the sake of a small channels-last
// one: the sum is returned, in the model's order.
// CHECK-LABEL: func @small_operand
// CHECK: %[[C:.*]] = fusion.conv {{.*}} nhwc
// CHECK: %[[T:.*]] = fusion.transpose %[[C]] permutation = [0, 3, 1, 2]
// CHECK: fusion.concat %[[T]], %{{.*}} axis = 2 : tensor<1x2x4x6xf32>, tensor<1x2x400x6xf32>
func.func @small_operand(%x: tensor<1x1x4x6xf32>, %z: tensor<1x2x400x6xf32>) -> tensor<1x2x404x6xf32> {
  %w = fusion.constant dense<1.0> : tensor<2x1x1x1xf32>
  %c = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x1x4x6xf32>, tensor<2x1x1x1xf32>
  %y = fusion.concat %c, %z axis = 2 : tensor<1x2x4x6xf32>, tensor<1x2x400x6xf32>
  return %y : tensor<1x2x404x6xf32>
}

// -----

// Three spatial dimensions, bf16, an empty batch.
// CHECK-LABEL: func @volume
// CHECK: fusion.transpose %{{.*}} permutation = [0, 2, 3, 4, 1] : tensor<0x2x3x4x5xbf16>
// CHECK: fusion.conv_transpose {{.*}} nhwc : tensor<0x3x4x5x2xbf16>
// CHECK: fusion.transpose %{{.*}} permutation = [0, 4, 1, 2, 3]
func.func @volume(%x: tensor<0x2x3x4x5xbf16>) -> tensor<0x2x3x4x5xbf16> {
  %w = fusion.constant dense<1.0> : tensor<2x2x1x1x1xbf16>
  %c = fusion.conv_transpose %x, %w strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] output_padding = [0, 0, 0] dilations = [1, 1, 1] groups = 1 layout = nchw : tensor<0x2x3x4x5xbf16>, tensor<2x2x1x1x1xbf16>
  return %c : tensor<0x2x3x4x5xbf16>
}

// -----

// One batch of no known size becomes another: channels don't stay what they are.
// CHECK-LABEL: func @other_batch
// CHECK: %[[T:.*]] = fusion.transpose %{{.*}} permutation = [0, 4, 1, 2, 3]
// CHECK: fusion.reshape %[[T]] : tensor<?x2x2x2x2xf64> to tensor<?x2x2x2xf64>
func.func @other_batch(%x: tensor<?x2x2x2x2xf64>) -> tensor<?x2x2x2xf64> attributes {fusion.batch = array<i64: 1, 4>} {
  %w = fusion.constant dense<1.0> : tensor<2x2x1x1x1xf64>
  %c = fusion.conv %x, %w strides = [1, 1, 1] pad_low = [0, 0, 0] pad_high = [0, 0, 0] dilations = [1, 1, 1] groups = 1 layout = nchw : tensor<?x2x2x2x2xf64>, tensor<2x2x1x1x1xf64>
  %y = fusion.reshape %c : tensor<?x2x2x2x2xf64> to tensor<?x2x2x2xf64>
  return %y : tensor<?x2x2x2xf64>
}
