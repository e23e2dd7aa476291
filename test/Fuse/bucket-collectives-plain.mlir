// What becomes of single reductions before they are joined.
//
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir

// 1/4 and 4 are exact: the collective divides before it rounds.
// CHECK-LABEL: func @mean
// CHECK: %[[R:.*]]:2 = fusion.all_reduce mean, %{{.*}}, %{{.*}} on @m[dp]
// CHECK-NOT: fusion.{{mul|div}}
// CHECK: return %[[R]]#0, %[[R]]#1
// REMARK-COUNT-2: [Passed] mean-reduction
fusion.mesh @m(dp = 4)
func.func @mean(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %q = fusion.constant dense<0.25> : tensor<f32>
  %qs = fusion.broadcast %q dims = [] : tensor<f32> to tensor<4xf32>
  %f = fusion.constant dense<4.0> : tensor<2xf32>
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.mul %qs, %0 : tensor<4xf32>
  %2 = fusion.all_reduce sum, %y on @m[dp] : tensor<2xf32>
  %3 = fusion.div %2, %f : tensor<2xf32>
  return %1, %3 : tensor<4xf32>, tensor<2xf32>
}

// -----

// A third is not exact; a reader wants the sum; 4 / sum is no mean.
// CHECK-LABEL: func @no_mean
// CHECK-NOT: mean
// CHECK: return
// REMARK: [Missed] inexact-mean | {{.*}} ranks=3
fusion.mesh @m(dp = 3, tp = 4)
func.func @no_mean(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %t = fusion.constant dense<0.33333333> : tensor<4xf32>
  %q = fusion.constant dense<0.25> : tensor<4xf32>
  %f = fusion.constant dense<4.0> : tensor<4xf32>
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.mul %0, %t : tensor<4xf32>
  %2 = fusion.all_reduce sum, %y on @m[tp] : tensor<4xf32>
  %3 = fusion.mul %2, %q : tensor<4xf32>
  %4 = fusion.all_reduce sum, %z on @m[tp] : tensor<4xf32>
  %5 = fusion.div %f, %4 : tensor<4xf32>
  return %1, %2, %3, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The gradient of a parameter that nothing uses: zeros on every rank, which no
// bucket waits for.
// CHECK-LABEL: func @unused
// CHECK: fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>
// CHECK-NOT: fusion.reduce_scatter
// CHECK: return
// REMARK-COUNT-2: [Passed] zero-gradient
fusion.mesh @m(dp = 2)
func.func @unused(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<6xf32>, tensor<3xf32>) {
  %z = fusion.constant dense<0.0> : tensor<6xf32>
  %a = fusion.exp %x : tensor<4xf32>
  %0 = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %1 = fusion.all_reduce sum, %z on @m[dp] : tensor<6xf32>
  %2 = fusion.reduce_scatter sum, %z dim = 0 on @m[dp] : (tensor<6xf32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<6xf32>, tensor<3xf32>
}

// -----

// A tied parameter's gradient is reduced once; another kind is another value.
// CHECK-LABEL: func @tied
// CHECK: %[[S:.*]] = fusion.all_reduce sum, %{{[0-9]+}} on @m[dp] {fusion.bucket = 0 : i64}
// CHECK: %[[M:.*]] = fusion.all_reduce max, %{{[0-9]+}} on @m[dp] {fusion.bucket = 1 : i64}
// CHECK: return %[[S]], %[[S]], %[[M]]
// REMARK-COUNT-1: [Passed] repeated-reduction
fusion.mesh @m(dp = 2)
func.func @tied(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %0 = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %1 = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %2 = fusion.all_reduce max, %a on @m[dp] : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
