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
