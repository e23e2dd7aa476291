// RUN: fusion-opt %s --fusion-fuse --fusion-codegen | FileCheck %s

// Of the pairs of an output and an input that may share bytes, those that the
// caller asks for come first; the others take what is left.

// Result 1 is output 0 and takes %p, input 1, although input 0 would do.
// CHECK-LABEL: func.func @main(
// CHECK: %[[G:.*]]:3 = fusion.group loop ({{.*}} = %arg0 {{.*}} = %arg1 {{.*}} = %arg2 {{.*}}kernel @kernels::@[[$K:k[0-9]+]] attributes {fusion.in_place = array<i64: 0, 1, 1, 0, 2, 2>}
// CHECK: return %[[G]]#2, %[[G]]#0, %[[G]]#1
func.func @main(%g: tensor<64xf32>, %p: tensor<64xf32> {fusion.donated = 1 : i64}, %q: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = fusion.add %g, %p : tensor<64xf32>
  %1 = fusion.mul %0, %q : tensor<64xf32>
  %2 = fusion.sub %0, %q : tensor<64xf32>
  %3 = fusion.add %2, %1 : tensor<64xf32>
  return %3, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// The same group without the wish has a kernel of its own.
// CHECK-LABEL: func.func @unasked(
// CHECK-NOT: @[[$K]]
// CHECK: fusion.group loop {{.*}}attributes {fusion.in_place = array<i64: 0, 0, 1, 1, 2, 2>}
func.func @unasked(%g: tensor<64xf32>, %p: tensor<64xf32>, %q: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = fusion.add %g, %p : tensor<64xf32>
  %1 = fusion.mul %0, %q : tensor<64xf32>
  %2 = fusion.sub %0, %q : tensor<64xf32>
  %3 = fusion.add %2, %1 : tensor<64xf32>
  return %3, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// What is read at other positions is not written over, whatever is asked for.
// CHECK-LABEL: func.func @reversed(
// CHECK: fusion.group loop
// CHECK-NOT: fusion.in_place = array<i64: 0, 0>
func.func @reversed(%p: tensor<64xf32> {fusion.donated = 0 : i64}, %g: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fusion.reverse %p dims = [0] : tensor<64xf32>
  %1 = fusion.add %0, %g : tensor<64xf32>
  return %1 : tensor<64xf32>
}

// Members of one launch: each its own argument.
// CHECK-LABEL: func.func @launch(
// CHECK: fusion.group horizontal {{.*}}attributes {fusion.in_place = array<i64: 0, 1, 1, 3>
// CHECK: fusion.group loop {{.*}}fusion.in_place = array<i64: 0, 1>
// CHECK: fusion.group loop {{.*}}fusion.in_place = array<i64: 0, 1>
func.func @launch(%g: tensor<64xf32>, %p: tensor<64xf32> {fusion.donated = 0 : i64}, %h: tensor<64xf32>, %q: tensor<64xf32> {fusion.donated = 1 : i64}) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = fusion.sub %g, %p : tensor<64xf32>
  %1 = fusion.sub %h, %q : tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}
