// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Every elementwise op of two operands, and the shapes elementwise ops take.

// CHECK-LABEL: @binary_f32(
func.func @binary_f32(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK: fusion.add %{{.*}}, %{{.*}} : tensor<4xf32>
  %0 = fusion.add %x, %y : tensor<4xf32>
  // CHECK: fusion.sub %{{.*}}, %{{.*}} : tensor<4xf32>
  %1 = fusion.sub %x, %y : tensor<4xf32>
  // CHECK: fusion.mul %{{.*}}, %{{.*}} : tensor<4xf32>
  %2 = fusion.mul %x, %y : tensor<4xf32>
  // CHECK: fusion.div %{{.*}}, %{{.*}} : tensor<4xf32>
  %3 = fusion.div %x, %y : tensor<4xf32>
  // CHECK: fusion.rem %{{.*}}, %{{.*}} : tensor<4xf32>
  %4 = fusion.rem %x, %y : tensor<4xf32>
  // CHECK: fusion.pow %{{.*}}, %{{.*}} : tensor<4xf32>
  %5 = fusion.pow %x, %y : tensor<4xf32>
  // CHECK: fusion.max %{{.*}}, %{{.*}} : tensor<4xf32>
  %6 = fusion.max %x, %y : tensor<4xf32>
  // CHECK: fusion.min %{{.*}}, %{{.*}} : tensor<4xf32>
  %7 = fusion.min %x, %y : tensor<4xf32>
  // CHECK: fusion.atan2 %{{.*}}, %{{.*}} : tensor<4xf32>
  %8 = fusion.atan2 %x, %y : tensor<4xf32>
  return
}

// CHECK-LABEL: @binary_i1(
func.func @binary_i1(%x: tensor<4xi1>, %y: tensor<4xi1>) {
  // CHECK: fusion.and %{{.*}}, %{{.*}} : tensor<4xi1>
  %0 = fusion.and %x, %y : tensor<4xi1>
  // CHECK: fusion.or %{{.*}}, %{{.*}} : tensor<4xi1>
  %1 = fusion.or %x, %y : tensor<4xi1>
  // CHECK: fusion.xor %{{.*}}, %{{.*}} : tensor<4xi1>
  %2 = fusion.xor %x, %y : tensor<4xi1>
  return
}

// CHECK-LABEL: @binary_i32(
func.func @binary_i32(%x: tensor<4xi32>, %y: tensor<4xi32>) {
  // CHECK: fusion.shift_left %{{.*}}, %{{.*}} : tensor<4xi32>
  %0 = fusion.shift_left %x, %y : tensor<4xi32>
  // CHECK: fusion.shift_right %{{.*}}, %{{.*}} : tensor<4xi32>
  %1 = fusion.shift_right %x, %y : tensor<4xi32>
  return
}

// CHECK-LABEL: @scalar(
func.func @scalar(%x: tensor<f32>, %y: tensor<f32>) {
  // CHECK: fusion.add %{{.*}}, %{{.*}} : tensor<f32>
  %0 = fusion.add %x, %y : tensor<f32>
  // CHECK: fusion.max %{{.*}}, %{{.*}} : tensor<f32>
  %1 = fusion.max %x, %y : tensor<f32>
  return
}

// CHECK-LABEL: @empty(
func.func @empty(%x: tensor<0x4xf32>, %y: tensor<0x4xf32>) {
  // CHECK: fusion.add %{{.*}}, %{{.*}} : tensor<0x4xf32>
  %0 = fusion.add %x, %y : tensor<0x4xf32>
  // CHECK: fusion.max %{{.*}}, %{{.*}} : tensor<0x4xf32>
  %1 = fusion.max %x, %y : tensor<0x4xf32>
  return
}

// CHECK-LABEL: @batch(
func.func @batch(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) {
  // CHECK: fusion.add %{{.*}}, %{{.*}} : tensor<?x4xf32>
  %0 = fusion.add %x, %y : tensor<?x4xf32>
  // CHECK: fusion.max %{{.*}}, %{{.*}} : tensor<?x4xf32>
  %1 = fusion.max %x, %y : tensor<?x4xf32>
  return
}
