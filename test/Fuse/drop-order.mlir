// RUN: fusion-opt %s --fusion-drop-order | FileCheck %s --check-prefix=DROP
// RUN: fusion-opt %s --fusion-drop-order --fusion-drop-order | FileCheck %s --check-prefix=DROP
// RUN: fusion-opt %s --fusion-simplify | FileCheck %s --check-prefix=KEEP
// RUN: fusion-opt %s --fusion-simplify --fusion-fuse | FileCheck %s --check-prefix=FUSED

// A value that is computed again behind a gradient stays apart from the first
// computation until groups are final; then the order's op is gone.

// DROP-LABEL: func.func @again
// DROP-NOT: fusion.after
// DROP-COUNT-2: fusion.exp %{{.*}} : tensor<64xf32>
// DROP-NOT: fusion.after
// KEEP-LABEL: func.func @again
// KEEP: fusion.exp
// KEEP: fusion.after
// KEEP: fusion.exp
// FUSED-LABEL: func.func @again
// FUSED: fusion.group
// FUSED: fusion.exp
// FUSED: fusion.reduce sum
// FUSED: fusion.group
// FUSED: fusion.exp
// FUSED-NOT: fusion.after
func.func @again(%x: tensor<64xf32>) -> (tensor<f32>, tensor<64xf32>) {
  %0 = fusion.exp %x : tensor<64xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<64xf32>
  %2 = fusion.after %x, %1 : tensor<64xf32>, tensor<f32>
  %3 = fusion.exp %2 : tensor<64xf32>
  %4 = fusion.broadcast %1 dims = [] : tensor<f32> to tensor<64xf32>
  %5 = fusion.mul %3, %4 : tensor<64xf32>
  return %1, %5 : tensor<f32>, tensor<64xf32>
}

// An argument behind an order may be a result.
// DROP-LABEL: func.func @argument
// DROP-NEXT: return %{{.*}} : tensor<4xf32>
// FUSED-LABEL: func.func @argument
// FUSED-NEXT: return
func.func @argument(%x: tensor<4xf32>, %y: tensor<2xi64>) -> tensor<4xf32> {
  %0 = fusion.after %x, %y : tensor<4xf32>, tensor<2xi64>
  return %0 : tensor<4xf32>
}
