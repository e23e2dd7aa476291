// A fold changes rounding: with exact rewrites only, none is done.
//
// RUN: fusion-opt %s --fusion-fold-batch-norm=exact-rewrites-only --remarks-filter=fusion 2>&1 | FileCheck %s
// RUN: fusion-opt %s --fusion-simplify="exact-rewrites-only" | FileCheck %s --check-prefix=PHASE

// CHECK: remark: [Missed] fold-batch-norm {{.*}}"1 batch_norms kept: folding changes rounding, and only exact rewrites are asked for"
// CHECK-NOT: fusion.rewrites
// CHECK: fusion.batch_norm
// PHASE-NOT: fusion.rewrites
// PHASE: fusion.batch_norm
func.func @main(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = fusion.constant dense<3.0> : tensor<1x1x1xf32>
  %one = fusion.constant dense<1.0> : tensor<1xf32>
  %c = fusion.conv %x, %w strides = [1] pad_low = [0] pad_high = [0] dilations = [1] groups = 1 layout = nchw : tensor<1x1x4xf32>, tensor<1x1x1xf32>
  %y = fusion.batch_norm %c, %one, %one, %one, %one epsilon = 0.0 axis = 1 : tensor<1x1x4xf32>, tensor<1xf32>
  return %y : tensor<1x1x4xf32>
}
