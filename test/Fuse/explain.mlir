// REQUIRES: fusion-compile
// RUN: fusion-compile %s --target=cpu --explain -o %t.fsn | FileCheck %s
// RUN: fusion-compile %s --target=cpu --explain -o %t.fsn > %t.txt
// RUN: not grep -E "^.{101}" %t.txt

// The table for people: what it costs before and behind, the groups, and why
// pairs were fused or not. Four ops become two groups; of three intermediates of
// 128 bytes one stays.

// CHECK:      before       after
// CHECK-NEXT: launches {{ *}}4 {{ *}}2
// CHECK-NEXT: intermediates {{ *}}384 B {{ *}}128 B
// CHECK:      groups
// CHECK-DAG:  1 library
// CHECK-DAG:  1 row_reduce
// CHECK:      rewritten
// CHECK-NEXT: 2 {{ *}}emit-kernel {{ *}}one kernel for each distinct group
// CHECK:      fused pairs, traffic saved
// CHECK-DAG:  1 {{ *}}256 B fuse-epilogue
// CHECK-DAG:  1 {{ *}}256 B fuse-row-reduce
// CHECK-DAG:  predicted us: 4.{{[0-9]}} apart, 2.{{[0-9]}} fused
// CHECK:      pairs not fused, traffic at stake, and why
// CHECK-NEXT: 1 {{ *}}256 B reduce-in-epilogue
// CHECK:      e.g. fusion.relu -> fusion.softmax
func.func @main(%x: tensor<4x8xf32> {fusion.name = "x"}, %w: tensor<8x8xf32> {fusion.name = "w"}) -> (tensor<4x8xf32> {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %1 = fusion.relu %0 : tensor<4x8xf32>
  %2 = fusion.softmax %1 axis = 1 : tensor<4x8xf32>
  %3 = fusion.exp %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// What was looked for and found nowhere: no constants, no BatchNorm, no scatter.
// CHECK: looked for, and matched nothing
// CHECK-NOT: fuse-epilogue
// CHECK-DAG: fold-batch-norm {{ *}}a batch_norm behind a convolution
// CHECK-DAG: fuse-scatter-updates
