// RUN: fusion-opt %s --fusion-simplify --fusion-fuse -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir --fusion-simplify --fusion-fuse | diff %t.mlir -

// The examples that the documentation gives for fusion, and the groups they become;
// test/Integration/cpu/text_examples.py counts what a run of them enters. Done
// twice, nothing more changes. Launches side by side are in
// text-examples-horizontal.mlir.

// Query, key and value: one product, and three views of it.
// CHECK-LABEL: func.func @query_key_value
// CHECK: %[[W:.*]] = fusion.constant {{.*}} : tensor<32x192xf32>
// CHECK: %[[P:.*]] = fusion.group library
// CHECK-NEXT: fusion.matmul {{.*}} : tensor<4x32xf32>, tensor<32x192xf32>
// CHECK-NEXT: fusion.yield
// CHECK-COUNT-3: fusion.slice
// CHECK-NOT: fusion.matmul
// CHECK: return
func.func @query_key_value(%x: tensor<4x32xf32>) -> (tensor<4x4x16xf32>, tensor<4x4x16xf32>, tensor<4x4x16xf32>) {
  %wq = fusion.constant dense<0.5> : tensor<32x64xf32>
  %q = fusion.matmul %x, %wq : tensor<4x32xf32>, tensor<32x64xf32>
  %qh = fusion.reshape %q : tensor<4x64xf32> to tensor<4x4x16xf32>
  %qt = fusion.transpose %qh permutation = [1, 0, 2] : tensor<4x4x16xf32>
  %wk = fusion.constant dense<0.25> : tensor<32x64xf32>
  %k = fusion.matmul %x, %wk : tensor<4x32xf32>, tensor<32x64xf32>
  %kh = fusion.reshape %k : tensor<4x64xf32> to tensor<4x4x16xf32>
  %kt = fusion.transpose %kh permutation = [1, 0, 2] : tensor<4x4x16xf32>
  %wv = fusion.constant dense<2.0> : tensor<32x64xf32>
  %v = fusion.matmul %x, %wv : tensor<4x32xf32>, tensor<32x64xf32>
  %vh = fusion.reshape %v : tensor<4x64xf32> to tensor<4x4x16xf32>
  %vt = fusion.transpose %vh permutation = [1, 0, 2] : tensor<4x4x16xf32>
  return %qt, %kt, %vt : tensor<4x4x16xf32>, tensor<4x4x16xf32>, tensor<4x4x16xf32>
}

// Of widths 2048, 256 and 256: no column more than those.
// CHECK-LABEL: func.func @grouped_queries
// CHECK: %[[W:.*]] = fusion.constant {{.*}} : tensor<32x2560xf32>
// CHECK: %[[P:.*]] = fusion.group library
// CHECK-NEXT: fusion.matmul {{.*}} : tensor<4x32xf32>, tensor<32x2560xf32>
// CHECK-NEXT: fusion.yield
// CHECK-COUNT-3: fusion.slice
// CHECK-NOT: fusion.matmul
// CHECK: return
func.func @grouped_queries(%x: tensor<4x32xf32>) -> (tensor<32x4x64xf32>, tensor<4x4x64xf32>, tensor<4x4x64xf32>) {
  %wq = fusion.constant dense<0.5> : tensor<32x2048xf32>
  %q = fusion.matmul %x, %wq : tensor<4x32xf32>, tensor<32x2048xf32>
  %qh = fusion.reshape %q : tensor<4x2048xf32> to tensor<4x32x64xf32>
  %qt = fusion.transpose %qh permutation = [1, 0, 2] : tensor<4x32x64xf32>
  %wk = fusion.constant dense<0.25> : tensor<32x256xf32>
  %k = fusion.matmul %x, %wk : tensor<4x32xf32>, tensor<32x256xf32>
  %kh = fusion.reshape %k : tensor<4x256xf32> to tensor<4x4x64xf32>
  %kt = fusion.transpose %kh permutation = [1, 0, 2] : tensor<4x4x64xf32>
  %wv = fusion.constant dense<2.0> : tensor<32x256xf32>
  %v = fusion.matmul %x, %wv : tensor<4x32xf32>, tensor<32x256xf32>
  %vh = fusion.reshape %v : tensor<4x256xf32> to tensor<4x4x64xf32>
  %vt = fusion.transpose %vh permutation = [1, 0, 2] : tensor<4x4x64xf32>
  return %qt, %kt, %vt : tensor<32x4x64xf32>, tensor<4x4x64xf32>, tensor<4x4x64xf32>
}

// Convolution, BatchNorm and ReLU: one group, and no BatchNorm.
// CHECK-LABEL: func.func @conv_norm_relu
// CHECK-NOT: batch_norm
// CHECK: fusion.group library
// CHECK-NEXT: fusion.conv {{.*}} bias
// CHECK-NEXT: fusion.relu
// CHECK-NEXT: fusion.yield
// CHECK-NOT: fusion.group
// CHECK-NOT: batch_norm
// CHECK: return
func.func @conv_norm_relu(%x: tensor<2x6x6x3xf32>) -> (tensor<2x6x6x4xf32>) {
  %w = fusion.constant dense<0.5> : tensor<4x3x3x3xf32>
  %s = fusion.constant dense<[2.0, 4.0, 6.0, -2.0]> : tensor<4xf32>
  %b = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %m = fusion.constant dense<[0.5, 1.0, 1.5, 2.0]> : tensor<4xf32>
  %v = fusion.constant dense<3.0> : tensor<4xf32>
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc : tensor<2x6x6x3xf32>, tensor<4x3x3x3xf32>
  %1 = fusion.batch_norm %0, %s, %b, %m, %v epsilon = 1.0 axis = 3 : tensor<2x6x6x4xf32>, tensor<4xf32>
  %2 = fusion.relu %1 : tensor<2x6x6x4xf32>
  return %2 : tensor<2x6x6x4xf32>
}

// Add and ReLU: one launch.
// CHECK-LABEL: func.func @add_relu
// CHECK: fusion.group loop
// CHECK-NEXT: fusion.add
// CHECK-NEXT: fusion.relu
// CHECK-NEXT: fusion.yield
// CHECK-NOT: fusion.group
// CHECK: return
func.func @add_relu(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>) {
  %0 = fusion.add %a, %b : tensor<8xf32>
  %1 = fusion.relu %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Matmul, bias and activation: one group.
// CHECK-LABEL: func.func @matmul_bias_relu
// CHECK: fusion.group library
// CHECK: fusion.matmul
// CHECK: fusion.add
// CHECK-NEXT: fusion.relu
// CHECK-NEXT: fusion.yield
// CHECK-NOT: fusion.group
// CHECK: return
func.func @matmul_bias_relu(%x: tensor<6x10xf32>, %w: tensor<10x8xf32>, %b: tensor<8xf32>) -> (tensor<6x8xf32>) {
  %0 = fusion.matmul %x, %w : tensor<6x10xf32>, tensor<10x8xf32>
  %1 = fusion.broadcast %b dims = [1] : tensor<8xf32> to tensor<6x8xf32>
  %2 = fusion.add %0, %1 : tensor<6x8xf32>
  %3 = fusion.relu %2 : tensor<6x8xf32>
  return %3 : tensor<6x8xf32>
}
