// What evaluation must not do: grow the module, change bits when only exact
// rewrites are asked for, take more than linear time.
//
// RUN: fusion-opt %s -split-input-file --fusion-evaluate-constants | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-evaluate-constants=exact-rewrites-only | FileCheck %s --check-prefix=EXACT

// 400 MB of one number cost one number; a tile of a vector would
// cost 4 MB and stays.
// CHECK-LABEL: func @large
// CHECK-DAG: fusion.constant dense<3.000000e+00> : tensor<1000x1000x100xf32>
// CHECK-DAG: fusion.constant dense<[
// CHECK-DAG: fusion.broadcast
// CHECK-DAG: fusion.reshape
func.func @large() -> (tensor<1000x1000x100xf32>, tensor<4096x4xf32>) {
  %one = fusion.constant dense<1.0> : tensor<1000x1000x100xf32>
  %two = fusion.constant dense<2.0> : tensor<f32>
  %twos = fusion.broadcast %two dims = [] : tensor<f32> to tensor<1000x1000x100xf32>
  %s = fusion.add %one, %twos : tensor<1000x1000x100xf32>
  %c = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %b = fusion.broadcast %c dims = [2] : tensor<4xf32> to tensor<4096x2x4xf32>
  %t = fusion.slice %b starts = [0, 0, 0] limits = [4096, 1, 4] strides = [1, 1, 1] : tensor<4096x2x4xf32>
  %r = fusion.reshape %t : tensor<4096x1x4xf32> to tensor<4096x4xf32>
  return %s, %r : tensor<1000x1000x100xf32>, tensor<4096x4xf32>
}

// -----

// exp is not the same on every target; sums of floats depend on the order.
// CHECK: fusion.rewrites = ["evaluate-constants x2"]
// CHECK-LABEL: func @rounded
// CHECK-NOT: fusion.exp
// CHECK-NOT: fusion.reduce
// EXACT-LABEL: func @rounded
// EXACT: fusion.exp
// EXACT: fusion.reduce sum
// EXACT-NOT: fusion.reduce max
func.func @rounded() -> (tensor<2xf32>, tensor<f32>, tensor<f32>) {
  %a = fusion.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %e = fusion.exp %a : tensor<2xf32>
  %s = fusion.reduce sum, %a dims = [0] : tensor<2xf32>
  %m = fusion.reduce max, %a dims = [0] : tensor<2xf32>
  return %e, %s, %m : tensor<2xf32>, tensor<f32>, tensor<f32>
}
