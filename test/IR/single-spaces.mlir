// RUN: fusion-opt %s -o %t
// RUN: not grep -nE "[^ ]  +[^ ]" %t
// RUN: FileCheck %s --strict-whitespace --input-file %t

// Words for enums print behind one space, and parse behind any number: text that
// older versions printed has two.

// CHECK: fusion.parameter @w const "w.safetensors" key
fusion.parameter @w  const "w.safetensors" key "w" : tensor<2xf32>
// CHECK: fusion.mesh @m(dp = 2)
fusion.mesh @m(dp = 2)

// CHECK-LABEL: func.func @enums
func.func @enums(%x: tensor<1x2x4x4xf32>, %w: tensor<2x2x1x1xf32>, %i: tensor<1x1xi64>, %u: tensor<1x2x4x4xf32>) {
  // CHECK: groups = 1 layout = nchw : tensor
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout =  nchw : tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>
  // CHECK: dilations = [1, 1] layout = nchw : tensor
  %1 = fusion.max_pool %x window = [2, 2] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x2x4x4xf32>
  // CHECK: fusion.reduce sum, %
  %2 = fusion.reduce  sum, %x dims = [2, 3] : tensor<1x2x4x4xf32>
  // CHECK: fusion.compare lt, %
  %3 = fusion.compare   lt, %x, %u : tensor<1x2x4x4xf32>
  // CHECK: fusion.gelu erf, %
  %4 = fusion.gelu erf, %x : tensor<1x2x4x4xf32>
  // CHECK: fusion.scatter add, %
  %5 = fusion.scatter  add, %u, %i, %u : tensor<1x2x4x4xf32>, tensor<1x1xi64>, tensor<1x2x4x4xf32>
  // CHECK: fusion.all_reduce sum, %
  %6 = fusion.all_reduce  sum, %x on @m[dp] : tensor<1x2x4x4xf32>
  // CHECK: fusion.reduce_scatter mean, %
  %7 = fusion.reduce_scatter  mean, %x dim = 2 on @m[dp] : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x4xf32>
  return
}
