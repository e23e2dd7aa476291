// A sum of scalars adds the parts of those that were reduced in two.
//
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=%S/Inputs/sheet.json}))' --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-split-reductions{device=%S/Inputs/sheet.json},fusion-split-reductions{device=%S/Inputs/sheet.json}))' | FileCheck %s --enable-var-scope

// Two long ones and a short one, in their order.
// CHECK-LABEL: func.func @norm
// CHECK: %[[A:.*]] = fusion.reduce sum, {{.*}} dims = [1] : tensor<[[N:[0-9]+]]x{{[0-9]+}}xf32>
// CHECK-NOT: tensor<[[N]]xf32>{{$}}
// CHECK: %[[B:.*]] = fusion.reduce sum, {{.*}} dims = [1] : tensor<[[N]]x
// CHECK: %[[C:.*]] = fusion.reduce sum, %arg2 dims = [0] : tensor<8xf32>
// CHECK: %[[C1:.*]] = fusion.reshape %[[C]] : tensor<f32> to tensor<1x1xf32>
// CHECK: %[[AN:.*]] = fusion.reshape %[[A]] : tensor<[[N]]xf32> to tensor<1x[[N]]xf32>
// CHECK: %[[BN:.*]] = fusion.reshape %[[B]] : tensor<[[N]]xf32> to tensor<1x[[N]]xf32>
// CHECK: %[[ROW:.*]] = fusion.concat %[[AN]], %[[C1]], %[[BN]] axis = 1
// CHECK: %[[SUM:.*]] = fusion.reduce sum, %[[ROW]] dims = [0, 1]
// CHECK-NEXT: return %[[SUM]]
// REMARK: the sum of 3 scalars adds the parts of 2
func.func @norm(%a: tensor<16777216xf32>, %b: tensor<16777216xf32>, %c: tensor<8xf32>) -> tensor<f32> {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<16777216xf32>
  %1 = fusion.reduce sum, %b dims = [0] : tensor<16777216xf32>
  %2 = fusion.reduce sum, %c dims = [0] : tensor<8xf32>
  %3 = fusion.reshape %0 : tensor<f32> to tensor<1x1xf32>
  %4 = fusion.reshape %2 : tensor<f32> to tensor<1x1xf32>
  %5 = fusion.reshape %1 : tensor<f32> to tensor<1x1xf32>
  %6 = fusion.concat %3, %4, %5 axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
  %7 = fusion.reduce sum, %6 dims = [0, 1] : tensor<1x3xf32>
  return %7 : tensor<f32>
}

// A kernel writes its parts where the row needs them, at a multiple of 16 bytes:
// four numbers in f32, two in f64. Blocks enough come before that, and a number
// of parts that is no such multiple where none divides the elements.
// CHECK-LABEL: func.func @pieces
// CHECK: fusion.reduce sum, {{.*}} dims = [1] : tensor<4x576xf32>
// CHECK: fusion.reduce sum, {{.*}} dims = [1] : tensor<256x4096xf32>
// CHECK: fusion.reduce sum, {{.*}} dims = [1] : tensor<231x4329xf32>
// CHECK: fusion.concat {{.*}} : tensor<1x4xf32>, tensor<1x256xf32>, tensor<1x231xf32>
// CHECK: fusion.reduce sum, {{.*}} dims = [1] : tensor<2x1152xf64>
// CHECK: fusion.reduce sum, {{.*}} dims = [1] : tensor<2x500xf64>
// CHECK: fusion.concat {{.*}} : tensor<1x2xf64>, tensor<1x2xf64>
// REMARK: the sum of 3 scalars adds the parts of 3{{.*}}elements=491
func.func @pieces(%a: tensor<2304xf32>, %b: tensor<1048576xf32>, %c: tensor<999999xf32>, %d: tensor<2304xf64>, %e: tensor<1000xf64>) -> (tensor<f32>, tensor<f64>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<2304xf32>
  %1 = fusion.reduce sum, %b dims = [0] : tensor<1048576xf32>
  %2 = fusion.reduce sum, %c dims = [0] : tensor<999999xf32>
  %3 = fusion.reshape %0 : tensor<f32> to tensor<1x1xf32>
  %4 = fusion.reshape %1 : tensor<f32> to tensor<1x1xf32>
  %5 = fusion.reshape %2 : tensor<f32> to tensor<1x1xf32>
  %6 = fusion.concat %3, %4, %5 axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
  %7 = fusion.reduce sum, %6 dims = [0, 1] : tensor<1x3xf32>
  %8 = fusion.reduce sum, %d dims = [0] : tensor<2304xf64>
  %9 = fusion.reduce sum, %e dims = [0] : tensor<1000xf64>
  %10 = fusion.reshape %8 : tensor<f64> to tensor<1x1xf64>
  %11 = fusion.reshape %9 : tensor<f64> to tensor<1x1xf64>
  %12 = fusion.concat %10, %11 axis = 1 : tensor<1x1xf64>, tensor<1x1xf64>
  %13 = fusion.reduce sum, %12 dims = [0, 1] : tensor<1x2xf64>
  return %7, %13 : tensor<f32>, tensor<f64>
}

// Eight tensors have 4096 parts each, and one block adds these. Nine have fewer,
// so that it still can.
// CHECK-LABEL: func.func @eight
// CHECK-COUNT-8: fusion.reduce sum, {{.*}} dims = [1] : tensor<4096x16384xf32>
// CHECK: fusion.reduce sum, {{.*}} dims = [0, 1] : tensor<1x32768xf32>
// REMARK: the sum of 8 scalars adds the parts of 8{{.*}}elements=32768
func.func @eight(%a: tensor<67108864xf32>) -> tensor<f32> {
  %s0 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s1 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s2 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s3 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s4 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s5 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s6 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s7 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %v0 = fusion.reshape %s0 : tensor<f32> to tensor<1x1xf32>
  %v1 = fusion.reshape %s1 : tensor<f32> to tensor<1x1xf32>
  %v2 = fusion.reshape %s2 : tensor<f32> to tensor<1x1xf32>
  %v3 = fusion.reshape %s3 : tensor<f32> to tensor<1x1xf32>
  %v4 = fusion.reshape %s4 : tensor<f32> to tensor<1x1xf32>
  %v5 = fusion.reshape %s5 : tensor<f32> to tensor<1x1xf32>
  %v6 = fusion.reshape %s6 : tensor<f32> to tensor<1x1xf32>
  %v7 = fusion.reshape %s7 : tensor<f32> to tensor<1x1xf32>
  %row = fusion.concat %v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7 axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
  %sum = fusion.reduce sum, %row dims = [0, 1] : tensor<1x8xf32>
  return %sum : tensor<f32>
}

// CHECK-LABEL: func.func @nine
// CHECK-COUNT-9: fusion.reduce sum, {{.*}} dims = [1] : tensor<2048x32768xf32>
// CHECK: fusion.reduce sum, {{.*}} dims = [0, 1] : tensor<1x18432xf32>
// REMARK: the sum of 9 scalars adds the parts of 9{{.*}}elements=18432
func.func @nine(%a: tensor<67108864xf32>) -> tensor<f32> {
  %s0 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s1 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s2 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s3 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s4 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s5 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s6 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s7 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %s8 = fusion.reduce sum, %a dims = [0] : tensor<67108864xf32>
  %v0 = fusion.reshape %s0 : tensor<f32> to tensor<1x1xf32>
  %v1 = fusion.reshape %s1 : tensor<f32> to tensor<1x1xf32>
  %v2 = fusion.reshape %s2 : tensor<f32> to tensor<1x1xf32>
  %v3 = fusion.reshape %s3 : tensor<f32> to tensor<1x1xf32>
  %v4 = fusion.reshape %s4 : tensor<f32> to tensor<1x1xf32>
  %v5 = fusion.reshape %s5 : tensor<f32> to tensor<1x1xf32>
  %v6 = fusion.reshape %s6 : tensor<f32> to tensor<1x1xf32>
  %v7 = fusion.reshape %s7 : tensor<f32> to tensor<1x1xf32>
  %v8 = fusion.reshape %s8 : tensor<f32> to tensor<1x1xf32>
  %row = fusion.concat %v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7, %v8 axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
  %sum = fusion.reduce sum, %row dims = [0, 1] : tensor<1x9xf32>
  return %sum : tensor<f32>
}

// Parts of bf16 are f32, added apart: no term of the joined sum.
// CHECK-LABEL: func.func @narrow
// CHECK: fusion.reduce sum, {{.*}} dims = [0] : tensor<1024xf32>
// CHECK: fusion.concat {{.*}} : tensor<1x1xbf16>, tensor<1x1xbf16>
func.func @narrow(%a: tensor<16777216xbf16>, %b: tensor<1x1xbf16>) -> tensor<bf16> {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<16777216xbf16>
  %1 = fusion.reshape %0 : tensor<bf16> to tensor<1x1xbf16>
  %2 = fusion.concat %1, %b axis = 1 : tensor<1x1xbf16>, tensor<1x1xbf16>
  %3 = fusion.reduce sum, %2 dims = [0, 1] : tensor<1x2xbf16>
  return %3 : tensor<bf16>
}

// A sum that another op reads stays; so does a maximum, and a row that is returned.
// CHECK-LABEL: func.func @kept
// CHECK: fusion.concat {{.*}} : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK: fusion.concat {{.*}} : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK: fusion.concat {{.*}} : tensor<1x1xf32>, tensor<1x1xf32>
// CHECK: return
// REMARK-NOT: the sum of
func.func @kept(%a: tensor<16777216xf32>, %c: tensor<1x1xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<1x2xf32>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<16777216xf32>
  %1 = fusion.reshape %0 : tensor<f32> to tensor<1x1xf32>
  %2 = fusion.concat %1, %c axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>
  %3 = fusion.reduce sum, %2 dims = [0, 1] : tensor<1x2xf32>
  %4 = fusion.reduce max, %a dims = [0] : tensor<16777216xf32>
  %5 = fusion.reshape %4 : tensor<f32> to tensor<1x1xf32>
  %6 = fusion.concat %5, %c axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>
  %7 = fusion.reduce sum, %6 dims = [0, 1] : tensor<1x2xf32>
  %8 = fusion.neg %a : tensor<16777216xf32>
  %9 = fusion.reduce sum, %8 dims = [0] : tensor<16777216xf32>
  %10 = fusion.reshape %9 : tensor<f32> to tensor<1x1xf32>
  %11 = fusion.concat %10, %c axis = 1 : tensor<1x1xf32>, tensor<1x1xf32>
  return %0, %3, %7, %11 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<1x2xf32>
}

// Sizes that depend on the batch are no numbers to compare.
// CHECK-LABEL: func.func @batch
// CHECK: fusion.concat {{.*}} : tensor<?x4xf32>, tensor<?x4xf32>
// CHECK: fusion.concat {{.*}} : tensor<1xf32>, tensor<1xf32>
// CHECK: return
func.func @batch(%x: tensor<?x4xf32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {fusion.batch = array<i64: 1, 8>} {
  %0 = fusion.concat %x, %x axis = 1 : tensor<?x4xf32>, tensor<?x4xf32>
  %1 = fusion.reduce sum, %0 dims = [0, 1] : tensor<?x8xf32>
  %2 = fusion.reduce sum, %x dims = [1] : tensor<?x4xf32>
  %3 = fusion.reduce sum, %2 dims = [0] : tensor<?xf32>
  %4 = fusion.reshape %3 : tensor<f32> to tensor<1xf32>
  %5 = fusion.reshape %y : tensor<f32> to tensor<1xf32>
  %6 = fusion.concat %4, %5 axis = 0 : tensor<1xf32>, tensor<1xf32>
  %7 = fusion.reduce sum, %6 dims = [0] : tensor<2xf32>
  return %1, %7 : tensor<f32>, tensor<f32>
}
