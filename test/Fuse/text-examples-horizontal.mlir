// RUN: fusion-opt %s --fusion-simplify --fusion-fuse -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir --fusion-simplify --fusion-fuse | diff %t.mlir -
// RUN: fusion-opt %s --fusion-simplify --fusion-fuse --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The examples that the documentation gives for fusion, and the groups they become;
// test/Integration/cpu/text_examples.py counts what a run of them enters. Done
// twice, nothing more changes.

// Three adds: one launch.
// CHECK-LABEL: func.func @three_adds
// CHECK: %{{.*}}:3 = fusion.group horizontal
// CHECK-COUNT-3: fusion.add
// CHECK-NOT: fusion.group
// CHECK: return
func.func @three_adds(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.add %a, %b : tensor<8xf32>
  %1 = fusion.add %b, %c : tensor<8xf32>
  %2 = fusion.add %c, %d : tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Twelve LayerNorms: one launch.
// CHECK-LABEL: func.func @twelve_norms
// CHECK: %{{.*}}:12 = fusion.group horizontal
// CHECK-COUNT-12: fusion.layer_norm
// CHECK-NOT: fusion.group
// CHECK: return
// REMARK: [Passed] fuse-horizontal | {{.*}}kind=row_reduce, members=12, ops=layer_norm
func.func @twelve_norms(%x0: tensor<4x8xf32>, %x1: tensor<4x8xf32>, %x2: tensor<4x8xf32>, %x3: tensor<4x8xf32>, %x4: tensor<4x8xf32>, %x5: tensor<4x8xf32>, %x6: tensor<4x8xf32>, %x7: tensor<4x8xf32>, %x8: tensor<4x8xf32>, %x9: tensor<4x8xf32>, %x10: tensor<4x8xf32>, %x11: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = fusion.layer_norm %x0 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %1 = fusion.layer_norm %x1 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %2 = fusion.layer_norm %x2 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %3 = fusion.layer_norm %x3 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %4 = fusion.layer_norm %x4 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %5 = fusion.layer_norm %x5 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %6 = fusion.layer_norm %x6 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %7 = fusion.layer_norm %x7 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %8 = fusion.layer_norm %x8 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %9 = fusion.layer_norm %x9 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %10 = fusion.layer_norm %x10 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %11 = fusion.layer_norm %x11 scale %s bias %b epsilon = 1.0e-5 axis = 1 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// Of twelve sizes: one launch as well, and each keeps its own.
// CHECK-LABEL: func.func @twelve_sizes
// CHECK: %{{.*}}:12 = fusion.group horizontal
// CHECK-COUNT-12: fusion.layer_norm
// CHECK-NOT: fusion.group
// CHECK: return
func.func @twelve_sizes(%x0: tensor<1x3xf32>, %x1: tensor<2x32xf32>, %x2: tensor<3x61xf32>, %x3: tensor<4x90xf32>, %x4: tensor<1x119xf32>, %x5: tensor<2x148xf32>, %x6: tensor<3x177xf32>, %x7: tensor<4x206xf32>, %x8: tensor<1x235xf32>, %x9: tensor<2x264xf32>, %x10: tensor<3x293xf32>, %x11: tensor<4x322xf32>) -> (tensor<1x3xf32>, tensor<2x32xf32>, tensor<3x61xf32>, tensor<4x90xf32>, tensor<1x119xf32>, tensor<2x148xf32>, tensor<3x177xf32>, tensor<4x206xf32>, tensor<1x235xf32>, tensor<2x264xf32>, tensor<3x293xf32>, tensor<4x322xf32>) {
  %0 = fusion.layer_norm %x0 epsilon = 1.0e-5 axis = 1 : tensor<1x3xf32>
  %1 = fusion.layer_norm %x1 epsilon = 1.0e-5 axis = 1 : tensor<2x32xf32>
  %2 = fusion.layer_norm %x2 epsilon = 1.0e-5 axis = 1 : tensor<3x61xf32>
  %3 = fusion.layer_norm %x3 epsilon = 1.0e-5 axis = 1 : tensor<4x90xf32>
  %4 = fusion.layer_norm %x4 epsilon = 1.0e-5 axis = 1 : tensor<1x119xf32>
  %5 = fusion.layer_norm %x5 epsilon = 1.0e-5 axis = 1 : tensor<2x148xf32>
  %6 = fusion.layer_norm %x6 epsilon = 1.0e-5 axis = 1 : tensor<3x177xf32>
  %7 = fusion.layer_norm %x7 epsilon = 1.0e-5 axis = 1 : tensor<4x206xf32>
  %8 = fusion.layer_norm %x8 epsilon = 1.0e-5 axis = 1 : tensor<1x235xf32>
  %9 = fusion.layer_norm %x9 epsilon = 1.0e-5 axis = 1 : tensor<2x264xf32>
  %10 = fusion.layer_norm %x10 epsilon = 1.0e-5 axis = 1 : tensor<3x293xf32>
  %11 = fusion.layer_norm %x11 epsilon = 1.0e-5 axis = 1 : tensor<4x322xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<1x3xf32>, tensor<2x32xf32>, tensor<3x61xf32>, tensor<4x90xf32>, tensor<1x119xf32>, tensor<2x148xf32>, tensor<3x177xf32>, tensor<4x206xf32>, tensor<1x235xf32>, tensor<2x264xf32>, tensor<3x293xf32>, tensor<4x322xf32>
}

// Eight equal independent products: one call.
// CHECK-LABEL: func.func @eight_matmuls
// CHECK: %{{.*}}:8 = fusion.group horizontal
// CHECK-COUNT-8: fusion.matmul
// CHECK-NOT: fusion.group
// CHECK: return
// REMARK: [Passed] fuse-horizontal | {{.*}}kind=library, members=8, ops=matmul
func.func @eight_matmuls(%x0: tensor<6x10xf32>, %w0: tensor<10x7xf32>, %x1: tensor<6x10xf32>, %w1: tensor<10x7xf32>, %x2: tensor<6x10xf32>, %w2: tensor<10x7xf32>, %x3: tensor<6x10xf32>, %w3: tensor<10x7xf32>, %x4: tensor<6x10xf32>, %w4: tensor<10x7xf32>, %x5: tensor<6x10xf32>, %w5: tensor<10x7xf32>, %x6: tensor<6x10xf32>, %w6: tensor<10x7xf32>, %x7: tensor<6x10xf32>, %w7: tensor<10x7xf32>) -> (tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>) {
  %0 = fusion.matmul %x0, %w0 : tensor<6x10xf32>, tensor<10x7xf32>
  %1 = fusion.matmul %x1, %w1 : tensor<6x10xf32>, tensor<10x7xf32>
  %2 = fusion.matmul %x2, %w2 : tensor<6x10xf32>, tensor<10x7xf32>
  %3 = fusion.matmul %x3, %w3 : tensor<6x10xf32>, tensor<10x7xf32>
  %4 = fusion.matmul %x4, %w4 : tensor<6x10xf32>, tensor<10x7xf32>
  %5 = fusion.matmul %x5, %w5 : tensor<6x10xf32>, tensor<10x7xf32>
  %6 = fusion.matmul %x6, %w6 : tensor<6x10xf32>, tensor<10x7xf32>
  %7 = fusion.matmul %x7, %w7 : tensor<6x10xf32>, tensor<10x7xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>
}

// Eight activations and eight multiplications: one launch each.
// CHECK-LABEL: func.func @eight_and_eight
// CHECK: %{{.*}}:8 = fusion.group horizontal
// CHECK-COUNT-8: fusion.relu
// CHECK: %{{.*}}:8 = fusion.group horizontal
// CHECK-COUNT-8: fusion.mul
// CHECK-NOT: fusion.group
// CHECK: return
// REMARK-DAG: [Passed] fuse-horizontal | {{.*}}kind=loop, members=8, ops=relu
// REMARK-DAG: [Passed] fuse-horizontal | {{.*}}kind=loop, members=8, ops=mul
func.func @eight_and_eight(%x0: tensor<8xf32>, %y0: tensor<8xf32>, %x1: tensor<8xf32>, %y1: tensor<8xf32>, %x2: tensor<8xf32>, %y2: tensor<8xf32>, %x3: tensor<8xf32>, %y3: tensor<8xf32>, %x4: tensor<8xf32>, %y4: tensor<8xf32>, %x5: tensor<8xf32>, %y5: tensor<8xf32>, %x6: tensor<8xf32>, %y6: tensor<8xf32>, %x7: tensor<8xf32>, %y7: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %r0 = fusion.relu %x0 : tensor<8xf32>
  %m0 = fusion.mul %x0, %y0 : tensor<8xf32>
  %r1 = fusion.relu %x1 : tensor<8xf32>
  %m1 = fusion.mul %x1, %y1 : tensor<8xf32>
  %r2 = fusion.relu %x2 : tensor<8xf32>
  %m2 = fusion.mul %x2, %y2 : tensor<8xf32>
  %r3 = fusion.relu %x3 : tensor<8xf32>
  %m3 = fusion.mul %x3, %y3 : tensor<8xf32>
  %r4 = fusion.relu %x4 : tensor<8xf32>
  %m4 = fusion.mul %x4, %y4 : tensor<8xf32>
  %r5 = fusion.relu %x5 : tensor<8xf32>
  %m5 = fusion.mul %x5, %y5 : tensor<8xf32>
  %r6 = fusion.relu %x6 : tensor<8xf32>
  %m6 = fusion.mul %x6, %y6 : tensor<8xf32>
  %r7 = fusion.relu %x7 : tensor<8xf32>
  %m7 = fusion.mul %x7, %y7 : tensor<8xf32>
  return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

