// The phase as a whole: what one pass makes possible for another.
//
// RUN: fusion-opt %s -split-input-file --fusion-simplify | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-simplify --fusion-simplify | FileCheck %s

// Channels-last, the transpose between the two is no move any more.
// weight 3 * 2 / sqrt(4) = 3, bias (0 - 5) * 2 / sqrt(4) + 1 = -4
// CHECK-LABEL: func @batch_norm_behind_a_transpose
// CHECK-DAG: %[[W:.*]] = fusion.constant dense<3.000000e+00> : tensor<1x1x1xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<-4.000000e+00> : tensor<1xf32>
// CHECK: fusion.conv %{{.*}}, %[[W]] bias %[[B]] {{.*}} nhwc
// CHECK-NOT: fusion.batch_norm
// CHECK: return
func.func @batch_norm_behind_a_transpose(%x: tensor<2x1x4xf32>) -> tensor<2x4x1xf32> {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %scale = fusion.constant dense<2.0> : tensor<1xf32>
  %bias = fusion.constant dense<1.0> : tensor<1xf32>
  %mean = fusion.constant dense<5.0> : tensor<1xf32>
  %variance = fusion.constant dense<4.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<2x1x4xf32>, tensor<1x1x1xf32>
  %t = fusion.transpose %c permutation = [0, 2, 1] : tensor<2x1x4xf32>
  %y = fusion.batch_norm %t, %scale, %bias, %mean, %variance epsilon = 0.0 axis = 2 : tensor<2x4x1xf32>, tensor<1xf32>
  return %y : tensor<2x4x1xf32>
}

// -----

// A chain that is raised, on a constant for each column: one more constant.
// CHECK-LABEL: func @gelu_of_a_constant
// CHECK-NOT: fusion.gelu
// CHECK: %[[B:.*]] = fusion.broadcast %{{.*}} dims = [1] : tensor<2xf32> to tensor<?x2xf32>
// CHECK-NEXT: return %[[B]]
func.func @gelu_of_a_constant() -> tensor<?x2xf32> attributes {fusion.batch = array<i64: 1, 4>} {
  %c = fusion.constant dense<[-2.0, 0.0]> : tensor<2xf32>
  %x = fusion.broadcast %c dims = [1] : tensor<2xf32> to tensor<?x2xf32>
  %root = fusion.constant dense<1.4142135381698608> : tensor<f32>
  %roots = fusion.broadcast %root dims = [] : tensor<f32> to tensor<?x2xf32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %ones = fusion.broadcast %one dims = [] : tensor<f32> to tensor<?x2xf32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %halves = fusion.broadcast %half dims = [] : tensor<f32> to tensor<?x2xf32>
  %scaled = fusion.div %x, %roots : tensor<?x2xf32>
  %erf = fusion.erf %scaled : tensor<?x2xf32>
  %shifted = fusion.add %erf, %ones : tensor<?x2xf32>
  %halved = fusion.mul %x, %halves : tensor<?x2xf32>
  %y = fusion.mul %halved, %shifted : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
