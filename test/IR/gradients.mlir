// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// The ops of training graphs.

// CHECK-LABEL: @attention_grad(
func.func @attention_grad(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %g: tensor<1x4x8x5xf32>, %m: tensor<1x1x8x6xf32>, %b: tensor<?x2x4x8xbf16>) {
  // CHECK: fusion.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>
  %0:3 = fusion.attention_grad %q, %k, %v, %g scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>
  // CHECK: fusion.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 2.500000e-01 causal : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>, tensor<1x1x8x6xf32>
  %1:3 = fusion.attention_grad %q, %k, %v, %g mask %m scale = 2.500000e-01 causal : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>, tensor<1x1x8x6xf32>
  // The results have the operands' types.
  // CHECK: fusion.add %query_grad{{.*}}, %{{.*}} : tensor<1x4x8x16xf32>
  %2 = fusion.add %1#0, %q : tensor<1x4x8x16xf32>
  // CHECK: fusion.add %key_grad{{.*}}, %{{.*}} : tensor<1x2x6x16xf32>
  %3 = fusion.add %1#1, %k : tensor<1x2x6x16xf32>
  // CHECK: fusion.add %value_grad{{.*}}, %{{.*}} : tensor<1x2x6x5xf32>
  %4 = fusion.add %1#2, %v : tensor<1x2x6x5xf32>
  // CHECK: fusion.attention_grad {{.*}} scale = 1.000000e+00 causal : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>
  %5:3 = fusion.attention_grad %b, %b, %b, %b scale = 1.000000e+00 causal : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>
  return
}

// CHECK-LABEL: @max_pool_grad(
func.func @max_pool_grad(%x: tensor<1x4x8x8xf32>, %g: tensor<1x4x4x4xf32>, %b: tensor<?x9x3xbf16>, %h: tensor<?x4x3xbf16>) {
  // CHECK: fusion.max_pool_grad %{{.*}}, %{{.*}} window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>, tensor<1x4x4x4xf32>
  %0 = fusion.max_pool_grad %x, %g window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>, tensor<1x4x4x4xf32>
  // CHECK: fusion.max_pool_grad {{.*}} layout = nhwc : tensor<?x9x3xbf16>, tensor<?x4x3xbf16>
  %1 = fusion.max_pool_grad %b, %h window = [3] strides = [2] pad_low = [0] pad_high = [1] dilations = [1] layout = nhwc : tensor<?x9x3xbf16>, tensor<?x4x3xbf16>
  return
}

// CHECK-LABEL: @after(
func.func @after(%x: tensor<4x8xf32>, %i: tensor<?xi64>, %g: tensor<2xf16>) {
  // CHECK: fusion.after %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<2xf16>
  %0 = fusion.after %x, %g : tensor<4x8xf32>, tensor<2xf16>
  // CHECK: fusion.after %{{.*}}, %{{.*}} : tensor<?xi64>, tensor<2xf16>
  %1 = fusion.after %i, %g : tensor<?xi64>, tensor<2xf16>
  return
}
