// Projections of one value become one product, weights side by side.
//
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections --fusion-merge-projections | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Widths 2, 1 and 3; the slices start where the widths before them
// end. Readers that move the result read the slice: nothing is copied.
// CHECK-LABEL: func @widths
// CHECK-SAME: %[[X:.*]]: tensor<4x2xf32>
// CHECK: %[[W:.*]] = fusion.constant dense<{{\[}}[1.000000e+00, 2.000000e+00, 5.000000e+00, 7.000000e+00, 8.000000e+00, 9.000000e+00], [3.000000e+00, 4.000000e+00, 6.000000e+00, 1.000000e+01, 1.100000e+01, 1.200000e+01]]>
// CHECK: %[[M:.*]] = fusion.matmul %[[X]], %[[W]] : tensor<4x2xf32>, tensor<2x6xf32>
// CHECK: %[[Q:.*]] = fusion.slice %[[M]] starts = [0, 0] limits = [4, 2] strides = [1, 1]
// CHECK: %[[K:.*]] = fusion.slice %[[M]] starts = [0, 2] limits = [4, 3] strides = [1, 1]
// CHECK: %[[V:.*]] = fusion.slice %[[M]] starts = [0, 3] limits = [4, 6] strides = [1, 1]
// CHECK-NOT: fusion.matmul
// CHECK: fusion.transpose %[[Q]]
// CHECK: fusion.transpose %[[K]]
// CHECK: fusion.transpose %[[V]]
// REMARK: remark: [Passed] merge-projections {{.*}} Biases=0, Copies=0, CopyBytes=0, Remark="3 products of one value became one", WeightBytes=48, WeightBytesAdded=0, Widths="2 1 3", us_copies=0.00, us_fused=2.01, us_rereads=0.00, us_serial=6.02, us_streams=6.02
func.func @widths(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>) {
  %wq = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %wk = fusion.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %wv = fusion.constant dense<[[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]> : tensor<2x3xf32>
  %q = fusion.matmul %x, %wq : tensor<4x2xf32>, tensor<2x2xf32>
  %k = fusion.matmul %x, %wk : tensor<4x2xf32>, tensor<2x1xf32>
  %v = fusion.matmul %x, %wv : tensor<4x2xf32>, tensor<2x3xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<4x2xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<4x1xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<4x3xf32>
  return %qt, %kt, %vt : tensor<2x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>
}

// -----

// Any subset of biases, on either side of the add; a missing one is -0.0, which
// is neutral for every value, -0 included. A splat is a bias too.
// CHECK-LABEL: func @biases
// CHECK: %[[B:.*]] = fusion.constant dense<[1.000000e+00, 2.000000e+00, -0.000000e+00, -0.000000e+00, 3.000000e+00, 3.000000e+00]> : tensor<6xf32>
// CHECK: %[[M:.*]] = fusion.matmul
// CHECK: %[[R:.*]] = fusion.broadcast %[[B]] dims = [1] : tensor<6xf32> to tensor<4x6xf32>
// CHECK: %[[A:.*]] = fusion.add %[[M]], %[[R]]
// CHECK: fusion.slice %[[A]] starts = [0, 0]
// CHECK: fusion.slice %[[A]] starts = [0, 2]
// CHECK: fusion.slice %[[A]] starts = [0, 4]
// CHECK-NOT: fusion.add
// REMARK: Biases=2,
func.func @biases(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %wq = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %wk = fusion.constant dense<[[5.0, 5.5], [6.0, 6.5]]> : tensor<2x2xf32>
  %wv = fusion.constant dense<7.0> : tensor<2x2xf32>
  %b = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %three = fusion.constant dense<3.0> : tensor<4x2xf32>
  %q0 = fusion.matmul %x, %wq : tensor<4x2xf32>, tensor<2x2xf32>
  %bs = fusion.broadcast %b dims = [1] : tensor<2xf32> to tensor<4x2xf32>
  %q = fusion.add %bs, %q0 : tensor<4x2xf32>
  %k = fusion.matmul %x, %wk : tensor<4x2xf32>, tensor<2x2xf32>
  %v0 = fusion.matmul %x, %wv : tensor<4x2xf32>, tensor<2x2xf32>
  %v = fusion.add %v0, %three : tensor<4x2xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<4x2xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<4x2xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<4x2xf32>
  return %qt, %kt, %vt : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Weights that are read transposed stay so if all are.
// CHECK-LABEL: func @transposed
// CHECK: fusion.constant dense<{{\[}}[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi32>
// CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<4x3xi32>, tensor<3x3xi32>
func.func @transposed(%x: tensor<4x3xi32>) -> (tensor<2x4xi32>, tensor<1x4xi32>) {
  %w = fusion.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %v = fusion.constant dense<[[7, 8, 9]]> : tensor<1x3xi32>
  %a = fusion.matmul %x, %w {transpose_rhs} : tensor<4x3xi32>, tensor<2x3xi32>
  %b = fusion.matmul %x, %v {transpose_rhs} : tensor<4x3xi32>, tensor<1x3xi32>
  %at = fusion.transpose %a permutation = [1, 0] : tensor<4x2xi32>
  %bt = fusion.transpose %b permutation = [1, 0] : tensor<4x1xi32>
  return %at, %bt : tensor<2x4xi32>, tensor<1x4xi32>
}

// -----

// Mixed: the transposed ones are turned.
// CHECK-LABEL: func @mixed
// CHECK: fusion.constant dense<{{\[}}[1, 4, 7], [2, 5, 8], [3, 6, 9]]> : tensor<3x3xi32>
// CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<4x3xi32>, tensor<3x3xi32>
func.func @mixed(%x: tensor<4x3xi32>) -> (tensor<2x4xi32>, tensor<1x4xi32>) {
  %w = fusion.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %v = fusion.constant dense<[[7], [8], [9]]> : tensor<3x1xi32>
  %a = fusion.matmul %x, %w {transpose_rhs} : tensor<4x3xi32>, tensor<2x3xi32>
  %b = fusion.matmul %x, %v : tensor<4x3xi32>, tensor<3x1xi32>
  %at = fusion.transpose %a permutation = [1, 0] : tensor<4x2xi32>
  %bt = fusion.transpose %b permutation = [1, 0] : tensor<4x1xi32>
  return %at, %bt : tensor<2x4xi32>, tensor<1x4xi32>
}

// -----

// Two of the weights' batches: columns are packed within each.
// CHECK-LABEL: func @batched
// CHECK: fusion.constant dense<{{\[}}{{\[}}[1, 3]], {{\[}}[2, 4]]]> : tensor<2x1x2xi32>
// CHECK: fusion.matmul %{{.*}}, %{{.*}} : tensor<2x4x1xi32>, tensor<2x1x2xi32>
// CHECK: fusion.slice %{{.*}} starts = [0, 0, 0] limits = [2, 4, 1]
// CHECK: fusion.slice %{{.*}} starts = [0, 0, 1] limits = [2, 4, 2]
func.func @batched(%x: tensor<2x4x1xi32>) -> (tensor<2x1x4xi32>, tensor<2x1x4xi32>) {
  %w = fusion.constant dense<[[[1]], [[2]]]> : tensor<2x1x1xi32>
  %v = fusion.constant dense<[[[3]], [[4]]]> : tensor<2x1x1xi32>
  %a = fusion.matmul %x, %w : tensor<2x4x1xi32>, tensor<2x1x1xi32>
  %b = fusion.matmul %x, %v : tensor<2x4x1xi32>, tensor<2x1x1xi32>
  %at = fusion.transpose %a permutation = [0, 2, 1] : tensor<2x4x1xi32>
  %bt = fusion.transpose %b permutation = [0, 2, 1] : tensor<2x4x1xi32>
  return %at, %bt : tensor<2x1x4xi32>, tensor<2x1x4xi32>
}

// -----

// The same rows under another shape; each result keeps its own.
// CHECK-LABEL: func @views
// CHECK-SAME: %[[X:.*]]: tensor<2x2x3xf32>
// CHECK: %[[M:.*]] = fusion.matmul %[[X]], %{{.*}} : tensor<2x2x3xf32>, tensor<3x2xf32>
// CHECK: %[[S:.*]] = fusion.slice %[[M]] starts = [0, 0, 1]
// CHECK: %[[R:.*]] = fusion.reshape %[[S]] : tensor<2x2x1xf32> to tensor<4x1xf32>
// CHECK: fusion.transpose %[[R]]
func.func @views(%x: tensor<2x2x3xf32>) -> (tensor<2x1x2xf32>, tensor<1x4xf32>) {
  %w = fusion.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
  %v = fusion.constant dense<[[4.0], [5.0], [6.0]]> : tensor<3x1xf32>
  %y = fusion.reshape %x : tensor<2x2x3xf32> to tensor<4x3xf32>
  %a = fusion.matmul %x, %w : tensor<2x2x3xf32>, tensor<3x1xf32>
  %b = fusion.matmul %y, %v : tensor<4x3xf32>, tensor<3x1xf32>
  %at = fusion.transpose %a permutation = [0, 2, 1] : tensor<2x2x1xf32>
  %bt = fusion.transpose %b permutation = [1, 0] : tensor<4x1xf32>
  return %at, %bt : tensor<2x1x2xf32>, tensor<1x4xf32>
}

// -----

// A batch, and relu behind each product: one relu, before the slices.
// CHECK-LABEL: func @common_tail
// CHECK: %[[M:.*]] = fusion.matmul %{{.*}} : tensor<?x2xf32>, tensor<2x2xf32>
// CHECK: %[[B:.*]] = fusion.broadcast %{{.*}} dims = [1] : tensor<2xf32> to tensor<?x2xf32>
// CHECK: %[[A:.*]] = fusion.add %[[M]], %[[B]]
// CHECK: %[[R:.*]] = fusion.relu %[[A]] : tensor<?x2xf32>
// CHECK: fusion.slice %[[R]] starts = [0, 0] limits = [-1, 1]
// CHECK: fusion.slice %[[R]] starts = [0, 1] limits = [-1, 2]
// CHECK-NOT: fusion.relu
func.func @common_tail(%x: tensor<?x2xf32>) -> (tensor<?xf32>, tensor<?xf32>) attributes {fusion.batch = array<i64: 1, 8>} {
  %w = fusion.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %v = fusion.constant dense<[[4.0], [5.0]]> : tensor<2x1xf32>
  %c = fusion.constant dense<3.0> : tensor<1xf32>
  %a0 = fusion.matmul %x, %w : tensor<?x2xf32>, tensor<2x1xf32>
  %cs = fusion.broadcast %c dims = [1] : tensor<1xf32> to tensor<?x1xf32>
  %a1 = fusion.add %a0, %cs : tensor<?x1xf32>
  %a = fusion.relu %a1 : tensor<?x1xf32>
  %b0 = fusion.matmul %x, %v : tensor<?x2xf32>, tensor<2x1xf32>
  %b = fusion.relu %b0 : tensor<?x1xf32>
  %as = fusion.reduce sum, %a dims = [1] : tensor<?x1xf32>
  %bs = fusion.reduce sum, %b dims = [1] : tensor<?x1xf32>
  return %as, %bs : tensor<?xf32>, tensor<?xf32>
}

// -----

// 1x1 convolutions, channels last; one has a bias.
// CHECK-LABEL: func @pointwise
// CHECK: %[[W:.*]] = fusion.constant dense<{{.*}}> : tensor<3x2x1x1xf32>
// CHECK: %[[B:.*]] = fusion.constant dense<[1.000000e+00, 2.000000e+00, -0.000000e+00]> : tensor<3xf32>
// CHECK: %[[M:.*]] = fusion.conv %{{.*}}, %[[W]] bias %[[B]] strides = [2, 2]
// CHECK: fusion.slice %[[M]] starts = [0, 0, 0, 0] limits = [1, 2, 2, 2]
// CHECK: fusion.slice %[[M]] starts = [0, 0, 0, 2] limits = [1, 2, 2, 3]
// CHECK-NOT: fusion.conv
func.func @pointwise(%x: tensor<1x4x4x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x1x2x2xf32>) {
  %w = fusion.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %v = fusion.constant dense<[[[[5.0]], [[6.0]]]]> : tensor<1x2x1x1xf32>
  %b = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = fusion.conv %x, %w bias %b strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>
  %1 = fusion.conv %x, %v strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x2xf32>, tensor<1x2x1x1xf32>
  %2 = fusion.transpose %0 permutation = [0, 3, 1, 2] : tensor<1x2x2x2xf32>
  %3 = fusion.transpose %1 permutation = [0, 3, 1, 2] : tensor<1x2x2x1xf32>
  return %2, %3 : tensor<1x2x2x2xf32>, tensor<1x1x2x2xf32>
}

// -----

// In cross-attention only keys and values share their left side.
// CHECK-LABEL: func @cross_attention
// CHECK: fusion.matmul %arg0, %{{.*}} : tensor<4x1xf32>, tensor<1x1xf32>
// CHECK: fusion.matmul %arg1, %{{.*}} : tensor<4x1xf32>, tensor<1x2xf32>
// CHECK-NOT: fusion.matmul
// REMARK: Remark="2 products of one value became one", WeightBytes=8, WeightBytesAdded=0, Widths="1 1"
func.func @cross_attention(%x: tensor<4x1xf32>, %m: tensor<4x1xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %wq = fusion.constant dense<1.0> : tensor<1x1xf32>
  %wk = fusion.constant dense<2.0> : tensor<1x1xf32>
  %wv = fusion.constant dense<3.0> : tensor<1x1xf32>
  %q = fusion.matmul %x, %wq : tensor<4x1xf32>, tensor<1x1xf32>
  %k = fusion.matmul %m, %wk : tensor<4x1xf32>, tensor<1x1xf32>
  %v = fusion.matmul %m, %wv : tensor<4x1xf32>, tensor<1x1xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<4x1xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<4x1xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<4x1xf32>
  return %qt, %kt, %vt : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// A product of another set's slice: the second merge follows the first.
// CHECK-LABEL: func @chained
// CHECK: fusion.matmul %arg0, %{{.*}} : tensor<1x1xf32>, tensor<1x2xf32>
// CHECK: %[[S:.*]] = fusion.slice %{{.*}} starts = [0, 0] limits = [1, 1]
// CHECK: fusion.matmul %[[S]], %{{.*}} : tensor<1x1xf32>, tensor<1x2xf32>
// CHECK-NOT: fusion.matmul
func.func @chained(%x: tensor<1x1xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %w0 = fusion.constant dense<1.0> : tensor<1x1xf32>
  %w1 = fusion.constant dense<2.0> : tensor<1x1xf32>
  %w2 = fusion.constant dense<3.0> : tensor<1x1xf32>
  %w3 = fusion.constant dense<4.0> : tensor<1x1xf32>
  %a = fusion.matmul %x, %w0 : tensor<1x1xf32>, tensor<1x1xf32>
  %b = fusion.matmul %x, %w1 : tensor<1x1xf32>, tensor<1x1xf32>
  %c = fusion.matmul %a, %w2 : tensor<1x1xf32>, tensor<1x1xf32>
  %d = fusion.matmul %a, %w3 : tensor<1x1xf32>, tensor<1x1xf32>
  %bs = fusion.reduce sum, %b dims = [1] : tensor<1x1xf32>
  %cs = fusion.reduce sum, %c dims = [1] : tensor<1x1xf32>
  %ds = fusion.reduce sum, %d dims = [1] : tensor<1x1xf32>
  return %bs, %cs, %ds : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}
