// Norms that stay as they are, and gradients that are needed whole.
//
// RUN: fusion-opt %s -split-input-file --fusion-fuse-clip --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir

// A norm that is only reported: nothing moves.
// CHECK-LABEL: func @reported
// CHECK: fusion.reduce sum, %{{.*}} dims = [0, 1]
// REMARK: [Missed] clip-form
// REMARK-NOT: reported{{.*}}clip-partial
func.func @reported(%a: tensor<2x2xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  %qa = fusion.mul %a, %a : tensor<2x2xf32>
  %sa = fusion.reduce sum, %qa dims = [0, 1] : tensor<2x2xf32>
  %qb = fusion.mul %b, %b : tensor<3xf32>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<3xf32>
  %t = fusion.add %sa, %sb : tensor<f32>
  %n = fusion.sqrt %t : tensor<f32>
  return %n : tensor<f32>
}

// -----

// A sum of products that are no squares, or of positions, is no norm.
// CHECK-LABEL: func @no_norm
// CHECK: fusion.reduce sum, %{{.*}} dims = [0, 1]
func.func @no_norm(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %q = fusion.mul %a, %b : tensor<2x2xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<2x2xf32>
  %n = fusion.sqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<2x2xf32>
  %y = fusion.mul %a, %f : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// All ranks have the same gradient: a sum over them counts it twice. It is what
// the graph says, so it stays, and the remark tells.
// CHECK-LABEL: func @ranks
// CHECK: %[[L:.*]] = fusion.reduce sum
// CHECK: %[[T:.*]] = fusion.all_reduce sum, %[[L]] on @m[dp] : tensor<f32>
// REMARK: [Missed] clip-reader
// REMARK: [Missed] clip-ranks
fusion.mesh @m(dp = 2)
func.func @ranks(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %q = fusion.mul %r, %r : tensor<4xf32>
  %l = fusion.reduce sum, %q dims = [0] : tensor<4xf32>
  %t = fusion.all_reduce sum, %l on @m[dp] : tensor<f32>
  %n = fusion.sqrt %t : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<4xf32>
  %y = fusion.div %r, %f : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Terms added as a tree would be added in another order.
// CHECK-LABEL: func @tree
// CHECK-NOT: fusion.concat
// CHECK: return
// REMARK: [Missed] clip-form
func.func @tree(%a: tensor<4xf32>) -> tensor<4xf32> {
  %q = fusion.mul %a, %a : tensor<4xf32>
  %s0 = fusion.reduce sum, %q dims = [0] : tensor<4xf32>
  %s1 = fusion.reduce max, %q dims = [0] : tensor<4xf32>
  %s2 = fusion.reduce min, %q dims = [0] : tensor<4xf32>
  %t = fusion.add %s1, %s2 : tensor<f32>
  %u = fusion.add %s0, %t : tensor<f32>
  %n = fusion.sqrt %u : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<4xf32>
  %y = fusion.div %a, %f : tensor<4xf32>
  %z = fusion.neg %y : tensor<4xf32>
  return %z : tensor<4xf32>
}
