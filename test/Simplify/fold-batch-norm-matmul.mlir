// Folds into the constant right side of a matmul; the bias becomes an add.
//
// RUN: fusion-opt %s -split-input-file --fusion-fold-batch-norm | FileCheck %s

// Columns are scaled. b = (0 - 1) * s + 1.
// CHECK-LABEL: func @columns
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32>)
// CHECK-DAG: %[[W:.*]] = fusion.constant dense<{{\[}}[1.000000e+00, 4.000000e+00], [3.000000e+00, 8.000000e+00], [5.000000e+00, 1.200000e+01]]> : tensor<3x2xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<[0.000000e+00, -1.000000e+00]> : tensor<2xf32>
// CHECK-DAG: %[[M:.*]] = fusion.matmul %[[X]], %[[W]]
// CHECK-DAG: %[[A:.*]] = fusion.broadcast %[[B]] dims = [1] : tensor<2xf32> to tensor<4x2xf32>
// CHECK: %[[Y:.*]] = fusion.add %[[M]], %[[A]]
// CHECK-NEXT: return %[[Y]]
func.func @columns(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %scale = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %m = fusion.matmul %x, %w : tensor<4x3xf32>, tensor<3x2xf32>
  %y = fusion.batch_norm %m, %scale, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<4x2xf32>, tensor<2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// A transposed right side has the output channels in its rows; its own bias add
// is taken along: b = (2 - 1) * s + 1.
// CHECK-LABEL: func @rows_behind_bias
// CHECK-DAG: fusion.constant dense<{{\[}}[1.000000e+00, 2.000000e+00, 3.000000e+00], [8.000000e+00, 1.000000e+01, 1.200000e+01]]> : tensor<2x3xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-DAG: fusion.matmul {{.*}} {transpose_rhs}
// CHECK-DAG: fusion.broadcast %[[B]]
// CHECK: fusion.add
// CHECK-NEXT: return
func.func @rows_behind_bias(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = fusion.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %scale = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %two = fusion.constant dense<2.0> : tensor<4x2xf32>
  %m = fusion.matmul %x, %w {transpose_rhs} : tensor<4x3xf32>, tensor<2x3xf32>
  %a = fusion.add %m, %two : tensor<4x2xf32>
  %y = fusion.batch_norm %a, %scale, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<4x2xf32>, tensor<2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// The broadcast of the bias must say what `?` is: here 6 * B.
// CHECK-LABEL: func @batch
// CHECK: fusion.broadcast %{{.*}} dims = [1] {batch_scale = 6 : i64} : tensor<2xf32> to tensor<?x2xf32>
// CHECK-NOT: batch_norm
func.func @batch(%x: tensor<?x6x3xf32>) -> tensor<?x2xf32> attributes {fusion.batch = array<i64: 1, 8>} {
  %r = fusion.reshape %x : tensor<?x6x3xf32> to tensor<?x3xf32>
  %w = fusion.constant dense<1.0> : tensor<3x2xf32>
  %one = fusion.constant dense<1.0> : tensor<2xf32>
  %m = fusion.matmul %r, %w : tensor<?x3xf32>, tensor<3x2xf32>
  %y = fusion.batch_norm %m, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<?x2xf32>, tensor<2xf32>
  return %y : tensor<?x2xf32>
}
