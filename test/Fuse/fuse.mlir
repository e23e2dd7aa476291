// RUN: fusion-opt %s --fusion-fuse -o %t1.mlir
// RUN: FileCheck %s < %t1.mlir
// RUN: fusion-opt %t1.mlir --fusion-fuse -o %t2.mlir
// RUN: diff %t1.mlir %t2.mlir
// RUN: fusion-opt %s --fusion-fuse=no-fuse=vertical | FileCheck %s --check-prefix=SEPARATE
// RUN: fusion-opt %s --fusion-fuse="max-ops=2 max-inputs=3" | FileCheck %s --check-prefix=LIMITS

// The phase: once is enough, and its options.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: fusion.group loop
// CHECK-NOT: fusion.group
// SEPARATE-LABEL: func.func @main
// SEPARATE-COUNT-4: fusion.group loop
// SEPARATE-NOT: fusion.group
// LIMITS-LABEL: func.func @main
// LIMITS-COUNT-2: fusion.group loop
// LIMITS-NOT: fusion.group
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = fusion.broadcast %y dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.add %x, %0 : tensor<4x4xf32>
  %2 = fusion.exp %1 : tensor<4x4xf32>
  %3 = fusion.mul %2, %0 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// Named ops on the way: attention is three groups, the scale behind the first product.
// CHECK-LABEL: func.func @attention
// SEPARATE-LABEL: func.func @attention
// LIMITS-LABEL: func.func @attention
// CHECK: fusion.group library
// CHECK-NEXT: fusion.matmul
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.softmax
// CHECK: fusion.group library
// CHECK-NEXT: fusion.matmul
func.func @attention(%q: tensor<1x4x8x16xf32>, %k: tensor<1x4x8x16xf32>, %v: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = fusion.attention %q, %k, %v scale = 0.25 : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>
  return %0 : tensor<1x4x8x16xf32>
}
